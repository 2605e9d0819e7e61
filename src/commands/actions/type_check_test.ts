import { assertRejects } from "@std/assert";
import { TempFolder } from "../../../tests/support/temp_folder.ts";
import { checkTypes } from "./type_check.ts";

Deno.test("checkTypes() copies no more than there is room for", async () => {
  await using workspace = await TempFolder.create();
  await Deno.mkdir(`${workspace.path}/gentools`);
  for (let n = 0; n < 33; n++) {
    using file = await Deno.create(`${workspace.path}/gentools/x${n}.py`);
    await file.truncate(4 * 2 ** 20); // a hole: it takes no room itself
  }

  await assertRejects(
    () => checkTypes(workspace.path, { python: { executable: "/no/python" } }),
    Error,
    "gentools has more than 128 MiB of Python",
  );
});
