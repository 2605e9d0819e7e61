import { z } from "zod";
import type { Logger } from "../../base/log.ts";
import { serverFor, type ServerForOptions } from "../connection.ts";
import { failure, success } from "../failure.ts";
import {
  createMcpHandler,
  type McpHttpHandler,
  type McpServerFactory,
  SdkMcpServer,
} from "../sdk.ts";
import { registerTasks } from "../tasks.ts";
import { addTool, type ToolHost } from "../tool.ts";
import { forClients } from "../tool_input.ts";
import { rpcError, usedUntilSent } from "./answers.ts";
import type { PooledSession, SessionPool } from "./sessions.ts";

const message = z.object({ jsonrpc: z.literal("2.0"), method: z.string() });

/** A tool call, which may name its session. */
const toolCall = z.object({
  method: z.literal("tools/call"),
  params: z.object({
    name: z.string().regex(/^\w{1,100}$/),
    arguments: z.object({ session: z.string().min(1) }).optional().catch(undefined), // empty or null names none
  }),
});

/** The tools that run code or ask the user. The errors of other requests have an HTTP status. */
const LASTING: ReadonlySet<string> = new Set([
  "execute_ipython_cell",
  "install_package",
  "register_mcp_server",
  "reset",
  "unregister_mcp_server",
  "wait_for_cell",
]);

/** A request about a task, whose id begins with its session's. */
const ofTask = z.object({
  method: z.enum(["tasks/get", "tasks/update", "tasks/cancel"]),
  params: z.object({ taskId: z.string() }),
});

/** Refuses a request for a session that does not exist: a call in a form that the model reads. */
async function refuse(
  request: Request,
  body: unknown,
  call: z.infer<typeof toolCall>["params"] | undefined,
): Promise<Response> {
  const handler = createMcpHandler(() => {
    const server = new SdkMcpServer({ name: "ipybox", version: "0" });
    registerTasks(server, undefined);
    if (call === undefined) return server;
    const message = `There is no session "${call.arguments?.session.slice(0, 100)}": it was ` +
      "closed, or idle for too long. Open another one with open_session; the old session's files are " +
      "in its folder";
    server.registerTool(call.name, { inputSchema: z.looseObject({}) }, () => failure(message));
    return server;
  }, { legacy: "reject" });
  return await handler.fetch(request, { parsedBody: body });
}

/** An owner's handlers, and the sessions whose changes are announced. */
interface Owned {
  readonly handler: McpHttpHandler;
  /** Begins each response at once: the client may disconnect before the result is ready. */
  readonly streaming: McpHttpHandler;
  readonly watched: Set<string>;
}

/** Serves protocol 2026-07-28: calls name a session by a handle, or share their owner's. */
export class ModernHandlers implements AsyncDisposable {
  readonly #pool: SessionPool;
  readonly #serverOptions: ServerForOptions;
  readonly #log: Logger;
  readonly #owned = new Map<string, Owned>();
  readonly #serving = new WeakMap<Request, PooledSession>();

  constructor(pool: SessionPool, serverOptions: ServerForOptions, log: Logger) {
    this.#pool = pool;
    this.#serverOptions = serverOptions;
    this.#log = log;
  }

  async handle(request: Request, owner: string, body: unknown): Promise<Response> {
    if (body !== undefined && !message.safeParse(body).success) {
      return rpcError(400, -32600, "The body is not a JSON-RPC request"); // before a session is opened
    }
    const call = toolCall.safeParse(body).data?.params;
    const task = ofTask.safeParse(body).data?.params.taskId;
    const named = task?.split(".")[0] ?? call?.arguments?.session;
    const pooled = named === undefined
      ? await this.#pool.default(owner)
      : this.#pool.find(owner, named);
    if (pooled === undefined) return await refuse(request, body, call);
    const owned = this.#owned.get(owner) ?? this.#own(owner);
    this.#announce(owned, pooled);
    const handler = LASTING.has(call?.name ?? "") ? owned.streaming : owned.handler;
    const gone = new AbortController();
    const signalled = new Request(request, { signal: gone.signal });
    this.#serving.set(signalled, pooled);
    return await usedUntilSent(
      pooled.use(),
      () => handler.fetch(signalled, { parsedBody: body }),
      () => gone.abort(new DOMException("The client disconnected", "AbortError")),
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const handlers = this.#owned.values().flatMap(({ handler, streaming }) => [handler, streaming]);
    await Promise.all(handlers.map((handler) => handler.close()));
  }

  #own(owner: string): Owned {
    const serve: McpServerFactory = async ({ requestInfo }) => {
      const pooled = requestInfo && this.#serving.get(requestInfo);
      if (pooled === undefined) throw new Error("A request without a session");
      const { id, session } = pooled;
      const options = { ...this.#serverOptions, sessionArgument: true, taskPrefix: `${id}.` };
      const server = await serverFor(session, options);
      registerSessionTools({ server, session, declare: forClients }, this.#pool, owner);
      return server;
    };
    const onerror = (error: Error) => this.#log.debug(`MCP over HTTP: ${error.message}`);
    const options = { legacy: "reject", onerror } as const;
    const owned = {
      handler: createMcpHandler(serve, options),
      streaming: createMcpHandler(serve, { ...options, responseMode: "sse" }),
      watched: new Set<string>(),
    };
    this.#owned.set(owner, owned);
    return owned;
  }

  /** Announces a session's changes to the owner's subscribers. */
  #announce({ handler, watched }: Owned, { id, session, onClose }: PooledSession): void {
    if (watched.has(id)) return;
    watched.add(id);
    const listening = session.onServersChanged(() => handler.notify.resourcesChanged());
    onClose(() => {
      listening[Symbol.dispose]();
      watched.delete(id);
    });
  }
}

const OPEN = `
Opens a session with its own kernel and folder. Returns its handle, which other tools take \
as \`session\`. Calls without a session share one with all clients that have the same token.

An idle session is closed after a while: variables are lost, files stay in its folder.
`.trim();

/** Adds `open_session` and `close_session`, for clients of a protocol without sessions. */
function registerSessionTools(host: ToolHost, pool: SessionPool, owner: string): void {
  addTool(host, "open_session", {
    title: "Open a session",
    description: OPEN,
    input: () => z.object({}),
    hints: [],
    activity: "Opening a session",
  }, async () => {
    const { id } = await pool.open(owner);
    return success(`Opened session ${id}: pass it as \`session\` to the other tools`);
  });
  addTool(host, "close_session", {
    title: "Close a session",
    description: "Closes a session and stops its kernel and MCP servers. Its files stay.",
    input: () => z.object({ session: z.string().describe("The handle") }),
    hints: ["destructive"],
    activity: "Closing the session",
  }, async ({ session }) => {
    if (!await pool.close(owner, session)) {
      return failure(`There is no session "${session.slice(0, 100)}"`);
    }
    return success(`Closed session ${session}`);
  });
}
