import { messageOf } from "../base/message_of.ts";
import { isGranted } from "../base/permission.ts";
import { settledWithin } from "../base/signals.ts";
import { type ByteStream, CHUNK, SMALL } from "../base/streams.ts";
import type { ProgramPath } from "./program.ts";

/** How a process ended. Exactly one of the two is not `null`. */
export interface ExitStatus {
  /** Its exit code, or `null` when a signal ended it. */
  readonly exitCode: number | null;
  /** The signal that ended it, such as `"SIGKILL"`, or `null`. */
  readonly signal: string | null;
}

/** The program that {@linkcode ManagedProcess.spawn} starts. */
export interface ManagedProcessOptions {
  /** The program. */
  command: ProgramPath;
  /** Its arguments, which no shell interprets. */
  args?: readonly string[];
  /**
   * Its working directory.
   *
   * @default {"/"} where nobody can plant files that programs look for
   */
  cwd?: string;
  /** Its complete environment; nothing is inherited. */
  env: Readonly<Record<string, string>>;
  /** Receives each line of its stderr, without terminal escapes. */
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

/** How long to wait for remaining output after the process has ended. */
const DRAIN_MS = 250;

/**
 * A child process in its own process group, whose pipes are always drained and whose end is
 * bounded. Disposing it stops it.
 *
 * The rest of its group is killed when it ends, if Deno's permissions allow that (unscoped
 * `--allow-run`); otherwise signals only reach the process itself.
 */
export class ManagedProcess implements AsyncDisposable {
  /** The program that was started. */
  readonly command: ProgramPath;
  /** Resolves, never rejects, once it has ended and {@linkcode stderrTail} is complete. */
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
   * Its standard input and output. Writing rejects once the process has ended; reading gives all of
   * its output. Unread output is discarded when the process stops.
   */
  get pipes(): ByteStream {
    return this.#pipes;
  }

  /** Its process ID, which is also the ID of its process group. */
  get pid(): number {
    return this.#child.pid;
  }

  /** The last 16 KiB that it wrote to stderr, without terminal escapes. */
  get stderrTail(): string {
    return this.#tail.text;
  }

  /**
   * Stops the process by closing its stdin, then by SIGTERM, then by SIGKILL. Every call returns the
   * same promise.
   */
  stop(): Promise<ExitStatus> {
    return this.#stopping ??= this.#stop();
  }

  /**
   * Sends a signal to the process's group, or only to the process if Deno's permissions allow no more.
   * Does nothing if the process has ended.
   */
  signal(signal: Deno.Signal): void {
    if (this.#signalGroup(signal)) return;
    try {
      this.#child.kill(signal);
    } catch (error) {
      if (!(error instanceof TypeError) && !(error instanceof Deno.errors.NotFound)) throw error;
      // It has ended in the meantime, which is fine.
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
    // A process that left the group can keep the pipes open forever, so they end here.
    if (this.#pipes.wasRead) await settledWithin(this.#pipes.outputEnded, DRAIN_MS);
    this.#pipes.close();
    await this.#errors.cancel().catch(() => {}); // there may be nothing to cancel
    await this.#errorsEnded;
    return exit;
  }

  async #untilExited(): Promise<ExitStatus> {
    const { code, signal } = await this.#child.status;
    this.#signalGroup("SIGKILL"); // immediately, before another group can get this ID
    this.#pipes.dropInput();
    await settledWithin(this.#errorsEnded, DRAIN_MS);
    return signal === null ? { exitCode: code, signal } : { exitCode: null, signal };
  }

  #signalGroup(signal: Deno.Signal): boolean {
    if (Deno.build.os === "windows") return false;
    // Query first, because Deno.kill() itself would prompt the user for the permission.
    if (!isGranted({ name: "run" })) return false;
    try {
      Deno.kill(-this.pid, signal);
    } catch {
      return false; // empty or not permitted: the caller tries the process itself
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
      const problem = !isDirectory(cwd)
        ? `its working directory ${cwd} does not exist`
        : "command not found";
      throw new Deno.errors.NotFound(`Cannot start ${command}: ${problem}`, { cause });
    }
    const reason = messageOf(cause);
    throw new Error(`Cannot start ${command}: ${reason}`, { cause });
  }
}

function isDirectory(path: string): boolean {
  try {
    return Deno.statSync(path).isDirectory;
  } catch {
    return false; // also if it cannot be read, as this only affects the wording of an error
  }
}

/**
 * The standard input and output of a process as a byte stream. Unread output stays in the pipe, so a
 * process whose output is not read blocks.
 */
export class ProcessPipes implements ByteStream {
  readonly closed: Promise<void>;
  /** Resolves once the output has been read to its end or abandoned. */
  readonly outputEnded: Promise<void>;

  readonly #command: string;
  readonly #input: WritableStreamDefaultWriter<Uint8Array>;
  readonly #output: ReadableStreamBYOBReader;
  readonly #gone = Promise.withResolvers<void>();
  readonly #ended = Promise.withResolvers<void>();
  #buffer: Uint8Array<ArrayBuffer> | undefined;
  #wasRead = false;

  constructor(command: string, child: Deno.ChildProcess) {
    this.#command = command;
    this.#input = child.stdin.getWriter();
    this.#input.closed.catch(() => {}); // each write reports its own failure
    this.#output = child.stdout.getReader({ mode: "byob" });
    this.closed = this.#gone.promise;
    this.outputEnded = this.#ended.promise;
  }

  /** Whether reading of the output has begun. */
  get wasRead(): boolean {
    return this.#wasRead;
  }

  async read(): Promise<Uint8Array | null> {
    this.#wasRead = true;
    const given = this.#buffer ?? new Uint8Array(CHUNK);
    this.#buffer = undefined; // the stream takes it
    const { value, done } = await this.#output.read(given).catch(() => ENDED);
    if (done || value === undefined) {
      this.#ended.resolve();
      return null;
    }
    if (value.length > SMALL) return value;
    this.#buffer = new Uint8Array(value.buffer);
    return value.slice();
  }

  async write(bytes: Uint8Array): Promise<void> {
    try {
      await this.#input.write(bytes);
    } catch (cause) {
      throw new Error(`Cannot write to ${this.#command}: its stdin is closed`, { cause });
    }
  }

  end(): Promise<void> {
    this.#input.close().catch(() => {}); // closed already, or the process has stopped reading
    return Promise.resolve();
  }

  close(): void {
    this.end();
    this.#ended.resolve();
    this.#output.cancel().catch(() => {}); // there may be nothing to cancel
    this.#gone.resolve();
  }

  /** Drops pending input because the process has ended. */
  dropInput(): void {
    this.#input.abort().catch(() => {}); // nobody reads it any more
  }
}

/** A pipe that fails has ended: the other side is gone. */
const ENDED: { readonly value?: undefined; readonly done: true } = { done: true };

/** Terminal escape sequences, then all control characters except tab. */
const ESCAPES =
  // deno-lint-ignore no-control-regex -- control characters are what is looked for
  /\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]?/g;
// deno-lint-ignore no-control-regex -- as above
const CONTROLS = /[\x00-\x08\x0a-\x1f\x7f-\x9f]/g;

/** The longest line; the rest counts as the next line. */
const MAX_LINE = 8 * 1024;

/**
 * Removes terminal escape sequences and control characters, because output of untrusted processes
 * reaches terminals and logs.
 */
export function stripTerminalEscapes(text: string): string {
  return text.replace(ESCAPES, "").replace(CONTROLS, "");
}

/** Splits a process's output into plain lines and keeps the last ones. */
export class OutputTail {
  readonly #limit: number;
  readonly #decoder = new TextDecoder();
  #lines: string[] = [];
  #length = 0;
  #open = "";

  constructor(limit: number = 16 * 1024) {
    this.#limit = limit;
  }

  /** The last lines, ending with a newline unless empty or in the middle of a line. */
  get text(): string {
    this.#trim();
    return this.#lines.map((line) => line + "\n").join("") + stripTerminalEscapes(this.#open);
  }

  /** Yields the lines of the next bytes of the output, and adds each as it is iterated. */
  push(bytes: Uint8Array): Iterable<string> {
    return this.#take(this.#decoder.decode(bytes, { stream: true }), false);
  }

  /** Yields and adds the rest at the end of the output. */
  end(): Iterable<string> {
    return this.#take(this.#decoder.decode(), true);
  }

  *#take(text: string, atEnd: boolean): Generator<string> {
    const pieces = (this.#open + text).split(/\r\n|\n|\r(?!$)/);
    this.#open = pieces.pop() ?? "";
    if (atEnd && this.#open !== "") {
      pieces.push(this.#open);
      this.#open = "";
    }
    while (this.#open.length > MAX_LINE) {
      pieces.push(this.#open.slice(0, MAX_LINE));
      this.#open = this.#open.slice(MAX_LINE);
    }
    for (const piece of pieces) {
      const line = stripTerminalEscapes(piece);
      this.keep(line);
      yield line;
    }
  }

  /** Adds a plain line. */
  keep(line: string): void {
    const kept = line.slice(-this.#limit);
    this.#lines.push(kept);
    this.#length += kept.length + 1;
    // Trim only at twice the size, so that not every line copies everything.
    if (this.#length > 2 * this.#limit) this.#trim();
  }

  #trim(): void {
    let dropped = 0;
    while (this.#length > this.#limit && dropped < this.#lines.length - 1) {
      this.#length -= (this.#lines[dropped++]?.length ?? 0) + 1;
    }
    this.#lines = this.#lines.slice(dropped);
  }
}
