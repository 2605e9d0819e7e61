/**
 * The process's own streams and signals as a {@linkcode CommandIo}.
 *
 * @module
 */
import { anySignal } from "../async/signals.ts";
import { type Logger, stderrLogger } from "../log.ts";
import { type CommandIo, StdoutClosedError } from "./command.ts";

/** The I/O of a running command line; disposing it gives the signals back. */
export class Terminal implements CommandIo, Disposable {
  readonly log: Logger = stderrLogger("warn");
  readonly verboseLog: Logger = stderrLogger("debug");
  readonly interactive: boolean = Deno.stdin.isTerminal() && Deno.stderr.isTerminal();
  readonly stdoutIsTerminal: boolean = Deno.stdout.isTerminal();
  readonly color: boolean = Deno.stderr.isTerminal() && !Deno.noColor;
  #interrupt = new AbortController();
  #lines = new TerminalLines();
  #onSignal = () => {
    // The first Ctrl-C asks for a clean end; who asks twice does not want to wait for it.
    if (this.#interrupt.signal.aborted) Deno.exit(130);
    this.#interrupt.abort(new DOMException("Interrupted", "AbortError"));
  };

  constructor() {
    for (const signal of SIGNALS) Deno.addSignalListener(signal, this.#onSignal);
  }

  get signal(): AbortSignal {
    return this.#interrupt.signal;
  }

  out(text: string): void {
    try {
      writeAll(Deno.stdout, text);
    } catch (cause) {
      if (!(cause instanceof Deno.errors.BrokenPipe)) throw cause;
      throw new StdoutClosedError("Nobody reads the output any more", { cause });
    }
  }

  err(line: string): void {
    this.errText(line + "\n");
  }

  errText(text: string): void {
    try {
      writeAll(Deno.stderr, text);
    } catch (error) {
      if (!(error instanceof Deno.errors.BrokenPipe)) throw error;
      // Nobody is left who could be told, and results may still go to stdout.
    }
  }

  async ask(question: string, signal?: AbortSignal): Promise<string | null> {
    const stop = anySignal(this.signal, signal);
    this.errText(question);
    const shown = performance.now();
    let line = await this.#lines.next(stop);
    // Nobody reads and answers as fast as this: it was typed before the question stood there.
    while (line !== null && performance.now() - shown < READING_MS) {
      this.errText(`Typed too early, please answer again.\n${question}`);
      line = await this.#lines.next(stop);
    }
    if (line === null) this.errText("\n");
    return line;
  }

  async lend<T>(use: () => Promise<T>): Promise<T> {
    return await this.#lines.lend(use);
  }

  [Symbol.dispose](): void {
    for (const signal of SIGNALS) Deno.removeSignalListener(signal, this.#onSignal);
  }
}

/** A terminal that is closed sends SIGHUP. */
const SIGNALS: readonly Deno.Signal[] = Deno.build.os === "windows"
  ? ["SIGINT"]
  : ["SIGINT", "SIGTERM", "SIGHUP"];

/** How long a question stands before an answer to it counts. */
const READING_MS = 250;

/**
 * Lines typed at the terminal, each for the question that stood there when it was typed.
 *
 * Once asked, it goes on reading and drops what nobody waits for: an answer typed ahead, or after
 * its question was withdrawn, must not approve the next call. Only after an answer it waits for a
 * moment, in which whoever asked may lend the terminal to another program.
 */
class TerminalLines {
  #waiting: ((line: string | null) => void) | undefined;
  #reading = false;
  #lent: Promise<unknown> = Promise.resolve();

  async lend<T>(use: () => Promise<T>): Promise<T> {
    const using = use();
    this.#lent = using.catch(() => {}); // whoever borrows it is told
    return await using;
  }

  async next(signal: AbortSignal): Promise<string | null> {
    if (signal.aborted) return null;
    const answer = Promise.withResolvers<string | null>();
    this.#waiting = answer.resolve;
    const withdraw = () => answer.resolve(null);
    signal.addEventListener("abort", withdraw, { once: true });
    if (!this.#reading) this.#read();
    try {
      return await answer.promise;
    } finally {
      this.#waiting = undefined;
      signal.removeEventListener("abort", withdraw);
    }
  }

  async #read(): Promise<void> {
    this.#reading = true;
    const decoder = new TextDecoder();
    const chunk = new Uint8Array(4096);
    let text = "";
    for (;;) {
      const size = await Deno.stdin.read(chunk);
      if (size === null) break;
      text += decoder.decode(chunk.subarray(0, size), { stream: true });
      const end = text.indexOf("\n");
      if (end === -1) continue;
      const line = text.slice(0, end);
      text = "";
      if (this.#waiting === undefined) continue;
      this.#waiting(line);
      await new Promise((resolve) => setTimeout(resolve)); // whoever asked goes on before that
      await this.#lent;
    }
    this.#reading = false;
    this.#waiting?.(null);
  }
}

const encoder = new TextEncoder();

function writeAll(stream: { writeSync(bytes: Uint8Array): number }, text: string): void {
  let bytes = encoder.encode(text);
  while (bytes.length > 0) bytes = bytes.subarray(stream.writeSync(bytes));
}
