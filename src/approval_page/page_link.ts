import type { ApprovalPage } from "./approval_page.ts";

/** A link that is older is about to be void, and another one is given. */
const FRESH_MS = 2 * 60_000;

/** Sees that the person who decides has a link to the approval page that still leads there. */
export class PageLink {
  readonly #page: ApprovalPage;
  readonly #show: (link: URL) => void;
  #shownAt = -Infinity;

  /** Shows nothing yet. */
  constructor(page: ApprovalPage, show: (link: URL) => void) {
    this.#page = page;
    this.#show = show;
  }

  /** Shows another link where none leads to the page any more, and none is open. */
  refresh(): boolean {
    const { state, connected } = this.#page;
    const isStale = performance.now() - this.#shownAt > FRESH_MS;
    if (connected || (state === "expected" && !isStale)) return false;
    this.#shownAt = performance.now();
    this.#show(this.#page.url());
    return true;
  }
}
