import { visible } from "../approval/call_text.ts";
import type { ApprovalRequest } from "../approval/request.ts";
import type { ApprovalPage } from "../approval_page/approval_page.ts";
import { PageLink } from "../approval_page/page_link.ts";
import type { CommandIo } from "./command.ts";

/** Asks the person at the approval page, who need not be at a terminal. */
export class PageApprover {
  readonly #io: CommandIo;
  readonly #page: ApprovalPage;
  readonly #link: PageLink;

  /** Prints a link to the page. */
  constructor(io: CommandIo, page: ApprovalPage) {
    this.#io = io;
    this.#page = page;
    this.#link = new PageLink(page, (link) => io.err(`Approvals: ${link}`));
    this.#link.refresh();
  }

  /** Leaves a call to the page, with a new link where the one before leads nowhere any more. */
  async decide(request: ApprovalRequest): Promise<void> {
    this.#link.refresh();
    await this.#page.decide(request);
    const response = await request.response;
    if (!response.accepted && response.type === "approval_rejected") {
      this.#io.err(`Refused ${request}: ${visible(response.reason)}`);
    }
  }
}
