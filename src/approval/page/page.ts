import { assetTree } from "../../assets/mod.ts";
import { abortable } from "../../base/signals.ts";
import type { Approver } from "../channel.ts";
import { ElicitationRequest } from "../questions.ts";
import type { ApprovalCall, ApprovalRequest, ApprovalResponse } from "../request.ts";
import type { PersonRequest } from "../wire.ts";
import type { PageBackend, PageState } from "./backend.ts";

/** Options of {@linkcode ApprovalPage.ask}. */
export interface PageAskOptions {
  /** Withdraws the request. */
  signal?: AbortSignal;
  /**
   * Ensures that the request is decided, even if nobody opens a page.
   *
   * @default {undefined} as {@linkcode ApprovalPage.decide} does
   */
  approver?: Approver;
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
  readonly #backend: PageBackend;
  readonly #origin: () => URL;

  /**
   * Created by a `ToolServer`; not for direct construction.
   *
   * @param backend The state behind the pages.
   * @param origin Returns the URL that serves them.
   */
  constructor(backend: PageBackend, origin: () => URL) {
    this.#backend = backend;
    this.#origin = origin;
  }

  /** Whether a page is open in a browser. */
  get connected(): boolean {
    return this.state === "open";
  }

  /**
   * Whether somebody can be asked: a page is `"open"`; one is `"expected"`, because a link can
   * still be opened or it was open a moment ago; or everybody is `"away"`.
   */
  get state(): PageState {
    return this.#backend.presence.state;
  }

  /** Whether an approver is attached who is asked before pages, such as an `ApprovalClient`. */
  get attended(): boolean {
    return this.#backend.channel.attended;
  }

  /**
   * Creates a link to the page. It works once, for a few minutes: give it only to the person who
   * decides, and do not write it to a file that code could read.
   *
   * @returns The link, with a random code.
   */
  url(): URL {
    const url = new URL("/page/open", this.#origin());
    url.searchParams.set("code", this.#backend.invite());
    return url;
  }

  /**
   * The URL where a person can type a link's code, to the same effect. It opens nothing by itself,
   * and need not be kept secret.
   */
  get address(): URL {
    return new URL("/page/", this.#origin());
  }

  /** Calls back whenever {@linkcode state} has changed, until disposed. */
  onChange(callback: (state: PageState) => void): Disposable {
    return this.#backend.presence.onChange(callback);
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
    await abortable(opened.promise, signal);
  }

  /**
   * Leaves a request to the page: once nobody can be asked there any more, a call is refused, and a
   * server's question is declined. An {@linkcode Approver} that only asks on pages.
   *
   * @param request A request of this tool server.
   */
  async decide(request: ApprovalRequest | ElicitationRequest): Promise<void> {
    await this.decideOr(request, () => this.#backend.absence);
  }

  /** @internal Like {@linkcode decide}, with a reason of the caller's, and only if somebody `isThere`. */
  async decideOr(
    request: PersonRequest,
    reasonOf: () => string,
    isThere: () => Promise<boolean> = () => Promise.resolve(true),
  ): Promise<void> {
    const refuse = () => {
      const type = "approval_unavailable";
      const reason = reasonOf();
      if (request instanceof ElicitationRequest) request.answer({ action: "decline" }, type);
      else request.withdraw({ accepted: false, type, reason });
    };
    using _watch = this.onChange((state) => {
      if (state === "away") refuse();
    });
    if (this.state === "away" || !await isThere()) refuse();
    await request.response;
  }

  /**
   * Asks pages, or the connected `ApprovalClient`, about something that is not a call by executed
   * code, such as a change of the setup. It can only be allowed or denied; neither is remembered.
   *
   * @param call The call to decide on.
   * @param options What withdraws it.
   * @returns The decision, or why nobody made one. Never rejects.
   */
  async ask(call: ApprovalCall, options: PageAskOptions = {}): Promise<ApprovalResponse> {
    const { signal, approver = (request) => this.decide(request) } = options;
    const check = () => "this cannot be edited: deny it and say what should change";
    const instead = this.attended ? {} : { approver };
    return await this.#backend.channel.request(call, { signal, check, ...instead });
  }
}

/** The age at which a link, about to be void, is replaced. */
const FRESH_MS = 2 * 60_000;

/**
 * Creates a function that shows a new link if no page is open and the previous link no longer works,
 * or soon will not.
 */
export function pageInviter(page: ApprovalPage, show: (link: URL) => void): () => void {
  let shownAt = -Infinity;
  return () => {
    const isStale = performance.now() - shownAt > FRESH_MS;
    if (page.connected || (page.state === "expected" && !isStale)) return;
    shownAt = performance.now();
    show(page.url());
  };
}

/** The content types of files, by name extension. */
const TYPES: Readonly<Record<string, string>> = {
  css: "text/css",
  html: "text/html",
  js: "text/javascript",
  svg: "image/svg+xml",
};

const FILES = new Map(assetTree("approval_page").map(({ path, text }) => [path, text]));

/** A page, or one of its files; `undefined` if it does not exist. */
export function pageFile(name: string, host: string, status = 200): Response | undefined {
  const text = FILES.get(name);
  if (text === undefined) return undefined;
  const type = `${TYPES[name.replace(/^.*\./, "")]}; charset=utf-8`;
  const headers = { ...pageHeaders(host, name === "code.html"), "content-type": type };
  return new Response(text, { status, headers });
}

/**
 * The headers of pages: nothing from elsewhere is loaded, no other site frames them, no browser
 * caches them.
 */
export function pageHeaders(host: string, sends: boolean = false): Record<string, string> {
  return {
    "content-security-policy": [
      "default-src 'none'",
      "script-src 'self'",
      "style-src 'self'",
      "img-src 'self'",
      `connect-src 'self' ws://${host}`, // not every browser counts WebSockets as 'self'
      "base-uri 'none'",
      `form-action ${sends ? "'self'" : "'none'"}`,
      "frame-ancestors 'none'",
      "require-trusted-types-for 'script'",
      "trusted-types 'none'",
    ].join("; "),
    "cross-origin-embedder-policy": "require-corp",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cache-control": "no-store",
  };
}
