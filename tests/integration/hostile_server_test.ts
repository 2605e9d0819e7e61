/** Servers that misbehave: their own calls may fail, nothing else does, and nothing of them stays. */
import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { ToolCallError } from "../../src/base/errors.ts";
import { silentLogger } from "../../src/base/log.ts";
import type { ToolCall } from "../../src/calls/calls.ts";
import { ToolRunner, type ToolRunnerOptions } from "../../src/calls/runner.ts";
import { isAlive, rawServer } from "../support/mcp.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { until } from "../support/wait.ts";

async function start(mode: string, journal: string, options: ToolRunnerOptions = {}) {
  const servers = { good: rawServer(), bad: rawServer(mode, journal) };
  return await ToolRunner.start({ servers, approval: "allow", log: silentLogger, ...options });
}

async function text(runner: ToolRunner, server: string, tool: string, args = {}): Promise<string> {
  const { content } = await runner.run(server, tool, args);
  return String(content[0]?.text);
}

async function pids(journal: string): Promise<number[]> {
  const text = await Deno.readTextFile(journal);
  return [...text.matchAll(/^(?:start|child) (\d+)$/gm)].map(([, pid]) => Number(pid));
}

for (const mode of ["garbage", "unasked", "flood", "stubborn"]) {
  Deno.test(`a server that is ${mode} works, harms no other, and leaves nothing behind`, async () => {
    await using folder = await TempFolder.create();
    const journal = `${folder.path}/journal`;
    {
      await using runner = await start(mode, journal);
      for (let round = 1; round <= 20; round++) {
        const counts = [text(runner, "bad", "count"), text(runner, "good", "count")];
        assertEquals(await Promise.all(counts), [`${round}`, `${round}`]);
      }
    }
    for (const pid of await pids(journal)) await until(async () => !await isAlive(pid));
    assertEquals((await pids(journal)).length, mode === "stubborn" ? 2 : 1);
  });
}

Deno.test("a result of 50 MB arrives, and other servers answer meanwhile", async () => {
  await using folder = await TempFolder.create();
  await using runner = await start("normal", `${folder.path}/journal`);
  await text(runner, "good", "count");
  let done = false;
  const big = text(runner, "bad", "big", { size: 50_000_000 }).finally(() => done = true);
  let answers = 0;
  while (!done) {
    await text(runner, "good", "count");
    answers++;
  }
  assertEquals((await big).length, 50_000_000);
  assert(answers > 1);
});

Deno.test("a server that dies in the middle of calls ends those, and no others", async () => {
  await using folder = await TempFolder.create();
  await using runner = await start("normal", `${folder.path}/journal`);
  const slow = (serverName: string, ms: number): ToolCall => ({
    serverName,
    toolName: "sleep",
    arguments: { ms },
  });
  const good = runner.calls.callTool(slow("good", 500));
  const bad = [1, 2, 3].map(() =>
    assertRejects(() => runner.calls.callTool(slow("bad", 60_000)), ToolCallError)
  );
  await text(runner, "bad", "count");
  await assertRejects(() => runner.run("bad", "die", { code: 3 }), ToolCallError);
  for (const error of await Promise.all(bad)) assertEquals(error.type, "server_died");
  assertEquals((await good).content[0]?.text, "slept");
});

Deno.test("a server that nobody uses is stopped, and started by the next call", async () => {
  await using folder = await TempFolder.create();
  const journal = `${folder.path}/journal`;
  await using runner = await start("normal", journal, { serverIdleMs: 300 });
  assertEquals(await text(runner, "bad", "sleep", { ms: 600 }), "slept");
  assertEquals(await text(runner, "bad", "count"), "1");
  assertEquals((await pids(journal)).length, 1);
  const [pid = 0] = await pids(journal);
  await until(async () => !await isAlive(pid));
  assertEquals(await text(runner, "bad", "count"), "1");
  assertEquals((await pids(journal)).length, 2);
});

Deno.test("a server is not stopped just as a call of it is decided on", async () => {
  const idleMs = 2000;
  await using runner = await ToolRunner.start({
    servers: { raw: rawServer("normal") },
    serverIdleMs: idleMs,
    log: silentLogger,
  });
  let wait = () => Promise.resolve();
  using _approver = runner.channel.attach(async (request) => {
    await wait();
    await request.accept();
  });
  assertEquals(await text(runner, "raw", "count"), "1");
  const stop = performance.now() + idleMs + 50; // of a server that nobody asks for again
  const pause = (time: number) => new Promise<void>((resolve) => setTimeout(resolve, time));
  await pause(idleMs / 2);
  wait = () => pause(stop - performance.now());
  assertEquals(await text(runner, "raw", "count"), "2");
});

Deno.test("a server is sent 64 calls at once and no more, and a wait can be given up", async () => {
  await using folder = await TempFolder.create();
  const journal = `${folder.path}/journal`;
  await using runner = await start("normal", journal);
  const sent = async () => (await Deno.readTextFile(journal)).match(/tools\/call/g)?.length ?? 0;
  await text(runner, "bad", "count");
  const cancels = Array.from({ length: 64 }, () => new AbortController());
  const sleeping = cancels.map(({ signal }) =>
    assertRejects(() => runner.run("bad", "sleep", { ms: 60_000 }, { signal }), ToolCallError)
  );
  await until(async () => await sent() === 65);

  const cancel = new AbortController();
  const given = runner.run("bad", "count", {}, { signal: cancel.signal });
  const next = text(runner, "bad", "count");
  assertEquals(await text(runner, "good", "count"), "1"); // another server's calls do not wait
  cancel.abort();
  assertEquals((await assertRejects(() => given, ToolCallError)).type, "cancelled");
  assertEquals(await sent(), 65);

  cancels[0]?.abort();
  assertEquals(await next, "2");
  for (const each of cancels) each.abort();
  await Promise.all(sleeping);
});

Deno.test("servers whose tools changed are known until they are registered anew", async () => {
  await using folder = await TempFolder.create();
  const journal = `${folder.path}/journal`;
  await using runner = await start("late", journal);
  await text(runner, "bad", "count");
  await until(() => runner.changes.servers.length > 0);
  assertEquals(runner.changes.servers, ["bad"]);
  await runner.registerServer("bad", rawServer("normal", journal));
  assertEquals(runner.changes.servers, []);
});

Deno.test("a list that takes too much memory is not asked for to its end", async () => {
  await using folder = await TempFolder.create();
  const journal = `${folder.path}/journal`;
  await using runner = await start("endless", journal);
  const error = await assertRejects(() => runner.listTools("bad"), ToolCallError);
  assertEquals(error.type, "protocol_error");
  assertMatch(error.message, /tools\/list needs more than 64 MiB of memory/);
  const asked = (await Deno.readTextFile(journal)).match(/^tools\/list$/gm)?.length ?? 0;
  assert(asked <= 70, `asked for ${asked} pages of 1 MB`);
  assertEquals(await text(runner, "good", "count"), "1");
});

Deno.test("a server that asks and takes no answers is stopped", async () => {
  await using folder = await TempFolder.create();
  const journal = `${folder.path}/journal`;
  await using runner = await start("deaf", journal, { callTimeoutMs: 60_000 });
  const error = await assertRejects(() => runner.run("bad", "count"), ToolCallError);
  assertEquals(error.type, "server_died");
  assertMatch(error.message, /does not read its input/);
  const [pid = 0] = await pids(journal);
  await until(async () => !await isAlive(pid));
  assertEquals(await text(runner, "good", "count"), "1");
});

Deno.test("a server that asks nonsense does not fill the log", async () => {
  const lines: string[] = [];
  const note = (line: string) => void lines.push(line);
  const log = { debug() {}, info: note, warn: note, error: note };
  await using runner = await ToolRunner.start({
    servers: { bad: rawServer() },
    approval: "allow",
    log,
  });
  const requestedSchema = { type: "object", properties: { "a\u0001": { type: "string" } } };
  const nonsense = { method: "elicitation/create", params: { message: "m", requestedSchema } };
  const said = await text(runner, "bad", "ask", { ...nonsense, times: 3000 });
  assertEquals(JSON.parse(said).length, 3000);
  const declined = lines.filter((line) => line.includes("Declined"));
  assert(declined.length >= 1 && declined.length < 100, `${declined.length} lines`);
});

Deno.test("a server may have only so many requests for a model open", async () => {
  await using folder = await TempFolder.create();
  const journal = `${folder.path}/journal`;
  const areRefused = async () => {
    const text = await Deno.readTextFile(journal);
    return text.split("answered").length > 24;
  };
  let [open, most] = [0, 0];
  await using runner = await ToolRunner.start({
    servers: { bad: rawServer("normal", journal) },
    approval: "allow",
    log: silentLogger,
    sampling: async () => {
      most = Math.max(most, ++open);
      await until("the others are refused", areRefused);
      open--;
      return { model: "m", role: "assistant", content: { type: "text", text: "answer" } };
    },
  });
  const params = { messages: [], maxTokens: 1 };
  const said = await text(runner, "bad", "ask", {
    method: "sampling/createMessage",
    params,
    times: 40,
  });
  const answers: readonly { readonly message?: string }[] = JSON.parse(said);
  const refused = answers.filter(({ message }) =>
    message?.includes("16 such requests are already open")
  );
  assertEquals([most, refused.length, answers.length], [16, 24, 40]);
});
