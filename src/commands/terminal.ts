/**
 * The process's own streams and signals as a {@linkcode CommandIo}.
 *
 * @module
 */
import { type Logger, stderrLogger } from "../log.ts";
import type { CommandIo } from "./command.ts";

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
    writeAll(Deno.stdout, text);
  }

  err(line: string): void {
    writeAll(Deno.stderr, line + "\n");
  }

  errText(text: string): void {
    writeAll(Deno.stderr, text);
  }

  async ask(question: string, signal?: AbortSignal): Promise<string | null> {
    writeAll(Deno.stderr, question);
    const line = await this.#lines.next(
      AbortSignal.any([this.signal, ...(signal ? [signal] : [])]),
    );
    if (line === null) writeAll(Deno.stderr, "\n");
    return line;
  }

  [Symbol.dispose](): void {
    for (const signal of SIGNALS) Deno.removeSignalListener(signal, this.#onSignal);
  }
}

const SIGNALS: readonly Deno.Signal[] = ["SIGINT", "SIGTERM"];

/**
 * Lines typed at the terminal, each for the question that stood there when it was typed.
 *
 * Once asked, it goes on reading and drops what nobody waits for: an answer typed ahead, or after
 * its question was withdrawn, must not approve the next call.
 */
class TerminalLines {
  #waiting: ((line: string | null) => void) | undefined;
  #reading = false;

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
      this.#waiting?.(text.slice(0, end));
      text = "";
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
