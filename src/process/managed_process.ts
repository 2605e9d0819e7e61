import { settledWithin } from "../async/signals.ts";
import type { ByteStream } from "../net/byte_stream.ts";
import { isGranted } from "./permission.ts";
import { OutputTail } from "./output_tail.ts";
import { ProcessPipes } from "./process_pipes.ts";
import type { ProgramPath } from "./program.ts";

/** How a process ended. Exactly one of the two is not `null`. */
export interface ExitStatus {
  /** Its exit code, or `null` when a signal ended it. */
  readonly exitCode: number | null;
  /** The signal that ended it, such as `"SIGKILL"`, or `null`. */
  readonly signal: string | null;
}

/** What {@linkcode ManagedProcess.spawn} starts. */
export interface ManagedProcessOptions {
  /** The program. */
  command: ProgramPath;
  /** Its arguments. No shell reads them. */
  args?: readonly string[];
  /**
   * Its working directory.
   *
   * @default {"/"} where nobody can put what programs look for in it
   */
  cwd?: string;
  /** Its whole environment. Nothing is inherited. */
  env: Readonly<Record<string, string>>;
  /** Called with every line that it writes to stderr, without terminal escapes. */
  onStderr?: (line: string) => void;
  /**
   * How long {@linkcode ManagedProcess.stop} waits after the end of stdin before SIGTERM.
   *
   * @default {5000}
   */
  inputGraceMs?: number;
  /**
   * How long it then waits after SIGTERM before SIGKILL.
   *
   * @default {2000}
   */
  termGraceMs?: number;
}

/** How long output that is already on its way is waited for once the process has ended. */
const DRAIN_MS = 250;

/**
 * A child process in a process group of its own, whose pipes are always drained and whose end is
 * bounded. Disposing it stops it.
 *
 * What is left of its group is killed when it ends, where Deno's permissions allow that (unscoped
 * `--allow-run`); otherwise signals reach the process itself only.
 */
export class ManagedProcess implements AsyncDisposable {
  /** The program that was started. */
  readonly command: ProgramPath;
  /** Resolves, never rejects, once it has ended and its last words are in {@linkcode stderrTail}. */
  readonly exited: Promise<ExitStatus>;

  readonly #child: Deno.ChildProcess;
  readonly #pipes: ProcessPipes;
  readonly #errors: ReadableStreamDefaultReader<Uint8Array>;
  readonly #errorsEnded: Promise<void>;
  readonly #tail = new OutputTail();
  readonly #options: ManagedProcessOptions;
  #stopping: Promise<ExitStatus> | undefined;

  private constructor(child: Deno.ChildProcess, options: ManagedProcessOptions) {
    this.command = options.command;
    this.#child = child;
    this.#options = options;
    this.#pipes = new ProcessPipes(options.command, child);
    this.#errors = child.stderr.getReader();
    this.#errorsEnded = this.#drainErrors();
    this.exited = this.#untilExited();
  }

  /** Starts a process. */
  static spawn(options: ManagedProcessOptions): ManagedProcess {
    return new ManagedProcess(spawnChild(options), options);
  }

  /**
   * Its standard input and output. Writing rejects once it has ended; reading gives what it wrote to
   * its end. Whoever does not want the output leaves it alone; stopping discards it.
   */
  get pipes(): ByteStream {
    return this.#pipes;
  }

  /** Its process id, which also is the id of its process group. */
  get pid(): number {
    return this.#child.pid;
  }

  /** The last 16 KiB that it wrote to stderr, without terminal escapes. */
  get stderrTail(): string {
    return this.#tail.text;
  }

  /**
   * Ends the process: its stdin ends, then it gets SIGTERM, then SIGKILL. Every call gives the
   * same promise.
   */
  stop(): Promise<ExitStatus> {
    return this.#stopping ??= this.#stop();
  }

  /**
   * Sends a signal to the process's group, or to the process alone where Deno's permissions do not
   * allow more. A process that has ended is left alone.
   */
  signal(signal: Deno.Signal): void {
    if (this.#signalGroup(signal)) return;
    try {
      this.#child.kill(signal);
    } catch (error) {
      if (!(error instanceof TypeError) && !(error instanceof Deno.errors.NotFound)) throw error;
      // It ended in between, which is what signals are sent for.
    }
  }

  /** Stops the process. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  async #stop(): Promise<ExitStatus> {
    const { inputGraceMs = 5000, termGraceMs = 2000 } = this.#options;
    const { status } = this.#child;
    await this.#pipes.end();
    if (!await settledWithin(status, inputGraceMs)) {
      this.signal("SIGTERM");
      if (!await settledWithin(status, termGraceMs)) this.signal("SIGKILL");
    }
    const exit = await this.exited;
    // A process that left the group can hold the pipes open for ever; the consumer gets an end.
    if (this.#pipes.wasRead) await settledWithin(this.#pipes.outputEnded, DRAIN_MS);
    this.#pipes.close();
    await this.#errors.cancel().catch(() => {}); // there may be nothing to cancel
    await this.#errorsEnded;
    return exit;
  }

  async #untilExited(): Promise<ExitStatus> {
    const { code, signal } = await this.#child.status;
    this.#signalGroup("SIGKILL"); // at once: later the id might be another group's
    this.#pipes.dropInput();
    await settledWithin(this.#errorsEnded, DRAIN_MS);
    return signal === null ? { exitCode: code, signal } : { exitCode: null, signal };
  }

  #signalGroup(signal: Deno.Signal): boolean {
    if (Deno.build.os === "windows") return false;
    // Asking for the state first, because Deno.kill() itself would prompt a person for it.
    if (!isGranted({ name: "run" })) return false;
    try {
      Deno.kill(-this.pid, signal);
    } catch {
      return false; // the group is empty, or not ours to signal: the process itself is tried
    }
    return true;
  }

  async #drainErrors(): Promise<void> {
    const { onStderr } = this.#options;
    while (true) {
      const { value, done } = await this.#errors.read().catch(() => ENDED);
      const lines = done ? this.#tail.end() : this.#tail.push(value);
      for (const line of lines) onStderr?.(line);
      if (done) return;
    }
  }
}

/** A pipe that fails has ended: the other side is gone. */
const ENDED: ReadableStreamReadResult<Uint8Array> = { done: true };

function spawnChild(options: ManagedProcessOptions): Deno.ChildProcess {
  const { command, args = [], cwd = "/", env } = options;
  try {
    return new Deno.Command(command, {
      args: [...args],
      cwd,
      env: { ...env },
      clearEnv: true,
      detached: true,
      stdin: "piped",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
  } catch (cause) {
    if (cause instanceof Deno.errors.NotCapable) throw cause; // it names the flag that is missing
    if (cause instanceof Deno.errors.NotFound) {
      const what = !isDirectory(cwd)
        ? `its working directory ${cwd} does not exist`
        : "command not found";
      throw new Deno.errors.NotFound(`Cannot start ${command}: ${what}`, { cause });
    }
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new Error(`Cannot start ${command}: ${reason}`, { cause });
  }
}

function isDirectory(path: string): boolean {
  try {
    return Deno.statSync(path).isDirectory;
  } catch {
    return false; // also where it may not be read: the caller only words a message with it
  }
}
