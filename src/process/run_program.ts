import { LinkedSignal } from "../base/signals.ts";
import { hostPath, type ProgramPath } from "./program.ts";
import { trustedPath } from "./trusted_path.ts";

/** Options of {@linkcode runProgram}. */
interface RunProgramOptions {
  /** Its arguments, which no shell interprets. */
  readonly args?: readonly string[];
  /**
   * Its working directory.
   *
   * @default {"/"} where nobody can plant files that programs look for
   */
  readonly cwd?: string;
  /**
   * Its variables without `PATH`, which is set to the trusted part of the host's.
   *
   * @default {those of this process}
   */
  readonly env?: Readonly<Record<string, string>>;
  /**
   * Whether to leave out those of this process.
   *
   * @default {false}
   */
  readonly clearEnv?: boolean;
  /**
   * Its input.
   *
   * @default nothing
   */
  readonly input?: string | undefined;
  /**
   * Whether it uses the terminal of this process; otherwise its output is kept.
   *
   * @default {false}
   */
  readonly atTerminal?: boolean;
  /** Stops the program. */
  readonly signal?: AbortSignal;
}

/** A program's exit code and output. */
export interface ProgramEnd {
  /** Whether it exited with code 0. */
  readonly success: boolean;
  /** Its exit code. */
  readonly code: number;
  /** What it wrote to stdout. */
  readonly stdout: string;
  /** What it wrote to stderr. */
  readonly stderr: string;
}

/** Runs a program to its end. */
export async function runProgram(
  program: ProgramPath,
  options: RunProgramOptions = {},
): Promise<ProgramEnd> {
  const { atTerminal = false, signal } = options;
  signal?.throwIfAborted();
  using link = new LinkedSignal(signal); // a command does not keep a joined signal alive
  const stdio = atTerminal ? "inherit" : "piped";
  const command = await commandOf(program, { ...options, signal: link.signal }, stdio);
  const output = await outputOf(command, options.input);
  signal?.throwIfAborted();
  const { success, code } = output;
  if (atTerminal) return { success, code, stdout: "", stderr: "" };
  const decoder = new TextDecoder();
  const [stdout, stderr] = [decoder.decode(output.stdout), decoder.decode(output.stderr)];
  return { success, code, stdout, stderr };
}

/** Starts a program in the background, without its output. */
export async function startProgram(program: ProgramPath, args: readonly string[]): Promise<void> {
  const command = await commandOf(program, { args }, "null");
  command.spawn().unref();
}

async function outputOf(
  command: Deno.Command,
  input: string | undefined,
): Promise<Deno.CommandOutput> {
  if (input === undefined) return await command.output();
  const child = command.spawn();
  const output = child.output();
  // A program that ends before it has read all says why in another way.
  await new Blob([input]).stream().pipeTo(child.stdin).catch(() => {});
  return await output;
}

async function commandOf(
  program: ProgramPath,
  { args = [], cwd = "/", env = {}, clearEnv = false, input, signal }: RunProgramOptions,
  stdio: "inherit" | "piped" | "null",
): Promise<Deno.Command> {
  return new Deno.Command(program, {
    args: [...args],
    cwd,
    env: { ...env, PATH: await trustedPath(hostPath()) },
    clearEnv,
    stdin: input !== undefined ? "piped" : stdio === "inherit" ? stdio : "null",
    stdout: stdio,
    stderr: stdio,
    signal,
  });
}
