import { stderrLogger } from "../base/log.ts";
import { requirePositive } from "../base/numbers.ts";
import { randomToken } from "../base/tokens.ts";
import { realWorkspace } from "../sandbox/workspace.ts";
import { checkHttp, checkStdio, type McpHttpServerOptions } from "./option_keys.ts";
import type { McpServerOptions } from "./session.ts";

/** The address and the token of an MCP server over HTTP. */
export interface McpHttpEndpoint {
  /** The address for clients. */
  readonly url: URL;
  /** The generated token, or `undefined` if tokens were given or turned off. */
  readonly token: string | undefined;
}

/**
 * ipybox as an MCP server: code execution for agents, with the approval of their users. Disposing it
 * ends the kernel and the connection.
 *
 * @example
 * ```ts ignore
 * import { McpServer } from "@ipybox/ipybox";
 *
 * await using server = McpServer.serveStdio({ workspace: "." });
 * await server.closed;
 * ```
 */
export class McpServer implements AsyncDisposable {
  /** Resolves when the client on stdin has closed the connection; never over HTTP. */
  readonly closed: Promise<void>;
  /** The HTTP endpoint; `undefined` on stdio. */
  readonly http: McpHttpEndpoint | undefined;
  readonly #parts: AsyncDisposableStack;

  private constructor(
    closed: Promise<void>,
    parts: AsyncDisposableStack,
    http?: McpHttpEndpoint,
  ) {
    this.closed = closed;
    this.http = http;
    this.#parts = parts;
  }

  /**
   * Serves MCP, in both protocol eras, on this process's stdin and stdout. It answers immediately; the
   * kernel starts in the background once the client has the list of tools, or needs it.
   *
   * @param options The workspace, the sandbox, and how calls are approved.
   * @returns The running server.
   * @throws {TypeError} An option is unknown.
   */
  static serveStdio(options: McpServerOptions = {}): McpServer {
    checkStdio(options);
    // The server is large, and programs that only execute code import this module, too.
    const serving = import("./stdio.ts").then(({ StdioServer }) => new StdioServer(options));
    const parts = new AsyncDisposableStack();
    parts.defer(async () => await (await serving)[Symbol.asyncDispose]());
    return new McpServer(serving.then(({ closed }) => closed), parts);
  }

  /**
   * Serves MCP, of both protocol eras, over streamable HTTP. Each client session has a kernel and a
   * separate folder, in the user's state folder, and starts with the workspace's servers.
   *
   * @param options The workspace, the address and the tokens.
   * @returns The running server; {@linkcode McpServer.http} has its address.
   * @throws {Deno.errors.AddrInUse} The port is taken.
   * @throws {TypeError} An option is unknown; there is no token, one is too easy to guess or given twice
   * with settings, sessions are durable and no tokens were given, or `pool` is combined with an option
   * that sessions started ahead cannot have.
   * @throws {RangeError} A number of sessions or a time limit is not positive.
   * @throws {ConfigError} A token's placement cannot be used, or the user's state folder cannot be
   * written to.
   */
  static async serveHttp(options: McpHttpServerOptions = {}): Promise<McpServer> {
    checkHttp(options);
    requirePositive(options, ["maxSessions", "sessionIdleMs"]);
    // Not imported on stdio, where it would delay the first answer.
    const { BearerTokens, EVERYBODY } = await import("./http/bearer_tokens.ts");
    const { HttpMcpServer } = await import("./http/server.ts");
    const { refuseReady, SessionPool } = await import("./http/sessions.ts");
    const { makeSessionFolders } = await import("./http/session_folders.ts");
    const { port = 0, hostname = "127.0.0.1", allowedHosts = [], tokens, ...more } = options;
    const { version = "0", allowRegistrations = false, workspace, durable, ...session } = more;
    if (durable && tokens === undefined) {
      throw new TypeError("Durable sessions need tokens that stay the same: pass tokens, or false");
    }
    refuseReady(options);
    const { log = stderrLogger() } = session;
    const generated = randomToken();
    const given = tokens ?? [generated];
    const bearers = given === false ? undefined : new BearerTokens();
    for (const each of given || []) bearers?.add(each);
    if (bearers?.owners.size === 0) {
      throw new TypeError("An HTTP server needs at least one bearer token");
    }
    await using parts = new AsyncDisposableStack();
    const root = await realWorkspace(workspace ?? ".");
    await makeSessionFolders(root);
    const pool = parts.use(
      new SessionPool({
        ...session,
        durable,
        workspace: root,
        session: { ...session, log, fixed: !allowRegistrations },
        owners: bearers?.owners ?? new Map([[EVERYBODY, {}]]),
      }),
    );
    await pool.recall();
    const server = parts.use(
      new HttpMcpServer({
        pool,
        tokens: bearers,
        hostname,
        port,
        allowedHosts,
        version,
        log,
      }),
    );
    parts.defer(() => pool.onDisconnect()); // before requests are cancelled
    const never = new Promise<void>(() => {});
    const token = tokens === undefined ? generated : undefined;
    return new McpServer(never, parts.move(), { url: server.url, token });
  }

  /** Ends the kernel and the connection. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#parts.disposeAsync();
  }
}
