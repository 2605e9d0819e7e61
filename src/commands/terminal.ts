/**
 * The process's own streams and signals as a {@linkcode CommandIo}.
 *
 * @module
 */
import { anySignal } from "../async/signals.ts";
import { type Logger, stderrLogger } from "../log.ts";
import { type CommandIo, type KeyInput, StdoutClosedError } from "./command.ts";

/** The I/O of a running command line; disposing it gives the signals back. */
export class Terminal implements CommandIo, Disposable {
  readonly log: Logger = stderrLogger("warn");
  readonly verboseLog: Logger = stderrLogger("debug");
  readonly interactive: boolean = Deno.stdin.isTerminal() && Deno.stderr.isTerminal();
  readonly stdoutIsTerminal: boolean = Deno.stdout.isTerminal();
  readonly color: boolean = Deno.stderr.isTerminal() && !Deno.noColor;
  #interrupt = new AbortController();
  #input = new TerminalInput();
  #onInterrupt: (() => void) | undefined;
  #onSignal = () => {
    // The first Ctrl-C asks for a clean end; who asks twice does not want to wait for it.
    if (this.#interrupt.signal.aborted) {
      this.#input[Symbol.dispose]();
      Deno.exit(130);
    }
    this.#interrupt.abort(new DOMException("Interrupted", "AbortError"));
  };
  #onSigint = () => (this.#onInterrupt ?? this.#onSignal)();

  constructor() {
    Deno.addSignalListener("SIGINT", this.#onSigint);
    for (const signal of END_SIGNALS) Deno.addSignalListener(signal, this.#onSignal);
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
    const first = this.#answerTo(question, stop);
    using reading = new ReadingTime();
    let line = await first;
    // Nobody reads and answers as fast as this: it was typed before the question stood there.
    while (line !== null && !reading.isOver) {
      line = await this.#answerTo(`Typed too early, please answer again.\n${question}`, stop);
    }
    if (line === null) this.errText("\n");
    return line;
  }

  #answerTo(question: string, stop: AbortSignal): Promise<string | null> {
    // Whoever sees the question can answer it with Ctrl-D, which is a key until lines are read.
    const answer = this.#input.next(stop);
    this.errText(question);
    return answer;
  }

  async lend<T>(use: () => Promise<T>): Promise<T> {
    return await this.#input.lend(use);
  }

  keys(onResume: () => void): KeyInput {
    return this.#input.keys(onResume);
  }

  onInterrupt(act: () => void): Disposable {
    this.#onInterrupt = act;
    return { [Symbol.dispose]: () => this.#onInterrupt = undefined };
  }

  [Symbol.dispose](): void {
    this.#input[Symbol.dispose]();
    Deno.removeSignalListener("SIGINT", this.#onSigint);
    for (const signal of END_SIGNALS) Deno.removeSignalListener(signal, this.#onSignal);
  }
}

/** Signals that end the command; a terminal that is closed sends SIGHUP. */
const END_SIGNALS: readonly Deno.Signal[] = Deno.build.os === "windows"
  ? []
  : ["SIGTERM", "SIGHUP"];

/**
 * The time for which a question stands before an answer to it counts.
 *
 * It is counted in steps: a process that the machine lets wait would else take up what was typed
 * before the question only after that time.
 */
class ReadingTime implements Disposable {
  #stepsLeft = 10;
  #timer = setInterval(() => {
    if (--this.#stepsLeft === 0) clearInterval(this.#timer);
  }, 25);

  get isOver(): boolean {
    return this.#stepsLeft === 0;
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }
}

/**
 * What is typed at the terminal: lines, each for the question that stood there when it was typed, and
 * keys for whoever takes them meanwhile.
 *
 * Once asked, it goes on reading and drops what nobody waits for: an answer typed ahead, or after
 * its question was withdrawn, must not approve the next call. Only after an answer it waits for a
 * moment, in which whoever asked may lend the terminal to another program.
 *
 * With keys it reads only for whoever waits: a read that began before a question would not see the
 * Ctrl-D at it.
 */
class TerminalInput implements Disposable {
  #waiting: ((line: string | null) => void) | undefined;
  #keyMode = false;
  #taker: ((bytes: Uint8Array | null) => void) | undefined;
  /** Keys that came while nobody waited for any. */
  #early: Uint8Array[] = [];
  #reading = false;
  #raw = false;
  #text = "";
  #decoder = new TextDecoder();
  #lent: Promise<unknown> | undefined;

  async lend<T>(use: () => Promise<T>): Promise<T> {
    const lent = Promise.withResolvers<void>();
    this.#lent = lent.promise;
    this.#setMode();
    try {
      return await use();
    } finally {
      this.#lent = undefined;
      this.#setMode();
      lent.resolve();
    }
  }

  keys(onResume: () => void): KeyInput {
    this.#keyMode = true;
    this.#setMode();
    const resume = (): void => {
      // While this was stopped, the shell had the terminal in a mode of its own.
      if (this.#raw) this.#applyMode();
      onResume();
    };
    Deno.addSignalListener("SIGCONT", resume);
    return {
      next: () => this.#nextKeys(),
      [Symbol.dispose]: () => {
        Deno.removeSignalListener("SIGCONT", resume);
        this[Symbol.dispose]();
      },
    };
  }

  async #nextKeys(): Promise<Uint8Array | null> {
    const early = this.#early.shift();
    if (early !== undefined) return early;
    const { promise, resolve } = Promise.withResolvers<Uint8Array | null>();
    this.#taker = resolve;
    if (!this.#reading) this.#read();
    return await promise;
  }

  async next(signal: AbortSignal): Promise<string | null> {
    if (signal.aborted) return null;
    const answer = Promise.withResolvers<string | null>();
    this.#waiting = answer.resolve;
    this.#text = "";
    this.#decoder = new TextDecoder();
    this.#early = [];
    this.#setMode();
    const withdraw = () => answer.resolve(null);
    signal.addEventListener("abort", withdraw, { once: true });
    if (!this.#reading) this.#read();
    try {
      return await answer.promise;
    } finally {
      this.#waiting = undefined;
      this.#setMode();
      signal.removeEventListener("abort", withdraw);
    }
  }

  /** Gives the terminal back as it was. */
  [Symbol.dispose](): void {
    this.#keyMode = false;
    this.#setMode();
  }

  /** Keys come one by one and without echo; questions and other programs have lines. */
  #setMode(): void {
    const raw = this.#keyMode && this.#waiting === undefined && this.#lent === undefined;
    if (raw === this.#raw) return;
    this.#raw = raw;
    this.#applyMode();
  }

  #applyMode(): void {
    Deno.stdin.setRaw(this.#raw, { cbreak: this.#raw }); // Ctrl-C stays a signal
  }

  async #read(): Promise<void> {
    this.#reading = true;
    const chunk = new Uint8Array(4096);
    for (;;) {
      const size = await Deno.stdin.read(chunk);
      const question = this.#waiting;
      if (size === null) {
        if (question === undefined || !this.#keyMode) break;
        question(null); // Ctrl-D was for that; keys may follow
        await this.#afterAnswer();
      } else if (question !== undefined) {
        await this.#addToLine(chunk.subarray(0, size), question);
      } else if (this.#keyMode) this.#giveKeys(chunk.slice(0, size));
      if (this.#keyMode && this.#waiting === undefined && this.#taker === undefined) {
        this.#reading = false;
        return;
      }
    }
    this.#reading = false;
    this.#waiting?.(null);
    this.#taker?.(null);
  }

  #giveKeys(bytes: Uint8Array): void {
    const taker = this.#taker;
    this.#taker = undefined;
    if (taker === undefined) this.#early.push(bytes);
    else taker(bytes);
  }

  async #addToLine(bytes: Uint8Array, answer: (line: string) => void): Promise<void> {
    this.#text += this.#decoder.decode(bytes, { stream: true });
    // What was typed before the question, key by key, has another end of the line.
    const end = this.#text.search(/[\r\n]/);
    if (end === -1) return;
    const line = this.#text.slice(0, end);
    this.#text = "";
    answer(line);
    await this.#afterAnswer();
  }

  async #afterAnswer(): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve)); // whoever asked goes on before that
    await this.#lent;
  }
}

const encoder = new TextEncoder();

function writeAll(stream: { writeSync(bytes: Uint8Array): number }, text: string): void {
  let bytes = encoder.encode(text);
  while (bytes.length > 0) bytes = bytes.subarray(stream.writeSync(bytes));
}
