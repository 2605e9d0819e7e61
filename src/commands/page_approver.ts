import type { ApprovalRequest } from "../approval/request.ts";
import type { ApprovalPage } from "../approval_page/approval_page.ts";
import type { CommandIo } from "./command.ts";
import { printable } from "./printable.ts";

/** A link that is older is about to be void, and another one is given. */
const FRESH_MS = 2 * 60_000;

/** Asks the person at the approval page, who need not be at a terminal. */
export class PageApprover {
  readonly #io: CommandIo;
  readonly #page: ApprovalPage;
  #linkedAt = 0;

  /**
   * Prints a link to the page.
   *
   * @param io Where links are printed.
   * @param page The page.
   */
  constructor(io: CommandIo, page: ApprovalPage) {
    this.#io = io;
    this.#page = page;
    this.#link();
  }

  /** Leaves a call to the page, with a new link where the one before leads nowhere any more. */
  async decide(request: ApprovalRequest): Promise<void> {
    const stale = performance.now() - this.#linkedAt > FRESH_MS;
    if (this.#page.state === "away" || (!this.#page.connected && stale)) this.#link();
    await this.#page.decide(request);
    const response = await request.response;
    if (!response.accepted && response.type === "approval_rejected") {
      this.#io.err(`Refused ${request}: ${printable(response.reason)}`);
    }
  }

  #link(): void {
    this.#linkedAt = performance.now();
    this.#io.err(`Approvals: ${this.#page.url()}`);
  }
}
