import type { ProgramEnd } from "../../src/process/run_program.ts";
import { runProgram } from "./program.ts";
import { testPython } from "./python.ts";

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
): Promise<ProgramEnd> {
  return await runProgram(testPython(), args, options);
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
export async function runPyright(folder: string, args: readonly string[]): Promise<ProgramEnd> {
  const deno = ["run", "-A", "--no-lock", "--no-config", "npm:pyright@1.1.414/pyright"];
  return await runProgram(Deno.execPath(), [...deno, "--pythonpath", testPython(), ...args], {
    cwd: folder,
  });
}
