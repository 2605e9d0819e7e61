import type { ProgramEnd } from "../../src/process/run_program.ts";

/** Runs a program to its end, without input. */
export async function runProgram(
  command: string,
  args: readonly string[],
  options: Omit<Deno.CommandOptions, "args"> = {},
): Promise<ProgramEnd> {
  const { success, code, stdout, stderr } = await new Deno.Command(command, {
    args: [...args],
    stdin: "null",
    ...options,
  }).output();
  const decoder = new TextDecoder();
  return { success, code, stdout: decoder.decode(stdout), stderr: decoder.decode(stderr) };
}
