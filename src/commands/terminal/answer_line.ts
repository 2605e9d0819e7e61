import { unicodeWidth } from "@std/cli";
import { onAbort } from "../../base/signals.ts";

/** How many steps must pass without a key before an answer to a question counts. */
const QUIET_STEPS = 10;
const STEP_MS = 25;

/** The input line of a question, typed key by key. */
export class AnswerLine {
  /** Settles once the line is typed; with `null` if it never will be. */
  readonly answer: Promise<string | null>;
  readonly #answered = Promise.withResolvers<string | null>();
  readonly #write: (text: string) => void;
  readonly #isSecret: boolean;
  readonly #decoder = new TextDecoder();
  #text = "";
  #isOpen = false;
  #stepsLeft = QUIET_STEPS;
  #hasEarly = false;
  #hasEnded = false;

  constructor(write: (text: string) => void, { isSecret = false }: { isSecret?: boolean } = {}) {
    this.#write = write;
    this.#isSecret = isSecret;
    this.answer = this.#answered.promise;
  }

  /** Accepts everything typed as the answer. */
  open(): void {
    this.#isOpen = true;
  }

  /**
   * Waits until the question has been visible for the time it takes to read, without a key pressed.
   * Earlier keys were pressed for something else, or by somebody who has not read the question.
   *
   * The time is counted in steps: otherwise, a delayed process would read keys typed before the
   * question only after that time.
   */
  async untilQuiet(signal: AbortSignal): Promise<boolean> {
    this.#stepsLeft = QUIET_STEPS;
    this.#hasEarly = false;
    const quiet = Promise.withResolvers<void>();
    const timer = setInterval(() => {
      if (--this.#stepsLeft === 0) quiet.resolve();
    }, STEP_MS);
    using _stop = onAbort(signal, () => quiet.resolve());
    try {
      await Promise.race([quiet.promise, this.answer]);
    } finally {
      clearInterval(timer);
    }
    this.#isOpen = this.#hasEnded || !this.#hasEarly;
    return this.#isOpen || signal.aborted;
  }

  /** Processes keys and returns whether the line has ended. */
  type(bytes: Uint8Array): boolean {
    const text = this.#decoder.decode(bytes, { stream: true });
    for (const character of text) {
      // End of input: a question without an answer is refused, however early.
      if (character === "\x04" && this.#text === "") return this.end(null);
      if (!this.#isOpen) {
        this.#stepsLeft = QUIET_STEPS;
        this.#hasEarly ||= /[\r\n]/.test(character);
      } else if (/[\r\n]/.test(character)) {
        this.#write("\n");
        return this.end(this.#text);
      } else this.#edit(character);
    }
    return false;
  }

  end(text: string | null): true {
    this.#hasEnded = true;
    this.#answered.resolve(text);
    return true;
  }

  #edit(character: string): void {
    switch (character) {
      case "\x7f": // Backspace
      case "\b":
        return this.#erase([...new Intl.Segmenter().segment(this.#text)].at(-1)?.segment ?? "");
      case "\x15": // Ctrl-U
        return this.#erase(this.#text);
      case "\x17": // Ctrl-W
        return this.#erase(this.#text.slice(lastWord(this.#text)));
      default:
        this.#text += character;
        if (!this.#isSecret) this.#write(shown(character));
    }
  }

  #erase(end: string): void {
    this.#text = this.#text.slice(0, this.#text.length - end.length);
    if (this.#isSecret) return;
    const width = unicodeWidth(shown(end));
    this.#write("\b \b".repeat(width));
  }
}

/** Formats control characters as terminals echo them. */
function shown(text: string): string {
  return text.replace(
    /\p{Cc}/gu,
    (control) => `^${String.fromCharCode((control.codePointAt(0) ?? 0) ^ 0x40)}`,
  );
}

function lastWord(text: string): number {
  return Math.max(...[" ", "\t"].map((blank) => text.trimEnd().lastIndexOf(blank))) + 1;
}
