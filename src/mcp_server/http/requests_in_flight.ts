import { Refused } from "../../calls/http_checks.ts";

/** The limit on a token's requests in flight, for each session that it may have. */
const FOR_EACH_SESSION = 64;
const MIB = 2 ** 20;

/** Counts each token's requests until they are answered. */
export class RequestsInFlight {
  readonly #sessionsOf: (owner: string) => number;
  readonly #counts = new Map<string, number>();

  /** @param sessionsOf How many sessions an owner may have. */
  constructor(sessionsOf: (owner: string) => number) {
    this.#sessionsOf = sessionsOf;
  }

  /** Counts requests, and each MiB of their body as another, until disposed. */
  take(owner: string, length: number, requests = 1): Disposable {
    const count = requests + Math.floor(length / MIB);
    const most = FOR_EACH_SESSION * this.#sessionsOf(owner);
    if (this.#held(owner) + count > most) {
      throw new Refused(
        429,
        `Your token has reached its limit of ${most} requests in flight; each MiB of a request ` +
          "counts as another: wait for their responses",
      );
    }
    this.#counts.set(owner, this.#held(owner) + count);
    const taken = new DisposableStack();
    taken.defer(() => void this.#counts.set(owner, this.#held(owner) - count));
    return taken;
  }

  #held(owner: string): number {
    return this.#counts.get(owner) ?? 0;
  }
}
