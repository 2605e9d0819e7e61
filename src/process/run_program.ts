import { allDone, LinkedSignal } from "../base/signals.ts";
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
   * Whether to omit the variables of this process.
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
  /** Its stdout. */
  readonly stdout: string;
  /** Its stderr. */
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
  const { success, code, stdout, stderr } = await outputOf(command, options);
  signal?.throwIfAborted();
  return { success, code, stdout, stderr };
}

/** The most that a program may write to stdout, and to stderr: it is kept in memory. */
const MAX_OUTPUT = 64 << 20;

async function outputOf(
  command: Deno.Command,
  { input, atTerminal = false }: RunProgramOptions,
): Promise<Deno.CommandStatus & Pick<ProgramEnd, "stdout" | "stderr">> {
  const child = command.spawn();
  if (atTerminal) return { ...await child.status, stdout: "", stderr: "" };
  const text = async (stream: ReadableStream<Uint8Array>) => {
    const chunks: Uint8Array<ArrayBuffer>[] = [];
    let size = 0;
    for await (const chunk of stream) {
      size += chunk.length;
      if (size > MAX_OUTPUT) {
        child.kill("SIGKILL");
        throw new Error(`A program wrote more than ${MAX_OUTPUT >> 20} MiB, so it was ended`);
      }
      chunks.push(new Uint8Array(chunk));
    }
    return await new Blob(chunks).text();
  };
  const [status, stdout, stderr] = await allDone([
    child.status,
    text(child.stdout),
    text(child.stderr),
    // A program that ends before it has read all says why in another way.
    input === undefined
      ? undefined
      : new Blob([input]).stream().pipeTo(child.stdin).catch(() => {}),
  ]);
  return { ...status, stdout, stderr };
}

async function commandOf(
  program: ProgramPath,
  { args = [], cwd = "/", env = {}, clearEnv = false, input, signal }: RunProgramOptions,
  stdio: "inherit" | "piped",
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
