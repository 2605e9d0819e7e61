import { joinBytes } from "../net/byte_buffer.ts";

const LINE_FEED = 10;
/** No line of ours is longer. */
const MAX_LINE_BYTES = 2 ** 23;

/** Makes lines of bytes as they come. Lines are bytes: one that is torn need not be a text. */
export class LineSplitter {
  #rest: Uint8Array = new Uint8Array();

  /** Takes bytes. */
  add(bytes: Uint8Array): Uint8Array[] {
    const lines: Uint8Array[] = [];
    let at = 0;
    for (let end = bytes.indexOf(LINE_FEED); end >= 0; end = bytes.indexOf(LINE_FEED, at)) {
      lines.push(joinBytes(this.#rest, bytes.subarray(at, end)));
      this.#rest = new Uint8Array();
      at = end + 1;
    }
    // What is too long is no line of ours any more, whatever is left out of it.
    if (this.#rest.length <= MAX_LINE_BYTES) this.#rest = joinBytes(this.#rest, bytes.subarray(at));
    return lines;
  }

  /** What has no line feed yet. */
  get rest(): Uint8Array {
    return this.#rest;
  }
}
