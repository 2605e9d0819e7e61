import { RateLimit } from "../../async/rate_limit.ts";
import { Semaphore } from "../../async/semaphore.ts";
import { measureJson } from "../../json/measure.ts";
import { Refused } from "../../tool_server/door.ts";
import { requestCost } from "../../tool_server/door_budget.ts";

/** What the requests of all clients may take together, and least of it that each owner may. */
const TOTAL = 512 * 2 ** 20;
const LEAST_SHARE = 64 * 2 ** 20;
/** What a file takes that comes in small pieces, most of it in buffers of the HTTP server. */
const FILE_BYTES = 8 * 2 ** 20;
/** How many small pieces of files an owner may send: each costs a step, however small it is. */
const PIECES_PER_SECOND = 1000;
const PIECES_AT_ONCE = 10_000;

/**
 * The memory of the host that requests may take, from the first byte of a body until they are answered.
 * Each owner has an equal share, so that none can keep others out. What does not fit is refused.
 */
export class RequestBudget {
  readonly #all = new Semaphore(TOTAL);
  readonly #share: number;
  readonly #shares = new Map<string, Semaphore>();
  readonly #pieces = new Map<string, RateLimit>();

  /** @param owners How many there are. */
  constructor(owners: number) {
    this.#share = Math.max(LEAST_SHARE, Math.floor(TOTAL / owners));
  }

  /** Takes what a body needs while it comes. */
  forBody(owner: string, length: number): Disposable {
    return this.#take(owner, length);
  }

  /** Takes what a request needs once its body is parsed. */
  forRequest(owner: string, body: Uint8Array): Disposable {
    return this.#take(owner, requestCost(body, measureJson(body).values));
  }

  /** Takes what a file needs while it comes or goes. */
  forFile(owner: string): Disposable {
    return this.#take(owner, FILE_BYTES);
  }

  /** Gives the limit of how many small pieces all files of an owner may come in. */
  piecesOf(owner: string): RateLimit {
    const known = this.#pieces.get(owner);
    if (known !== undefined) return known;
    const limit = new RateLimit(PIECES_PER_SECOND, PIECES_AT_ONCE);
    this.#pieces.set(owner, limit);
    return limit;
  }

  #take(owner: string, bytes: number): Disposable {
    using taken = new DisposableStack();
    if (taken.use(this.#shareOf(owner).tryAcquire(bytes)) === undefined) {
      throw new Refused(429, "Your requests take too much memory together: wait for their answers");
    }
    if (taken.use(this.#all.tryAcquire(Math.min(bytes, this.#share))) === undefined) {
      throw new Refused(503, "The requests of all clients take too much memory: try again later");
    }
    return taken.move();
  }

  #shareOf(owner: string): Semaphore {
    const known = this.#shares.get(owner);
    if (known !== undefined) return known;
    const share = new Semaphore(this.#share);
    this.#shares.set(owner, share);
    return share;
  }
}
