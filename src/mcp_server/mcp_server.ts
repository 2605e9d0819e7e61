import type { ApprovalMode, ApprovalPolicy } from "../approval/policy.ts";
import { serverFor } from "./connection.ts";
import { serveStdio, StdioServerTransport } from "./sdk.ts";
import { Session, type SessionOptions } from "./session.ts";

/** Options of {@linkcode McpServer.serveStdio}. */
export interface McpServerOptions
  extends Omit<SessionOptions, "approval" | "changes" | "requireShellEscape"> {
  /**
   * What becomes of tool calls and requests for resources that code makes, and of changes that the
   * client asks for, such as server registrations: the client's user is asked by MCP elicitation, or all are allowed or denied.
   *
   * @default {"ask"}
   */
  approve?: ApprovalMode | undefined;
  /**
   * What becomes of shell commands, such as `!ls`.
   *
   * @default {"allow"}
   */
  approveShell?: ApprovalMode | undefined;
  /**
   * Which calls are allowed, asked about or denied. It does not decide on registrations.
   *
   * @default {undefined} `approve` and `approveShell` count for all calls
   */
  policy?: ApprovalPolicy | undefined;
  /** The version that clients are told. */
  version?: string | undefined;
}

/** The largest message: images are long lines. */
const MAX_MESSAGE_BYTES = 256 * 2 ** 20;

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
  /** Resolves when the client has closed the connection. */
  readonly closed: Promise<void>;
  readonly #parts: AsyncDisposableStack;

  private constructor(closed: Promise<void>, parts: AsyncDisposableStack) {
    this.closed = closed;
    this.#parts = parts;
  }

  /**
   * Serves MCP, of both protocol eras, on this process's stdin and stdout. Answers at once; the
   * kernel starts in the background.
   *
   * @param options The workspace, the sandbox, and how calls are approved.
   * @returns The running server.
   */
  static serveStdio(options: McpServerOptions = {}): McpServer {
    const { approve = "ask", approveShell, policy, version = "0", ...sessionOptions } = options;
    const parts = new AsyncDisposableStack();
    const session = parts.use(
      new Session({
        ...sessionOptions,
        changes: approve,
        approval: policy ??
          { tools: approve, resources: approve, shell: approveShell ?? "allow" },
      }),
    );
    const transport = new StdioServerTransport(undefined, undefined, {
      maxBufferSize: MAX_MESSAGE_BYTES,
    });
    const closed = Promise.withResolvers<void>();
    const handle = serveStdio(() => serverFor(session, version), { transport });
    // The SDK has set its own handler by now, and a client may go before it has said anything.
    const onclose = transport.onclose;
    transport.onclose = () => {
      onclose?.();
      closed.resolve();
    };
    parts.defer(() => handle.close());
    return new McpServer(closed.promise, parts);
  }

  /** Ends the kernel and the connection. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#parts.disposeAsync();
  }
}
