/** Attacks on whoever decides, over the approval WebSocket and within the process. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { ApprovalClient } from "../../src/approval/client.ts";
import { ToolCallError } from "../../src/base/errors.ts";
import { silentLogger } from "../../src/base/log.ts";
import { ToolServer } from "../../src/calls/tool_server.ts";
import { rejection, until } from "../support/wait.ts";
import { rawServer } from "../support/mcp.ts";
import { TempFolder } from "../support/temp_folder.ts";

/** A server with a gated tool, and the calls that the tool has got. */
class Gate implements AsyncDisposable {
  private constructor(
    readonly server: ToolServer,
    readonly journal: string,
    readonly parts: AsyncDisposableStack,
  ) {}

  static async open(approvalTimeoutMs?: number): Promise<Gate> {
    await using parts = new AsyncDisposableStack();
    const folder = parts.use(await TempFolder.create());
    const journal = `${folder.path}/journal`;
    const server = parts.use(
      await ToolServer.start({
        servers: { raw: rawServer("normal", journal) },
        approvalTimeoutMs,
        log: silentLogger,
      }),
    );
    return new Gate(server, journal, parts.move());
  }

  /** Calls the gated tool, and gives its count, or why it was refused. */
  async call(): Promise<string> {
    try {
      return (await this.server.runner.run("raw", "count")).content[0]?.text as string;
    } catch (error) {
      if (!(error instanceof ToolCallError)) throw error;
      return `${error.type}: ${error.details.reason}`;
    }
  }

  async calls(): Promise<number> {
    const text = await Deno.readTextFile(this.journal).catch(() => ""); // it was never started
    return text.split("\n").filter((line) => line === "tools/call").length;
  }

  /** A client that says what it likes. */
  async client(): Promise<RawApprover> {
    const { url, token } = this.server.applicationDoor;
    const headers = { authorization: `Bearer ${token}` };
    const socket = new WebSocket(`ws://${url.host}/approval`, { headers });
    const opened = Promise.withResolvers<void>();
    socket.onopen = () => opened.resolve();
    socket.onerror = () => opened.reject(new Error("It did not open"));
    const client = new RawApprover(socket);
    await opened.promise;
    return client;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.parts.disposeAsync();
  }
}

class RawApprover implements AsyncDisposable {
  readonly shown: string[] = [];
  readonly #closed = Promise.withResolvers<void>();

  constructor(readonly socket: WebSocket) {
    socket.onmessage = ({ data }) => void this.shown.push(String(data));
    socket.onclose = () => this.#closed.resolve();
  }

  /** The id of the request that is shown next. */
  async id(): Promise<string> {
    const seen = this.shown.length;
    const next = () => this.shown.slice(seen).find((text) => text.includes('"approve"'));
    await until(() => next() !== undefined);
    return JSON.parse(next() ?? "").id;
  }

  answer(id: string, result: unknown): void {
    this.socket.send(JSON.stringify({ jsonrpc: "2.0", id, result }));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.socket.close();
    await this.#closed.promise;
  }
}

Deno.test("A8: an id that was guessed, is old or belongs to another connection approves nothing", async () => {
  await using gate = await Gate.open();
  const ids = new Set<string>();
  let old = "";
  {
    await using first = await gate.client();
    const call = gate.call();
    old = await first.id();
    ids.add(old);
    first.answer(old, false);
    assertMatch(await call, /^approval_rejected/);

    const pending = gate.call();
    const left = await first.id();
    ids.add(left);
    await first[Symbol.asyncDispose]();
    assertEquals(await pending, "approval_unavailable: Approval channel disconnected");

    await using second = await gate.client();
    const asked = gate.call();
    const id = await second.id();
    ids.add(id);
    const [random, hash] = id.split(".");
    const unbound = [`${random}`, `${random}.`, `${crypto.randomUUID()}.${hash}`];
    const blurred = [id.toUpperCase(), id.slice(0, -1), `${id} `, ` ${id}`, `${id}\0`, "", "*"];
    for (const guess of [old, left, crypto.randomUUID(), ...unbound, ...blurred]) {
      if (guess !== id) second.answer(guess, true);
    }
    for (const odd of [[id], { id }, 1, null]) {
      second.socket.send(JSON.stringify({ jsonrpc: "2.0", id: odd, result: true }));
    }
    second.socket.send(JSON.stringify([{ jsonrpc: "2.0", id, result: true }])); // no batches
    second.socket.send(JSON.stringify({ jsonrpc: "1.0", id, result: true }));
    second.socket.send(JSON.stringify({ jsonrpc: "2.0", id, result: true }).slice(0, -1));
    for (const text of ["", "{", "true", "[]"]) second.socket.send(text);
    second.socket.send(new Uint8Array([1, 2, 3]));
    second.answer(id, false); // what came before has been read once this is
    assertEquals(await asked, "approval_rejected: no reason was given");
  }
  assertEquals(ids.size, 3);
  assertEquals(await gate.calls(), 0);
});

Deno.test("A8: only the first answer counts, and one call runs once", async () => {
  await using gate = await Gate.open();
  await using client = await gate.client();
  const call = gate.call();
  const id = await client.id();
  for (let n = 0; n < 10; n++) client.answer(id, true);
  assertEquals(await call, "1");

  const refused = gate.call();
  const next = await client.id();
  client.answer(next, false);
  for (let n = 0; n < 10; n++) client.answer(next, true);
  assertMatch(await refused, /^approval_rejected/);
  client.answer(id, true);

  const last = gate.call();
  client.answer(await client.id(), { approved: false, reason: "seen all before" });
  assertEquals(await last, "approval_rejected: seen all before");
  assertEquals(await gate.calls(), 1);
});

Deno.test("A8: an answer that comes too late approves nothing", async () => {
  await using gate = await Gate.open(50);
  await using client = await gate.client();
  const call = gate.call();
  const id = await client.id();
  assertEquals(await call, "approval_timeout: No decision within 0.05 s");
  client.answer(id, true);
  const next = gate.call();
  const later = await client.id(); // so the late answer has been sent before
  client.answer(id, true);
  client.answer(later, false);
  assertMatch(await next, /^approval_(rejected|timeout)/);
  assertEquals(await gate.calls(), 0);
});

Deno.test("A9: answers that are none, and edited arguments that are no object, run nothing", async () => {
  await using gate = await Gate.open();
  await using client = await gate.client();
  const edits = [1, null, [], "{}", true].map((edited) => ({ approved: true, arguments: edited }));
  const others = [1, "true", null, { approved: true }, { approved: "true" }, {}, {
    approved: true,
    arguments: {},
    other: 1,
  }];
  for (const answer of [...edits, ...others]) {
    const call = gate.call();
    client.answer(await client.id(), answer);
    assertMatch(await call, /^approval_rejected: The approver's answer was malformed/);
  }
  const call = gate.call();
  const remember = { scope: "cell", match: "tool" }; // where there is no cell
  client.answer(await client.id(), { approved: true, remember });
  assertMatch(
    await call,
    /^approval_rejected: The approver's answer cannot be used: Cannot remember/,
  );
  assertEquals(await gate.calls(), 0);
});

Deno.test("A10: a second approver waits for its turn, and what the first one leaves is denied", async () => {
  await using gate = await Gate.open();
  const { url, token } = gate.server.applicationDoor;
  await using first = await gate.client();
  const call = gate.call();
  const id = await first.id();
  const second = ApprovalClient.connect({
    url,
    token,
    onRequest: (request) => void request.accept(),
    log: silentLogger,
  });
  await first[Symbol.asyncDispose]();
  assertEquals(await call, "approval_unavailable: Approval channel disconnected");
  await using _second = await second;
  assertEquals(await gate.calls(), 0); // it was not asked about what the first one left
  assert(id !== "");
  assertEquals(await gate.call(), "1");
});

Deno.test("A10: many approvers at once are sent away while one stays, and decide nothing", async () => {
  await using gate = await Gate.open();
  await using first = await gate.client();
  const others = await Promise.all(
    Array.from({ length: 5 }, () => rejection(gate.client())),
  );
  for (const error of others) assertMatch(String(error), /did not open/);
  const call = gate.call();
  first.answer(await first.id(), false);
  assertMatch(await call, /^approval_rejected/);
  assertEquals(await gate.calls(), 0);
});

Deno.test("A10: the calls of an approver that is killed are denied", async () => {
  await using gate = await Gate.open();
  const { url, token } = gate.server.applicationDoor;
  await using folder = await TempFolder.create();
  const root = new URL("../../", import.meta.url);
  const script = `
    import { ApprovalClient } from ${JSON.stringify(new URL("approval.ts", root).href)};
    await using client = await ApprovalClient.connect({
      url: ${JSON.stringify(url.href)},
      token: ${JSON.stringify(token)},
      onRequest: () => console.log("asked"),
    });
    await client.closed;
  `;
  await Deno.writeTextFile(`${folder.path}/approver.ts`, script);
  const config = new URL("deno.json", root).pathname;
  const approver = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-check", "--config", config, `${folder.path}/approver.ts`],
    stdin: "null",
    stdout: "piped",
  }).spawn();
  await until(() => gate.server.runner.channel.attached);
  const call = gate.call();
  const said = approver.stdout.getReader();
  await said.read();
  approver.kill("SIGKILL");
  assertEquals(await call, "approval_unavailable: Approval channel disconnected");
  await said.cancel();
  await approver.status;
  assertEquals(await gate.calls(), 0);
});
