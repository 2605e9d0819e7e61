import type { ApprovalMode, ApprovalPolicy } from "../approval/policy.ts";
import { ApprovalRounds } from "./approval_rounds.ts";
import { SdkMcpServer, serveStdio, StdioServerTransport } from "./sdk.ts";
import { Session, type SessionOptions } from "./session.ts";
import { registerTools } from "./tools.ts";

/** Options of {@linkcode McpServer.serveStdio}. */
export interface McpServerOptions extends Omit<SessionOptions, "approval" | "requireShellEscape"> {
  /**
   * What becomes of tool calls and requests for resources that code makes, and of server
   * registrations: the client's user is asked by MCP elicitation, or all are allowed or denied.
   *
   * @default {"ask"}
   */
  approve?: ApprovalMode | undefined;
  /**
   * Which calls are allowed, asked about or denied. It does not decide on registrations.
   *
   * @default {undefined} `approve` counts for all tool calls
   */
  policy?: ApprovalPolicy | undefined;
  /** The version that clients are told. */
  version?: string | undefined;
}

/** The largest message: images are long lines. */
const MAX_MESSAGE_BYTES = 256 * 2 ** 20;

const INSTRUCTIONS = `
ipybox executes Python in a stateful, sandboxed IPython kernel. MCP servers that are registered here
become typed Python packages under \`mcptools\`, so that one code action can chain many tool calls,
loop over them and compute with their results, and only what it prints comes back.

1. register_mcp_server makes the Python API of an MCP server and lists its tools.
2. execute_ipython_cell runs code. Look at an API before you use it, for example with
   \`import mcptools.NAME; help(mcptools.NAME)\` or \`print(open("mcptools/NAME/TOOL.py").read())\`, then
   \`from mcptools.NAME import TOOL; result = TOOL.run(argument=...)\`.
3. install_package adds Python packages; reset starts a fresh kernel.

Chain calls in one cell, keep intermediate results in variables, and print only what is needed. The
user may be asked to approve tool calls; a refused one raises an exception with the reason.
`.trim();

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
    const { approve = "ask", policy, version = "0", ...sessionOptions } = options;
    const parts = new AsyncDisposableStack();
    const session = parts.use(
      new Session({
        ...sessionOptions,
        approval: policy ?? { tools: approve, resources: approve },
      }),
    );
    const rounds = parts.use(new ApprovalRounds(approve));
    const transport = new StdioServerTransport(undefined, undefined, {
      maxBufferSize: MAX_MESSAGE_BYTES,
    });
    const closed = Promise.withResolvers<void>();
    const handle = serveStdio(() => {
      const server = new SdkMcpServer({ name: "ipybox", title: "ipybox", version }, {
        instructions: INSTRUCTIONS,
        ...rounds.serverOptions,
      });
      registerTools(server, session, rounds);
      return server;
    }, { transport });
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
