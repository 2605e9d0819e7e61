/**
 * A machine on which `ipybox setup` has been run, for scripts with Deno's permissions.
 *
 * @module
 */
import { fileURLToPath } from "node:url";
import { kernelRecipe, writeMarker } from "../../src/python/managed.ts";
import type { ProgramEnd } from "../../src/process/run_program.ts";
import { runProgram } from "./program.ts";
import { testInterpreter } from "./python.ts";
import { denoDirectory } from "./temp_cache.ts";
import { TempFolder } from "./temp_folder.ts";

const quickstart = fileURLToPath(new URL("../../examples/quickstart.ts", import.meta.url));

/** A flag of Deno's with one value, what it is for, and what the error without it says. */
export type Permission = readonly [
  flag: string,
  value: string,
  purpose: string,
  missed: string | RegExp,
];

/** Such a machine, in folders of the test's own. */
export class Machine implements AsyncDisposable {
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
    const interpreter = await testInterpreter();
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

  /** What the example needs, as docs/typescript.md says it. */
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

  /** Runs a script, by default the example, with some permissions. */
  async run(
    granted: readonly (Permission | string)[],
    { script = quickstart, args = [], env = {} }: {
      readonly script?: string;
      readonly args?: readonly string[];
      readonly env?: Readonly<Record<string, string>>;
    } = {},
  ): Promise<ProgramEnd> {
    const deno = ["run", "--no-prompt", "--quiet", ...flagsOf(granted), script, ...args];
    return await runProgram(Deno.execPath(), deno, {
      cwd: this.workspace,
      env: { ...this.env, ...env },
    });
  }

  /** Variables for such a script. */
  get env(): Record<string, string> {
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

/** The flags that grant permissions; those that are texts already stay. */
export function flagsOf(granted: readonly (Permission | string)[]): string[] {
  const given = granted.filter((each) => typeof each === "string");
  const listed = granted.filter((each) => typeof each !== "string");
  const flags = Map.groupBy(listed, ([flag]) => flag);
  const lists = [...flags].map(([flag, values]) => `${flag}=${values.map(([, value]) => value)}`);
  return [...given, ...lists];
}
