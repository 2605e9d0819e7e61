import { Semaphore } from "../async/semaphore.ts";
import { Refused } from "./door.ts";

/** Bodies and requests up to here are not counted: there are only so many connections. */
const SMALL_BODY = 1 << 16;
const SMALL_REQUEST = 1 << 20;

const BODIES = 128 * 2 ** 20;
const REQUESTS = 384 * 2 ** 20;
const ANSWERS = 256 * 2 ** 20;

/** What a request takes once it is parsed, measured: so much for each byte and for each value. */
const PER_BYTE = 3;
const PER_VALUE = 400;
/** Parsing more values holds up everything else for too long. */
const MAX_VALUES = 250_000;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const COLON = 0x3a;
const BRACKET = 0x5b;
const BRACE = 0x7b;

/** Nothing was taken, so nothing has to be given back. */
const FREE: Disposable = { [Symbol.dispose]() {} };

/**
 * The memory of the host that all requests of a kernel may take together: hostile code sends many at
 * once. What would be too much waits; what nobody waits for is refused.
 */
export class DoorBudget {
  readonly #bodies = new Semaphore(BODIES);
  readonly #requests = new Semaphore(REQUESTS);
  readonly #answers = new Semaphore(ANSWERS);

  /**
   * Waits until a body may be read.
   *
   * @param length Its size in bytes.
   * @param signal Gives up.
   * @returns To be disposed when its bytes are dropped.
   */
  async forBody(length: number, signal: AbortSignal): Promise<Disposable> {
    return length <= SMALL_BODY ? FREE : await this.#bodies.acquire(signal, length);
  }

  /**
   * Waits until a body may be parsed. Who waits here has what it needs of the other shares, so those
   * who wait never wait for each other.
   *
   * @param body The body.
   * @param signal Gives up.
   * @returns To be disposed when the request is done with.
   * @throws {Refused} It has too many values to be parsed at all.
   */
  async forRequest(body: Uint8Array, signal: AbortSignal): Promise<Disposable> {
    if (body.length * (PER_BYTE + PER_VALUE) <= SMALL_REQUEST) return FREE;
    const values = countValues(body);
    if (values > MAX_VALUES) throw new Refused(413, `The body has more than ${MAX_VALUES} values`);
    const cost = body.length * PER_BYTE + values * PER_VALUE;
    return cost <= SMALL_REQUEST ? FREE : await this.#requests.acquire(signal, cost);
  }

  /**
   * Takes what an answer needs until the code in the kernel has read it.
   *
   * @param length Its size in bytes.
   * @returns To be disposed once it is read; `undefined` where too much is unread.
   */
  forAnswer(length: number): Disposable | undefined {
    return length <= SMALL_BODY ? FREE : this.#answers.tryAcquire(length);
  }
}

/** Counts the values of a JSON text, or what would be values if it were one, a few too many. */
function countValues(json: Uint8Array): number {
  let values = 1;
  for (let at = 0; at < json.length; at++) {
    const byte = json[at];
    if (byte === QUOTE) at = endOfString(json, at);
    else if (byte === COMMA || byte === COLON || byte === BRACKET || byte === BRACE) values++;
  }
  return values;
}

/** The place of the quote that ends a string, or the end of the text. */
function endOfString(json: Uint8Array, start: number): number {
  for (let end = json.indexOf(QUOTE, start + 1); end !== -1; end = json.indexOf(QUOTE, end + 1)) {
    let escapes = 0;
    while (json[end - 1 - escapes] === BACKSLASH) escapes++;
    if (escapes % 2 === 0) return end;
  }
  return json.length;
}
