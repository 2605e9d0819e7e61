/** Attacks on durable sessions: from inside, and with forged frames. */
import {
  assert,
  assertEquals,
  assertMatch,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import { ConfigError, SessionTakenError } from "../../src/base/errors.ts";
import { joinBytes } from "../../src/base/bytes.ts";
import { silentLogger } from "../../src/base/log.ts";
import { CallJournal } from "../../src/calls/journal.ts";
import { settledWithin } from "../../src/base/signals.ts";
import { CodeExecutor } from "../../src/executor/code_executor.ts";
import { findSession, folderOf } from "../../src/executor/durable.ts";
import {
  endSession,
  type SessionAddress,
  statusOf,
  SupervisedLauncher,
} from "../../src/place/supervisor.ts";
import { encodeFrame, type Frame, FrameDecoder, FrameType } from "../../src/link/frame.ts";
import { exists } from "../support/files.ts";
import { rawServer } from "../support/mcp.ts";
import { TestExecutor } from "../support/executor.ts";
import { testPython } from "../support/python.ts";
import { stepsOf } from "../support/steps.ts";
import { RUN, startListening, SUPERVISOR, withSeconds } from "../support/supervisor.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { until } from "../support/wait.ts";

/** What a launcher sends, as Python. */
const frame = (type: number, stream: number, payload: string) =>
  `struct.pack(">BII", ${type}, ${stream}, len(${payload})) + ${payload}`;

const WAIT = "sys.stdin.buffer.read()";

/** A supervisor with a launcher of the test's own. */
class Supervised implements AsyncDisposable {
  private constructor(readonly folder: TempFolder, readonly address: SessionAddress) {}

  static async start(
    launcher: string,
    options: {
      readonly idleMs?: number;
      readonly maxMs?: number;
      /** Shorter waits, by their names in the program. */
      readonly seconds?: Readonly<Record<string, number>>;
    } = {},
  ): Promise<Supervised> {
    const { idleMs = 60_000, maxMs = 60_000, seconds = {} } = options;
    const folder = await TempFolder.create();
    const address = {
      id: "0123456789ab",
      secret: "s".repeat(64),
      socket: `${folder.path}/socket`,
    };
    await Deno.mkdir(`${folder.path}/record`);
    await Deno.writeTextFile(`${folder.path}/record/record.json`, "{}");
    const program = `${folder.path}/supervisor.py`;
    await Deno.writeTextFile(program, withSeconds(SUPERVISOR, seconds));
    await startListening(RUN, [program], {
      ...address,
      argv: [testPython(), "-I", "-c", `import os, struct, sys\n${launcher}`],
      cwd: "/",
      env: {},
      idle_seconds: idleMs / 1000,
      max_seconds: maxMs / 1000,
      lock: null,
      remove: [address.socket, `${folder.path}/made`],
      folder: `${folder.path}/record`,
    });
    return new Supervised(folder, address);
  }

  /** Whether it is there. */
  async lives(): Promise<boolean> {
    return await statusOf(this.address).then(() => true, () => false);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await endSession(this.address).catch(() => {}); // an attack may have ended it
    await this.folder[Symbol.asyncDispose]();
  }
}

Deno.test("a wrong secret opens nothing, and the session goes on", async () => {
  await using session = await Supervised.start(WAIT);
  const wrong = { ...session.address, secret: "t".repeat(64) };
  await assertRejects(() => statusOf(wrong), ConfigError, "the secret in its record");
  await assertRejects(
    () => SupervisedLauncher.attach(wrong, silentLogger),
    ConfigError,
    "the secret in its record",
  );
  const right = await SupervisedLauncher.attach(session.address, silentLogger);
  assertEquals(right.status.epoch, 1);
  await right.leave();
});

const FIRST_WORDS: Record<string, Uint8Array> = {
  "a frame for the launcher": encodeFrame(FrameType.OPEN, 2),
  "the end of the session": encodeFrame(FrameType.END, 0),
  "what is to be kept": encodeFrame(FrameType.KEEP, 0, new TextEncoder().encode('{"kept":1}')),
  "a HELLO that is not JSON": encodeFrame(FrameType.HELLO, 0, new TextEncoder().encode("{")),
  "a HELLO without a secret": encodeFrame(FrameType.HELLO, 0, new TextEncoder().encode("{}")),
  "a HELLO that is an array": encodeFrame(FrameType.HELLO, 0, new TextEncoder().encode("[]")),
  "a frame that is too long": new Uint8Array([FrameType.HELLO, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]),
  "an unknown frame": new Uint8Array([200, 0, 0, 0, 0, 0, 0, 0, 0]),
};

Deno.test("nothing but the secret comes first", async () => {
  await using session = await Supervised.start(WAIT);
  for (const [what, bytes] of Object.entries(FIRST_WORDS)) {
    using line = await Deno.connect({ transport: "unix", path: session.address.socket });
    await line.write(bytes);
    const closed = (async () => {
      const buffer = new Uint8Array(1000);
      while (await line.read(buffer).catch(() => null) !== null);
    })();
    assert(await settledWithin(closed, 30_000), what);
  }
  const { attached, kept } = await statusOf(session.address);
  assertEquals([attached, kept], [false, null]);
});

Deno.test("an epoch that is not newer is refused", async () => {
  await using session = await Supervised.start(WAIT);
  const first = await SupervisedLauncher.attach(session.address, silentLogger);
  using line = await Deno.connect({ transport: "unix", path: session.address.socket });
  const { secret } = session.address;
  const hello = { protocol: 1, secret, want: "attach", epoch: 1 };
  const bytes = new TextEncoder().encode(JSON.stringify(hello));
  await line.write(encodeFrame(FrameType.HELLO, 0, bytes));
  let said = "";
  const buffer = new Uint8Array(1000);
  for (let n: number | null; (n = await line.read(buffer)) !== null;) {
    said += new TextDecoder().decode(buffer.subarray(0, n));
  }
  assertStringIncludes(said, '"why": "epoch"');
  assertEquals((await statusOf(session.address)).attached, true);
  await first.leave();
});

Deno.test("a host that speaks another protocol is refused, and the session goes on", async () => {
  await using session = await Supervised.start(WAIT);
  using line = await Deno.connect({ transport: "unix", path: session.address.socket });
  const { secret } = session.address;
  const hello = JSON.stringify({ protocol: 2, secret, want: "attach", epoch: 1 });
  await line.write(encodeFrame(FrameType.HELLO, 0, new TextEncoder().encode(hello)));
  const said = await new Response(line.readable).text();
  assertStringIncludes(said, '"why": "protocol"');
  assertEquals((await statusOf(session.address)).epoch, 0);
});

const words = (type: FrameType, content: object) =>
  encodeFrame(type, 0, new TextEncoder().encode(JSON.stringify(content)));
const greeting = (content: object) => words(FrameType.GREETING, content);
const ours = { protocol: 1, session: "0123456789ab", epoch: 0 };
const welcome = words(FrameType.WELCOME, {
  ...{ epoch: 1, pid: 1, attached: false, tookOver: false, aloneMs: 0, stderr: "", kept: null },
});
const NOT_OURS = "what answers at";

/** What may answer at a session's socket in its supervisor's place. */
const ANSWERS: readonly (readonly [what: string, said: Uint8Array, message: string])[] = [
  [
    "a supervisor of another version",
    greeting({ ...ours, protocol: 2 }),
    "another version of ipybox",
  ],
  [
    "another session's",
    joinBytes(greeting({ ...ours, session: "ba9876543210" }), welcome),
    NOT_OURS,
  ],
  ["garbage", new Uint8Array(100_000).fill(0xff), NOT_OURS],
  ["a greeting that is not JSON", encodeFrame(FrameType.GREETING, 0, new Uint8Array(9)), NOT_OURS],
  ["a greeting without an epoch", greeting({ ...ours, epoch: "1" }), NOT_OURS],
  ["a frame of the launcher", encodeFrame(FrameType.OPEN, 2), NOT_OURS],
  ["two greetings", joinBytes(greeting(ours), greeting(ours)), NOT_OURS],
  ["nothing", new Uint8Array(), NOT_OURS],
];

for (const [what, said, message] of ANSWERS) {
  Deno.test(`a host does not attach to what is no supervisor of its session: ${what}`, async () => {
    await using folder = await TempFolder.create();
    const path = `${folder.path}/socket`;
    using listener = Deno.listen({ transport: "unix", path });
    const answering = (async () => {
      using line = await listener.accept();
      await line.write(said).catch(() => {}); // the host may have gone
      await line.closeWrite().catch(() => {});
      while (await line.read(new Uint8Array(1000)).catch(() => null) !== null);
    })();
    const address = { id: ours.session, secret: "s", socket: path };
    await assertRejects(() => statusOf(address), ConfigError, message);
    await answering;
  });
}

Deno.test("a host that does not read still hears in whole frames that it was detached", async () => {
  await using folder = await TempFolder.create();
  await using session = await Supervised.start(`for n in range(200):
    sys.stdout.buffer.write(${frame(1, 1, "bytes(65536)")})
    if n == 15: open("${folder.path}/full", "w")
${WAIT}`);
  using line = await Deno.connect({ transport: "unix", path: session.address.socket });
  const { secret } = session.address;
  const say = (type: FrameType, content: unknown) =>
    line.write(encodeFrame(type, 0, new TextEncoder().encode(JSON.stringify(content))));
  const decoder = new FrameDecoder();
  const frames: Frame[] = [];
  const buffer = new Uint8Array(65536);
  const read = async () => {
    const count = await line.read(buffer);
    if (count !== null) frames.push(...decoder.push(buffer.slice(0, count)));
    return count !== null;
  };
  await say(FrameType.HELLO, { protocol: 1, secret, want: "attach", epoch: 1 });
  while (frames.at(-1)?.type !== FrameType.WELCOME) assert(await read());
  await say(FrameType.KEEP, { kept: {}, folders: [] });
  await until(() => Deno.stat(`${folder.path}/full`).then(() => true, () => false));
  const next = await SupervisedLauncher.attach(session.address, silentLogger);
  while (await read());
  const last = frames.at(-1);
  assertEquals(last?.type, FrameType.REFUSED);
  const { why, pid } = JSON.parse(new TextDecoder().decode(last?.payload));
  assertEquals([why, pid], ["taken", Deno.pid]);
  await next.leave();
});

for (const isCut of [false, true]) {
  const how = isCut ? "where it cannot be told" : "also when it writes before it reads";
  Deno.test(`a host that was detached learns who has the session, ${how}`, async () => {
    await using session = await Supervised.start(WAIT);
    const host = await SupervisedLauncher.attach(session.address, silentLogger);
    host.keep({});
    host.begin([]);
    if (isCut) await host.pipes.write(new Uint8Array([200, 0, 0, 0, 0, 0, 0, 0, 0])); // hung up on
    await until(async () => (await statusOf(session.address)).attached === !isCut);
    const next = await SupervisedLauncher.attach(session.address, silentLogger);
    await statusOf(session.address); // by now it has been hung up on, and each write fails
    await host.pipes.write(encodeFrame(FrameType.BEAT, 0));
    while (await host.pipes.read() !== null);
    assert(host.ending instanceof SessionTakenError, `${host.ending}`);
    assertStringIncludes(host.ending.message, "nother program");
    await host.stop();
    assertEquals((await statusOf(session.address)).epoch, 2);
    await next.leave();
  });
}

const EXITS: readonly (readonly [said: string, exit: unknown])[] = [
  [`b'{"code": 3, "signal": null}'`, { code: 3, signal: null }],
  [`b'{"code": null, "signal": "SIGKILL", "more": "x"}'`, { code: null, signal: "SIGKILL" }],
  [`b'{"code": 1e400, "signal": null}'`, null],
  [`b'{"code": 1, "signal": "\\x1b[2J"}'`, null],
  [`b'{"code": 1}'`, null],
  [`b'[' * 60_000`, null],
];

for (const [said, exit] of EXITS) {
  Deno.test(`a launcher cannot spoil the record of its session: ${said}`, async () => {
    await using folder = await TempFolder.create();
    const ended = `${folder.path}/ended`;
    await using session = await Supervised.start(`said = ${said}
sys.stdout.buffer.write(${frame(7, 0, "said")})
sys.stdout.flush()
${exit === null ? WAIT : ""}
open("${ended}", "w")`);
    const host = await SupervisedLauncher.attach(session.address, silentLogger);
    host.keep({});
    host.begin([]);
    while (await host.pipes.read() !== null);
    await Deno.stat(ended); // nobody has killed it
    const record = JSON.parse(await Deno.readTextFile(`${session.folder.path}/record/record.json`));
    assertEquals(record.lost.exit, exit);
    await host.stop();
  });
}

Deno.test("what a host says last is kept", async () => {
  await using session = await Supervised.start(WAIT);
  const host = await SupervisedLauncher.attach(session.address, silentLogger);
  for (let round = 0; round <= 50; round++) host.keep({ round, text: "x".repeat(50_000) });
  await host.leave();
  const end = Date.now() + 60_000;
  while ((await statusOf(session.address)).attached) assert(Date.now() < end);
  const { kept } = await statusOf(session.address);
  assertEquals((kept as { round: number }).round, 50);
});

for (
  const [how, maxMs, message] of [
    ["whose time is over", 1000, "has reached its maximum lifetime"],
    ["that another program ends", 60_000, "was ended by another program"],
  ] as const
) {
  Deno.test(`a session ${how} says so to its host`, async () => {
    await using session = await Supervised.start(WAIT, { maxMs });
    const host = await SupervisedLauncher.attach(session.address, silentLogger);
    host.begin([]);
    const ending = maxMs < 60_000 ? undefined : endSession(session.address);
    while (await host.pipes.read() !== null);
    assertStringIncludes(`${host.ending}`, message);
    await ending;
  });
}

const FORGED: Record<string, string> = {
  "a WELCOME": frame(FrameType.WELCOME, 0, "b'{}'"),
  "a frame of stderr": frame(FrameType.STDERR, 0, "b'x'"),
  "a DETACH": frame(8, 1, "b''"),
  "garbage": "b'\\xff' * 1000",
  "a frame that is too long": 'struct.pack(">BII", 1, 1, 1 << 30)',
  "an EXIT that is not JSON": frame(FrameType.EXIT, 0, "b'{'"),
};

for (const [what, python] of Object.entries(FORGED)) {
  Deno.test(`a launcher that sends ${what} ends its session, and says nothing to the host`, async () => {
    await using session = await Supervised.start(
      `sys.stdout.buffer.write(${python}); sys.stdout.flush(); ${WAIT}`,
    );
    const host = await SupervisedLauncher.attach(session.address, silentLogger);
    host.begin([]);
    const reading = (async () => {
      let bytes = 0;
      for (let part = await host.pipes.read(); part !== null; part = await host.pipes.read()) {
        bytes += part.length;
      }
      return bytes;
    })();
    assert(await settledWithin(reading, 60_000));
    assertEquals(await reading, 0);
    assertEquals(await session.lives(), false);
  });
}

Deno.test("a host that says nothing does not keep others out", async () => {
  await using session = await Supervised.start(WAIT, { seconds: { HELLO_SECONDS: 1 } });
  const silent = await Promise.all(
    Array.from(
      { length: 8 },
      () => Deno.connect({ transport: "unix", path: session.address.socket }),
    ),
  );
  const end = Date.now() + 60_000;
  while (!await session.lives()) assert(Date.now() < end);
  for (const line of silent) line.close();
});

Deno.test("a session whose limits are longer than the system can wait goes on", async () => {
  const month = 30 * 24 * 60 * 60_000;
  await using session = await Supervised.start(WAIT, { idleMs: month, maxMs: 2 * month });
  const host = await SupervisedLauncher.attach(session.address, silentLogger);
  host.keep({});
  host.begin([]);
  const end = Date.now() + 60_000;
  while ((await statusOf(session.address)).kept === null) assert(Date.now() < end);
  await host.leave();
  while ((await statusOf(session.address)).attached) assert(Date.now() < end);
  assertEquals((await statusOf(session.address)).attached, false);
  await assertRejects(
    () => TestExecutor.start({ durable: { maxMs: Infinity } }),
    RangeError,
    "durable.maxMs must be positive and finite",
  );
});

Deno.test("a supervisor holds nothing that its host has inherited", async () => {
  await using folder = await TempFolder.create();
  await using session = await Supervised.start(WAIT);
  const { path } = folder;
  await Deno.mkdir(`${path}/record`);
  await Deno.writeTextFile(`${path}/record/record.json`, "{}");
  const address = { ...session.address, socket: `${path}/socket` };
  const spec = {
    ...{ ...address, argv: ["/bin/cat"], cwd: "/", env: {}, lock: null, remove: [address.socket] },
    reach: null,
    ...{ folder: `${path}/record`, idle_seconds: 60, max_seconds: 60 },
  };
  await Deno.writeTextFile(`${path}/spec.json`, JSON.stringify(spec));
  const program = new URL("../../templates/launcher/supervisor.py", import.meta.url).pathname;
  const command = `"${testPython()}" -I -S "${program}" 5>&1 >/dev/null <"${path}/spec.json"`;
  const { success } = await new Deno.Command("/bin/sh", { args: ["-c", command] }).output();
  assert(success);
  assert((await statusOf(address)).pid > 0); // it runs, and the pipe has ended
  await endSession(address);
});

Deno.test("a session whose host goes before it is ready ends", async () => {
  await using session = await Supervised.start(WAIT);
  const host = await SupervisedLauncher.attach(session.address, silentLogger);
  host.begin([]);
  await host.leave();
  await untilGone(session.address.socket);
});

Deno.test("a session whose record was removed ends itself", async () => {
  await using session = await Supervised.start(WAIT, { seconds: { LOOK_SECONDS: 1 } });
  await Deno.remove(`${session.folder.path}/record`, { recursive: true });
  await untilGone(session.address.socket);
});

Deno.test("what code leaves is removed, however deep and closed it is, and its lock goes last", async () => {
  await using session = await Supervised.start(WAIT);
  const made = `${session.folder.path}/made`;
  await Deno.mkdir(`${made}/session${"/d".repeat(1500)}`, { recursive: true });
  await Deno.mkdir(`${made}/closed/below/file`, { recursive: true });
  await Deno.writeTextFile(`${session.folder.path}/outside`, "kept");
  await Deno.symlink(session.folder.path, `${made}/closed/link`);
  await Deno.chmod(`${made}/closed/below`, 0);
  await Deno.writeTextFile(`${made}/lock`, "");
  await endSession(session.address);
  await untilGone(made);
  await untilGone(`${session.folder.path}/record`);
  assertEquals(await Deno.readTextFile(`${session.folder.path}/outside`), "kept");
});

async function untilGone(path: string): Promise<void> {
  await until(`${path} is gone`, async () => !await exists(path));
}

/** Makes calls with ids of its own, and hangs up. */
const CALLS = `
import json, os, socket, time
from urllib.parse import urlsplit
url = urlsplit(os.environ["IPYBOX_TOOL_URL"])
body = b'{"server":"raw","tool":"count","arguments":{}}'
for _ in range(50):
    head = {
        **{"token": os.environ["IPYBOX_TOOL_TOKEN"], "call": "run", "size": len(body)},
        "id": os.urandom(16).hex(),
    }
    with socket.create_connection((url.hostname, url.port)) as line:
        line.sendall(json.dumps(head).encode() + b"\\n" + body)
while not os.path.exists("go"):
    time.sleep(0.05)
`;

/** Sends what is no message, and messages that are larger than their bytes. */
const FLOOD = `
import time
thread = get_ipython().kernel.iopub_thread
mark = b"<IDS|MSG>"
odd = [[b"x"], [mark], [mark, b""], [mark, b"", b"{", b"[", b"1", b"x"], [mark, b"", b"[]", b"", b"", b""]]
large = [mark, b"", b"{}", b"{}", b"{}", b"{}", *[b""] * 5000]
print("first", flush=True)
time.sleep(1)
for message in [*odd, *[large] * 60]:
    thread.schedule(lambda message=message: thread._really_send(message))
time.sleep(2)
print("last", flush=True)
y = 42
open("done", "w")
`;

/** Sends, once it has ended, more of what is no output than is kept. */
const LATE_FLOOD = `
import threading, time
kernel = get_ipython().kernel
busy = {"execution_state": "busy", "more": "y" * 60_000}
ended = threading.Event()
def flood():
    ended.wait()
    time.sleep(1)
    for _ in range(200):
        kernel.session.send(kernel.iopub_thread, "status", busy, ident=b"kernel.x.status")
    time.sleep(1)
    open("flooded", "w")
threading.Thread(target=flood, daemon=True).start()
get_ipython().events.register("post_execute", ended.set)
6 * 7
`;

Deno.test("hostile code in a durable session", async (t) => {
  const step = stepsOf(t);
  await using folder = await TempFolder.create();
  const workspace = folder.path;
  await Deno.writeTextFile(`${workspace}/early.json`, "{}");
  const { command, args = [] } = rawServer();
  const server = (sandbox: string) => ({ command, args, sandbox });
  const servers = { raw: rawServer(), early: server("early.json"), late: server("late.json") };
  await using session = await TestExecutor.start({
    ...{ workspace, servers, approval: { tools: "ask" }, durable: { idleMs: 60_000 } },
  });
  let { executor } = session;
  const id = executor.sessionId ?? "";
  await using hosts = new AsyncDisposableStack();
  const attach = async () => {
    executor = hosts.use(
      await CodeExecutor.attach(id, {
        ...{ servers, approval: { tools: "allow" }, python: testPython(), log: silentLogger },
      }),
    );
  };
  const isMade = async (name: string) => {
    await until(`${name} is there`, () => exists(`${workspace}/${name}`));
  };

  await step("finds neither its socket nor its secret", async () => {
    const { socket, secret } = await findSession(id);
    const code = `
import glob, os, socket
paths = ${JSON.stringify([socket, folderOf(id), `${folderOf(id)}/record.json`])}
print([os.path.exists(path) for path in paths])
try:
    socket.socket(socket.AF_UNIX).connect(paths[0])
    print("connected")
except OSError as error:
    print(type(error).__name__)
seen = b""
for path in glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/cmdline"):
    try:
        seen += open(path, "rb").read()
    except OSError:
        pass
print(b"${secret.slice(0, 16)}" in seen, b"supervisor" in seen)
`;
    const { text } = await executor.execute(code);
    assertEquals(text, "[False, False, False]\nFileNotFoundError\nFalse False");
    for (const path of [folderOf(id), socket.replace("/host/socket", "")]) {
      assertEquals(((await Deno.stat(path)).mode ?? 0) & 0o077, 0, path);
    }
    assertEquals(((await Deno.stat(socket)).mode ?? 0) & 0o177, 0);
  });

  await step("has no calls wait that it has hung up on, once it has ended", async () => {
    using journal = await CallJournal.open(folderOf(id));
    const ended = (async () => {
      for await (const event of executor.stream(CALLS)) void event; // nobody decides
    })();
    await until(() => journal.waiting().length === 50);
    await Deno.writeTextFile(`${workspace}/go`, "");
    await ended;
    await until(() => journal.waiting().length === 0);
  });

  await step(
    "gives a host that attaches no settings of servers",
    async () => {
      await executor.execute('open("late.json", "w").write("{}")');
      await executor.detach();
      await attach();
      const { text } = await executor.execute(`
from ipybox_runtime import ToolRunner
for name in "early", "late":
    try:
        print(name, ToolRunner(name).run_sync("count").text)
    except Exception as error:
        print(name, error)
`);
      assertMatch(text ?? "", /^early 1$/m);
      assertMatch(
        text ?? "",
        /^late .*was not started: .* its sandbox settings, have changed since/m,
      );
    },
  );

  await step("does not drive out its result by what it sends after its end", async () => {
    await executor.detach({ code: LATE_FLOOD });
    await isMade("flooded");
    await attach();
    const texts: string[] = [];
    for await (const event of executor.resume()) {
      if (event.type === "result") texts.push(`${event.result.text}`);
    }
    assertEquals(texts, ["42"]);
  });

  await step(
    "keeps nobody from attaching by what it sends instead of messages, which is bounded",
    async () => {
      await executor.detach({ code: FLOOD });
      await isMade("done");
      await attach();
      let text = "";
      for await (const event of executor.resume({ events: ["chunk"] })) {
        if (event.type === "chunk") text += event.text;
      }
      assertMatch(text, /first[^]*bytes of output were lost[^]*last/);
      assertEquals((await executor.execute("y")).text, "42");
    },
  );
});
