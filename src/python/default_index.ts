import type { ProgramPath } from "../process/program.ts";
import { runProgram } from "../process/run_program.ts";
import { installerEnvironment } from "./installer_environment.ts";

/**
 * The package index that an installer uses where nothing else is configured, as its own help says.
 */
export async function defaultIndex(
  program: ProgramPath,
  args: readonly string[],
  options: { readonly signal?: AbortSignal | undefined } = {},
): Promise<string> {
  const { stdout } = await runProgram(program, {
    args: [...args, "--help"],
    env: { ...installerEnvironment(), NO_COLOR: "1" },
    clearEnv: true,
    ...options,
  });
  const index = indexInHelp(stdout);
  if (index !== undefined) return index;
  const command = [program, ...args].join(" ");
  throw new Error(`Cannot tell which package index ${command} uses: configure one`);
}

/** Finds the default index in an installer's help. */
export function indexInHelp(help: string): string | undefined {
  return /\(\s*(?:by\s+)?default:?\s+<?(https?:\/\/[^\s<>()]+)/.exec(help)?.[1];
}
