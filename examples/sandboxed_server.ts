// deno-lint-ignore-file no-console -- a script talks to whoever started it
/**
 * An MCP server in a sandbox of its own: it reads the folder that it was given, and nothing else.
 *
 * Run it with `deno run -A examples/sandboxed_server.ts`. The server is `words_server.mjs`.
 *
 * @module
 */
import { CodeExecutor } from "@ipybox/ipybox";
import { fileURLToPath } from "node:url";

const ACTION = `
import os
from ipybox_runtime import ToolError
from mcptools.words import count_words

for path in [os.path.abspath("texts/poem.txt"), os.environ["OUTSIDE"]]:
    try:
        print(path, "has", count_words.run(path=path))
    except ToolError as error:
        print("The server failed:", error)
`;

const server = fileURLToPath(new URL("words_server.mjs", import.meta.url));

const workspace = await Deno.makeTempDir();
await using cleanUp = new AsyncDisposableStack();
cleanUp.defer(() => Deno.remove(workspace, { recursive: true }));
await Deno.mkdir(`${workspace}/texts`);
await Deno.writeTextFile(`${workspace}/texts/poem.txt`, "This is just to say");

await using executor = await CodeExecutor.start({
  workspace,
  kernelEnv: { OUTSIDE: fileURLToPath(import.meta.url) }, // a file of yours
});
await executor.registerServer("words", {
  command: "node",
  args: [server, "${workspaceFolder}/texts"], // paths among the arguments are readable
  sandbox: true,
});
console.log((await executor.execute(ACTION)).text);
