/** The initial and the longest delay before reconnecting. */
const RETRY_MS = 250;
const MAX_RETRY_MS = 5000;

/** The status with which ipybox closes a connection when it ends. */
const GOING_AWAY = 1001;

/** The requests that ipybox reports, kept up to date. */
export class Board {
  /** The waiting requests, by id, the oldest first. */
  pending = new Map();
  /** The decided requests, the newest first: `{ request, outcome }`. */
  settled = [];
  /** The number of decided requests that ipybox no longer reports. */
  dropped = 0;
  /** The requests that wait in other sessions, the oldest first; and whether there are more. */
  elsewhere = [];
  hasMoreElsewhere = false;
  /** The folder that the code works in; `null` without one. */
  workspace = null;
  /** `"connecting"`, `"open"`, `"lost"`, `"ended"` or `"closed"`. */
  state = "connecting";

  #retryMs = RETRY_MS;
  #listener;

  /**
   * @param listener Called with each change:
   * `{ type: "state" | "board" | "elsewhere" | "asked" | "settled" | "ended", id? }`.
   */
  constructor(listener) {
    this.#listener = listener;
    this.#connect();
  }

  /** Finds a request by its id, with its outcome if it has one. */
  find(id) {
    const request = this.pending.get(id);
    if (request !== undefined) return { request };
    return this.settled.find(({ outcome }) => outcome.id === id);
  }

  /**
   * Decides a request.
   *
   * @param id Its id.
   * @param body The decision, as JSON text.
   * @returns `{ fate }`, or `{ error }`.
   */
  async decide(id, body) {
    try {
      const response = await fetch(`requests/${id}`, {
        method: "POST",
        headers: { "content-type": "application/json", "x-ipybox-page": "1" },
        body,
      });
      return await response.json();
    } catch {
      return { error: "ipybox does not answer" };
    }
  }

  #connect() {
    const socket = new WebSocket(new URL("live", location.href));
    socket.onmessage = ({ data }) => this.#receive(JSON.parse(data));
    socket.onclose = ({ code }) => code === GOING_AWAY ? this.#become("ended") : this.#lose();
  }

  /** Sends a request, which alone shows whether ipybox is gone or refuses this page. */
  async #lose() {
    if (this.state !== "connecting") this.#become("lost");
    const response = await fetch("session", {
      headers: { "x-ipybox-page": "1" },
      signal: AbortSignal.timeout(MAX_RETRY_MS), // after sleep, no answer may come
    }).catch(() => undefined);
    if (response !== undefined && response.status !== 204) return this.#become("closed");
    setTimeout(() => this.#connect(), this.#retryMs);
    this.#retryMs = Math.min(this.#retryMs * 2, MAX_RETRY_MS);
  }

  #become(state) {
    this.state = state;
    this.#listener({ type: "state" });
  }

  #receive(message) {
    switch (message.type) {
      case "board":
        this.pending = new Map(message.pending.map((request) => [request.id, request]));
        this.settled = message.settled.reverse();
        this.dropped = message.dropped;
        this.workspace = message.workspace;
        this.#takeElsewhere(message);
        this.#retryMs = RETRY_MS;
        this.state = "open";
        return this.#listener({ type: "board" });
      case "elsewhere":
        this.#takeElsewhere(message);
        return this.#listener({ type: "elsewhere" });
      case "asked":
        this.pending.set(message.request.id, message.request);
        return this.#listener({ type: "asked", id: message.request.id });
      case "settled": {
        const { outcome } = message;
        const request = this.pending.get(outcome.id);
        if (request === undefined) return;
        this.pending.delete(outcome.id);
        this.settled.unshift({ request, outcome });
        return this.#listener({ type: "settled", id: outcome.id });
      }
      case "ended": {
        const found = this.settled.find(({ outcome }) => outcome.id === message.id);
        if (found === undefined) return;
        found.outcome.ending = message.ending;
        return this.#listener({ type: "ended", id: message.id });
      }
    }
  }

  #takeElsewhere({ elsewhere, more }) {
    this.elsewhere = elsewhere;
    this.hasMoreElsewhere = more;
  }
}
