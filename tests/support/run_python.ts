import { testPython } from "./python.ts";

/** What a program said. */
export interface ProgramOutput {
  readonly success: boolean;
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * Runs a program of the tests' Python environment to its end.
 *
 * @param args Arguments of `python`.
 * @param options Where it runs.
 * @returns What it said.
 */
export async function runPython(
  args: readonly string[],
  options: { cwd?: string } = {},
): Promise<ProgramOutput> {
  return await run(testPython(), args, options);
}

/**
 * Runs a script of `tests/python/` that prints one line of JSON.
 *
 * @param script The script's name.
 * @param args Its arguments.
 * @returns What it printed.
 */
export async function runScript<Result>(script: string, args: readonly string[]): Promise<Result> {
  const path = new URL(`../python/${script}`, import.meta.url).pathname;
  const { success, stdout, stderr } = await runPython([path, ...args]);
  if (!success) throw new Error(`${script} failed:\n${stderr.slice(-4_000)}`);
  return JSON.parse(stdout);
}

/** Runs pyright, which is no Python program, on a folder. */
export async function runPyright(folder: string, args: readonly string[]): Promise<ProgramOutput> {
  const deno = ["run", "-A", "--no-lock", "--no-config", "npm:pyright@1.1.414/pyright"];
  return await run(Deno.execPath(), [...deno, "--pythonpath", testPython(), ...args], {
    cwd: folder,
  });
}

async function run(
  command: string,
  args: readonly string[],
  options: { cwd?: string },
): Promise<ProgramOutput> {
  const output = await new Deno.Command(command, { args: [...args], stdin: "null", ...options })
    .output();
  const decoder = new TextDecoder();
  return {
    success: output.success,
    stdout: decoder.decode(output.stdout),
    stderr: decoder.decode(output.stderr),
  };
}
