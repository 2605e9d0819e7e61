import type { Approver } from "../approval/channel.ts";
import type { ApprovalCall, ApprovalRequest, ApprovalResponse } from "../approval/request.ts";
import type { PageDesk } from "./page_desk.ts";
import type { PageState } from "./presence.ts";

/** Options of {@linkcode ApprovalPage.ask}. */
export interface PageAskOptions {
  /** Withdraws the request. */
  signal?: AbortSignal | undefined;
  /**
   * Sees that the request is decided, also where nobody comes to a page.
   *
   * @default {undefined} as {@linkcode ApprovalPage.decide} does
   */
  approver?: Approver | undefined;
}

/**
 * The web page on which a person decides on approvals, as the application sees it.
 *
 * A page shows every request of its tool server, and may decide each; the first decision counts,
 * wherever it comes from. While no other approver is attached, and a page is open or expected, calls
 * wait for a decision on a page.
 *
 * @example
 * ```ts
 * import { CodeExecutor } from "@ipybox/ipybox";
 *
 * await using executor = await CodeExecutor.start();
 * console.error(`Decide at ${executor.page.url()}`);
 * for await (const event of executor.stream("print(6 * 7)")) {
 *   if (event.type === "approval") void executor.page.decide(event.request); // or do nothing
 *   if (event.type === "result") console.error(event.result.text);
 * }
 * ```
 */
export class ApprovalPage {
  readonly #desk: PageDesk;
  readonly #origin: () => URL;

  /**
   * Made by a `ToolServer`, not by hand.
   *
   * @param desk What pages are served from.
   * @param origin Where they are served.
   */
  constructor(desk: PageDesk, origin: () => URL) {
    this.#desk = desk;
    this.#origin = origin;
  }

  /** Whether a page is open in a browser. */
  get connected(): boolean {
    return this.state === "open";
  }

  /**
   * Whether somebody can be asked: a page is `"open"`; one is `"expected"`, by a link that can still
   * be opened or because it was open a moment ago; or everybody is `"away"`.
   */
  get state(): PageState {
    return this.#desk.presence.state;
  }

  /** Whether an approver is attached who is asked before pages, such as an `ApprovalClient`. */
  get attended(): boolean {
    return this.#desk.isAttended;
  }

  /**
   * Makes a link to the page. It works once, and for some minutes: give it to nobody but the person
   * who decides, and write it into no file that code could read.
   *
   * @returns The link, with a random code.
   */
  url(): URL {
    const url = new URL("/page/open", this.#origin());
    url.searchParams.set("code", this.#desk.invite());
    return url;
  }

  /**
   * Where a person can type a link's code, to the same effect. It opens nothing by itself, so whoever
   * may not decide may know it.
   */
  get address(): URL {
    return new URL("/page/", this.#origin());
  }

  /** Calls back whenever {@linkcode state} has changed, until disposed. */
  onChange(callback: (state: PageState) => void): Disposable {
    return this.#desk.presence.onChange(callback);
  }

  /**
   * Waits until a page is open.
   *
   * @param signal Ends the wait.
   * @throws {unknown} The signal's reason when it aborts first.
   */
  async whenConnected(signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted();
    if (this.connected) return;
    const opened = Promise.withResolvers<void>();
    using _watch = this.onChange((state) => {
      if (state === "open") opened.resolve();
    });
    const abort = () => opened.reject(signal?.reason);
    signal?.addEventListener("abort", abort, { once: true });
    try {
      await opened.promise;
    } finally {
      signal?.removeEventListener("abort", abort);
    }
  }

  /**
   * Leaves a request to the page: it is rejected once nobody can be asked there any more. An
   * {@linkcode Approver} for whom pages are the only place.
   *
   * @param request A request of this tool server.
   */
  async decide(request: ApprovalRequest): Promise<void> {
    const reject = () => void request.reject(this.#desk.absence);
    using _watch = this.onChange((state) => {
      if (state === "away") reject();
    });
    if (this.state === "away") reject();
    await request.response;
  }

  /**
   * Asks pages, or the `ApprovalClient` that is connected, about something that is no call of executed
   * code, such as a change of the setup. It can be allowed or denied as it is; neither is remembered.
   *
   * @param call What is to be decided.
   * @param options What withdraws it.
   * @returns The decision, or why there is none. Never rejects.
   */
  async ask(call: ApprovalCall, options: PageAskOptions = {}): Promise<ApprovalResponse> {
    const { signal, approver = (request) => this.decide(request) } = options;
    return await this.#desk.ask(call, { signal, approver });
  }
}
