import { z } from "zod";
import { serverFor, type ServerForOptions } from "../connection.ts";
import { isInitializeRequest, WebStandardStreamableHTTPServerTransport } from "../sdk.ts";
import { rpcError, usedUntilSent } from "./answers.ts";
import { initializeSchema, type PooledSession, type SessionPool } from "./sessions.ts";

interface Connected {
  readonly pooled: PooledSession;
  readonly transport: WebStandardStreamableHTTPServerTransport;
}

/** Serves the older era: `initialize` opens a session, and `Mcp-Session-Id` names it. */
export class LegacySessions implements AsyncDisposable {
  readonly #pool: SessionPool;
  readonly #serverOptions: ServerForOptions;
  readonly #connected = new Map<string, Promise<Connected>>();

  constructor(pool: SessionPool, serverOptions: ServerForOptions) {
    this.#pool = pool;
    this.#serverOptions = serverOptions;
  }

  async handle(request: Request, owner: string, body: unknown): Promise<Response> {
    const id = request.headers.get("mcp-session-id");
    if (id === null && !isInitializeRequest(body)) {
      return rpcError(400, -32000, "The header Mcp-Session-Id is missing: initialize first");
    }
    const known = id === null ? undefined : await this.#find(owner, id);
    if (id !== null && known === undefined) {
      // Another owner's session looks like a missing one.
      return rpcError(404, -32001, "Session not found: initialize a new one");
    }
    const { pooled, transport } = known ?? await this.#open(owner, body);
    let isNeeded = known !== undefined;
    try {
      return await usedUntilSent(pooled.use(), async () => {
        const options = body === undefined ? {} : { parsedBody: body };
        const response = await transport.handleRequest(request, options);
        isNeeded ||= response.ok;
        return response;
      });
    } finally {
      // The client has no id for it, so nobody could use or close it.
      if (!isNeeded) await this.#pool.close(owner, pooled.id);
    }
  }

  /** Closes the connections. Sessions belong to the pool. */
  async [Symbol.asyncDispose](): Promise<void> {
    const connected = await Promise.allSettled(this.#connected.values());
    await Promise.all(
      connected.map((one) => one.status === "fulfilled" && one.value.transport.close()),
    );
  }

  async #find(owner: string, id: string): Promise<Connected | undefined> {
    const pooled = this.#pool.find(owner, id);
    if (pooled === undefined) return undefined;
    const known = this.#connected.get(id);
    if (known !== undefined) return await known;
    const { initialize } = pooled;
    if (initialize === undefined) return undefined; // a session of the newer era
    return await this.#keep(id, this.#return(owner, pooled, initialize));
  }

  /** Connects a client to the session that it had with a previous server. */
  async #return(owner: string, pooled: PooledSession, params: object): Promise<Connected> {
    using _use = pooled.use();
    const connected = await this.#connect(owner, pooled);
    const again = new Request("http://localhost", { method: "POST", headers: AGAIN });
    const parsedBody = { jsonrpc: "2.0", id: 0, method: "initialize", params };
    const response = await connected.transport.handleRequest(again, { parsedBody });
    const text = await response.text();
    if (!response.ok) throw new Error(`Cannot continue session ${pooled.id}: ${text}`);
    return connected;
  }

  async #open(owner: string, body: unknown): Promise<Connected> {
    const initialize = initializeSchema.safeParse(params.safeParse(body).data?.params).data;
    const pooled = await this.#pool.open(owner, initialize);
    return await this.#keep(pooled.id, this.#connect(owner, pooled));
  }

  async #keep(id: string, connecting: Promise<Connected>): Promise<Connected> {
    this.#connected.set(id, connecting);
    connecting.catch(() => this.#connected.delete(id)); // its callers get the error
    return await connecting;
  }

  async #connect(owner: string, pooled: PooledSession): Promise<Connected> {
    const { id } = pooled;
    const transport = new WebStandardStreamableHTTPServerTransport({
      sessionIdGenerator: () => id,
      onsessionclosed: async () => void await this.#pool.close(owner, id),
    });
    const server = await serverFor(pooled.session, this.#serverOptions);
    await server.connect(transport);
    pooled.onClose(() => {
      this.#connected.delete(id);
      server.close().catch((error: unknown) => {
        pooled.session.log.debug(`Cannot close the connection of session ${id}: ${error}`);
      });
    });
    return { pooled, transport };
  }
}

/** The headers that the transport requires of the repeated request. */
const AGAIN = {
  accept: "application/json, text/event-stream",
  "content-type": "application/json",
};

const params = z.object({ params: z.unknown() });
