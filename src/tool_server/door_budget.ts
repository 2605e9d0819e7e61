import { Semaphore } from "../async/semaphore.ts";
import { measureJson } from "../json/measure.ts";
import { MAX_VALUES, Refused } from "./door.ts";

/** Bodies and requests up to here are not counted: there are only so many connections. */
const SMALL_BODY = 1 << 16;
const SMALL_REQUEST = 1 << 20;

const BODIES = 128 * 2 ** 20;
const REQUESTS = 384 * 2 ** 20;
const ANSWERS = 256 * 2 ** 20;

/** What a request takes once it is parsed, measured: so much for each byte and for each value. */
const PER_BYTE = 3;
const PER_VALUE = 400;

/** What a request takes once it is parsed. */
export function requestCost(body: Uint8Array, values: number): number {
  return body.length * PER_BYTE + values * PER_VALUE;
}

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

  /** Waits until a body may be read. */
  async forBody(length: number, signal: AbortSignal): Promise<Disposable> {
    return length <= SMALL_BODY ? FREE : await this.#bodies.acquire(signal, length);
  }

  /**
   * Waits until a body may be parsed. Who waits here has what it needs of the other shares, so those
   * who wait never wait for each other.
   */
  async forRequest(body: Uint8Array, signal: AbortSignal): Promise<Disposable> {
    if (body.length * (PER_BYTE + PER_VALUE) <= SMALL_REQUEST) return FREE;
    const { values } = measureJson(body);
    if (values > MAX_VALUES) throw new Refused(413, `The body has more than ${MAX_VALUES} values`);
    const cost = requestCost(body, values);
    return cost <= SMALL_REQUEST ? FREE : await this.#requests.acquire(signal, cost);
  }

  /** Takes what an answer needs until the code in the kernel has read it. */
  forAnswer(length: number): Disposable | undefined {
    return length <= SMALL_BODY ? FREE : this.#answers.tryAcquire(length);
  }
}
