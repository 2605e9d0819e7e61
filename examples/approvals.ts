// deno-lint-ignore-file no-console -- a script talks to whoever started it
/**
 * Approvals by a program: reading is allowed, writing is refused, and the code learns why.
 *
 * Run it with `deno run -A examples/approvals.ts`.
 *
 * @module
 */
import { type ApprovalRequest, CodeExecutor } from "@ipybox/ipybox";

const ACTION = `
import os
from ipybox_runtime import ApprovalRejectedError
from mcptools.files import list_directory, write_file

data = os.path.abspath("data")
print(list_directory.run(path=data).content)
try:
    write_file.run(path=f"{data}/notes.txt", content="hello")
except ApprovalRejectedError as error:
    print("Refused:", error.reason)
print(os.listdir(data))
`;

/** The decision is the application's: annotations are no more than a server's own hints. */
async function decide(request: ApprovalRequest): Promise<void> {
  const reads = ["list_directory", "read_text_file"].includes(request.toolName);
  console.error(`${reads ? "Allowed" : "Refused"} ${request}`);
  if (reads) await request.accept();
  else await request.reject("this application only reads");
}

const workspace = await Deno.makeTempDir();
await using cleanUp = new AsyncDisposableStack();
cleanUp.defer(() => Deno.remove(workspace, { recursive: true }));
await Deno.mkdir(`${workspace}/data`);
await Deno.writeTextFile(`${workspace}/data/report.txt`, "All is well.");

await using executor = await CodeExecutor.start({ workspace });
await executor.registerServer("files", {
  command: "npx",
  args: ["-y", "@modelcontextprotocol/server-filesystem@2026.8.31", "${workspaceFolder}/data"],
});
for await (const event of executor.stream(ACTION)) {
  if (event.type === "approval") await decide(event.request);
  if (event.type === "result") console.log(event.result.text);
}
