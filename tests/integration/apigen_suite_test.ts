// deno-lint-ignore-file no-console -- the share is worth reading
import { assert, assertEquals } from "@std/assert";
import { generatePackage } from "../../src/apigen/generate.ts";
import { CORPUS, NO_CORPUS, type SuiteGroup, suiteGroups } from "../support/corpus.ts";
import { runScript } from "../support/run_python.ts";
import { testIf } from "../support/skip.ts";
import { TempFolder } from "../support/temp_folder.ts";

type Failures = Record<string, [kind: string, instance: unknown][]>;

/** Groups that pass, by draft and form; these are what was reached, and it may not get less. */
const REACHED: readonly [draft: string, wrapped: number, direct: number][] = [
  ["draft4", 144, 64],
  ["draft6", 202, 96],
  ["draft7", 223, 104],
  ["draft2019-09", 316, 160],
  ["draft2020-12", 316, 158],
];

/** Judges all groups of a draft. */
async function judge(draft: string, groups: readonly SuiteGroup[]): Promise<Failures> {
  await using directory = await TempFolder.create();
  const server = draft.replaceAll("-", "_");
  const tools = groups.map(({ id, schema }) => ({ name: id, inputSchema: schema }));
  const generated = await generatePackage(server, { tools }, { rootDir: directory.path });
  const manifest = groups.map(({ id, tests }, index) => ({
    package: server,
    module: generated[index]?.module,
    id,
    tests,
  }));
  const path = `${directory.path}/manifest.json`;
  await Deno.writeTextFile(path, JSON.stringify(manifest));
  const { results } = await runScript<{ results: Failures }>("judge_suite.py", [
    directory.path,
    path,
  ]);
  return results;
}

testIf(CORPUS !== undefined, NO_CORPUS, {
  name: "JSON-Schema-Test-Suite passes as far as it ever did",
  fn: async (context) => {
    for (const [draft, wrapped, direct] of REACHED) {
      await context.step(draft, async () => {
        const groups = suiteGroups(draft);
        const failures = await judge(draft, groups);
        for (const [mode, reached] of [["wrapped", wrapped], ["direct", direct]] as const) {
          const core = groups.filter((group) => group.mode === mode && !group.optional);
          const failed = core.filter(({ id }) => id in failures);
          const unsafe = failed.filter(({ id }) =>
            failures[id]?.some(([kind]) => kind !== "accepted")
          );
          const share = 100 * (core.length - failed.length) / core.length;
          console.info(
            `${draft} ${mode}: ${core.length - failed.length} of ${core.length} groups (${
              share.toFixed(1)
            } %)`,
          );
          assertEquals(unsafe.map(({ id }) => [id, failures[id]]), []);
          const list = JSON.stringify(failed.map(({ id }) => [id, failures[id]]), null, 1);
          assert(core.length - failed.length >= reached, list);
        }
      });
    }
  },
});
