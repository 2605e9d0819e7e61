import { settledWithin } from "../base/signals.ts";
import { ElicitationRequest } from "../approval/questions.ts";
import type { ApprovalCall, ApprovalRequest, ApprovalResponse } from "../approval/request.ts";
import type { PersonRequest } from "../approval/wire.ts";
import { LINK_MS } from "../approval/page/desk.ts";
import { type ApprovalPage, PageLink } from "../approval/page/page.ts";
import type { Logger } from "../base/log.ts";
import { shellWord } from "../base/shell_word.ts";

/** How long to wait for a page that is expected to open; clients give up on long calls. */
const PATIENCE_MS = 15_000;

/** Options of {@linkcode PageAsker}. */
interface PageAskerOptions {
  /** The page of the session. */
  readonly page: ApprovalPage;
  /** The session's name, such as `session X`, if the server has several. */
  readonly label?: string;
  /** The session's workspace, by which the user can find it. */
  readonly workspace?: string;
  /** Receives links. */
  readonly log: Logger;
}

/**
 * Asks a client's user on the approval page if the client cannot ask.
 *
 * The client's model reads the results of tools, and may have a browser or a shell. So results contain
 * only the page's address, which does not open it. The code that opens it goes to the log, which the
 * user reads and the model does not see.
 */
export class PageAsker {
  readonly #page: ApprovalPage;
  readonly #link: PageLink;
  readonly #command: string;
  /** Whether nobody used the latest link. */
  #inVain = false;

  constructor(options: PageAskerOptions) {
    const { page, label = "", workspace, log } = options;
    this.#page = page;
    const where = workspace === undefined ? "" : ` --workspace ${shellWord(workspace)}`;
    this.#command = `ipybox approvals${where}`;
    const owner = label === "" ? "" : ` of ${label}`;
    this.#link = new PageLink(page, (link) => {
      this.#inVain = false;
      const code = link.searchParams.get("code");
      log.info(
        `Approvals${owner}: ${link}\n` +
          `  or ${page.address} with the code ${code} ` +
          `(once, within ${LINK_MS / 60_000} minutes; for you only)`,
      );
    });
  }

  /** Whether the user decides in another process, as at a terminal. */
  get isAttended(): boolean {
    return this.#page.attended;
  }

  /** Shows a link, unless one is still valid. */
  invite(): void {
    this.#link.refresh();
  }

  /** Leaves a request to the page; if nobody is there, withdraws it and returns the reason. */
  async decide(request: PersonRequest, isUnasked = false): Promise<string | undefined> {
    let why: string | undefined;
    const refuse = () => {
      const type = "approval_unavailable";
      why = unasked(isUnasked) + this.#instruction(request);
      if (request instanceof ElicitationRequest) request.answer({ action: "decline" }, type);
      else request.withdraw({ accepted: false, type, reason: why });
    };
    using _watch = this.#page.onChange((state) => {
      if (state === "away") refuse();
    });
    if (await this.#isThere(request)) await request.response;
    else refuse();
    return why;
  }

  /** Asks about a change of the setup. */
  async confirm(
    call: ApprovalCall,
    signal: AbortSignal,
    isUnasked = false,
  ): Promise<ApprovalResponse> {
    const approver = async (request: ApprovalRequest) => {
      await this.decide(request, isUnasked);
    };
    return await this.#page.ask(call, { signal, approver });
  }

  /** Whether somebody has the page open, or opens it in time. */
  async #isThere(request: PersonRequest): Promise<boolean> {
    switch (this.#page.state) {
      case "open":
        this.#inVain = false;
        return true;
      case "away":
        return false;
      case "expected": {
        if (this.#inVain) return false;
        const gone = new AbortController();
        const opened = this.#page.whenConnected(gone.signal).catch(() => {}); // it waited in vain
        try {
          const settled = Promise.race([opened, request.response]);
          if (await settledWithin(settled, PATIENCE_MS)) return true;
          this.#inVain = !this.#page.connected;
          return this.#page.connected;
        } finally {
          gone.abort();
        }
      }
    }
  }

  /** Instructions that the model passes on to the user, and actions that it must not take itself. */
  #instruction(request: PersonRequest): string {
    this.#link.refresh();
    const [answer, done] = request instanceof ElicitationRequest
      ? ["answer", "asked"]
      : ["approval", "done"];
    return `the user's ${answer} is needed, and no approval page is open, so it was not ${done}. ` +
      `Ask the user to run \`${this.#command}\` in a terminal, or to open ${this.#page.address} with ` +
      "the newest code in this MCP server's log, and try again then: both are for the user alone";
  }
}

function unasked(isUnasked: boolean): string {
  return isUnasked ? "the client answered without asking anybody (is it headless?); " : "";
}
