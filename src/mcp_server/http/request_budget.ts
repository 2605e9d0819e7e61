import { Semaphore } from "../../async/semaphore.ts";
import { measureJson } from "../../json/measure.ts";
import { Refused } from "../../tool_server/door.ts";
import { requestCost } from "../../tool_server/door_budget.ts";

/** What the requests of all clients may take together, and least of it that each owner may. */
const TOTAL = 512 * 2 ** 20;
const LEAST_SHARE = 64 * 2 ** 20;

/**
 * The memory of the host that requests may take, from the first byte of a body until they are answered.
 * Each owner has an equal share, so that none can keep others out. What does not fit is refused.
 */
export class RequestBudget {
  readonly #all = new Semaphore(TOTAL);
  readonly #share: number;
  readonly #shares = new Map<string, Semaphore>();

  /** @param owners How many there are. */
  constructor(owners: number) {
    this.#share = Math.max(LEAST_SHARE, Math.floor(TOTAL / owners));
  }

  /**
   * Takes what a body needs while it comes.
   *
   * @param owner Whose request it is.
   * @param length Its size in bytes, or the most that it may have.
   * @returns To be disposed when its bytes are dropped.
   * @throws {Refused} There is no room.
   */
  forBody(owner: string, length: number): Disposable {
    return this.#take(owner, length);
  }

  /**
   * Takes what a request needs once its body is parsed.
   *
   * @param owner Whose request it is.
   * @param body The body.
   * @returns To be disposed when the request is answered.
   * @throws {Refused} There is no room.
   */
  forRequest(owner: string, body: Uint8Array): Disposable {
    return this.#take(owner, requestCost(body, measureJson(body).values));
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
