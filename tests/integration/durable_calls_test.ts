/** Calls of a durable session: code asks again until there is an answer, and each is sent at most once. */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import type { ApprovalMode, ApprovalPolicy } from "../../src/approval/policy.ts";
import type { ApprovalRequest } from "../../src/approval/request.ts";
import { callHash } from "../../src/approval/call_text.ts";
import { type Logger, silentLogger } from "../../src/base/log.ts";
import { type CallRecord, JournalFile } from "../../src/calls/journal_file.ts";
import { parseExact, sealObject } from "../../src/json/exact.ts";
import { callDoor, callText } from "../support/door.ts";
import { DurableDoor, type Host } from "../support/durable_door.ts";
import { python, pythonJson, rawServer } from "../support/mcp.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { until } from "../support/wait.ts";
import { stateOf } from "../support/workspace_state.ts";

const IMPORTS = `
import asyncio, json, os, signal, sys, threading, time
import ipybox_runtime as r
raw = r.ToolRunner("raw")
`;

/** A session whose hosts come and go. Disposing it ends the last one. */
class Scene implements AsyncDisposable {
  readonly door = new DurableDoor();
  readonly requests: ApprovalRequest[] = [];
  readonly warnings: string[] = [];
  /** What the policy says from now on. */
  mode: ApprovalMode = "ask";
  #host: Host | undefined;

  private constructor(readonly folder: TempFolder) {}

  static async create(): Promise<Scene> {
    const folder = await TempFolder.create();
    await Deno.mkdir(`${folder.path}/workspace`);
    return new Scene(folder);
  }

  get journalFolder(): string {
    return `${this.folder.path}/journal`;
  }

  /** Starts a host, at which a test decides. */
  async attach(serverMode = "normal"): Promise<Host> {
    const policy: ApprovalPolicy = { decide: () => ({ mode: this.mode }) };
    const log: Logger = { ...silentLogger, warn: (text) => void this.warnings.push(text) };
    const host = await this.door.attach({
      folder: this.journalFolder,
      workspace: `${this.folder.path}/workspace`,
      consents: false,
      servers: { raw: rawServer(serverMode, `${this.folder.path}/effects`) },
      approval: policy,
      log,
    });
    host.server.runner.channel.attach((request) => void this.requests.push(request));
    return this.#host = host;
  }

  /** Takes the host away, as its end does. */
  async detach(): Promise<void> {
    this.door.detach();
    await this.#host?.[Symbol.asyncDispose]();
    this.#host = undefined;
  }

  /** Waits for a question, and gives it. */
  async question(number: number): Promise<ApprovalRequest> {
    await until(() => this.requests.length >= number);
    const request = this.requests[number - 1];
    assert(request !== undefined);
    return request;
  }

  /** How many calls have reached the server. */
  async effects(): Promise<number> {
    const text = await Deno.readTextFile(`${this.folder.path}/effects`).catch(() => "");
    return text.split("\n").filter((line) => line === "tools/call").length;
  }

  /** Makes a call with an id at the door. */
  call(id: string, tool = "count", args = "{}"): Promise<Record<string, unknown> | undefined> {
    return callDoor(this.door.door, "run", bodyOf(tool, args), { id });
  }

  /** Puts a call into the journal as a killed host would have left it. */
  async leave(id: string, step: (file: JournalFile) => void, args = "{}"): Promise<void> {
    const call = {
      kind: "tool",
      serverName: "raw",
      toolName: "count",
      arguments: sealObject(parseExact(args)),
    } as const;
    using file = await JournalFile.open(this.journalFolder);
    file.begin({ ...call, id, hash: callHash(call) });
    step(file);
  }

  /** What the journal has of a call. */
  async record(id: string): Promise<CallRecord | undefined> {
    using file = await JournalFile.open(this.journalFolder);
    return file.find(id);
  }

  async python(code: string): Promise<unknown> {
    return await pythonJson(`${IMPORTS}${code}`, { door: this.door.door, durable: true });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.detach();
    await this.door[Symbol.asyncDispose]();
    await this.folder[Symbol.asyncDispose]();
  }
}

function bodyOf(tool: string, args: string): string {
  return `{"server":"raw","tool":"${tool}","arguments":${args}}`;
}

let ids = 0;

function newId(): string {
  return (++ids).toString(16).padStart(32, "0");
}

function textOf(answer: unknown): unknown {
  const { response } = answer as { response?: { result: { content: { text: string }[] } } };
  return response?.result.content[0]?.text ?? answer;
}

function typeOf(answer: unknown): unknown {
  return (answer as { error?: { type: string } }).error?.type ?? answer;
}

Deno.test("a call that waits is asked about again by the next host, with when it was asked first", async () => {
  await using scene = await Scene.create();
  await scene.attach();
  const answer = scene.python(`print(json.dumps(raw.run_sync("count").text))`);
  const { askedAt, callId } = await scene.question(1);
  assertEquals(askedAt, undefined);
  await scene.detach();
  const second = await scene.attach();
  const [waiting] = second.journal.waiting();
  assertEquals([waiting?.id, waiting?.toolName], [callId, "count"]);
  const again = await scene.question(2);
  assertEquals([again.callId, again.askedAt], [callId, waiting?.since]);
  await again.accept();
  assertEquals(await answer, "1");
  assertEquals([second.journal.waiting(), await scene.effects()], [[], 1]);
});

Deno.test("code waits for a host that is not there yet, and takes its answer in threads and tasks", async () => {
  await using scene = await Scene.create();
  scene.mode = "allow";
  const answer = scene.python(`
found = []
threads = [
    threading.Thread(target=lambda: found.append(raw.run_sync("count").text)) for _ in range(4)
]
for thread in threads:
    thread.start()
async def main():
    return await asyncio.gather(*(raw.run("count") for _ in range(4)))
found += [each.text for each in asyncio.run(main())]
for thread in threads:
    thread.join()
print(json.dumps(sorted(int(each) for each in found)))`);
  await new Promise((resolve) => setTimeout(resolve, 300)); // some attempts fail before it comes
  await scene.attach();
  assertEquals(await answer, [1, 2, 3, 4, 5, 6, 7, 8]);
  assertEquals(await scene.effects(), 8);
});

Deno.test("code of a session that is not durable fails with its connection, as ever", async () => {
  await using scene = await Scene.create();
  const { code, stderr } = await python(`${IMPORTS}raw.run_sync("count")`, {
    door: scene.door.door,
  });
  assertEquals(code, 1);
  assertStringIncludes(stderr, "ToolServerError: Cannot reach the tool server: ");
});

Deno.test("Ctrl-C, and the end of a task, end the wait for a host", async () => {
  await using scene = await Scene.create();
  const found = await scene.python(`
import ipybox_runtime.session as session
class Clock:
    def sleep(self, seconds):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(60)
session.time = Clock()
found = []
try:
    raw.run_sync("count")
except KeyboardInterrupt:
    found.append("interrupted")
async def main():
    try:
        await asyncio.wait_for(raw.run("count"), 0.5)
    except asyncio.TimeoutError:
        found.append("timed out")
asyncio.run(main())
print(json.dumps(found))`);
  assertEquals(found, ["interrupted", "timed out"]);
});

Deno.test("a cancelled task takes its question back for good, a broken connection does not", async () => {
  await using scene = await Scene.create();
  const { journal } = await scene.attach();
  const found = scene.python(`
async def main():
    call = asyncio.create_task(raw.run("count"))
    while not os.path.exists(${JSON.stringify(`${scene.folder.path}/cancel`)}):
        await asyncio.sleep(0.01)
    call.cancel()
    try:
        await call
    except asyncio.CancelledError:
        return "cancelled"
print(json.dumps(asyncio.run(main())))`);
  const { callId } = await scene.question(1);
  scene.door.cut();
  const again = await scene.question(2);
  assert(scene.requests[0]?.signal.aborted);
  assertEquals([again.callId, journal.waiting().length], [callId, 1]);
  await Deno.writeTextFile(`${scene.folder.path}/cancel`, "");
  assertEquals(await found, "cancelled");
  await until(() => again.signal.aborted && journal.waiting().length === 0);
  assertEquals((await scene.record(`${callId}`))?.status, "cancelled");
  assertEquals(await scene.effects(), 0);
});

Deno.test("a call that was decided on is judged again, and sent without a question", async () => {
  await using scene = await Scene.create();
  await scene.attach();
  const [asked, edited] = [newId(), newId()];
  const first = Promise.all([scene.call(asked), scene.call(edited)]);
  await (await scene.question(1)).accept();
  await (await scene.question(2)).accept({ arguments: { by: 5 } });
  await first;
  const decisions = await Promise.all(
    [asked, edited].map(async (id) => (await scene.record(id))?.decision ?? ""),
  );
  await scene.detach();

  const [plain, changed, otherTool, otherServer, denied, byPolicy] = Array.from(
    { length: 6 },
    newId,
  );
  const put = (id: string | undefined, decision: string | undefined, args: string | null = null) =>
    scene.leave(id ?? "", (file) => file.decide(id ?? "", decision ?? "", args));
  const withoutEdit = decisions.find((text) => !text.includes('"edited"'));
  const withEdit = decisions.find((text) => text.includes('"edited"'));
  await put(plain, withoutEdit);
  await put(changed, withEdit, '{"by":5}');
  await put(otherTool, withoutEdit?.replace(/("toolHash":)"\w+"/, '$1"0"'));
  await put(otherServer, withoutEdit?.replace(/("serverHash":)"\w+"/, '$1"0"'));
  await put(denied, withoutEdit);
  await put(byPolicy, withoutEdit?.replace('"approver"', '"policy"'));
  const before = await scene.effects();
  await scene.attach();
  assertEquals(textOf(await scene.call(plain ?? "")), "1");
  assertEquals(textOf(await scene.call(changed ?? "")), "2");
  assertEquals(scene.requests.length, 2);
  assertEquals(await scene.effects(), before + 2);
  const audit = await Deno.readTextFile(
    `${await stateOf(`${scene.folder.path}/workspace`)}/audit.jsonl`,
  );
  const line = audit.split("\n").find((line) => line.includes(`"id":"${changed}"`)) ?? "{}";
  const { edited: noted, decision, by } = JSON.parse(line);
  assertEquals([noted, decision, by], [{ by: 5 }, "allow", "approver"]);
  // What was decided on something else is asked about again.
  for (const id of [otherTool, otherServer, byPolicy]) {
    const number = scene.requests.length + 1;
    const answer = scene.call(id ?? "");
    await (await scene.question(number)).reject("not this one");
    assertEquals(typeOf(await answer), "approval_rejected");
  }
  scene.mode = "deny";
  assertEquals(typeOf(await scene.call(denied ?? "")), "approval_rejected");
  scene.mode = "allow";
  assertEquals(typeOf(await scene.call(denied ?? "")), "approval_rejected"); // it is over
  assertEquals(await scene.effects(), before + 2);
});

Deno.test("a call that may have been sent is never sent again, and a person learns of it", async () => {
  await using scene = await Scene.create();
  const id = newId();
  await scene.leave(id, (file) => {
    file.decide(id, '{"by":"approver"}', null);
    file.send(id);
  });
  scene.mode = "allow";
  const { server } = await scene.attach();
  const ended: unknown[] = [];
  using _follower = server.runner.events.followCalls((event) => {
    if (event.type === "call_ended") ended.push([event.callId, event.status]);
  });
  for (let time = 0; time < 2; time++) {
    assertEquals(typeOf(await scene.call(id)), "outcome_unknown");
  }
  assertEquals(await scene.effects(), 0);
  assertEquals((await scene.record(id))?.state, "sent");
  assertEquals(ended[0], [id, "outcome_unknown"]);
  assertMatch(scene.warnings[0] ?? "", /^The outcome of raw\.count is unknown: /);
  await scene.detach();
  const audit = await Deno.readTextFile(
    `${await stateOf(`${scene.folder.path}/workspace`)}/audit.jsonl`,
  );
  const line = audit.split("\n").find((line) => line.includes(id)) ?? "{}";
  assertEquals(JSON.parse(line).status, "outcome_unknown");
});

Deno.test("a call that is over gives the same answer again, or says that it is not kept", async () => {
  await using scene = await Scene.create();
  scene.mode = "allow";
  await scene.attach();
  const [small, large, failed] = [newId(), newId(), newId()];
  const answers = [
    await scene.call(small),
    await scene.call(failed, "fail", '{"code":-32050}'),
    await scene.call(large, "big", `{"size":${2 ** 20}}`),
  ];
  assertEquals(String(textOf(answers[2])).length, 2 ** 20);
  await scene.detach();
  await scene.attach();
  assertEquals(await scene.call(small), answers[0]);
  assertEquals(await scene.call(failed, "fail", '{"code":-32050}'), answers[1]);
  const lost = await scene.call(large, "big", `{"size":${2 ** 20}}`);
  assertEquals(typeOf(lost), "outcome_unknown");
  assertStringIncludes(JSON.stringify(lost), 'ended with \\"ok\\"');
  assertEquals(await scene.effects(), 3);
});

Deno.test("attempts with one id at the same time make one call", async () => {
  await using scene = await Scene.create();
  await scene.attach();
  const id = newId();
  const answers = Promise.all(Array.from({ length: 5 }, () => scene.call(id)));
  await (await scene.question(1)).accept();
  assertEquals((await answers).map(textOf), Array(5).fill("1"));
  assertEquals([scene.requests.length, await scene.effects()], [1, 1]);
});

Deno.test("a call that was sent goes on when its connection breaks, and gives its result later", async () => {
  await using scene = await Scene.create();
  scene.mode = "allow";
  await scene.attach();
  const id = newId();
  const first = scene.call(id, "sleep", '{"ms":1000}');
  await until(async () => await scene.effects() === 1);
  scene.door.cut();
  assertEquals(await first, undefined);
  assertEquals(textOf(await scene.call(id, "sleep", '{"ms":1000}')), "slept");
  assertEquals(await scene.effects(), 1);
});

Deno.test("of two hosts that have a call, only the later one sends it", async () => {
  await using scene = await Scene.create();
  const first = await scene.attach();
  const id = newId();
  const lost = scene.call(id);
  const old = await scene.question(1);
  const second = await scene.attach(); // takes over; the first one does not know
  const answer = scene.call(id);
  const again = await scene.question(2);
  await old.accept();
  assertEquals(typeOf(await lost), "cancelled");
  assertEquals(await scene.effects(), 0);
  await again.accept();
  assertEquals(textOf(await answer), "1");
  assertEquals(await scene.effects(), 1);
  assertEquals(second.journal.waiting(), []);
  await first[Symbol.asyncDispose]();
});

Deno.test("calls of a kernel that was replaced are over", async () => {
  await using scene = await Scene.create();
  const [left, waiting] = [newId(), newId()];
  await scene.leave(left, () => {});
  const { server } = await scene.attach();
  const answer = scene.call(waiting);
  const request = await scene.question(1);
  server.renewKernelToken();
  assertEquals(await answer, undefined);
  await until(() => request.signal.aborted);
  for (const id of [left, waiting]) {
    await until(async () => (await scene.record(id))?.status === "cancelled");
  }
  assertEquals(await scene.effects(), 0);
});

Deno.test("a shell command that was approved is approved again for the same id only", async () => {
  await using scene = await Scene.create();
  await scene.attach();
  const id = newId();
  const ask = (cmd: string) =>
    callDoor(scene.door.door, "approve", `{"kind":"shell","arguments":{"cmd":"${cmd}"}}`, { id });
  const answer = ask("ls");
  await (await scene.question(1)).accept();
  const approved = await answer;
  assertEquals(approved?.approved, true);
  await scene.detach();
  await scene.attach();
  assertEquals(await ask("ls"), approved);
  assertEquals(typeOf(await ask("rm")), "tool_server_error");
  assertEquals(scene.requests.length, 1);
});

Deno.test("eight parallel calls, and hosts that go at any moment: each effect happens at most once", async () => {
  await using scene = await Scene.create();
  await scene.attach();
  const answer = scene.python(`
async def call(number):
    try:
        return (await raw.run("mark", {"ms": 20 * number, "name": number})).text
    except r.OutcomeUnknownError:
        return "unknown"
async def main():
    return await asyncio.gather(*(call(number) for number in range(8)))
print(json.dumps(asyncio.run(main())))`);
  let isOver = false;
  const found = answer.finally(() => isOver = true);
  const accepted = new Set<ApprovalRequest>();
  for (let host = 0; !isOver; host++) {
    // Each host decides on what it is asked about, and goes after some of that.
    for (let decided = 0; decided < 3 && !isOver;) {
      await until(() => isOver || scene.requests.some((each) => !accepted.has(each)));
      const next = scene.requests.find((each) => !accepted.has(each));
      if (next === undefined) continue;
      accepted.add(next);
      if (await next.accept()) decided++;
    }
    if (isOver) break;
    if (host % 2 === 0) scene.door.cut();
    else {
      await scene.detach();
      await scene.attach();
    }
  }
  const texts = await found as string[];
  const effects = (await Deno.readTextFile(`${scene.folder.path}/effects`)).split("\n");
  for (const [number, text] of texts.entries()) {
    const times = effects.filter((line) => line === `mark ${number}`).length;
    if (text === "unknown") assert(times <= 1, `${number} happened ${times} times`);
    else assertEquals([text, times], ["marked", 1]);
  }
  const ids = new Set(scene.requests.map(({ callId }) => `${callId}`));
  const states = await Promise.all([...ids].map(async (id) => (await scene.record(id))?.state));
  assertEquals(states.filter((state) => state === "done").length, marked(texts));
  assertEquals(states.filter((state) => state === "sent").length, 8 - marked(texts));
});

function marked(texts: readonly string[]): number {
  return texts.filter((text) => text === "marked").length;
}

Deno.test("a caller that says that it gives up ends its call, wherever it says so", async () => {
  await using scene = await Scene.create();
  const { journal } = await scene.attach();
  const id = newId();
  const { hostname, port } = scene.door.door;
  using connection = await Deno.connect({ hostname, port });
  const text = callText(scene.door.door, "run", bodyOf("count", "{}"), { id });
  await connection.write(new TextEncoder().encode(text));
  const request = await scene.question(1);
  await connection.write(new TextEncoder().encode("\n"));
  await until(() => request.signal.aborted && journal.waiting().length === 0);
  assertEquals(typeOf(await scene.call(id)), "cancelled");
});
