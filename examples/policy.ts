// deno-lint-ignore-file no-console -- a script talks to whoever started it
/**
 * A policy file: its rules allow reading and deny moving. The program is asked about the rest.
 *
 * Run it with `deno run -A examples/policy.ts`. The rules are in `policy.json`.
 *
 * @module
 */
import { CodeExecutor } from "@ipybox/ipybox";
import { loadPolicy } from "@ipybox/ipybox/policy";
import { fileURLToPath } from "node:url";

const ACTION = `
import os
from ipybox_runtime import ApprovalRejectedError
from mcptools import files

data = os.path.abspath("data")
files.write_file(path=f"{data}/a.txt", content="hello")
print(files.read_text_file(path=f"{data}/a.txt").content)
try:
    files.move_file(source=f"{data}/a.txt", destination=f"{data}/b.txt")
except ApprovalRejectedError as error:
    print("Refused:", error.reason)
`;

const workspace = await Deno.makeTempDir();
await using cleanUp = new AsyncDisposableStack();
cleanUp.defer(() => Deno.remove(workspace, { recursive: true }));
await Deno.mkdir(`${workspace}/data`);

const file = fileURLToPath(new URL("policy.json", import.meta.url));
const approval = await loadPolicy({ file, workspace });
await using executor = await CodeExecutor.start({ workspace, approval });
await executor.registerServer("files", {
  command: "npx",
  args: ["-y", "@modelcontextprotocol/server-filesystem@2026.8.31", "${workspaceFolder}/data"],
});
for await (const event of executor.stream(ACTION, { events: ["call_ended"] })) {
  if (event.type === "approval") await event.request.accept(); // ask a person here
  if (event.type === "call_ended") {
    console.error(`${event.decision} by ${event.by}: ${event.reason}`);
  }
  if (event.type === "result") console.log(event.result.text);
}
