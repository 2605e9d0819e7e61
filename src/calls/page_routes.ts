import type { PageBackend } from "../approval/page/backend.ts";
import { pageFile, pageHeaders } from "../approval/page/page.ts";
import type { Logger } from "../base/log.ts";
import { readJsonBody, Refused, requireMethod } from "./http_checks.ts";

/** Options of {@linkcode PageRoutes}. */
export interface PageRoutesOptions {
  /** The requests, and who may see them. */
  readonly backend: PageBackend;
  /** The door's host and port, such as `127.0.0.1:41234`; known once it listens. */
  readonly host: () => string;
  /** The largest request body, in bytes. */
  readonly maxBodyBytes: number;
  /** Receives failures. */
  readonly log: Logger;
}

/** The name of the cookie that opens a page; its path distinguishes sessions. */
const COOKIE = "ipybox_page";
/** A header that forms and cross-origin requests cannot carry without the door's permission. */
const OWN_HEADER = "x-ipybox-page";
/** How long a socket is kept without a sign of life. */
const IDLE_S = 30;

/**
 * The part of the application's door that browsers use: everything below `/page`; `/` redirects there.
 *
 * | request | does |
 * | --- | --- |
 * | `GET /page/` | asks for a one-time code, which the person gets from ipybox's output |
 * | `GET /page/open?code=…` | exchanges the one-time code for a cookie, and redirects to the page |
 * | `GET /page/ID/`, `GET /page/ID/FILE` | the page and its files, which hold no secrets |
 * | `GET /page/ID/session` | reports whether the cookie is valid |
 * | `GET /page/ID/live` | upgrades to a WebSocket that shows requests |
 * | `POST /page/ID/requests/REQUEST` | decides a request, or answers a question |
 *
 * Browsers send cookies to every port of a host. The page's path is therefore random, too: a server on
 * another port does not know it, so it never gets the cookie.
 */
export class PageRoutes {
  readonly #options: PageRoutesOptions;
  readonly #sockets = new OpenSockets();

  constructor(options: PageRoutesOptions) {
    this.#options = options;
  }

  /** Answers a request below `/page`. */
  async handle(request: Request): Promise<Response> {
    try {
      if (request.headers.get("host") !== this.#options.host()) {
        throw new Refused(421, "Wrong Host header: open the link unchanged");
      }
      // Navigations and same-origin reads name no origin.
      if (request.headers.has("origin")) this.#requireOrigin(request);
      return await this.#route(request);
    } catch (error) {
      return this.#failure(error);
    }
  }

  /** Informs open pages that the session has ended. */
  async close(): Promise<void> {
    await this.#sockets.close();
  }

  async #route(request: Request): Promise<Response> {
    const { pathname, searchParams } = new URL(request.url);
    if (pathname === "/page/open") {
      requireMethod(request, "GET");
      return this.#open(request, searchParams.get("code") ?? "");
    }
    if (pathname === "/") { // a person who opens the door's address
      requireMethod(request, "GET");
      return this.#answer(null, 303, { location: "/page/" });
    }
    if (pathname === "/page/") {
      requireMethod(request, "GET");
      return this.#file("code.html");
    }
    // For the pages that need no session:
    const common = /^\/page\/(page\.css|icon\.svg)$/.exec(pathname)?.[1];
    if (common !== undefined) return this.#file(common);
    const [, id = "", rest = ""] = /^\/page\/([0-9a-f]{32})\/(.*)$/.exec(pathname) ?? [];
    if (!this.#options.backend.hasSession(id)) return this.#file("closed.html", 404);
    const decided = /^requests\/([0-9a-f.-]+)$/.exec(rest)?.[1];
    if (decided !== undefined) {
      requireMethod(request, "POST");
      return await this.#decide(request, id, decided);
    }
    requireMethod(request, "GET");
    switch (rest) {
      case "session":
        this.#requireMember(request, id);
        requireOwnHeader(request);
        return this.#answer(null, 204);
      case "live":
        this.#requireMember(request, id);
        return this.#live(request);
    }
    if (rest === "") return this.#file("page.html");
    requireSameSite(request);
    return this.#file(rest);
  }

  #open(request: Request, code: string): Response {
    const { headers } = request;
    const ahead = headers.get("sec-purpose") ?? headers.get("purpose") ?? "";
    if (/prefetch|prerender|preview/.test(ahead)) {
      throw new Refused(403, "Open this link in a browser yourself"); // previews must not use it up
    }
    const target = headers.get("sec-fetch-dest");
    const session = target === null || target === "document"
      ? this.#options.backend.redeem(code)
      : undefined;
    if (session === undefined) return this.#file("closed.html", 403);
    const path = `/page/${session.id}/`;
    const cookie = `${COOKIE}=${session.token}; Path=${path}; HttpOnly; SameSite=Strict`;
    return this.#answer(null, 303, { location: path, "set-cookie": cookie });
  }

  async #decide(request: Request, session: string, id: string): Promise<Response> {
    const { backend, maxBodyBytes } = this.#options;
    this.#requireMember(request, session);
    this.#requireOrigin(request);
    requireOwnHeader(request);
    const body = await readJsonBody(request, maxBodyBytes);
    try {
      return this.#json({ fate: await backend.board.decide(id, body) });
    } catch (error) {
      throw error instanceof TypeError ? new Refused(422, error.message) : error;
    }
  }

  #live(request: Request): Response {
    this.#requireOrigin(request);
    if (request.headers.get("upgrade")?.toLowerCase() !== "websocket") {
      throw new Refused(426, "Use a WebSocket");
    }
    const { backend } = this.#options;
    const { socket, response } = Deno.upgradeWebSocket(request, { idleTimeout: IDLE_S });
    const stack = new DisposableStack();
    this.#sockets.add(socket);
    socket.onopen = () => {
      stack.use(backend.enter());
      stack.use(backend.board.onMessage((message) => socket.send(message)));
      socket.send(backend.board.snapshot());
    };
    socket.onmessage = () => socket.close(1008, "pages send decisions as HTTP requests");
    socket.onclose = () => stack.dispose();
    socket.onerror = () => stack.dispose();
    return response;
  }

  #requireOrigin(request: Request): void {
    if (request.headers.get("origin") !== `http://${this.#options.host()}`) {
      throw new Refused(403, "Requests from other pages are refused");
    }
    requireSameSite(request);
  }

  #requireMember(request: Request, session: string): void {
    const cookies = request.headers.get("cookie")?.split(/; */) ?? [];
    const tokens = cookies.filter((pair) => pair.startsWith(`${COOKIE}=`))
      .map((pair) => pair.slice(COOKIE.length + 1));
    if (!tokens.some((token) => this.#options.backend.admits(session, token))) {
      throw new Refused(401, "No session");
    }
  }

  #file(name: string, status = 200): Response {
    const file = pageFile(name, this.#options.host(), status);
    if (file === undefined) throw new Refused(404, "Unknown path");
    return file;
  }

  #json(value: unknown, status = 200): Response {
    return this.#answer(JSON.stringify(value), status, { "content-type": "application/json" });
  }

  #answer(body: string | null, status: number, headers: Record<string, string> = {}): Response {
    return new Response(body, {
      status,
      headers: { ...pageHeaders(this.#options.host()), ...headers },
    });
  }

  #failure(error: unknown): Response {
    if (error instanceof Refused) return this.#json({ error: error.message }, error.status);
    this.#options.log.error(`Approval page: ${error}`);
    return this.#json({ error: "ipybox failed; see its log" }, 500);
  }
}

function requireOwnHeader(request: Request): void {
  if (request.headers.get(OWN_HEADER) !== "1") throw new Refused(403, `Send ${OWN_HEADER}: 1`);
}

function requireSameSite(request: Request): void {
  const site = request.headers.get("sec-fetch-site");
  if (site !== null && site !== "same-origin") {
    throw new Refused(403, "Requests from other pages are refused");
  }
}

/** "Going away" (RFC 6455, section 7.4.1). */
const GOING_AWAY = 1001;

/** The door's open WebSockets. */
export class OpenSockets {
  readonly #closed = new Map<WebSocket, Promise<void>>();

  /** Keeps a socket until it is closed. */
  add(socket: WebSocket): void {
    const closed = Promise.withResolvers<void>();
    this.#closed.set(socket, closed.promise);
    socket.addEventListener("close", () => {
      this.#closed.delete(socket);
      closed.resolve();
    });
  }

  /** Closes all of them with a reason. */
  async close(): Promise<void> {
    for (const socket of this.#closed.keys()) socket.close(GOING_AWAY);
    await Promise.all(this.#closed.values());
  }
}
