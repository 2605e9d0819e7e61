import { assert, assertEquals, assertMatch } from "@std/assert";
import { fileURLToPath } from "node:url";
import type { ProgramEnd } from "../../src/process/run_program.ts";
import { flagsOf, Machine, type Permission } from "../support/machine.ts";
import { writeNpx } from "../support/npx.ts";
import { runProgram } from "../support/program.ts";
import { atTerminal, type TerminalEnd, type Typing } from "../support/terminal.ts";
import { testIf } from "../support/skip.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { asUnprivileged, giveToUnprivileged, whyNotUnprivileged } from "../support/unprivileged.ts";

const whyNoUser = await whyNotUnprivileged();
const quickstart = fileURLToPath(new URL("../../examples/quickstart.ts", import.meta.url));

/** Runs the example at a terminal, where Deno would ask for more permissions. */
async function atTerminalOf({ workspace, permissions, env }: Machine): Promise<TerminalEnd> {
  const deno = [Deno.execPath(), "run", "--quiet", ...flagsOf(permissions), quickstart];
  const ended: Typing = ["Deno requests", null];
  return await atTerminal(deno, [ended], { cwd: workspace, env });
}

/** Runs the example as a user who is not root, who needs no more. */
async function asUserOf(machine: Machine): Promise<ProgramEnd> {
  await using home = await TempFolder.create();
  const { workspace, cache, programs } = machine;
  for (const folder of [home.path, workspace, cache]) await giveToUnprivileged(folder);
  // npm's installs the server again for a user who has nothing yet.
  await writeNpx(programs, "HOME");
  await Deno.chmod(programs, 0o755);
  const more: readonly Permission[] = [
    ["--allow-env", "HOME", "what npx keeps", ""],
  ];
  const flags = flagsOf([...machine.permissions, ...more]);
  const deno = [Deno.execPath(), "run", "--no-prompt", "--quiet", ...flags, quickstart];
  const [command = "", ...args] = asUnprivileged(deno);
  return await runProgram(command, args, {
    cwd: workspace,
    env: { ...machine.env, NEW_HOME: home.path },
  });
}

Deno.test("examples/quickstart.ts runs with the permissions of docs/typescript.md, and Deno asks for no more", async () => {
  await using machine = await Machine.create();

  const { code, output } = await atTerminalOf(machine);

  assert(!output.includes("Deno requests"), output);
  assertEquals(code, 0, output);
  assertMatch(output, /^Mean: 47 °F$/m);
  assertEquals(output.match(/^Approved everything\./gm)?.length, 6);
});

testIf(whyNoUser === undefined, whyNoUser ?? "", {
  name: "with these permissions it runs for a user who is not root, too",
  fn: async () => {
    await using machine = await Machine.create();

    const { code, stdout, stderr } = await asUserOf(machine);

    assertEquals({ code, stdout }, { code: 0, stdout: "Mean: 47 °F\n" }, stderr);
  },
});

Deno.test("examples/quickstart.ts does not run with one permission fewer", async (t) => {
  await using machine = await Machine.create();
  for (const permission of machine.permissions) {
    const [flag, , purpose, missed] = permission;
    await t.step(`${flag} for ${purpose}`, async () => {
      const others = machine.permissions.filter(([given, value]) =>
        given !== flag || value !== permission[1]
      );
      const { code, stdout, stderr } = await machine.run(others);
      assertEquals({ code, stdout }, { code: 1, stdout: "" }, stderr);
      assert(stderr.search(missed instanceof RegExp ? missed : RegExp.escape(missed)) >= 0, stderr);
      assert(!stderr.includes("Approved"), stderr);
    });
  }
});
