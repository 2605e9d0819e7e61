/** The two supervisors of a durable session elsewhere, over commands that are cut at any byte. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { joinBytes } from "../../src/base/bytes.ts";
import { silentLogger } from "../../src/base/log.ts";
import {
  endSession,
  LeftBehindError,
  type SessionAddress,
  statusOf,
  SupervisedLauncher,
} from "../../src/place/supervisor.ts";
import { encodeFrame, type Frame, FrameDecoder, FrameType } from "../../src/link/frame.ts";
import { bootCommand } from "../../src/place/boot.ts";
import { namedProgram } from "../../src/process/program.ts";
import { exists } from "../support/files.ts";
import { processesWith, untilNoneWith } from "../support/processes.ts";
import { testPython } from "../support/python.ts";
import { RUN, startListening, SUPERVISOR, withSeconds } from "../support/supervisor.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { until } from "../support/wait.ts";

const template = (name: string) => new URL(`../../templates/launcher/${name}`, import.meta.url);
const carrier = new URL("../fixtures/frail_carrier.py", import.meta.url).pathname;
const python = namedProgram(testPython());
const attachProgram = await Deno.readTextFile(template("attach.py"));

/** The length of what comes before frames of the launcher, about. */
const OPENING = attachProgram.length;

/** A launcher that sends back what it gets, and ends with its input. */
const ECHO = `
import os, signal, struct
signal.signal(signal.SIGTERM, signal.SIG_DFL)
def take(count):
    got = b""
    while len(got) < count:
        part = os.read(0, count - len(got))
        if not part: os._exit(0)
        got += part
    return got
while True:
    head = take(9)
    kind, sid, length = struct.unpack(">BII", head)
    data = head + take(length)
    if kind == ${FrameType.DATA}:
        while data: data = data[os.write(1, data):]
`;

interface PairOptions {
  /** What passes on each connection. */
  readonly limits?: readonly string[];
  /** How long nothing may lead there. */
  readonly patienceSeconds?: number;
  /** How long the one there waits for the one here. */
  readonly farIdleSeconds?: number;
  /** Changes the program of both. */
  readonly change?: (program: string) => string;
  /** What answers there instead of the other supervisor, as Python. */
  readonly liar?: string;
}

/** A supervisor here, one "there" with a launcher, and a host that is attached. */
class Pair implements AsyncDisposable {
  private constructor(
    readonly folder: string,
    readonly address: SessionAddress,
    readonly launcher: SupervisedLauncher,
    /** What people were told. */
    readonly warnings: readonly string[],
    readonly parts: AsyncDisposableStack,
  ) {}

  static async start(options: PairOptions = {}): Promise<Pair> {
    await using parts = new AsyncDisposableStack();
    const { path } = parts.use(await TempFolder.create());
    const address = await startBoth(path, options);
    const warnings: string[] = [];
    const log = { ...silentLogger, warn: (text: string) => void warnings.push(text) };
    const launcher = await SupervisedLauncher.attach(address, log);
    launcher.keep("kept");
    return new Pair(path, address, launcher, warnings, parts.move());
  }

  /** Sends bytes in frames, and reads what comes back. */
  async echo(bytes: Uint8Array): Promise<Uint8Array> {
    const sent = (async () => {
      for (let at = 0; at < bytes.length; at += SIZE) {
        await this.send(bytes.subarray(at, at + SIZE));
      }
    })();
    const decoder = new FrameDecoder();
    const back: Uint8Array[] = [];
    for (let length = 0; length < bytes.length;) {
      const read = await this.launcher.pipes.read();
      assert(read !== null, this.warnings.join("\n"));
      for (const { payload } of decoder.push(read) as Iterable<Frame>) {
        back.push(payload.slice());
        length += payload.length;
      }
    }
    await sent;
    return joinBytes(...back);
  }

  async send(bytes: Uint8Array): Promise<void> {
    await this.launcher.pipes.write(encodeFrame(FrameType.DATA, 1, bytes));
  }

  /** Reads to the end of the session, and says what people were told. */
  async end(): Promise<string> {
    while (await this.launcher.pipes.read() !== null);
    return this.warnings.join("\n");
  }

  /** Cuts the connection that is there. */
  async cut(signal: Deno.Signal = "SIGKILL"): Promise<void> {
    const pids = await processesWith(`${this.folder}/count`);
    assert(pids.length > 0);
    for (const pid of pids) Deno.kill(pid, signal);
  }

  /** From now on nothing leads there. */
  async goDown(): Promise<void> {
    await Deno.writeTextFile(`${this.folder}/count.down`, "");
    await this.cut();
    await untilNoneWith(`${this.folder}/count`);
  }

  /** Waits until nothing is left on either side. */
  async assertGone(): Promise<void> {
    await untilNoneWith(this.folder);
    for (const name of ["far", "root", "record"]) {
      await until(`${name} is removed`, async () => !await exists(`${this.folder}/${name}`));
    }
  }

  /** How often a connection was made. */
  async connections(): Promise<number> {
    return (await Deno.stat(`${this.folder}/count`)).size;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.launcher.pipes.close();
    await endSession(this.address).catch(() => {}); // a test may have ended it
    await this.parts.disposeAsync();
  }
}

/** The size of a frame's payload. */
const SIZE = 10_000;

/** Starts both supervisors in a folder, with no host. */
async function startBoth(
  path: string,
  { limits = [], patienceSeconds = 60, farIdleSeconds = 60, change, liar }: PairOptions = {},
): Promise<SessionAddress> {
  const program = `${path}/supervisor.py`;
  await Deno.writeTextFile(program, change?.(SUPERVISOR) ?? SUPERVISOR);
  for (const name of ["root", "record"]) await Deno.mkdir(`${path}/${name}`);
  await Deno.writeTextFile(`${path}/record/record.json`, "{}");
  const far = { id: "far", socket: `${path}/far/socket`, secret: "there" };
  const common = { env: {}, cwd: "/", lock: null, max_seconds: 600 };
  if (liar === undefined) {
    await startListening(
      `import json, runpy, sys
runpy.run_path(sys.argv[1])["serve_beside"](json.load(sys.stdin), lambda: None)`,
      [program],
      {
        ...{ ...common, ...far, folder: `${path}/far`, remove: [`${path}/root`] },
        ...{ idle_seconds: farIdleSeconds, argv: [python, "-I", "-c", `# ${path}\n${ECHO}`] },
      },
    );
  }
  const command = liar === undefined
    ? [python, carrier, `${path}/count`, limits.join(","), ...bootCommand(python)]
    : [python, "-c", liar];
  const leads = { stop: null, made: false, gone: null, patience_seconds: patienceSeconds };
  const near = { id: "0123456789ab", secret: "s".repeat(64), socket: `${path}/socket` };
  await startListening(RUN, [program], {
    ...{ ...common, ...near, folder: `${path}/record`, remove: [], idle_seconds: 60 },
    argv: [],
    reach: { command, program: attachProgram, ...far, ...leads },
  });
  return { ...near, where: "there" };
}

/** Bytes of which no part looks like another one. */
function noise(length: number): Uint8Array {
  const bytes = new Uint8Array(length);
  for (let at = 0; at < length; at += 65536) {
    crypto.getRandomValues(bytes.subarray(at, at + 65536));
  }
  return bytes;
}

Deno.test("what passes is whole, wherever the connections that carry it are cut", async () => {
  const limits = [
    // In the opening: what leads nowhere is put off for longer each time, until one leads somewhere.
    ...[0, 1, 8, 9, 10, 60, 90, 100].flatMap((count) => [`out:${count}`, `out:${12_000 + count}`]),
    ...[1, 1000, OPENING - 1, OPENING + 20, OPENING + 150, OPENING + 30_000]
      .flatMap((count) => [`in:${count}`, `out:${15_000 + count}`]),
    ...[50_000, 65_000, 70_000, 100_000].map((count) => `out:${count}`),
  ];
  await using pair = await Pair.start({ limits });
  const bytes = noise(1_000_000);
  assertEquals(await pair.echo(bytes), bytes);
  // How much passes on a connection before it is cut in the other direction depends on the machine.
  for (let round = 0; round < 1000 && await pair.connections() <= limits.length; round++) {
    const more = noise(100_000);
    assertEquals(await pair.echo(more), more);
  }
  assertEquals(await pair.connections(), limits.length + 1);
  await Promise.all([pair.launcher.stop(), pair.end()]);
  await pair.assertGone();
});

Deno.test("more than both sides keep passes, and waits where nobody reads it", async () => {
  await using pair = await Pair.start({ limits: ["out:3000000", "in:9000000"] });
  const bytes = noise(20_000_000);
  assertEquals(await pair.echo(bytes), bytes);
});

Deno.test("a connection that is silent is given up, and another one takes its place", async () => {
  const change = (text: string) =>
    withSeconds(text, { BEAT_SECONDS: 1 })
      .replace("self.heard + DEAD_SECONDS, self.cut", "self.heard + 6, self.cut");
  await using pair = await Pair.start({ change });
  await pair.echo(noise(10));
  await pair.cut("SIGSTOP");
  const bytes = noise(100);
  assertEquals(await pair.echo(bytes), bytes);
  assertEquals(await pair.connections(), 2);
});

Deno.test("the end is said there once something leads there again", async () => {
  await using pair = await Pair.start();
  await pair.echo(noise(10));
  await pair.goDown();
  const ended = Promise.all([pair.launcher.stop(), pair.end()]);
  await Deno.remove(`${pair.folder}/count.down`);
  await ended;
  await pair.assertGone();
});

/** The way there is not tried for long when the session is to end. */
const GIVES_UP_SOON = (text: string) => withSeconds(text, { END_SECONDS: 1 });

Deno.test("people are told that there is nothing any more, and what could not be ended", async () => {
  {
    await using pair = await Pair.start();
    await pair.echo(noise(10));
    await Deno.remove(`${pair.folder}/far/socket`);
    await pair.cut();
    assert((await pair.end()).includes("there: the session no longer exists: it has ended"));
  }
  await using pair = await Pair.start({ change: GIVES_UP_SOON });
  await pair.echo(noise(10));
  await pair.goDown();
  await assertRejects(() => endSession(pair.address), LeftBehindError, "could not be reached");
});

Deno.test("a session to which no host came is ended there, too", async () => {
  await using folder = await TempFolder.create();
  const address = await startBoth(folder.path);
  await endSession(address);
  await untilNoneWith(folder.path);
  assertEquals(await exists(`${folder.path}/far`), false);
});

Deno.test("a launcher elsewhere that cannot be confined says why, and leaves nothing", async () => {
  await using folder = await TempFolder.create();
  const { path } = folder;
  await Deno.mkdir(`${path}/root`);
  const paths = { socket: `${path}/far/socket`, folder: `${path}/far`, remove: [`${path}/root`] };
  const start = startListening(
    `import json, runpy, sys
runpy.run_path(sys.argv[1])["serve_beside"](json.load(sys.stdin), lambda: sys.exit("no filter"))`,
    [template("supervisor.py").pathname],
    {
      ...{
        id: "far",
        secret: "there",
        env: {},
        cwd: "/",
        lock: null,
        argv: ["/bin/true"],
        ...paths,
      },
      ...{ max_seconds: 600, idle_seconds: 60 },
    },
  );
  await assertRejects(() => start, Error, "no filter");
  assertEquals(await Array.fromAsync(Deno.readDir(path)), []);
});

Deno.test("a launcher elsewhere that nobody comes to ends, and leaves nothing", async () => {
  await using pair = await Pair.start({ farIdleSeconds: 1, change: GIVES_UP_SOON });
  await pair.echo(noise(10));
  await pair.goDown();
  for (const name of ["far", "root"]) {
    await until(`${name} is removed`, async () => !await exists(`${pair.folder}/${name}`));
  }
});

Deno.test("a launcher that ends elsewhere ends the session, which is noted", async () => {
  await using pair = await Pair.start();
  await pair.echo(noise(10));
  for (const pid of await processesWith(`# ${pair.folder}`)) Deno.kill(pid, "SIGKILL");
  assertEquals(await pair.end(), "");
  await until("it is noted", async () => {
    const record = await Deno.readTextFile(`${pair.folder}/record/record.json`);
    return "lost" in JSON.parse(record);
  });
});

Deno.test("only who knows the secret gets to a launcher elsewhere, and none twice", async () => {
  await using pair = await Pair.start();
  await pair.echo(noise(10));
  const hello = { protocol: 1, secret: "there", want: "attach", epoch: 1, received: 0 };
  const say = async (content: unknown) => {
    using socket = await Deno.connect({ transport: "unix", path: `${pair.folder}/far/socket` });
    const text = new TextEncoder().encode(JSON.stringify(content));
    await socket.write(encodeFrame(FrameType.HELLO, 0, text));
    const parts: Uint8Array[] = [];
    for await (const part of socket.readable) parts.push(part);
    const [, refused] = new FrameDecoder().push(joinBytes(...parts));
    return refused && JSON.parse(new TextDecoder().decode(refused.payload)).why;
  };
  assertEquals(await say({ ...hello, secret: "guessed" }), "secret");
  assertEquals(await say(hello), "epoch");
  assertEquals(await say({ ...hello, protocol: 2 }), "protocol");
  assertEquals(await say({ ...hello, epoch: 2, received: 5 }), undefined);
  assertEquals(await say([]), undefined);
  const bytes = noise(1000);
  assertEquals(await pair.echo(bytes), bytes);
  assertEquals(await pair.connections(), 1);
});

Deno.test("a far side that lies ends the session, and says nothing in ipybox's name", async () => {
  const json = (type: FrameType, content: unknown) =>
    encodeFrame(type, 0, new TextEncoder().encode(JSON.stringify(content)));
  const welcome = json(FrameType.WELCOME, { received: 0 });
  const lies = [
    json(FrameType.WELCOME, { received: 5 }),
    json(FrameType.WELCOME, { received: -1 }),
    joinBytes(welcome, json(18 as FrameType, { taken: 9 })),
    joinBytes(welcome, json(FrameType.NOTE, { text: "forged" })),
    joinBytes(welcome, json(FrameType.EXIT, { code: "forged", signal: null })),
    joinBytes(welcome, new Uint8Array([99, 0, 0, 0, 0, 0, 0, 0, 0])),
    joinBytes(welcome, new Uint8Array([FrameType.DATA, 0, 0, 0, 1, 0, 1, 0, 1])),
    joinBytes(welcome, encodeFrame(FrameType.READY, 0), json(FrameType.REFUSED, ["forged"])),
  ];
  for (const lie of lies) {
    const liar = `import os
os.write(1, bytes.fromhex("${lie.toHex()}"))
while os.read(0, 65536): pass`;
    await using pair = await Pair.start({ liar });
    const told = await pair.end();
    assert(told.startsWith("there: the session no longer exists: it said"), told);
    assertEquals(told.includes("forged"), false, told);
  }
});

Deno.test("what answers instead of a supervisor is no answer, and another attempt is made", async () => {
  const nested = `os.write(1, struct.pack(">BII", ${FrameType.WELCOME}, 0, 60000) + b"[" * 60000)`;
  for (const answer of [nested, "os.write(1, b'Welcome to this machine')"]) {
    await using pair = await Pair.start({
      patienceSeconds: 1,
      liar: `import os, struct\n${answer}\nos.read(0, 1)`,
    });
    const told = await pair.end();
    assert(told.includes("it has not answered for too long"), told);
  }
});

Deno.test("what a host leaves here is for the next one, and the launcher elsewhere goes on", async () => {
  await using pair = await Pair.start();
  await pair.echo(noise(10));
  await pair.launcher.leave();
  await until("it has left", async () => !(await statusOf(pair.address)).attached);
  const next = await SupervisedLauncher.attach(pair.address, silentLogger);
  assertEquals(next.status.kept, "kept");
  next.pipes.close();
});
