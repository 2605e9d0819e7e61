import type { CallOrigin } from "../approval/observed_call.ts";
import type { CallSource } from "../approval/request.ts";
import { captureTrace, type Within } from "../base/telemetry.ts";
import { sha256 } from "../json/digest.ts";

/** More of a line than helps to find it. */
const MAX_LINE = 500;
/** Of more lines than people write, only the first ones are found. */
const MAX_LINES = 100_000;

/** An execution whose code makes calls. Threads that it leaves go on calling after it has ended. */
export class Cell implements CallOrigin, Disposable {
  /** Does something as a part of the execution's span, which is the one that is running now. */
  readonly within: Within = captureTrace();
  #code: string | undefined;
  #codeHash: string | undefined;
  /** Where the lines of the code start, found once: each request names a line. */
  #lineStarts: readonly number[] | undefined;

  constructor(code: string) {
    this.#code = code;
  }

  /** The SHA-256 of the code. */
  get codeHash(): string {
    return this.#codeHash ??= sha256(this.#code ?? "");
  }

  /** Gives a line of the code while it runs. */
  sourceAt(line: number): CallSource | undefined {
    if (this.#code === undefined) return undefined;
    this.#lineStarts ??= lineStarts(this.#code);
    const [start, next] = [this.#lineStarts[line - 1], this.#lineStarts[line]];
    if (start === undefined || next === undefined) return undefined;
    const length = next - 1 - start;
    const text = this.#code.slice(start, start + Math.min(length, MAX_LINE));
    return { line, text: length > MAX_LINE ? `${text}… (${length} characters)` : text };
  }

  /** The execution has ended: no line of it calls any more. */
  [Symbol.dispose](): void {
    void this.codeHash; // what it has left running is still its code
    this.#code = undefined;
    this.#lineStarts = undefined;
  }
}

/** Where each line starts, and where one would start after the last. */
function lineStarts(code: string): number[] {
  const starts = [0];
  while (starts.length <= MAX_LINES) {
    const end = code.indexOf("\n", starts.at(-1));
    if (end < 0) {
      starts.push(code.length + 1);
      break;
    }
    starts.push(end + 1);
  }
  return starts;
}
