import { assert, assertEquals, assertMatch } from "@std/assert";
import { fileURLToPath } from "node:url";
import { inspectInterpreter } from "../../src/python/interpreter.ts";
import { KERNEL_MODULES, kernelRecipe, writeMarker } from "../../src/python/managed.ts";
import type { ProgramEnd } from "../../src/process/run_program.ts";
import { runProgram } from "../support/program.ts";
import { testPython } from "../support/python.ts";
import { denoDirectory } from "../support/temp_cache.ts";
import { atTerminal, type TerminalEnd, type Typing } from "../support/terminal.ts";
import { testIf } from "../support/skip.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { asUnprivileged, giveToUnprivileged, whyNotUnprivileged } from "../support/unprivileged.ts";

const whyNoUser = await whyNotUnprivileged();
const quickstart = fileURLToPath(new URL("../../examples/quickstart.ts", import.meta.url));

/** A flag of Deno's with one value, what it is for, and what the error without it says. */
type Permission = readonly [flag: string, value: string, purpose: string, missed: string | RegExp];

/** A machine on which `ipybox setup` has been run, in folders of the test's own. */
class Machine implements AsyncDisposable {
  readonly #parts: AsyncDisposableStack;

  private constructor(
    parts: AsyncDisposableStack,
    readonly workspace: string,
    readonly cache: string,
    readonly python: string,
    readonly denoDir: string,
    readonly programs: string,
  ) {
    this.#parts = parts;
  }

  static async create(): Promise<Machine> {
    await using parts = new AsyncDisposableStack();
    const workspace = parts.use(await TempFolder.create());
    const cache = parts.use(await TempFolder.create());
    const environments = `${cache.path}/ipybox/python`;
    await Deno.mkdir(environments, { recursive: true });
    const interpreter = await inspectInterpreter(testPython(), KERNEL_MODULES);
    await Deno.symlink(interpreter.prefix, `${environments}/tests`);
    const python = `${environments}/tests/bin/python`;
    await writeMarker(kernelRecipe(), environments, { ...interpreter, executable: python });
    const denoDir = await denoDirectory();
    // Deno is installed here, unlike where `npx` runs the tests: nothing is run from its folders.
    const programs = parts.use(await TempFolder.create());
    await Deno.symlink(Deno.execPath(), `${programs.path}/deno`);
    return new Machine(
      parts.move(),
      workspace.path,
      cache.path,
      python,
      denoDir,
      programs.path,
    );
  }

  /** What the example needs, as docs/permissions.md says it. */
  get permissions(): readonly Permission[] {
    const { workspace, cache, python, denoDir } = this;
    const [npm, run] = [`${denoDir}/npm`, `${cache}/ipybox/run`];
    return [
      ["--allow-net", "127.0.0.1", "loopback", "net access"],
      ["--allow-read", ".", "the workspace", 'read access to "."'],
      ["--allow-read", `${cache}/ipybox`, "the Python environment", "read access to"],
      ["--allow-read", npm, "the sandbox runtime", `read access to "${npm}"`],
      ["--allow-write", ".", "the workspace", `write access to "${workspace}`],
      ["--allow-write", run, "private folders", `write access to "${run}"`],
      ["--allow-env", "IPYBOX_PYTHON", "a Python of one's own", '"IPYBOX_PYTHON"'],
      ["--allow-env", "XDG_CACHE_HOME", "where Python is", '"XDG_CACHE_HOME"'],
      // Without it, either npx does not find node, or Deno is not where programs usually are.
      [
        "--allow-env",
        "PATH",
        "where programs are",
        /exited with code|deno is not on the PATH.*variable PATH/,
      ],
      ["--allow-run", python, "Python", `run access to "${python}"`],
      ["--allow-run", "deno", "the sandbox runtime", 'run access to "deno"'],
      ["--allow-run", "npx", "the MCP server", 'run access to "npx"'],
    ];
  }

  /** Runs the example with some permissions. */
  async run(granted: readonly Permission[]): Promise<ProgramEnd> {
    const args = ["run", "--no-prompt", "--quiet", ...flagsOf(granted), quickstart];
    return await runProgram(Deno.execPath(), args, { cwd: this.workspace, env: this.#env });
  }

  /** Runs the example at a terminal, where Deno would ask for more permissions. */
  async runAtTerminal(): Promise<TerminalEnd> {
    const deno = [Deno.execPath(), "run", "--quiet", ...flagsOf(this.permissions), quickstart];
    const ended: Typing = ["Deno requests", null];
    return await atTerminal(deno, [ended], { cwd: this.workspace, env: this.#env });
  }

  /** Runs the example as a user who is not root, who needs no more. */
  async runAsUser(): Promise<ProgramEnd> {
    await using home = await TempFolder.create();
    const { workspace, cache, programs } = this;
    for (const folder of [home.path, workspace, cache]) await giveToUnprivileged(folder);
    await Deno.chmod(programs, 0o755);
    const more: readonly Permission[] = [
      ["--allow-env", "HOME", "what npx keeps", ""],
    ];
    const flags = flagsOf([...this.permissions, ...more]);
    const deno = [Deno.execPath(), "run", "--no-prompt", "--quiet", ...flags, quickstart];
    const [command = "", ...args] = asUnprivileged(deno);
    return await runProgram(command, args, {
      cwd: workspace,
      env: { ...this.#env, NEW_HOME: home.path },
    });
  }

  get #env(): Record<string, string> {
    return {
      DENO_DIR: this.denoDir,
      IPYBOX_PYTHON: "",
      NO_COLOR: "1",
      PATH: `${this.programs}:${Deno.env.get("PATH")}`,
      XDG_CACHE_HOME: this.cache,
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#parts.disposeAsync();
  }
}

function flagsOf(granted: readonly Permission[]): string[] {
  const flags = Map.groupBy(granted, ([flag]) => flag);
  return [...flags].map(([flag, values]) => `${flag}=${values.map(([, value]) => value)}`);
}

Deno.test("examples/quickstart.ts runs with the permissions of docs/permissions.md", async () => {
  await using machine = await Machine.create();

  const { code, stdout, stderr } = await machine.run(machine.permissions);

  assertEquals({ code, stdout }, { code: 0, stdout: "Mean: 47 °F\n" }, stderr);
  assertEquals(stderr.match(/^Approved everything\./gm)?.length, 6);
});

Deno.test("with these permissions, Deno asks for no more at a terminal", async () => {
  await using machine = await Machine.create();

  const { code, output } = await machine.runAtTerminal();

  assert(!output.includes("Deno requests"), output);
  assertEquals(code, 0, output);
  assertMatch(output, /^Mean: 47 °F$/m);
});

testIf(whyNoUser === undefined, whyNoUser ?? "", {
  name: "with these permissions it runs for a user who is not root, too",
  fn: async () => {
    await using machine = await Machine.create();

    const { code, stdout, stderr } = await machine.runAsUser();

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
