import { AsyncQueue } from "../async/queue.ts";

/** A piece of an execution's text, as it was produced. */
export interface OutputChunk {
  /** Tells it from other events. */
  readonly type: "chunk";
  /** Where it came from; `"result"` is the text of a result, a display or its update. */
  readonly stream: "stdout" | "stderr" | "result";
  /** The text, as it came. */
  readonly text: string;
}

/**
 * The chunks between an execution and its consumer.
 *
 * A consumer may be slow or absent and the socket cannot be held back, so the unread part is
 * bounded: what comes on top of it is left out, and a chunk says how much.
 */
export class ChunkQueue {
  readonly #queue = new AsyncQueue<OutputChunk>();
  readonly #limit: number;
  #unread = 0;
  #leftOut = 0;

  /** @param limit The most characters that wait to be read. */
  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Adds a chunk. */
  push(stream: OutputChunk["stream"], text: string): void {
    if (text === "") return;
    if (this.#unread > 0 && this.#unread + text.length > this.#limit) {
      this.#leftOut += text.length;
      return;
    }
    this.#sayLeftOut();
    this.#unread += text.length;
    this.#queue.push({ type: "chunk", stream, text });
  }

  /** Ends the queue once all is read. */
  end(): void {
    this.#sayLeftOut();
    this.#queue.end();
  }

  /** The next chunk, or `undefined` at the end. */
  async next(): Promise<OutputChunk | undefined> {
    const { value, done } = await this.#queue.next();
    if (done) return undefined;
    this.#unread -= value.text.length;
    return value;
  }

  #sayLeftOut(): void {
    if (this.#leftOut === 0) return;
    const text =
      `\n[ipybox: ${this.#leftOut} characters were not streamed, as they were not read ` +
      "fast enough; the result has them]\n";
    this.#leftOut = 0;
    this.#unread += text.length;
    this.#queue.push({ type: "chunk", stream: "result", text });
  }
}
