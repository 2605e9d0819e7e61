import { serverFor, type ServerForOptions } from "../connection.ts";
import { isInitializeRequest, WebStandardStreamableHTTPServerTransport } from "../sdk.ts";
import { rpcError, untilSent } from "./answers.ts";
import type { PooledSession, SessionPool } from "./sessions.ts";

interface Connected {
  readonly pooled: PooledSession;
  readonly transport: WebStandardStreamableHTTPServerTransport;
}

/**
 * Serves clients of the older protocol era, up to 2025-11-25: `initialize` opens a session, whose id
 * is in the header `Mcp-Session-Id` of all that follows.
 */
export class LegacySessions implements AsyncDisposable {
  readonly #pool: SessionPool;
  readonly #told: ServerForOptions;
  readonly #connected = new Map<string, Connected>();

  constructor(pool: SessionPool, told: ServerForOptions) {
    this.#pool = pool;
    this.#told = told;
  }

  /** Answers a request. */
  async handle(request: Request, owner: string, body: unknown): Promise<Response> {
    const id = request.headers.get("mcp-session-id");
    if (id === null && !isInitializeRequest(body)) {
      return rpcError(400, -32000, "The header Mcp-Session-Id is missing: initialize first");
    }
    const known = id === null ? undefined : this.#connected.get(id);
    if (id !== null && (known === undefined || this.#pool.find(owner, id) === undefined)) {
      // What is another owner's looks like what is not there.
      return rpcError(404, -32001, "Session not found: initialize a new one");
    }
    const { pooled, transport } = known ?? await this.#connect(owner);
    const use = pooled.use();
    let isNeeded = known !== undefined;
    try {
      const response = await transport.handleRequest(
        request,
        body === undefined ? {} : { parsedBody: body },
      );
      isNeeded ||= response.ok;
      return untilSent(response, { use });
    } catch (error) {
      use[Symbol.dispose]();
      throw error;
    } finally {
      // Its client does not know of it, so nobody could use or close it.
      if (!isNeeded) await this.#pool.close(owner, pooled.id);
    }
  }

  /** Ends the connections. Sessions are the pool's. */
  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#connected.values().map(({ transport }) => transport.close()));
  }

  async #connect(owner: string): Promise<Connected> {
    const pooled = await this.#pool.open(owner);
    const { id } = pooled;
    const transport = new WebStandardStreamableHTTPServerTransport({
      sessionIdGenerator: () => id,
      onsessionclosed: async () => void await this.#pool.close(owner, id),
    });
    const server = await serverFor(pooled.session, this.#told);
    await server.connect(transport);
    pooled.onClose(() => {
      this.#connected.delete(id);
      server.close().catch((error: unknown) => {
        pooled.session.log.debug(`Cannot close the connection of session ${id}: ${error}`);
      });
    });
    const connected = { pooled, transport };
    this.#connected.set(id, connected);
    return connected;
  }
}
