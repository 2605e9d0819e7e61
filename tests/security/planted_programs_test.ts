/** What code or another user puts in the host's search path is run by nobody. */
import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { fileURLToPath } from "node:url";
import { z } from "zod";
import { TempFolder } from "../support/temp_folder.ts";
import { testIf } from "../support/skip.ts";
import { runUnprivileged, whyNotUnprivileged } from "../support/unprivileged.ts";

const why = await whyNotUnprivileged();
const reportSchema = z.object({ ran: z.string(), said: z.record(z.string(), z.string()) });

testIf(why === undefined, why ?? "", {
  name: "the host runs no program that code put in the workspace, whatever PATH it has",
  async fn() {
    await using folder = await TempFolder.create();
    const fixture = new URL("../fixtures/planted_programs.ts", import.meta.url);
    const printed = await runUnprivileged(fileURLToPath(fixture), folder.path);

    const { ran, said } = reportSchema.parse(JSON.parse(printed));

    assertEquals(ran, "", JSON.stringify(said, null, 2));
    assertStringIncludes(said.plant ?? "", "planted");
    assertStringIncludes(said.sandbox ?? "", "bubblewrap works");
    assertMatch(said["next session"] ?? "", /25\d\d files and folders in \S+ \(/);
  },
});
