/**
 * Starts supervisors of durable sessions as programs of their own.
 *
 * @module
 */
import { assertEquals, assertNotEquals } from "@std/assert";
import { ManagedProcess } from "../../src/process/managed_process.ts";
import { namedProgram } from "../../src/process/program.ts";
import { testPython } from "./python.ts";

/** The supervisor's program. */
export const SUPERVISOR: string = await Deno.readTextFile(
  new URL("../../templates/launcher/supervisor.py", import.meta.url),
);

/** Changes how many seconds a program waits, by the names of its constants. */
export function withSeconds(program: string, seconds: Readonly<Record<string, number>>): string {
  return Object.entries(seconds).reduce((text, [name, count]) => {
    const changed = text.replace(new RegExp(`^${name} = \\d+`, "m"), `${name} = ${count}`);
    assertNotEquals(changed, text, `${name} is not in the program`);
    return changed;
  }, program);
}

/** Runs Python code that starts a supervisor by these settings, and ends when that listens. */
export async function startListening(
  code: string,
  args: readonly string[],
  settings: Readonly<Record<string, unknown>>,
): Promise<void> {
  await using process = ManagedProcess.spawn({
    command: namedProgram(testPython()),
    args: ["-I", "-S", "-c", code, ...args],
    env: {},
  });
  await process.pipes.write(new TextEncoder().encode(JSON.stringify({ reach: null, ...settings })));
  await process.pipes.end();
  assertEquals((await process.exited).exitCode, 0, process.stderrTail);
}

/** The code that runs a supervisor's program, whose path is the first argument. */
export const RUN = "import runpy, sys; runpy.run_path(sys.argv[1], run_name='__main__')";
