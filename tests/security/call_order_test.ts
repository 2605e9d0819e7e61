/**
 * The order of a call: it begins, the rules judge it, its server is asked what the tool is like, it is
 * decided, noted, compared with what was shown, sent, and ends. No step is skipped or swapped.
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { readAuditLog } from "../../src/approval/audit/reader.ts";
import type { ApprovalMode } from "../../src/approval/policy.ts";
import type { ApprovalRequest } from "../../src/approval/request.ts";
import { ToolCallError } from "../../src/base/errors.ts";
import { silentLogger } from "../../src/base/log.ts";
import { ToolRunner } from "../../src/calls/runner.ts";
import type { HttpServerParams } from "../../src/mcp/params.ts";
import { rawServer } from "../support/mcp.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { until } from "../support/wait.ts";

type Reply = Readonly<Record<string, unknown>>;

const PAID: Reply = { result: { content: [{ type: "text", text: "paid" }] } };

/** A runner with a server, a policy and an approver, each of which writes down when it has its turn. */
class Scene implements AsyncDisposable {
  /** What happened, in its order. */
  readonly steps: string[] = [];
  /** What the rules say of each call. */
  mode: ApprovalMode = "ask";
  /** What the person does. */
  answer: (request: ApprovalRequest) => unknown = (request) => request.accept();
  /** What the server answers to a call. */
  reply: () => Reply | Promise<Reply> = () => PAID;
  /** What the server says of its tool. */
  description = "Pays";
  readonly #stack = new AsyncDisposableStack();
  #runner: ToolRunner | undefined;
  #workspace = "";

  static async open(): Promise<Scene> {
    const scene = new Scene();
    scene.#workspace = scene.#stack.use(await TempFolder.create()).path;
    scene.#runner = scene.#stack.use(
      await ToolRunner.start({
        workspace: scene.#workspace,
        servers: { bank: scene.server("bank") },
        approval: {
          decide: ({ toolName, arguments: { amount } }) => {
            scene.steps.push(`rules: ${toolName}`);
            return { mode: amount === 666 ? "deny" : scene.mode };
          },
        },
        log: silentLogger,
      }),
    );
    const { channel, events } = scene.runner;
    channel.attach((request) => {
      scene.steps.push(`asked: ${request}`);
      scene.answer(request);
    });
    events.followCalls((event) => {
      if (event.type === "call_started") scene.steps.push("begin");
      else scene.steps.push(`end: ${event.decision} by ${event.by}, ${event.status}`);
    });
    return scene;
  }

  get runner(): ToolRunner {
    assert(this.#runner !== undefined);
    return this.#runner;
  }

  /** Starts a server of this name. */
  server(name: string): HttpServerParams {
    const server = this.#stack.use(
      Deno.serve(
        { hostname: "127.0.0.1", port: 0, onListen() {} },
        (request) => this.#serve(name, request),
      ),
    );
    return { url: `http://127.0.0.1:${server.addr.port}/mcp`, protocol: "legacy" };
  }

  /** Makes a call, and gives what happened until it was over and its end was in the log. */
  async run(call: () => Promise<unknown>): Promise<string[]> {
    await call().catch((error: unknown) => {
      if (!(error instanceof ToolCallError)) throw error;
    });
    await this.runner[Symbol.asyncDispose]();
    return [...this.steps, ...await this.#log()];
  }

  /** Pays. */
  async pay(options: { signal?: AbortSignal } = {}): Promise<string[]> {
    return await this.run(() => this.runner.run("bank", "pay", { amount: 1 }, options));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack[Symbol.asyncDispose]();
  }

  async #serve(name: string, request: Request): Promise<Response> {
    if (request.method !== "POST") return new Response(null, { status: 405 });
    const { id, method, params } = await request.json();
    if (id === undefined) return new Response(null, { status: 202 });
    if (method.endsWith("/list")) this.steps.push(`${name}: ${method}`);
    else if (method !== "initialize") {
      const sent = JSON.stringify(params.arguments ?? params);
      this.steps.push(...await this.#log(), `${name}: ${method} ${sent}`);
    }
    return Response.json({ jsonrpc: "2.0", id, ...await this.#reply(method, params) });
  }

  async #reply(method: string, params: Reply): Promise<Reply> {
    const tool = { name: "pay", description: this.description, inputSchema: { type: "object" } };
    switch (method) {
      case "initialize":
        return {
          result: {
            protocolVersion: params.protocolVersion,
            capabilities: { tools: { listChanged: true }, resources: {} },
            serverInfo: { name: "bank", version: "1" },
          },
        };
      case "tools/list":
        return { result: { tools: [tool] } };
      case "resources/list":
        return { result: { resources: [] } };
      case "resources/read":
        return { result: { contents: [] } };
      default:
        return await this.reply();
    }
  }

  /** The lines of the audit log. */
  async #log(): Promise<string[]> {
    const lines = await Array.fromAsync(readAuditLog(this.#workspace));
    return lines.map(({ decision, by, status, outcome }) =>
      outcome === undefined
        ? `noted: ${decision} by ${by}, ${status}`
        : `noted: its outcome, ${status}`
    );
  }
}

/** What comes before the decision of a call that its rules do not deny. */
const BEFORE = ["begin", "rules: pay", "bank: tools/list", "rules: pay"];

Deno.test("a call that a rule allows is noted, then sent", async () => {
  await using scene = await Scene.open();
  scene.mode = "allow";
  assertEquals(await scene.pay(), [
    ...BEFORE,
    "noted: allow by policy, undefined",
    'bank: tools/call {"amount":1}',
    "end: allow by policy, ok",
    "noted: allow by policy, undefined",
    "noted: its outcome, ok",
  ]);
});

Deno.test("a call that a person allows is shown, noted, then sent", async () => {
  await using scene = await Scene.open();
  assertEquals(await scene.pay(), [
    ...BEFORE,
    "asked: bank.pay(amount=1)",
    "noted: allow by approver, undefined",
    'bank: tools/call {"amount":1}',
    "end: allow by approver, ok",
    "noted: allow by approver, undefined",
    "noted: its outcome, ok",
  ]);
});

Deno.test("arguments that a person edited are judged by the rules, then sent", async () => {
  await using scene = await Scene.open();
  scene.answer = (request) => request.accept({ arguments: { amount: 2 } });
  assertEquals(await scene.pay(), [
    ...BEFORE,
    "asked: bank.pay(amount=1)",
    "rules: pay",
    "noted: allow by approver, undefined",
    'bank: tools/call {"amount":2}',
    "end: allow by approver, ok",
    "noted: allow by approver, undefined",
    "noted: its outcome, ok",
  ]);
});

Deno.test("arguments that a person edited into what the rules deny are not sent", async () => {
  await using scene = await Scene.open();
  scene.answer = (request) => request.accept({ arguments: { amount: 666 } });
  assertEquals(await scene.pay(), [
    ...BEFORE,
    "asked: bank.pay(amount=1)",
    "rules: pay",
    "end: deny by policy, approval_rejected",
    "noted: deny by policy, approval_rejected",
  ]);
});

Deno.test("a call that is remembered as allowed is noted, then sent", async () => {
  await using scene = await Scene.open();
  scene.answer = (request) => request.accept({ remember: { scope: "session", match: "tool" } });
  await scene.runner.run("bank", "pay", { amount: 3 });
  scene.steps.length = 0;
  const steps = await scene.pay();
  assertEquals(steps.slice(0, 3), ["begin", "rules: pay", "rules: pay"]); // the list is known
  assert(steps.includes("noted: allow by consent, undefined"));
  assertEquals(steps.filter((step) => step.startsWith("asked")), []);
  assertEquals(
    steps.filter((step) => /tools\/call|end/.test(step)),
    ['bank: tools/call {"amount":1}', "end: allow by consent, ok"],
  );
});

Deno.test("a call that a person denies is not sent", async () => {
  await using scene = await Scene.open();
  scene.answer = (request) => request.reject("no");
  assertEquals(await scene.pay(), [
    ...BEFORE,
    "asked: bank.pay(amount=1)",
    "end: deny by approver, approval_rejected",
    "noted: deny by approver, approval_rejected",
  ]);
});

Deno.test("a call that the rules deny does not even start its server", async () => {
  await using scene = await Scene.open();
  scene.mode = "deny";
  assertEquals(await scene.pay(), [
    "begin",
    "rules: pay",
    "end: deny by policy, approval_rejected",
    "noted: deny by policy, approval_rejected",
  ]);
});

Deno.test("a call is not sent when its server was replaced after it was shown", async () => {
  await using scene = await Scene.open();
  const other = scene.server("other");
  scene.answer = async (request) => {
    await scene.runner.registerServer("bank", other);
    await request.accept();
  };
  assertEquals(await scene.pay(), [
    ...BEFORE,
    "asked: bank.pay(amount=1)",
    "end: allow by approver, cancelled",
    "noted: allow by approver, undefined",
    "noted: its outcome, cancelled",
  ]);
});

Deno.test("a call is not sent when its tool is another one than the one that was shown", async () => {
  await using scene = await Scene.open();
  scene.answer = async (request) => {
    assertEquals(request.description, "Pays");
    scene.description = "Pays, and does something else";
    await scene.runner.listTools("bank");
    await request.accept();
  };
  assertEquals(await scene.pay(), [
    ...BEFORE,
    "asked: bank.pay(amount=1)",
    "bank: tools/list",
    "end: allow by approver, cancelled",
    "noted: allow by approver, undefined",
    "noted: its outcome, cancelled",
  ]);
});

for (const [what, annotations] of [["other", { title: "Other" }], ["same", undefined]] as const) {
  Deno.test(`a server that reports a change while a person is asked is asked again: ${what}`, async () => {
    await using folder = await TempFolder.create();
    const journal = `${folder.path}/journal`;
    await using runner = await ToolRunner.start({
      servers: { raw: rawServer("normal", journal) },
      approval: { decide: ({ toolName }) => ({ mode: toolName === "sleep" ? "ask" : "allow" }) },
      log: silentLogger,
    });
    using _approver = runner.channel.attach(async (request) => {
      const tool = { name: "sleep", inputSchema: { type: "object" }, annotations };
      await runner.run("raw", "define", { tool, say: true });
      await until(() => runner.changes.servers.includes("raw"));
      await request.accept();
    });
    const outcome = await runner.run("raw", "sleep", { ms: 1 })
      .then(() => "sent", (error: unknown) => {
        if (!(error instanceof ToolCallError)) throw error;
        return error.message;
      });
    const sent = (await Deno.readTextFile(journal)).match(/tools\/call/g)?.length;
    const refusal = "MCP server \"raw\" changed its tool 'sleep' before the call was sent";
    assertEquals([outcome, sent], annotations === undefined ? ["sent", 2] : [refusal, 1]);
  });
}

Deno.test("a call whose tool changes while it waits for its turn is not sent", async () => {
  await using folder = await TempFolder.create();
  const journal = `${folder.path}/journal`;
  await using runner = await ToolRunner.start({
    servers: { raw: rawServer("normal", journal) },
    log: silentLogger,
  });
  const sent = async () => (await Deno.readTextFile(journal)).match(/tools\/call/g)?.length;
  await runner.listTools("raw"); // starts it
  const cancel = new AbortController();
  const others = Array.from({ length: 63 }, () => { // all the turns but one
    const { signal } = cancel;
    return assertRejects(() => runner.run("raw", "sleep", { ms: 60_000 }, { signal }));
  });
  using approver = runner.channel.attach((request) => void request.accept());
  await until(async () => await sent() === 63);
  approver[Symbol.dispose]();
  const asked: ApprovalRequest[] = [];
  using _approver = runner.channel.attach((request) => void asked.push(request));
  const tool = { name: "sleep", inputSchema: { type: "object" }, annotations: { title: "Other" } };
  const first = runner.run("raw", "define", { tool, say: true });
  await until(() => asked.length === 1);
  const second = assertRejects(() => runner.run("raw", "sleep", { ms: 1 }), ToolCallError);
  await until(() => asked.length === 2);
  for (const request of asked) await request.accept();
  await first;
  const { message } = await second;
  assertEquals(message, "MCP server \"raw\" changed its tool 'sleep' before the call was sent");
  assertEquals(await sent(), 64);
  cancel.abort();
  await Promise.all(others);
});

Deno.test("a call whose tool changes while a person opens a page for it is not sent again", async () => {
  await using scene = await Scene.open();
  const elicitation = {
    mode: "url",
    elicitationId: "1",
    message: "Log in",
    url: "https://a.test/",
  };
  const error = { code: -32042, message: "Log in first", data: { elicitations: [elicitation] } };
  scene.reply = () => ({ error });
  using _answerer = scene.runner.elicitations.attach(async (question) => {
    scene.description = "Pays, and does something else";
    await scene.runner.listTools("bank");
    question.accept();
  });
  const steps = await scene.pay();
  assertEquals(steps.filter((step) => step.startsWith("bank: tools/call")).length, 1);
  assert(steps.includes("end: allow by approver, cancelled"));
});

Deno.test("a call that is cancelled while a person is asked is not sent", async () => {
  await using scene = await Scene.open();
  const cancel = new AbortController();
  scene.answer = () => cancel.abort();
  assertEquals(await scene.pay(cancel), [
    ...BEFORE,
    "asked: bank.pay(amount=1)",
    "end: deny by cancelled, cancelled",
    "noted: deny by cancelled, cancelled",
  ]);
});

Deno.test("a call that is cancelled after it was sent is noted as such", async () => {
  await using scene = await Scene.open();
  const cancel = new AbortController();
  scene.reply = () => {
    cancel.abort();
    return PAID;
  };
  assertEquals(await scene.pay(cancel), [
    ...BEFORE,
    "asked: bank.pay(amount=1)",
    "noted: allow by approver, undefined",
    'bank: tools/call {"amount":1}',
    "end: allow by approver, cancelled",
    "noted: allow by approver, undefined",
    "noted: its outcome, cancelled",
  ]);
});

const FAILURES: readonly (readonly [status: string, reply: Reply])[] = [
  ["protocol_error", { error: { code: -32000, message: "no" } }],
  ["tool_error", { result: { content: [], isError: true } }],
];

for (const [status, reply] of FAILURES) {
  Deno.test(`a call that fails at its server ends as ${status}, and is not sent again`, async () => {
    await using scene = await Scene.open();
    scene.mode = "allow";
    scene.reply = () => reply;
    assertEquals(await scene.pay(), [
      ...BEFORE,
      "noted: allow by policy, undefined",
      'bank: tools/call {"amount":1}',
      `end: allow by policy, ${status}`,
      "noted: allow by policy, undefined",
      `noted: its outcome, ${status}`,
    ]);
  });
}

Deno.test("a resource is asked for in the same order, a list only if the rules do not deny it", async () => {
  await using scene = await Scene.open();
  const request = (method: "resources/read" | "resources/list", params: Reply = {}) =>
    scene.runner.catalog({ serverName: "bank", method, params });
  await request("resources/list");
  assertEquals(scene.steps, [
    "begin",
    "rules: resources/list",
    "bank: resources/list",
    "end: undefined by undefined, ok",
  ]);
  scene.steps.length = 0;
  scene.mode = "deny";
  await assertRejects(() => request("resources/list"), ToolCallError);
  assertEquals(scene.steps, [
    "begin",
    "rules: resources/list",
    "end: deny by policy, approval_rejected",
  ]);
  scene.steps.length = 0;
  scene.mode = "ask";
  const steps = await scene.run(() => request("resources/read", { uri: "a:b" }));
  const own = (step: string) => !/noted: (?!allow by approver)/.test(step);
  assertEquals(steps.filter(own), [
    "begin",
    "rules: resources/read",
    "rules: resources/read",
    "asked: bank.resources/read(uri='a:b')",
    "noted: allow by approver, undefined",
    'bank: resources/read {"uri":"a:b"}',
    "end: allow by approver, ok",
    "noted: allow by approver, undefined",
  ]);
});

Deno.test("a shell command is decided and noted before it may run", async () => {
  await using scene = await Scene.open();
  const call = {
    kind: "shell",
    serverName: "ipybox",
    toolName: "shell",
    arguments: { cmd: "ls" },
  } as const;
  assertEquals(await scene.run(() => scene.runner.approve(call)), [
    "begin",
    "rules: shell",
    "asked: ipybox.shell(cmd='ls')",
    "end: allow by approver, approved",
    "noted: allow by approver, approved",
  ]);
});
