// deno-lint-ignore-file no-console -- a script talks to whoever started it
/**
 * Approvals by a rule of the application's own: reading is allowed, writing is refused, and the code
 * learns why. Its argument is the workspace, a folder that exists; by default the current one.
 *
 * @module
 */
import { type ApprovalRequest, CodeExecutor } from "@ipybox/ipybox";

const ACTION = `
import os
from ipybox_runtime import ApprovalRejectedError
from mcptools.files import list_directory, write_file

print(list_directory.run(path=os.getcwd()))
try:
    write_file.run(path=os.path.join(os.getcwd(), "notes.txt"), content="hello")
except ApprovalRejectedError as error:
    print("Refused:", error.reason)
`;

/** The decision is the application's: annotations are no more than a server's own hints. */
async function decide(request: ApprovalRequest): Promise<void> {
  const reads = ["list_directory", "read_text_file"].includes(request.toolName);
  console.error(`${reads ? "Allowed" : "Refused"} ${request}`);
  if (reads) await request.accept();
  else await request.reject("this application only reads");
}

await using executor = await CodeExecutor.start({ workspace: Deno.args[0] ?? "." });
await executor.registerServer("files", {
  command: "npx",
  args: ["-y", "@modelcontextprotocol/server-filesystem@2026.8.31", executor.workspace],
});
for await (const event of executor.stream(ACTION)) {
  if (event.type === "approval") await decide(event.request);
  if (event.type === "result") console.log(event.result.text);
}
