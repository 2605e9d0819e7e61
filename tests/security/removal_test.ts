/** What hostile code leaves behind is removed without harm to anything else. */
import { assertEquals } from "@std/assert";
import { fileURLToPath } from "node:url";
import { testIf } from "../support/skip.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { runUnprivileged, whyNotUnprivileged } from "../support/unprivileged.ts";

const FIXTURE = fileURLToPath(new URL("../fixtures/hostile_removal.ts", import.meta.url));
const problem = await whyNotUnprivileged();

/** Each attack, and what its host prints. */
const ATTACKS: Readonly<Record<string, string>> = {
  nested: "[]\n",
  "nested leftover": "[]\n",
  "given names that are not UTF-8": "[]\n",
  swapped: "true\ntheirs\n[]\n",
};

for (const [attack, printed] of Object.entries(ATTACKS)) {
  testIf(problem === undefined, problem ?? "", {
    name: `folders that code has ${attack} are removed, and nothing else`,
    async fn() {
      await using folder = await TempFolder.create();
      assertEquals(await runUnprivileged(FIXTURE, folder.path, [attack]), printed);
    },
  });
}
