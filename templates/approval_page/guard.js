/** How long a request must have been in view before it can be decided. */
const DELAY_MS = 500;

/**
 * Keeps a request that has just come into view from being decided by a key or a click that was meant
 * for something else. Time in which the page cannot be seen does not count.
 */
export class Guard {
  #onChange;
  #timer;
  #waiting = false;
  ready = false;

  /** @param onChange Called when a request can be decided, and when it no longer can. */
  constructor(onChange) {
    this.#onChange = onChange;
    document.addEventListener("visibilitychange", () => {
      if (this.#waiting) this.arm();
    });
  }

  /** Another request is in view. */
  arm() {
    this.disarm();
    this.#waiting = true;
    if (document.visibilityState !== "visible") return;
    this.#timer = setTimeout(() => {
      this.ready = true;
      this.#onChange();
    }, DELAY_MS);
  }

  /** None is. */
  disarm() {
    clearTimeout(this.#timer);
    this.#waiting = false;
    this.ready = false;
    this.#onChange();
  }
}
