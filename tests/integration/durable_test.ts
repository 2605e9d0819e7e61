/** Sessions that outlive the process that started them. */
import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { callHash } from "../../src/approval/call_text.ts";
import {
  ConfigError,
  ExecutionTimeoutError,
  KernelDiedError,
  SessionTakenError,
} from "../../src/base/errors.ts";
import { CodeExecutor } from "../../src/executor/code_executor.ts";
import { startNamed } from "../../src/executor/named_sessions.ts";
import {
  claimName,
  endDurable,
  findSession,
  folderOf,
  keptState,
  leftTime,
  listSessions,
  NameTakenError,
} from "../../src/executor/durable.ts";
import { settledWithin } from "../../src/base/signals.ts";
import { parseExact, sealObject } from "../../src/json/exact.ts";
import { SessionGoneError, statusOf } from "../../src/place/supervisor.ts";
import { ipybox } from "../support/cli.ts";
import { CALLS, follow, PARALLEL, TestSession } from "../support/durable.ts";
import { processesWith, untilNoneWith } from "../support/processes.ts";
import { testPython } from "../support/python.ts";
import { stepsOf } from "../support/steps.ts";
import { until } from "../support/wait.ts";

/** Whether hosts are killed for as long as it takes, as `deno task soak` does. */
const SOAK = Deno.env.has("IPYBOX_SOAK");

const STATUS = {
  ...{ epoch: 1, pid: 1, attached: false, tookOver: false, aloneMs: 0, stderr: "", kept: null },
  heldMs: 0,
};

/** Checks that nothing is left of a session. */
async function assertGone(id: string, root: string): Promise<void> {
  await untilNoneWith(root);
  for (const path of [root, folderOf(id)]) {
    await until(() => Deno.lstat(path).then(() => false, () => true));
  }
}

async function rootOf(id: string): Promise<string> {
  const { socket } = await findSession(id);
  return socket.replace("/host/socket", "");
}

Deno.test("a killed host's waiting calls are decided by the next one, and sent once", async () => {
  await using session = await TestSession.create();
  const host = session.host("wait", "start", PARALLEL);
  const id = await host.said("id");
  await host.said("asked", CALLS);
  await host.kill();
  const root = await rootOf(id);
  assert((await processesWith(root)).length >= 3); // supervisor, launcher, gateway
  const { stdout } = await ipybox(["sessions", "--workspace", session.workspace]);
  assertMatch(stdout, /(raw\.mark has waited for \d+ s; ){3}more calls wait; `ipybox attach /);

  {
    await using executor = await session.attach(id);
    assertEquals(await follow(executor), `${Array(CALLS).fill("done")} 42`);
    assertEquals(await session.sent(), Array(CALLS).fill(1));
    assertEquals((await executor.execute("before")).text, "40");
  }
  await assertGone(id, root);
});

/** Compares what the code got of each call with the effects, and with the journal. */
async function assertOnce(session: TestSession, id: string, text: string | null): Promise<void> {
  const [outcomes = "", ...rest] = (text ?? "").split(" ");
  assertEquals([outcomes.split(",").length, rest], [CALLS, ["42"]], String(text));
  const sent = await session.sent();
  using journal = new DatabaseSync(`${folderOf(id)}/calls.db`, { readOnly: true });
  for (const [n, outcome] of outcomes.split(",").entries()) {
    const args = sealObject(parseExact(`{"name":"${n}","ms":100}`));
    const call = { kind: "tool", serverName: "raw", toolName: "mark", arguments: args } as const;
    const row = journal.prepare("SELECT state FROM calls WHERE hash = ?").get(callHash(call));
    const what = `call ${n} of ${text}: sent ${sent[n]} times`;
    if (outcome === "done") {
      assertEquals(sent[n], 1, what);
      // A host that is killed just then has given the answer, and not written it down yet.
      assert(row?.state === "done" || row?.state === "sent", what);
    } else {
      assert(outcome === "OutcomeUnknownError" && (sent[n] ?? 0) <= 1, what);
      assertEquals(row?.state, "sent", what);
    }
  }
}

Deno.test("hosts that are killed at random moments send no call twice", async () => {
  await using session = await TestSession.create();
  let host = session.host("accept", "start", PARALLEL);
  const id = await host.said("id");
  await host.said("asked");
  for (let round = 0; round < (SOAK ? 20 : 2); round++) {
    const ended = host.said("ended");
    if (await settledWithin(ended, Math.random() * 500)) break;
    await host.kill();
    await ended.catch(() => {}); // it has said nothing more
    host = session.host(round % 2 === 0 ? "accept" : "wait", "attach", id);
    await host.said("id");
  }
  await host.kill();
  await using executor = await session.attach(id);
  await assertOnce(session, id, await follow(executor));
});

Deno.test("a host that is killed before or after a step of the journal leaves each call once", async () => {
  await using session = await TestSession.create();
  // At "before-end" the code may have its answer, but "after-send" a call's outcome is never known.
  const moments = ["before-decide", "before-send", "after-send", "before-end", "after-end"];
  let id = "";
  for (const moment of moments) {
    const host = id === ""
      ? session.host(moment, "start", PARALLEL)
      : session.host(moment, "attach", id);
    id = await host.said("id");
    await host.ended();
  }
  using journal = new DatabaseSync(`${folderOf(id)}/calls.db`, { readOnly: true });
  const states = () =>
    journal.prepare("SELECT state FROM calls ORDER BY state").all().map(({ state }) => state);
  assertEquals(states().filter((state) => state === "done").length, 1);
  await using executor = await session.attach(id);
  const text = await follow(executor);
  assert(text?.includes("OutcomeUnknownError"), `${text}`);
  await assertOnce(session, id, text);
});

Deno.test("a session goes from host to host", async (t) => {
  await using session = await TestSession.create();
  const step = stepsOf(t);
  let executor = await session.start();
  const { sessionId: id = "" } = executor;

  await step(
    "output of code that ran without a host is there, and a result is given again",
    async () => {
      await executor.execute("x = 1");
      await executor.detach({
        code: "import time\nfor i in range(3): print(i); time.sleep(.2)\nx += 1\nx",
      });
      for (let round = 0; round < 2; round++) {
        executor = await session.attach(id);
        assertEquals(await follow(executor), "0\n1\n2\n2");
        assertEquals((await executor.execute("x")).text, "2");
        if (round === 0) await executor.detach({ code: "print('0\\n1\\n2'); x" });
      }
    },
  );

  await step("code that waits for its turn when its host leaves does not begin", async () => {
    const code = "import os, time\nopen('first-runs', 'w').close()\n" +
      "while not os.path.exists('first-ends'): time.sleep(.02)\n'first'";
    const running = executor.execute(code).catch(() => {}); // it is left
    const waiting = assertRejects(() => executor.execute("'second'"), DOMException, "was left");
    await until(() => session.has("first-runs"));
    await executor.detach();
    await Promise.all([running, waiting]);
    executor = await session.attach(id);
    await Deno.writeTextFile(`${session.workspace}/first-ends`, "");
    assertEquals(await follow(executor), "'first'");
  });

  await step("code that was begun without a host asks the next one", async () => {
    await executor.detach({ code: "name = input('name? '); name.upper()" });
    executor = await session.attach(id);
    let text: string | null = null;
    for await (const event of executor.resume({ events: ["input"] })) {
      if (event.type === "input") await event.request.answer(`${event.request.prompt}ana`);
      if (event.type === "result") text = event.result.text;
    }
    assertEquals(text, "'NAME? ANA'");
  });

  await step("a signal cancels code that was begun without a host", async () => {
    await executor.detach({ code: "time.sleep(600)" });
    executor = await session.attach(id);
    const reason = new Error("stop");
    const wrong = executor.resume({ timeoutMs: -1 });
    await assertRejects(() => wrong.next(), RangeError);
    const events = executor.resume({ signal: AbortSignal.abort(reason) });
    assertEquals(await assertRejects(() => events.next()), reason);
    assertEquals(executor.state, "kept");

    await executor.detach({ code: "print('begun', flush=True)\ntime.sleep(600)" });
    executor = await session.attach(id);
    const stop = new AbortController();
    const stopped = async () => {
      for await (const event of executor.resume({ events: ["chunk"], signal: stop.signal })) {
        if (event.type === "chunk") stop.abort(reason);
      }
    };
    assertEquals(await assertRejects(stopped), reason);
    assertEquals((await executor.execute("x")).text, "2");
  });

  await step(
    "the time limit of code goes on with the next host, from where the last one left it",
    async () => {
      await executor.execute("import time\nfrom ipybox_runtime import ToolRunner"); // not in 3 s
      const code = 'ToolRunner("raw").run_sync("mark", {"name": "0"})\ntime.sleep(600)';
      const { promise: asked, resolve } = Promise.withResolvers<"asked">();
      const over = (async () => {
        for await (const event of executor.stream(code, { timeoutMs: 3000 })) {
          if (event.type === "approval") resolve("asked");
        }
      })().catch((error: unknown) => error); // it is left
      assertEquals(await Promise.race([asked, over]), "asked");
      await executor.detach();
      await over;
      const record = await findSession(id);
      const left = async () => {
        const status = await statusOf(record);
        const { execution } = keptState(record, status);
        assert(execution !== undefined);
        return leftTime(execution, status);
      };
      const atFirst = await left();
      assert(atFirst !== undefined && atFirst.leftMs > 0 && atFirst.leftMs < 3000);
      assertEquals(await left(), atFirst); // no time passes without a host
      executor = await session.attach(id);
      const error = await assertRejects(() => follow(executor), ExecutionTimeoutError);
      assertEquals(error.timeoutMs, 3000);
    },
  );

  await step(
    "code with a time limit that is never reached goes on with the next host",
    async () => {
      const { promise: asked, resolve } = Promise.withResolvers<void>();
      const code =
        'from ipybox_runtime import ToolRunner\nToolRunner("raw").run_sync("mark", {"name": "0"})';
      const over = (async () => {
        const events = executor.stream(`${code}.text`, { timeoutMs: Infinity });
        for await (const event of events) if (event.type === "approval") resolve();
      })().catch(() => {}); // it is left
      await asked;
      await executor.detach();
      await over;

      executor = await session.attach(id);

      assertMatch(await follow(executor) ?? "", /mark/);
    },
  );

  await step(
    "more output than is kept without a host is left out in the middle, and said so",
    async () => {
      const code = `print('first')
for i in range(300): print('x' * 99_999)
print('last')
import time; time.sleep(.5)  # for what is still on its way
open('done', 'w')`;
      await executor.detach({ code });
      await until(() => session.has("done"));
      executor = await session.attach(id);
      let text = "";
      for await (const event of executor.resume({ events: ["chunk"] })) {
        if (event.type === "chunk") text += event.text;
      }
      assert(text.startsWith("first\n"));
      assert(text.includes("\nlast\n"));
      assert(/\[ipybox: \d+ bytes of output were lost/.test(text));
    },
  );

  await step("output of a thread that goes on does not drive out the result", async () => {
    const code = `import threading, time
def flood(count):
    for i in range(count): print('x' * 99_999)
def later():
    time.sleep(1)
    flood(200)
    time.sleep(.5)  # for what is still on its way
    open('flooded', 'w')
flood(100)
threading.Thread(target=later).start()
6 * 7`;
    await executor.detach({ code });
    await until(() => session.has("flooded"));
    executor = await session.attach(id);
    assert(await follow(executor) !== null);
    assertEquals((await executor.execute("1 + 1")).text, "2");
  });

  await step("a kernel that died without a host is told of by the next execution", async () => {
    const root = await rootOf(id);
    await executor.detach({ code: "import os, time\ntime.sleep(.5)\nos._exit(3)" });
    await until(async () =>
      (await processesWith(`${root}/session/launcher/kernel.py`)).length === 0
    );
    executor = await session.attach(id);
    await assertRejects(() => follow(executor), KernelDiedError);
    assertEquals((await executor.execute("1 + 1")).text, "2");
  });

  await step("a host that attaches decides where the code of its kernels starts", async () => {
    await executor.detach();
    executor = await session.attach(id, { restoreWorkingDir: true });
    await executor.reset();
    const { text } = await executor.execute("%cd -q /");
    assertEquals(text, `[ipybox] cwd reset to ${session.workspace}`);
  });

  await step("a host that attaches takes the session over from another one", async () => {
    const code = "import os, time; y = 7; open('begun', 'w')\n" +
      "while not os.path.exists('go'): time.sleep(.01)\ny";
    const first = executor;
    const running = first.execute(code);
    running.catch(() => {}); // asserted below
    await until(() => session.has("begun"));
    assertEquals((await listSessions(session.workspace))[0]?.status?.attached, true);
    executor = await session.attach(id);
    const message = `process ${Deno.pid}, has attached to session ${id}`;
    await assertRejects(() => running, SessionTakenError, message);
    await assertRejects(() => first.execute("y"), SessionTakenError, message);
    assert(first.sessionEnded?.reason instanceof SessionTakenError);
    await Deno.writeTextFile(`${session.workspace}/go`, "");
    assertEquals(await follow(executor), "7");
    await first[Symbol.asyncDispose](); // ends nothing that is not its own any more
    assertEquals((await findSession(id)).id, id);
    assertEquals(executor.sessionEnded?.aborted, false);
    assertEquals((await executor.execute("y")).text, "7");
  });

  await step("what is wrong with a session's record is said, and what to do", async () => {
    await executor.detach();
    const path = `${folderOf(id)}/record.json`;
    const record = await Deno.readTextFile(path);
    const refuses = async (text: string, message: string) => {
      await Deno.writeTextFile(path, text);
      await assertRejects(() => session.attach(id), ConfigError, message);
    };
    const changed = (change: object) => JSON.stringify({ ...JSON.parse(record), ...change });
    await refuses(record.slice(0, 40), "it is not JSON");
    await refuses("[]", "it is not a session's record");
    await refuses(changed({ version: 2 }), "a newer version of ipybox");
    await refuses(changed({ secret: "f".repeat(64) }), "the secret in its record");
    await refuses(changed({ workspace: "/no/such/folder" }), "no longer exists");
    const { workspace } = JSON.parse(record);
    await Deno.rename(workspace, `${workspace}-moved`);
    await Deno.mkdir(workspace);
    await refuses(record, "no longer exists"); // another folder is
    await Deno.remove(workspace);
    await Deno.rename(`${workspace}-moved`, workspace);
    await refuses(changed({ socket: "/no/such/socket" }), "is lost");
    await Deno.writeTextFile(path, record);
    executor = await session.attach(id);
    assertEquals((await executor.execute("1")).text, "1");
  });

  await step("a session whose gateway ended is lost, and can be forgotten", async () => {
    const root = await rootOf(id);
    await executor.detach();
    for (const pid of await processesWith(`${root}/session/launcher`)) {
      try {
        Deno.kill(pid, "SIGKILL");
      } catch {
        // It has ended with another one.
      }
    }
    await untilNoneWith(root);
    await assertRejects(() => session.attach(id), SessionGoneError, "is lost");
    const [listed] = await listSessions(session.workspace);
    assertEquals([listed?.id, listed?.status], [id, undefined]);
    await Deno.remove(folderOf(id), { recursive: true });
  });
});

Deno.test("a session ends itself when no host comes, and leaves nothing", async () => {
  await using session = await TestSession.create();
  const { workspace } = session;
  const options = { ...session.options(), workspace, python: testPython() };
  const executor = await CodeExecutor.start({ ...options, durable: { idleMs: 500 } });
  const { sessionId: id = "" } = executor;
  const root = await rootOf(id);
  await executor.detach();
  await assertGone(id, root);
  await assertRejects(() => session.attach(id), ConfigError, "There is no durable session");
});

Deno.test("attach and kill, again and again, leave one session and then nothing", async () => {
  await using session = await TestSession.create();
  const started = await session.start();
  const { sessionId: id = "" } = started;
  const root = await rootOf(id);
  await started.execute("n = 0");
  await started.detach();
  const before = (await processesWith(root)).length;
  const [supervisor] = await processesWith(`${root}/host/supervisor.py`);
  const openFiles = () => [...Deno.readDirSync(`/proc/${supervisor}/fd`)].length;
  const files = openFiles();
  for (let round = 1; round <= (SOAK ? 200 : 10); round++) {
    if (SOAK || round % 5 === 0) {
      const host = session.host("wait", "attach", id);
      if (round % 2 === 0) await host.said("ended");
      else await settledWithin(host.said("id"), Math.random() * 3000);
      await host.kill();
    }
    const executor = await session.attach(id);
    assertEquals((await executor.execute("n += 1; n")).text, String(round));
    await executor.detach();
  }
  await until(async () => (await processesWith(root)).length === before && openFiles() === files);
  { // Other processes remove what nobody holds.
    using lock = await Deno.open(`${root}/lock`, { write: true });
    assertEquals(await lock.tryLock(true), false);
  }
  await (await session.attach(id))[Symbol.asyncDispose]();
  await assertGone(id, root);
});

Deno.test("only the time in which a host was attached counts towards a limit", () => {
  const kept = { id: "", code: "", startedAt: 0, ended: false };
  const left = (runs: boolean) =>
    leftTime(
      { ...kept, limit: { timeoutMs: 5000, leftMs: 1000, runs } },
      { ...STATUS, heldMs: 400 },
    )?.leftMs;
  assertEquals([left(true), left(false)], [600, 1000]);
  assertEquals(leftTime(kept, STATUS), undefined);
});

Deno.test("a session has a name", async (t) => {
  const step = stepsOf(t);
  await using session = await TestSession.create();
  const { workspace } = session;
  const options = { ...session.options(), workspace, python: testPython() };
  const both = await Promise.all([startNamed("ana", options), startNamed("ana", options)]);
  const { sessionId: id = "" } = both[0].executor;
  const root = await rootOf(id);

  await step("which no other has, also where two begin it", async () => {
    assertEquals(both.map(({ before }) => before).sort(), ["itself", "nothing"]);
    assertEquals(both[1].executor.sessionId, id);
    assertEquals((await listSessions(workspace)).length, 1);
    await assertRejects(
      () => CodeExecutor.start({ ...options, durable: { name: "ana" } }),
      NameTakenError,
      `Session ${id} of the workspace is already named ana`,
    );
    {
      await using _held = await claimName("eva", workspace);
      await using _other = await claimName("ida", workspace, 0);
      await assertRejects(
        () => claimName("eva", workspace, 200),
        ConfigError,
        `Cannot start a session named eva: process ${Deno.pid} has been starting it for 0.2 s`,
      );
    }
    {
      await using _again = await claimName("eva", workspace, 0);
    }
  });

  await step(
    "a session that does not answer is not forgotten, and holds up no name elsewhere",
    async () => {
      const [supervisor = 0] = await processesWith(`${root}/host/supervisor.py`);
      Deno.kill(supervisor, "SIGSTOP");
      try {
        const ended: string[] = [];
        const claim = async (name: string, workspace: string) => {
          await using _claim = await claimName(name, workspace);
          ended.push(name);
        };
        const slow = claim("eva", workspace);
        const refused = assertRejects(
          () => endDurable(id),
          ConfigError,
          "has not answered",
        );
        for (const name of ["ida", "una", "zoe"]) await claim(name, "/no/such/workspace");
        assertEquals(ended, ["ida", "una", "zoe"]);
        await Promise.all([slow, refused]);
      } finally {
        Deno.kill(supervisor, "SIGCONT");
      }
      assertEquals((await findSession(id)).id, id);
    },
  );

  await step("and is not replaced where it is lost", async () => {
    for (const { executor } of both) await executor.detach();
    for (const pid of await processesWith(`${root}/host/supervisor.py`)) Deno.kill(pid, "SIGKILL");
    await untilNoneWith(root);
    await assertRejects(() => startNamed("ana", options), SessionGoneError, "is lost");
    const { executor, before } = await startNamed("ana", { ...options, replacesLost: true });
    await using fresh = executor;
    assertEquals(before, "lost");
    assert(fresh.sessionId !== id);
  });
});

Deno.test("what is left of sessions is forgotten in time", async () => {
  const day = 24 * 60 * 60_000;
  const [empty, old, recent] = ["e0e0e0e0e0e0", "d0d0d0d0d0d0", "c0c0c0c0c0c0"] as const;
  const workspace = "/no/such/workspace";
  const common = { version: 1, workspace, place: "1:1", secret: "s", startedAt: 0 };
  const record = { ...common, socket: "/no/such/socket" };
  for (const id of [empty, old, recent]) await Deno.mkdir(folderOf(id), { recursive: true });
  await Deno.utime(folderOf(empty), new Date(0), new Date(0));
  const lost = { exit: null, at: Date.now() - day - 1 };
  await Deno.writeTextFile(
    `${folderOf(old)}/record.json`,
    JSON.stringify({ ...record, id: old, lost }),
  );
  await Deno.writeTextFile(
    `${folderOf(recent)}/record.json`,
    JSON.stringify({ ...record, id: recent }),
  );
  try {
    for (let round = 0; round < 2; round++) {
      assertEquals((await listSessions(workspace)).map(({ id }) => id), [recent]);
    }
    const { lost: noted } = JSON.parse(await Deno.readTextFile(`${folderOf(recent)}/record.json`));
    assert(Date.now() - noted.at < day); // it is listed for a day from now on
    for (const id of [empty, old]) await assertRejects(() => Deno.stat(folderOf(id)));
    await Deno.writeTextFile(`${folderOf(recent)}/record.json`, "{");
    await endDurable(recent); // nobody can be asked
    await assertRejects(() => Deno.stat(folderOf(recent)));
  } finally {
    await endDurable(recent);
  }
});
