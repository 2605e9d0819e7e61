import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { fileURLToPath } from "node:url";
import { TempFolder } from "../support/temp_folder.ts";

// examples/quickstart.ts is run by tests/permissions/.
Deno.test("examples/approvals.ts allows reading, refuses writing and says why", async () => {
  await using workspace = await TempFolder.create();
  const example = fileURLToPath(new URL("../../examples/approvals.ts", import.meta.url));

  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--quiet", example],
    cwd: workspace.path,
    env: { NO_COLOR: "1" },
  }).output();

  const decoder = new TextDecoder();
  assertEquals(code, 0, decoder.decode(stderr));
  assertStringIncludes(decoder.decode(stdout), "[DIR] mcptools");
  assertStringIncludes(decoder.decode(stdout), "Refused: this application only reads");
  assertStringIncludes(decoder.decode(stderr), "Allowed files.list_directory(path='/");
  await assertRejects(() => Deno.lstat(`${workspace.path}/notes.txt`), Deno.errors.NotFound);
});
