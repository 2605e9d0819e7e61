/**
 * The process's own streams and signals as a {@linkcode CommandIo}.
 *
 * @module
 */
import { anySignal } from "../../base/signals.ts";
import { type Logger, stderrLogger } from "../../base/log.ts";
import { AnswerLine } from "./answer_line.ts";
import {
  type CodeLine,
  type CommandIo,
  EndSignal,
  type KeyInput,
  StdoutClosedError,
} from "../command.ts";

/** The I/O of a running command line; disposing it gives the signals back. */
export class Terminal implements CommandIo, Disposable {
  readonly log: Logger = stderrLogger("info");
  readonly verboseLog: Logger = stderrLogger("debug");
  readonly interactive: boolean = Deno.stdin.isTerminal() && Deno.stderr.isTerminal();
  readonly stdoutIsTerminal: boolean = Deno.stdout.isTerminal();
  readonly stderrIsTerminal: boolean = Deno.stderr.isTerminal();
  readonly color: boolean = Deno.stderr.isTerminal() && !Deno.noColor;
  #interrupt = new AbortController();
  #input = new TerminalInput();
  #onInterrupt: (() => void) | undefined;
  #onSignal = (exitCode: number) => {
    // The first Ctrl-C asks for a clean end; who asks twice does not want to wait for it.
    if (this.#interrupt.signal.aborted) {
      this.#input[Symbol.dispose]();
      Deno.exit(exitCode);
    }
    this.#interrupt.abort(new EndSignal(exitCode));
  };
  readonly #listeners: readonly (readonly [Deno.Signal, () => void])[] = [
    ["SIGINT", () => this.#onInterrupt === undefined ? this.#onSignal(130) : this.#onInterrupt()],
    ...END_SIGNALS.map(([signal, code]) => [signal, () => this.#onSignal(code)] as const),
  ];

  constructor() {
    for (const [signal, listener] of this.#listeners) Deno.addSignalListener(signal, listener);
  }

  get signal(): AbortSignal {
    return this.#interrupt.signal;
  }

  out(text: string): void {
    try {
      writeAll(Deno.stdout, text);
    } catch (cause) {
      if (!(cause instanceof Deno.errors.BrokenPipe)) throw cause;
      throw new StdoutClosedError("The program that reads the output has exited", { cause });
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
    const line = new AnswerLine((text) => this.errText(text));
    const answer = this.#input.next(line, stop);
    for (;;) {
      this.errText(marked(question));
      if (await line.untilQuiet(stop)) break;
      this.errText("You pressed that key before the question was shown. Please answer again.\n");
    }
    const text = await answer;
    if (text === null) this.errText("\n");
    return text;
  }

  async enter({ label, words, isSecret }: CodeLine, signal?: AbortSignal): Promise<string | null> {
    const line = new AnswerLine((text) => this.errText(text), { isSecret });
    line.open(); // it decides nothing: what was typed ahead may be meant for it
    const typed = this.#input.next(line, anySignal(this.signal, signal));
    this.errText(marked(label) + words);
    const text = await typed;
    if (text === null) this.errText("\n");
    return text;
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
    for (const [signal, listener] of this.#listeners) Deno.removeSignalListener(signal, listener);
  }
}

/** Signals that end the command, and its exit code then; a terminal that is closed sends SIGHUP. */
const END_SIGNALS: readonly (readonly [Deno.Signal, number])[] = Deno.build.os === "windows"
  ? []
  : [["SIGTERM", 143], ["SIGHUP", 129]];

/**
 * A question's last line in bold, which nothing else here is: code and servers cannot write it, as
 * their escape sequences are shown and not obeyed.
 */
function marked(question: string): string {
  if (Deno.env.get("TERM") === "dumb") return question;
  const start = question.lastIndexOf("\n") + 1;
  return `${question.slice(0, start)}\x1b[1m${question.slice(start)}\x1b[0m`;
}

/**
 * What is typed at the terminal: lines, each for the question that stood there when it was typed, and
 * keys for their usual reader.
 *
 * While it is asked, keys come one by one: the system would keep the beginning of a line, typed
 * before the question, and put it before the answer.
 *
 * Once asked, it continues reading and drops what nobody waits for: an answer typed ahead, or after
 * its question was withdrawn, must not approve the next call. Only after an answer it waits for a
 * moment, in which the asker may lend the terminal to another program.
 */
class TerminalInput implements Disposable {
  #line: AnswerLine | undefined;
  #keyMode = false;
  #taker: ((bytes: Uint8Array | null) => void) | undefined;
  /** Keys that came while nobody waited for any. */
  #early: Uint8Array[] = [];
  #reading = false;
  #raw = false;
  #lent: Promise<unknown> | undefined;
  #onResume: (() => void) | undefined;
  #resume = () => {
    // While this was stopped, the shell had the terminal in its own mode.
    this.#applyMode();
    this.#onResume?.();
  };

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
    this.#onResume = onResume;
    this.#setMode();
    return {
      next: () => this.#nextKeys(),
      [Symbol.dispose]: () => this[Symbol.dispose](),
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

  /** The next line, or `null` where there is none to come. */
  async next(line: AnswerLine, signal: AbortSignal): Promise<string | null> {
    if (signal.aborted) line.end(null);
    this.#line = line;
    this.#early = [];
    this.#setMode();
    const withdraw = () => line.end(null);
    signal.addEventListener("abort", withdraw, { once: true });
    if (!this.#reading) this.#read();
    try {
      return await line.answer;
    } finally {
      this.#line = undefined;
      this.#setMode();
      signal.removeEventListener("abort", withdraw);
    }
  }

  /** Gives the terminal back as it was. */
  [Symbol.dispose](): void {
    this.#keyMode = false;
    this.#line = undefined;
    this.#setMode();
  }

  /** Keys come one by one and without echo; other programs have lines. */
  #setMode(): void {
    const raw = (this.#keyMode || this.#line !== undefined) && this.#lent === undefined;
    if (raw === this.#raw) return;
    this.#raw = raw;
    this.#applyMode();
    if (raw) Deno.addSignalListener("SIGCONT", this.#resume);
    else Deno.removeSignalListener("SIGCONT", this.#resume);
  }

  #applyMode(): void {
    Deno.stdin.setRaw(this.#raw, { cbreak: this.#raw }); // Ctrl-C stays a signal
  }

  async #read(): Promise<void> {
    this.#reading = true;
    const chunk = new Uint8Array(4096);
    for (;;) {
      const size = await Deno.stdin.read(chunk);
      if (size === null) break;
      const line = this.#line;
      if (line !== undefined) {
        if (line.type(chunk.subarray(0, size))) await this.#afterAnswer();
      } else if (this.#keyMode) this.#giveKeys(chunk.slice(0, size));
      if (this.#keyMode && this.#line === undefined && this.#taker === undefined) {
        this.#reading = false;
        return;
      }
    }
    this.#reading = false;
    this.#line?.end(null);
    this.#taker?.(null);
  }

  #giveKeys(bytes: Uint8Array): void {
    const taker = this.#taker;
    this.#taker = undefined;
    if (taker === undefined) this.#early.push(bytes);
    else taker(bytes);
  }

  async #afterAnswer(): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve)); // the asker continues before that
    await this.#lent;
  }
}

const encoder = new TextEncoder();

function writeAll(stream: { writeSync(bytes: Uint8Array): number }, text: string): void {
  let bytes = encoder.encode(text);
  while (bytes.length > 0) bytes = bytes.subarray(stream.writeSync(bytes));
}
