import type { PageDesk } from "../approval_page/page_desk.ts";
import type { Logger } from "../log.ts";
import { parseServerParams } from "../mcp/server_params.ts";
import { upgradeApprover } from "./approval_socket.ts";
import {
  jsonResponse,
  readJsonBody,
  Refused,
  refusePages,
  requireMethod,
  requireToken,
} from "./door.ts";
import { OpenSockets } from "./open_sockets.ts";
import { PageDoor } from "./page_door.ts";
import type { ToolRunner } from "./tool_runner.ts";
import { errorText } from "./wire.ts";

/** What the application's door is made of. */
export interface ApplicationDoorOptions {
  /** The servers and the approvals. */
  readonly runner: ToolRunner;
  /** What the approval page is served from. */
  readonly desk: PageDesk;
  /** Where the door is, such as `127.0.0.1:41234`; known once it is open. */
  readonly host: () => string;
  /** The application's token, which never enters the sandbox. */
  readonly token: string;
  /** The largest request body, in bytes. */
  readonly maxBodyBytes: number;
  /** Told of failures. */
  readonly log: Logger;
}

/** The door for the application: approvals, the registry, and reset. */
export class ApplicationDoor {
  readonly #options: ApplicationDoorOptions;
  readonly #sockets = new OpenSockets();
  readonly #pages: PageDoor;

  /** @param options Who does the work, and the token. */
  constructor(options: ApplicationDoorOptions) {
    this.#options = options;
    this.#pages = new PageDoor(options);
  }

  /**
   * Answers a request.
   *
   * | request | does |
   * | --- | --- |
   * | `GET /status` | says that the door is open |
   * | `GET /approval` | upgrades to the approval WebSocket |
   * | `POST /page-link` | makes a link to the approval page |
   * | `POST /reset` | refuses pending approvals, cancels calls, stops the servers |
   * | `GET /servers` | lists the names of the registered servers |
   * | `PUT /servers/NAME` | registers a server; the body is its parameters |
   * | `DELETE /servers/NAME` | removes a server |
   * | `/page/…` | the approval page, for browsers: see {@linkcode PageDoor} |
   *
   * All but the page needs the token, and refuses whatever comes from a page.
   */
  async handle(request: Request): Promise<Response> {
    // Not by parsing: the host is not checked yet, and may be none.
    if (/^\w+:\/\/[^/]*\/page\//.test(request.url)) return await this.#pages.handle(request);
    try {
      refusePages(request);
      requireToken(request, this.#options.token);
      return await this.#route(request);
    } catch (error) {
      return this.#failure(error);
    }
  }

  /** Closes the approval WebSockets, and those of pages. */
  async close(): Promise<void> {
    await Promise.all([this.#pages.close(), this.#sockets.close()]);
  }

  async #route(request: Request): Promise<Response> {
    const { pathname } = new URL(request.url);
    const { runner } = this.#options;
    const name = /^\/servers\/([^/]+)$/.exec(pathname)?.[1];
    if (name !== undefined) return await this.#server(request, name);
    switch (pathname) {
      case "/status":
        requireMethod(request, "GET");
        return jsonResponse('{"status":"ok"}');
      case "/servers":
        requireMethod(request, "GET");
        return jsonResponse(JSON.stringify({ servers: runner.registry.names }));
      case "/reset":
        requireMethod(request, "POST");
        await runner.reset();
        return jsonResponse('{"reset":"success"}');
      case "/page-link":
        requireMethod(request, "POST");
        return jsonResponse(JSON.stringify({ url: this.#pageLink() }));
      case "/approval":
        requireMethod(request, "GET");
        return await this.#approval(request);
      default:
        throw new Refused(404, "Unknown path");
    }
  }

  #pageLink(): URL {
    const url = new URL(`http://${this.#options.host()}/page/open`);
    url.searchParams.set("code", this.#options.desk.invite());
    return url;
  }

  async #approval(request: Request): Promise<Response> {
    const { runner, log } = this.#options;
    const { response, socket } = await upgradeApprover(request, runner.channel, log);
    this.#sockets.add(socket);
    return response;
  }

  async #server(request: Request, name: string): Promise<Response> {
    const { runner, maxBodyBytes } = this.#options;
    if (request.method === "DELETE") {
      const removed = await runner.unregisterServer(name);
      return jsonResponse(JSON.stringify({ removed }), removed ? 200 : 404);
    }
    requireMethod(request, "PUT");
    const body = new TextDecoder().decode(await readJsonBody(request, maxBodyBytes));
    await runner.registerServer(name, parseServerParams(name, parseBody(body)));
    return jsonResponse(JSON.stringify({ registered: name }));
  }

  #failure(error: unknown): Response {
    const { status, message } = error instanceof Refused
      ? error
      : { status: 400, message: error instanceof Error ? error.message : String(error) };
    if (!(error instanceof Refused)) this.#options.log.error(`Tool server: ${message}`);
    return jsonResponse(errorText({ type: "tool_server_error", message }), status);
  }
}

function parseBody(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new Refused(400, "The body is not JSON");
  }
}
