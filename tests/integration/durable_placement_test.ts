/** Sessions elsewhere that outlive the process that started them, and the connections that lead there. */
import { dirname } from "node:path";
import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { KernelDiedError } from "../../src/base/errors.ts";
import { silentLogger } from "../../src/base/log.ts";
import { CodeExecutor } from "../../src/executor/code_executor.ts";
import { endDurable, findSession, folderOf, listSessions } from "../../src/executor/durable.ts";
import { startNamed } from "../../src/executor/named_sessions.ts";
import { LeftBehindError, SessionGoneError } from "../../src/place/supervisor.ts";
import type { Placement } from "../../src/place/placement.ts";
import { ipybox } from "../support/cli.ts";
import { CALLS, follow, PARALLEL, TestSession } from "../support/durable.ts";
import { useSession } from "../support/placed.ts";
import { processesWith, untilNoneWith } from "../support/processes.ts";
import { testPython } from "../support/python.ts";
import { testIf } from "../support/skip.ts";
import { Sshd, whyNoSshd } from "../support/sshd.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { until } from "../support/wait.ts";

const WALLED = { type: "command", command: ["/usr/bin/env"], bubblewrap: true } as const;

const program = new URL("../../templates/launcher/attach.py", import.meta.url).pathname;
const carrier = new URL("../fixtures/frail_carrier.py", import.meta.url).pathname;

/** A command of this machine that breaks when it has carried so much, and counts how often it was used. */
function frail(counter: string, ...limits: string[]): Placement {
  const command = [testPython(), carrier, counter, ["all", ...limits].join(",")];
  return { type: "command", command, bubblewrap: true };
}

/** The folder there that is the session's, which names its processes there. */
async function farFolder(executor: CodeExecutor): Promise<string> {
  const { text } = await executor.execute("import os; os.environ['HOME']");
  return /\/tmp\/ipybox\.\w+/.exec(text ?? "")?.[0] ?? "";
}

/** Starts a session whose code sleeps, until it is lost. */
async function runningIn(session: TestSession) {
  const executor = await session.start();
  const { sessionId: id = "" } = executor;
  const folder = await farFolder(executor);
  const running = executor.execute("import time; time.sleep(600)");
  running.catch(() => {}); // callers assert how it ends
  return { id, folder, running };
}

/** What there is of a session there: its folder, and its supervisor's. */
async function farFolders(folder: string): Promise<string[]> {
  const entries = await Array.fromAsync(Deno.readDir(dirname(folder)));
  return entries.map(({ name }) => `${dirname(folder)}/${name}`)
    .filter((path) => path === folder || path.startsWith(`${folder}.`)).sort();
}

/** The supervisor there, which has started what names the session's folder. */
async function farSupervisor(folder: string): Promise<number> {
  const pids = await processesWith(folder);
  const parents = await Promise.all(pids.map(async (pid) => {
    const stat = await Deno.readTextFile(`/proc/${pid}/stat`).catch(() => ""); // it has ended
    return stat === "" ? pid : Number(stat.slice(stat.lastIndexOf(")")).split(" ")[2]);
  }));
  const [supervisor] = parents.filter((pid) => !pids.includes(pid));
  assert(supervisor !== undefined && supervisor > 1, `${pids}`);
  return supervisor;
}

/** Checks that nothing is left of a session, here and there. */
async function assertGone(id: string, folder: string): Promise<void> {
  await untilNoneWith(folder);
  await until(async () => (await farFolders(folder)).length === 0);
  await until(() => Deno.lstat(folderOf(id)).then(() => false, () => true));
}

/** Cuts each connection that is there. */
async function cut(counter: string): Promise<void> {
  const pids = await processesWith(counter);
  assert(pids.length > 0);
  for (const pid of pids) Deno.kill(pid, "SIGKILL");
}

Deno.test("a durable session elsewhere does what one does that ends with its host", async () => {
  await using session = await TestSession.create(WALLED);
  const executor = await session.start({ servers: {} });
  const { sessionId: id = "" } = executor;
  const folder = await farFolder(executor);
  const [listed] = await listSessions(session.workspace);
  assertEquals(listed?.record?.where, "/usr/bin/env");
  await executor.execute("b = 1");
  await executor.detach();

  const attached = await CodeExecutor.attach(id, { log: silentLogger });
  assertEquals((await attached.execute("b")).text, "1");
  await useSession(attached);
  await attached[Symbol.asyncDispose]();
  await assertGone(id, folder);
});

Deno.test("calls and output are whole over connections that are cut again and again", async () => {
  await using counter = await TempFolder.create();
  const file = `${counter.path}/count`;
  const opening = (await Deno.stat(program)).size; // what is sent before the frames
  // Frames of calls are small, those of long output are not.
  const limits = Array.from(
    { length: 40 },
    (_, n) =>
      n % 3 === 2 ? `in:${opening + 1500 + 97 * n}` : `out:${(n < 12 ? 3000 : 70_000) + 131 * n}`,
  );
  await using session = await TestSession.create(frail(file, ...limits));
  const executor = await session.start();
  const text = [];
  for await (const event of executor.stream(PARALLEL, { events: ["chunk"] })) {
    if (event.type === "approval") await event.request.accept();
    if (event.type === "result") text.push(event.result.text);
  }
  assertEquals(text, [`${Array(CALLS).fill("done")} 42`]);
  assertEquals(await session.sent(), Array(CALLS).fill(1));
  const long = await executor.execute("print('x' * 1_000_000)\nprint('end')");
  assertEquals(long.wholeText?.characters ?? long.text?.length, 1_000_004);
  const { size } = await Deno.stat(file);
  assert(size > 5, `${size}`); // the number depends on how much is sent again
});

Deno.test("a killed host's waiting calls are decided by the next one, though it has no placement", async () => {
  await using counter = await TempFolder.create();
  const file = `${counter.path}/count`;
  await using session = await TestSession.create(frail(file));
  const host = session.host("wait", "start", PARALLEL);
  const id = await host.said("id");
  await host.said("asked", CALLS);
  await host.kill();
  await cut(file);
  const { stdout } = await ipybox(["sessions", "--workspace", session.workspace]);
  assertMatch(stdout, new RegExp(`${id}  detached.*; at ${testPython()}; `));
  const executor = await session.attach(id);
  const folder = /\/tmp\/ipybox\.\w+/;
  assertEquals(await follow(executor), `${Array(CALLS).fill("done")} 42`);
  assertEquals(await session.sent(), Array(CALLS).fill(1));
  const there = folder.exec((await executor.execute("import os; os.environ['HOME']")).text ?? "");
  await executor[Symbol.asyncDispose]();
  await assertGone(id, there?.[0] ?? "");
});

Deno.test("code goes on while nothing leads there, and who waits for it or ends it is told", async () => {
  await using counter = await TempFolder.create();
  const file = `${counter.path}/count`;
  await using session = await TestSession.create(frail(file));
  const warnings: string[] = [];
  const log = { ...silentLogger, warn: (text: string) => void warnings.push(text) };
  const executor = await session.start({ log });
  const running = executor.execute(
    "import time\nfor n in range(20): print(n, flush=True); time.sleep(.1)\n'end'",
  );
  await Deno.writeTextFile(`${file}.down`, "");
  await until(async () => (await processesWith(file)).length > 0);
  await cut(file);
  await until(() => warnings.some((text) => text.includes("connection was lost")));
  await Deno.remove(`${file}.down`);
  const numbers = Array.from({ length: 20 }, (_, n) => `${n}\n`).join("");
  assertEquals((await running).text, `${numbers}'end'`);
  assert(warnings.some((text) => text.includes("attached again after")), warnings.join("\n"));

  // The end of a session that cannot be reached reaches only this machine, which is said.
  const { sessionId: id = "" } = executor;
  const folder = await farFolder(executor);
  await executor.detach();
  await Deno.writeTextFile(`${file}.down`, "");
  await cut(file);
  await assertRejects(() => endDurable(id), LeftBehindError, "could not be reached");
  assertEquals(await listSessions(session.workspace), []);
  Deno.kill(await farSupervisor(folder), "SIGTERM");
  await assertGone(id, folder);
});

Deno.test("a session whose far side is gone is lost", async () => {
  await using counter = await TempFolder.create();
  await using session = await TestSession.create(frail(`${counter.path}/count`));
  const { id, folder, running } = await runningIn(session);
  Deno.kill(await farSupervisor(folder), "SIGKILL");
  await assertRejects(() => running, KernelDiedError);
  await untilNoneWith(folder);
  await assertRejects(() => session.attach(id), SessionGoneError, "is lost");
  const [listed] = await listSessions(session.workspace);
  assertEquals([listed?.id, listed?.status], [id, undefined]);
  await endDurable(id);
  for (const path of await farFolders(folder)) { // nobody else does
    await Deno.remove(path, { recursive: true }).catch(() => {});
  }
});

Deno.test("a name has one session, wherever it is", async () => {
  await using session = await TestSession.create(WALLED);
  const { workspace } = session;
  const options = { ...session.options(), workspace, python: testPython() };
  const { executor } = await startNamed("ana", { ...options, placement: WALLED });
  const { sessionId: id = "" } = executor;
  await executor.execute("a = 1");
  await executor.detach();
  const elsewhere = { ...WALLED, command: ["/usr/bin/env", "-u", "X"] };
  await assertRejects(
    () => startNamed("ana", { ...options, placement: elsewhere }),
    Error,
    "runs elsewhere (/usr/bin/env)",
  );
  for (const placement of [undefined, WALLED]) {
    const { executor, before } = await startNamed("ana", { ...options, placement });
    assertEquals([before, (await executor.execute("a")).text], ["itself", "1"]);
    await executor.detach();
  }
  assertEquals((await findSession(id)).id, id);
  await endDurable(id);
});

const why = await whyNoSshd();

testIf(why === undefined, `sshd cannot be started: ${why}`, {
  name: "a session by ssh goes on after its connection was killed in mid-call and in mid-output",
  fn: async () => {
    await using sshd = await Sshd.start();
    const { host, args } = sshd;
    await using session = await TestSession.create({ type: "ssh", host, args });
    const executor = await session.start();
    const { sessionId: id = "" } = executor;
    const folder = await farFolder(executor);
    const kill = async () => {
      const own = args.join("\0"); // other tests have connections to the same host
      for (const pid of await processesWith(`ssh\0${own}`)) Deno.kill(pid, "SIGKILL");
    };
    let asked = 0;
    for await (const event of executor.stream(PARALLEL)) {
      if (event.type === "approval") {
        if (asked++ % 4 === 0) await kill();
        await event.request.accept();
      }
      if (event.type === "result") {
        assertEquals(event.result.text, `${Array(CALLS).fill("done")} 42`);
      }
    }
    assertEquals(await session.sent(), Array(CALLS).fill(1));
    let chunks = "";
    const code = "for n in range(3000): print(n, 'x' * 300)";
    let seen = 0;
    for await (const event of executor.stream(code, { events: ["chunk"] })) {
      if (event.type !== "chunk") continue;
      chunks += event.text;
      if (seen++ % 300 === 0) await kill();
    }
    const lines = Array.from({ length: 3000 }, (_, n) => `${n} ${"x".repeat(300)}\n`).join("");
    assertEquals(chunks.length, lines.length);
    assertEquals(chunks, lines);
    await executor.detach({ code: "import time; time.sleep(.5); 'after'" });
    await kill();
    const attached = await session.attach(id);
    assertEquals(await follow(attached), "'after'");
    await attached[Symbol.asyncDispose]();
    await assertGone(id, folder);
  },
});
