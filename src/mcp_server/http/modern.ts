import { z } from "zod";
import type { Logger } from "../../base/log.ts";
import { serverFor, type ServerForOptions } from "../connection.ts";
import { explained, failure } from "../failure.ts";
import { createMcpHandler, type McpHttpHandler, SdkMcpServer } from "../sdk.ts";
import { registerTasks, type TaskServerOptions } from "../tasks.ts";
import { forClients } from "../tool_input.ts";
import { rpcError, untilSent, withErrorStatus } from "./answers.ts";
import type { PooledSession, SessionPool } from "./sessions.ts";

/** A request or a notification. */
const message = z.object({ jsonrpc: z.literal("2.0"), method: z.string() });

/** A tool call, as far as it says which session it is for. */
const forSession = z.object({
  method: z.literal("tools/call"),
  params: z.object({
    name: z.string().regex(/^\w{1,100}$/),
    arguments: z.object({ session: z.string().min(1) }), // empty or null: none is named
  }),
});

/** A request about a task, whose id begins with its session's. */
const ofTask = z.object({
  method: z.enum(["tasks/get", "tasks/update", "tasks/cancel"]),
  params: z.object({ taskId: z.string() }),
});

/** How the tasks of a session are told from those of others. */
function tasksOf(id: string): TaskServerOptions {
  return { prefix: `${id}.` };
}

/** Answers a request about a task of a session that there is not. */
async function refuseTask(request: Request, body: unknown): Promise<Response> {
  const handler = createMcpHandler(() => {
    const server = new SdkMcpServer({ name: "ipybox", version: "0" });
    registerTasks(server, undefined);
    return server;
  }, { legacy: "reject", responseMode: "sse" });
  return await withErrorStatus(await handler.fetch(request, { parsedBody: body }));
}

/** Answers a call for a session that there is not, so that the model reads what to do. */
async function refuseSession(
  request: Request,
  body: unknown,
  call: z.infer<typeof forSession>["params"] | undefined,
): Promise<Response> {
  const session = call?.arguments.session.slice(0, 100);
  const message = `There is no session "${session}": it was closed, or was idle ` +
    "for too long. Open another one with open_session; the old session's files are in its folder";
  const handler = createMcpHandler(() => {
    const server = new SdkMcpServer({ name: "ipybox", version: "0" });
    server.registerTool(
      call?.name ?? "",
      { inputSchema: z.looseObject({}) },
      () => failure(message),
    );
    return server;
  }, { legacy: "reject", responseMode: "sse" });
  return await handler.fetch(request, { parsedBody: body });
}

/** An owner's handler and the sessions that it tells about. */
interface Owned {
  readonly handler: McpHttpHandler;
  readonly watched: Set<string>;
}

/**
 * Serves clients of protocol 2026-07-28, which knows no sessions: tool calls name one by a handle, and
 * those that name none share one, for each owner.
 */
export class ModernHandlers implements AsyncDisposable {
  readonly #pool: SessionPool;
  readonly #told: ServerForOptions;
  readonly #log: Logger;
  readonly #owned = new Map<string, Owned>();
  readonly #serving = new WeakMap<Request, PooledSession>();

  constructor(pool: SessionPool, told: ServerForOptions, log: Logger) {
    this.#pool = pool;
    this.#told = told;
    this.#log = log;
  }

  /** Answers a request. */
  async handle(request: Request, owner: string, body: unknown): Promise<Response> {
    if (body !== undefined && !message.safeParse(body).success) {
      return rpcError(400, -32600, "The body is not a JSON-RPC request"); // no session for that
    }
    const call = forSession.safeParse(body).data?.params;
    const task = ofTask.safeParse(body).data?.params.taskId;
    const named = task?.split(".")[0] ?? call?.arguments.session;
    const pooled = named === undefined
      ? await this.#pool.default(owner)
      : await this.#pool.find(owner, named);
    if (pooled === undefined) {
      return await (task === undefined
        ? refuseSession(request, body, call)
        : refuseTask(request, body));
    }
    const owned = this.#owned.get(owner) ?? this.#own(owner);
    this.#tell(owned, pooled);
    const gone = new AbortController();
    const signalled = new Request(request, { signal: gone.signal });
    this.#serving.set(signalled, pooled);
    const use = pooled.use();
    try {
      const response = await withErrorStatus(
        await owned.handler.fetch(signalled, { parsedBody: body }),
      );
      const onGone = () => gone.abort(new DOMException("The client disconnected", "AbortError"));
      return untilSent(response, { use, onGone });
    } catch (error) {
      use[Symbol.dispose]();
      throw error;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#owned.values().map(({ handler }) => handler.close()));
  }

  #own(owner: string): Owned {
    const handler = createMcpHandler(async ({ requestInfo }) => {
      const pooled = requestInfo && this.#serving.get(requestInfo);
      if (pooled === undefined) throw new Error("A request without a session");
      const tasks = tasksOf(pooled.id);
      const server = await serverFor(pooled.session, {
        ...this.#told,
        sessionArgument: true,
        tasks,
      });
      registerSessionTools(server, { pool: this.#pool, owner, current: pooled });
      return server;
    }, {
      legacy: "reject",
      responseMode: "sse", // only a stream tells that its reader has gone
      onerror: (error) => this.#log.debug(`MCP over HTTP: ${error.message}`),
    });
    const owned = { handler, watched: new Set<string>() };
    this.#owned.set(owner, owned);
    return owned;
  }

  /** Has a session's changes told to the owner's subscribers. */
  #tell({ handler, watched }: Owned, { id, session, onClose }: PooledSession): void {
    if (watched.has(id)) return;
    watched.add(id);
    const listening = session.onServersChanged(() => handler.notify.resourcesChanged());
    onClose(() => {
      listening[Symbol.dispose]();
      watched.delete(id);
    });
  }
}

/** Whose sessions the tools are about. */
interface SessionToolsOptions {
  readonly pool: SessionPool;
  readonly owner: string;
  /** The session of this request. */
  readonly current: PooledSession;
}

const OPEN = `
Opens a session with its own kernel and folder. Returns its handle, which other tools take \
as \`session\`. Calls without a session share one with all clients that have the same token.

An idle session is closed after a while: variables are lost, files stay in its folder.
`.trim();

const opened = z.object({
  session: z.string().describe("The handle"),
  workspace: z.string().describe("The session's folder on the server"),
  files: z.string().describe("The URL of its files, for GET and PUT with the client's token"),
});

/** Adds `open_session` and `close_session`, for clients of a protocol that knows no sessions. */
function registerSessionTools(server: SdkMcpServer, options: SessionToolsOptions): void {
  const { pool, owner, current } = options;
  const { answers } = current.session;
  server.registerTool("open_session", {
    title: "Open a session",
    description: OPEN,
    inputSchema: forClients(z.object({})),
    ...answers.declare(opened),
    annotations: { readOnlyHint: false, destructiveHint: false, openWorldHint: false },
  }, async () => {
    try {
      const { id, folder } = await pool.open(owner);
      const report = { session: id, workspace: folder, files: `/sessions/${id}/files/` };
      const text = `Opened session ${id}: pass it as \`session\` to the other tools`;
      return answers.of({ text, report });
    } catch (error) {
      return explained(error);
    }
  });
  server.registerTool("close_session", {
    title: "Close a session",
    description: "Closes a session and stops its kernel and MCP servers. Its files stay.",
    inputSchema: forClients(z.object({ session: z.string().describe("The handle") })),
    annotations: { readOnlyHint: false, destructiveHint: true, openWorldHint: false },
  }, async ({ session }) => {
    try {
      return await pool.close(owner, session)
        ? { content: [{ type: "text", text: `Closed session ${session}` }] }
        : failure(`There is no session "${session.slice(0, 100)}"`);
    } catch (error) {
      return explained(error);
    }
  });
}
