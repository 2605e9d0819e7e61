/** The process's own streams and signals as a {@linkcode CommandIo}. */
import { unicodeWidth } from "@std/cli";
import { anySignal, onAbort } from "../../base/signals.ts";
import { type Logger, printable, stderrLogger } from "../../base/log.ts";
import { terminalSize } from "../../base/terminal.ts";
import { writeAll } from "../../files/artifact_folder.ts";
import { AnswerLine } from "./answer_line.ts";
import {
  type CodeLine,
  type CommandIo,
  EndSignal,
  type KeyInput,
  StdoutClosedError,
  wrap,
} from "../command.ts";

/** Control characters that ipybox never writes, and those that reorder text. */
const UNWRITTEN = /[\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** The I/O of a running command. Disposing it restores the signal handlers. */
export class Terminal implements CommandIo, Disposable {
  readonly log: Logger = stderrLogger("info");
  readonly verboseLog: Logger = stderrLogger("debug");
  readonly interactive: boolean = Deno.stdin.isTerminal() && Deno.stderr.isTerminal();
  readonly stdoutIsTerminal: boolean = Deno.stdout.isTerminal();
  readonly stderrIsTerminal: boolean = Deno.stderr.isTerminal();
  readonly color: boolean = Deno.stderr.isTerminal() && !Deno.noColor;
  // Linux's console shows links as text.
  readonly links: boolean = this.color && !/^(?:|dumb|linux)$/.test(Deno.env.get("TERM") ?? "");
  #interrupt = new AbortController();
  #input = new TerminalInput();
  #onInterrupt: (() => void) | undefined;
  #onSignal = (exitCode: number) => {
    // The first Ctrl-C requests a clean end; the second one does not wait for it.
    if (this.#interrupt.signal.aborted) {
      // A closed terminal, and programs that pass the signal on, send it more than once.
      if (exitCode === HANGUP && this.#interrupt.signal.reason.exitCode === HANGUP) return;
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
    // JSON contains them as they are.
    const shown = this.stdoutIsTerminal
      ? text.replace(UNWRITTEN, (character) => printable(character))
      : text;
    try {
      writeAll(Deno.stdout, encoder.encode(shown));
    } catch (cause) {
      if (!(cause instanceof Deno.errors.BrokenPipe)) throw cause;
      throw new StdoutClosedError("The program that reads the output has exited", { cause });
    }
  }

  err(line: string): void {
    this.errText(`${this.stderrIsTerminal ? inRows(line) : line}\n`);
  }

  errText(text: string): void {
    try {
      writeAll(Deno.stderr, encoder.encode(text));
    } catch (error) {
      if (!(error instanceof Deno.errors.BrokenPipe)) throw error;
      // Nobody can read the message, but results may still go to stdout.
    }
  }

  async ask(question: string, signal?: AbortSignal): Promise<string | null> {
    const stop = anySignal(this.signal, signal);
    const line = new AnswerLine((text) => this.errText(text));
    const answer = this.#input.next(line, stop);
    for (;;) {
      this.errText(marked(question));
      if (await line.untilQuiet(stop)) break;
      this.errText("\nYou pressed that key before the question was shown. Please answer again.\n");
    }
    const text = await answer;
    if (text === null) this.errText("\n");
    return text;
  }

  async enter({ label, words, isSecret }: CodeLine, signal?: AbortSignal): Promise<string | null> {
    const line = new AnswerLine((text) => this.errText(text), { isSecret });
    line.open(); // it decides nothing, so input typed ahead may be meant for it
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

/** Breaks lines that are wider than the terminal between words, except those with colors or links. */
function inRows(text: string): string {
  const { columns } = terminalSize();
  return text.split("\n").flatMap((line) =>
    line.includes("\x1b") || unicodeWidth(line) <= columns ? [line] : wrap(line, columns)
  ).join("\n");
}

const HANGUP = 129;

/** Signals that end the command, with its exit code; a closed terminal sends SIGHUP. */
const END_SIGNALS: readonly (readonly [Deno.Signal, number])[] = Deno.build.os === "windows"
  ? []
  : [["SIGTERM", 143], ["SIGHUP", HANGUP]];

/** Makes a question's last line bold. Nothing else is: others' escape sequences are only shown. */
function marked(question: string): string {
  if (Deno.env.get("TERM") === "dumb") return question;
  const start = question.lastIndexOf("\n") + 1;
  return `${question.slice(0, start)}\x1b[1m${question.slice(start)}\x1b[0m`;
}

/**
 * Input from the terminal: lines, each for the question that was visible when it was typed, and
 * keys for their usual reader.
 *
 * During a question, keys are read one by one: otherwise, the system would keep the beginning of a
 * line from before the question and prepend it to the answer.
 *
 * After the first question, reading continues and drops lines that nobody waits for: an answer that was
 * typed ahead, or after its question was withdrawn, must not approve the next call. Only after an
 * answer, reading pauses for a moment in which the asker may lend the terminal to another program.
 */
class TerminalInput implements Disposable {
  #line: AnswerLine | undefined;
  #keyMode = false;
  #taker: ((bytes: Uint8Array | null) => void) | undefined;
  /** Keys that arrived while nobody waited for any. */
  #early: Uint8Array[] = [];
  #reading = false;
  #raw = false;
  #lent: Promise<unknown> | undefined;
  #onResume: (() => void) | undefined;
  #resume = () => {
    // While this process was stopped, the shell set the terminal's mode.
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

  /** The next line; `null` if none will come. */
  async next(line: AnswerLine, signal: AbortSignal): Promise<string | null> {
    using _withdrawal = onAbort(signal, () => line.end(null));
    this.#line = line;
    this.#early = [];
    this.#setMode();
    if (!this.#reading) this.#read();
    try {
      return await line.answer;
    } finally {
      this.#line = undefined;
      this.#setMode();
    }
  }

  [Symbol.dispose](): void {
    this.#keyMode = false;
    this.#line = undefined;
    this.#setMode();
  }

  /** Raw mode delivers keys one by one without echo; other programs get lines. */
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
    await new Promise((resolve) => setTimeout(resolve)); // the asker continues first
    await this.#lent;
  }
}

const encoder = new TextEncoder();
