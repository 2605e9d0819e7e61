import { messageOf } from "../base/message_of.ts";
import { AsyncQueue } from "../base/queue.ts";
import { type ArtifactFolder, writeAll } from "../files/artifact_folder.ts";
import type { WholeText } from "./outputs.ts";
import { formatBytes } from "./text.ts";

/** The disk limit of one execution: its code decides how much it prints. */
const MAX_SPILL_BYTES = 1024 ** 3;

const encoder = new TextEncoder();

/** The file of a text that is too long for memory. It never throws: {@linkcode note} reports failures. */
export class SpillFile implements Disposable {
  #file: Deno.FsFile | undefined;
  #bytes = 0;
  #characters = 0;
  #path: string | undefined;
  #note: string;

  /** Creates the file. */
  constructor(folder: ArtifactFolder) {
    try {
      const { path, file } = folder.create("txt");
      this.#file = file;
      this.#path = path;
      this.#note = `the full text is in ${path}`;
    } catch (error) {
      this.#note = `the full text could not be saved: ${messageOf(error)}`;
    }
  }

  /** Where the whole text is, or why it is missing. */
  get note(): string {
    return this.#note;
  }

  /** The file and its length; `undefined` if it could not be written. */
  get text(): WholeText | undefined {
    return this.#path === undefined
      ? undefined
      : { path: this.#path, characters: this.#characters };
  }

  /** Adds text at the end. */
  append(text: string): void {
    if (this.#file === undefined) return;
    const bytes = encoder.encode(text);
    if (this.#bytes + bytes.length > MAX_SPILL_BYTES) {
      this.#stop(`${this.#note}, up to a limit of ${formatBytes(this.#bytes)}`);
      return;
    }
    try {
      writeAll(this.#file, bytes);
      this.#bytes += bytes.length;
      this.#characters += text.length;
    } catch (error) {
      this.#stop(`${this.#note}, up to a failure: ${messageOf(error)}`);
    }
  }

  /** Closes the file, which stays. */
  [Symbol.dispose](): void {
    this.#file?.close();
    this.#file = undefined;
  }

  #stop(note: string): void {
    this[Symbol.dispose]();
    this.#note = note;
  }
}

/** The origin of text: `"result"` is the value of the code. */
export type TextSource = "stdout" | "stderr" | "result";

/** A piece of an execution's text, as it was produced. */
export interface OutputChunk {
  /** Distinguishes it from other events. */
  readonly type: "chunk";
  /** Where it was written. Results and displays count as stdout. */
  readonly stream: "stdout" | "stderr";
  /** The text, unchanged. */
  readonly text: string;
  /** Whether it is the value of the code. */
  readonly isResult?: boolean;
  /**
   * The path of the file that the text names, for a display that only a browser or another program
   * can show.
   */
  readonly file?: string;
}

/** The limit on unread output, in characters. */
export const MAX_UNREAD: number = 16 * 1024 ** 2;

/** The cost of a chunk besides its text: code can print its output one character at a time. */
const VALUE_COST = 128;

/**
 * The queue of an execution's chunks and other events, in order, for its consumer.
 *
 * The consumer may be slow or absent, and the socket has no back-pressure, so the unread part is
 * bounded: further chunks are dropped, and a chunk says how much is missing. Other events are kept.
 */
export class ChunkQueue<Other = never> {
  readonly #queue = new AsyncQueue<
    { readonly value: OutputChunk | Other; readonly cost: number }
  >();
  readonly #limit: number;
  #unread = 0;
  #leftOut = 0;

  /** @param limit The limit on unread output, in characters. */
  constructor(limit: number = MAX_UNREAD) {
    this.#limit = limit;
  }

  /** Adds a chunk. */
  push(source: TextSource, text: string, file?: string): void {
    if (text === "") return;
    const cost = text.length + VALUE_COST;
    if (!this.hasRoom(cost)) {
      this.#leftOut += text.length;
      return;
    }
    this.#sayLeftOut();
    const where = source === "result"
      ? { stream: "stdout", isResult: true } as const
      : { stream: source };
    const named = file === undefined ? {} : { file };
    this.#add({ type: "chunk", ...where, text, ...named }, cost);
  }

  add(value: Other, size = 0): void {
    this.#sayLeftOut();
    this.#add(value, size + VALUE_COST);
  }

  /** Whether there is room for a value of some size. */
  hasRoom(size: number): boolean {
    return this.#unread === 0 || this.#unread + size <= this.#limit;
  }

  /** Ends the queue once all is read. */
  end(): void {
    this.#sayLeftOut();
    this.#queue.end();
  }

  /** The next value, or `undefined` at the end. */
  async next(): Promise<OutputChunk | Other | undefined> {
    const { value: next, done } = await this.#queue.next();
    if (done) return undefined;
    this.#unread -= next.cost;
    return next.value;
  }

  #add(value: OutputChunk | Other, cost: number): void {
    this.#unread += cost;
    this.#queue.push({ value, cost });
  }

  #sayLeftOut(): void {
    if (this.#leftOut === 0) return;
    const text =
      `\n[ipybox: ${this.#leftOut} characters were not streamed because they were not read ` +
      "fast enough; the result contains them]\n";
    this.#leftOut = 0;
    this.#add({ type: "chunk", stream: "stdout", text }, text.length + VALUE_COST);
  }
}
