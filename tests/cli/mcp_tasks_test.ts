/** Clients of 2026-07-28 that take tasks in place of results: `io.modelcontextprotocol/tasks`. */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { z } from "zod";
import { ApprovalRequest } from "../../src/approval/request.ts";
import { silentLogger } from "../../src/base/log.ts";
import { endDurable, listSessions } from "../../src/executor/durable.ts";
import { PlainStdioTransport } from "../support/plain_stdio.ts";
import { type CellParts, CellRun } from "../../src/mcp_server/cell_run.ts";
import { PageAsker } from "../../src/mcp_server/page_asker.ts";
import { Session } from "../../src/mcp_server/session.ts";
import { ownProgram } from "../../src/process/program.ts";
import { cliArguments } from "../support/cli.ts";
import { TestExecutor } from "../support/executor.ts";
import { FakeTime } from "../support/fake_time.ts";
import { HttpMcp } from "../support/http_mcp.ts";
import { rawServer } from "../support/mcp.ts";
import { RAW, workspaceWithServer } from "../support/mcp_workspace.ts";
import { stepsOf } from "../support/steps.ts";
import { TempCache } from "../support/temp_cache.ts";
import { until } from "../support/wait.ts";

const EXTENSION = "io.modelcontextprotocol/tasks";
const TAKES_TASKS = { extensions: { [EXTENSION]: {} }, elicitation: { form: {} } };
const CELL = "execute_ipython_cell";
const COUNT = `${RAW}print(raw.run_sync("count").text)`;

const answerSchema = z.object({
  id: z.number(),
  result: z.looseObject({
    resultType: z.string(),
    taskId: z.string().default(""),
    status: z.string().default(""),
    statusMessage: z.string().default(""),
    ttlMs: z.int().nullish(),
    inputRequests: z.record(
      z.string(),
      z.object({ method: z.string(), params: z.looseObject({ message: z.string() }) }),
    ).default({}),
    result: z.looseObject({ resultType: z.string(), isError: z.boolean().default(false) })
      .optional(),
  }).optional(),
  error: z.object({ code: z.number(), message: z.string(), data: z.unknown().optional() })
    .optional(),
});

type Send = (id: number, method: string, params: Record<string, unknown>) => Promise<unknown>;
type Result = NonNullable<z.infer<typeof answerSchema>["result"]>;

/** A client that says on the wire what the extension's specification says. */
class TaskClient {
  readonly #send: Send;
  #count = 0;

  constructor(send: Send) {
    this.#send = send;
  }

  async ask(method: string, params: object = {}, capabilities: object = TAKES_TASKS) {
    const _meta = {
      "io.modelcontextprotocol/protocolVersion": "2026-07-28",
      "io.modelcontextprotocol/clientInfo": { name: "test", version: "1" },
      "io.modelcontextprotocol/clientCapabilities": capabilities,
    };
    return answerSchema.parse(await this.#send(++this.#count, method, { ...params, _meta }));
  }

  /** Asks for what must not fail. */
  async get(method: string, params: object = {}, capabilities?: object): Promise<Result> {
    const { result, error } = await this.ask(method, params, capabilities);
    if (result === undefined) throw new Error(error?.message);
    return result;
  }

  execute(code: string, more = {}, capabilities?: object): Promise<Result> {
    return this.get("tools/call", { name: CELL, arguments: { code, ...more } }, capabilities);
  }

  task(taskId: string): Promise<Result> {
    return this.get("tasks/get", { taskId });
  }

  /** Looks for a task until it has a status. */
  async reached(taskId: string, status: string): Promise<Result> {
    let task = await this.task(taskId);
    await until(`the task is ${status}`, async () => {
      task = await this.task(taskId);
      return task.status === status;
    });
    return task;
  }

  /** Allows what a task asks. */
  async allow(taskId: string, { inputRequests }: Result): Promise<void> {
    const allowed = { action: "accept", content: { decision: "allow once" } };
    const inputResponses = Object.fromEntries(
      Object.keys(inputRequests).map((key) => [key, allowed]),
    );
    const { resultType } = await this.get("tasks/update", { taskId, inputResponses });
    assertEquals(resultType, "complete");
  }
}

/** A server on stdio. Disposing ends it. */
class StdioServer implements AsyncDisposable {
  readonly #transport: PlainStdioTransport;
  readonly client: TaskClient;

  private constructor(transport: PlainStdioTransport) {
    this.#transport = transport;
    const waiting = new Map<unknown, (answer: unknown) => void>();
    transport.onmessage = (message) => {
      if ("id" in message) waiting.get(message.id)?.(message);
    };
    this.client = new TaskClient(async (id, method, params) => {
      const { promise, resolve } = Promise.withResolvers<unknown>();
      waiting.set(id, resolve);
      await transport.send({ jsonrpc: "2.0", id, method, params });
      return await promise;
    });
  }

  static async start(args: readonly string[], cache: TempCache): Promise<StdioServer> {
    const transport = new PlainStdioTransport({
      command: ownProgram(),
      args: [...cliArguments, "mcp", "--no-sandbox", ...args],
      env: { ...Deno.env.toObject(), NO_COLOR: "1", ...cache.env },
    });
    const server = new StdioServer(transport);
    await transport.start();
    return server;
  }

  kill(): void {
    Deno.kill(this.#transport.pid ?? -1, "SIGKILL");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#transport.close();
  }
}

/** The parts of a session for cells that run without one. */
function partsOf({ executor }: TestExecutor): CellParts {
  return { executor, page: new PageAsker({ page: executor.page, log: silentLogger }) };
}

/** The text of a cell's result, or of a task's. */
function textOf(result: Result): string {
  const { content } = z.object({ content: z.array(z.object({ text: z.string() })) })
    .parse(result.result ?? result);
  return content.map(({ text }) => text).join("\n");
}

Deno.test("ipybox mcp gives tasks to clients that take them", async (t) => {
  await using workspace = await workspaceWithServer();
  await using cache = await TempCache.create();
  await using server = await StdioServer.start(["--workspace", workspace.path], cache);
  const { client } = server;
  const step = stepsOf(t);

  await step("and says so", async () => {
    const { capabilities } = await client.get("server/discover");
    const { extensions } = z.object({ extensions: z.record(z.string(), z.unknown()) })
      .parse(capabilities);
    assertEquals(extensions[EXTENSION], {});
  });

  await step("but not for cells that end soon, or whose answer is wanted by then", async () => {
    const soon = await client.execute("6 * 7");
    assertEquals([soon.resultType, textOf(soon)], ["complete", "42"]);
    const left = await client.execute("import time; time.sleep(0.5)", { wait_seconds: 0.1 });
    assertEquals(left.resultType, "complete");
    const [, cell] = /^Cell (\w+) is still running\n/.exec(textOf(left)) ?? [];
    await until("the cell has ended", async () => {
      const call = { name: "wait_for_cell", arguments: { cell } };
      return textOf(await client.get("tools/call", call)) === "";
    });
  });

  await step("for a cell that asks, whose user answers there", async () => {
    const { resultType, taskId, status } = await client.execute(COUNT);
    assertEquals([resultType, status], ["task", "working"]);
    const asked = await client.task(taskId);
    assertEquals([asked.status, asked.ttlMs], ["input_required", null]);
    const [[key, { method, params }] = ["", { method: "", params: { message: "" } }]] = Object
      .entries(asked.inputRequests);
    assertEquals(method, "elicitation/create");
    assertStringIncludes(params.message, "raw.count()");
    assertEquals(Object.keys((await client.task(taskId)).inputRequests), [key]);
    await client.get("tasks/update", { taskId, inputResponses: { other: { action: "accept" } } });
    assertEquals((await client.task(taskId)).status, "input_required");
    await client.allow(taskId, asked);
    const ended = await client.reached(taskId, "completed");
    assertEquals([textOf(ended), ended.result?.resultType], ["1", "complete"]);
    assert((ended.ttlMs ?? 0) > 0);
    assertEquals(await client.task(taskId), ended); // as often as it is asked for
  });

  await step("for one that takes long, and can be cancelled", async () => {
    const { taskId, statusMessage } = await client.execute(
      "import time\nx = 1\nprint('begun')\nwhile x: time.sleep(0.1)",
    );
    assertEquals(statusMessage, "begun");
    assertEquals((await client.task(taskId)).status, "working");
    await client.get("tasks/cancel", { taskId });
    await client.reached(taskId, "cancelled");
    const next = await client.execute("x");
    assertEquals(textOf(next), "1");
  });

  await step("and an error of the code is a result", async () => {
    const { taskId } = await client.execute(`${COUNT}\n1 / 0`);
    await client.allow(taskId, await client.reached(taskId, "input_required"));
    const { result } = await client.reached(taskId, "completed");
    assertEquals(result?.isError, false);
    assertMatch(JSON.stringify(result), /ZeroDivisionError/);
  });

  await step("and to no others", async () => {
    const { elicitation } = TAKES_TASKS;
    const { resultType } = await client.execute(COUNT, {}, { elicitation });
    assertEquals(resultType, "input_required");
    for (const method of ["tasks/get", "tasks/update", "tasks/cancel"]) {
      const { error } = await client.ask(method, { taskId: "x" }, { elicitation });
      const requiredCapabilities = { extensions: { [EXTENSION]: {} } };
      assertEquals([error?.code, error?.data], [-32021, { requiredCapabilities }]);
      assertEquals((await client.ask(method, { taskId: "x" })).error?.code, -32602);
    }
  });
});

Deno.test("tasks of a session end with what became of their cells", async (t) => {
  await using test = await TestExecutor.start({ sandbox: false, servers: { raw: rawServer() } });
  await using session = new Session({ audit: false });
  const step = stepsOf(t);

  await step("a result is kept for ten minutes after its end, however long it took", async () => {
    const run = new CellRun(partsOf(test), "6 * 7", {});
    const task = session.tasks.of(run);
    const { now } = Date;
    using restored = new DisposableStack();
    restored.defer(() => void (Date.now = now));
    Date.now = () => now() + 20 * 60_000;
    await run.ended;
    assertEquals(await session.tasks.find(run.execution), task);
    Date.now = () => now() + 31 * 60_000;
    assertEquals(await session.tasks.find(run.execution), undefined);
  });

  for (
    const [isLookedFor, name] of [
      [true, "a cell whose client looked for its task goes on when another one is requested"],
      [false, "a cell whose client never looked for its task is abandoned then"],
    ] as const
  ) {
    await step(name, async () => {
      const code = 'from ipybox_runtime import ToolRunner\nToolRunner("raw").run_sync("count")';
      const run = new CellRun(partsOf(test), code, {});
      const task = session.tasks.of(run);
      {
        using time = new FakeTime();
        session.tasks.onNewCell();
        if (isLookedFor) void task.answer();
        time.advance(30_000);
      }
      const next = await run.next(); // its question comes only now
      assert(next.type === "waiting");
      const [request] = next.requests;
      assert(request instanceof ApprovalRequest);
      if (isLookedFor) await run.decide(request, "once");
      await run.ended;
      const { outcome } = { outcome: undefined, ...await run.next() };
      assertEquals(outcome?.cancelled, !isLookedFor);
    });
  }

  await step("a question answered elsewhere does not wait for the client any more", async () => {
    const run = new CellRun(partsOf(test), `${COUNT}\nimport time; time.sleep(60)`, {});
    const next = await run.next();
    assert(next.type === "waiting");
    const [request] = next.requests;
    assert(request instanceof ApprovalRequest);
    await request.accept(); // as the approval page does
    await request.response;
    assertEquals((await run.next(AbortSignal.abort())).type, "running");
    run.cancel();
    await run.ended;
  });
});

Deno.test("a task of a durable session is found when its server was killed", async () => {
  await using workspace = await workspaceWithServer();
  await using cache = await TempCache.create();
  const args = ["--workspace", workspace.path, "--session", "work"];
  try {
    let taskId = "";
    {
      await using first = await StdioServer.start(args, cache);
      ({ taskId } = await first.client.execute(COUNT));
      await first.client.reached(taskId, "input_required");
      first.kill();
    }
    await using next = await StdioServer.start(args, cache);
    await next.client.allow(taskId, await next.client.reached(taskId, "input_required"));
    assertEquals(textOf(await next.client.reached(taskId, "completed")), "1");
  } finally {
    for (const { id } of await listSessions(workspace.path)) await endDurable(id);
  }
});

Deno.test("a task of a session over HTTP is its owner's", async () => {
  await using workspace = await workspaceWithServer();
  const tokens = `${workspace.path}-tokens`;
  await Deno.writeTextFile(tokens, "alice-alice-alice-alice\nbob-bob-bob-bob-bob-bob\n");
  await using server = await HttpMcp.start([
    ...["--workspace", workspace.path, "--no-sandbox", "--token-file", tokens],
  ]);
  const clientOf = (token: string) =>
    new TaskClient(async (id, method, params) => {
      const name = z.object({ name: z.string().optional(), taskId: z.string().optional() })
        .parse(params);
      const response = await fetch(server.address.url, {
        method: "POST",
        headers: {
          authorization: `Bearer ${token}`,
          "content-type": "application/json",
          accept: "application/json, text/event-stream",
          "mcp-protocol-version": "2026-07-28",
          "mcp-method": method,
          "mcp-name": name.name ?? name.taskId ?? "",
        },
        body: JSON.stringify({ jsonrpc: "2.0", id, method, params }),
      });
      const text = await response.text();
      const lines = text.split("\n").filter((line) => line.startsWith("data: {"));
      return JSON.parse(lines.at(-1)?.slice("data: ".length) ?? text);
    });
  try {
    const alice = clientOf("alice-alice-alice-alice");
    const { content } = await alice.get("tools/call", { name: "open_session", arguments: {} });
    const [, session] = /Opened session (\S+):/.exec(JSON.stringify(content)) ?? [];
    const { taskId } = await alice.execute(COUNT, { session });
    const asked = await alice.reached(taskId, "input_required");
    const stranger = await clientOf("bob-bob-bob-bob-bob-bob").ask("tasks/get", { taskId });
    assertEquals(stranger.error?.code, -32602);
    await alice.allow(taskId, asked);
    assertEquals(textOf(await alice.reached(taskId, "completed")), "1");
    const { error } = await alice.ask("tasks/get", { taskId: `${taskId}0` });
    assertEquals(error?.code, -32602);
  } finally {
    await Deno.remove(tokens);
  }
});
