import { assert, assertEquals, assertRejects } from "@std/assert";
import fc from "../../tests/support/fast_check.ts";
import { testPython } from "../../tests/support/python.ts";
import { TempFolder } from "../../tests/support/temp_folder.ts";
import { asset } from "../assets/mod.ts";
import { joinBytes } from "../base/bytes.ts";
import { settledWithin } from "../base/signals.ts";
import { ManagedProcess } from "../process/managed_process.ts";
import { encodeCredit, encodeFrame, FrameType, LinkError } from "./frame.ts";
import { type ByteStream, joinStreams, SocketStream } from "../base/streams.ts";
import { Link, LinkPort } from "./link.ts";

/** A server as the launcher starts them: settings on stdin, a listening socket at a descriptor. */
const ECHO = `
import json, socket, sys, threading
settings = json.load(sys.stdin)
listener = socket.socket(fileno=settings["listen_fd"])
def echo(peer):
    while data := peer.recv(1 << 16):
        peer.sendall(data)
    peer.close()
while True:
    threading.Thread(target=echo, args=[listener.accept()[0]], daemon=True).start()
`;

/**
 * Connects to the door once, sends the text in its settings, and gives the answer to its callers.
 */
const CALLER = `
import json, socket, sys
settings = json.load(sys.stdin)
door = socket.create_connection(("127.0.0.1", settings["door_port"]))
door.sendall(settings["say"].encode())
door.shutdown(socket.SHUT_WR)
answer = b"".join(iter(lambda: door.recv(1 << 16), b""))
peer, _ = socket.socket(fileno=settings["listen_fd"]).accept()
peer.recv(1)
peer.sendall(answer)
`;
import { namedProgram } from "../process/program.ts";

interface LaunchOptions {
  script: string;
  input?: Record<string, unknown>;
  accept?: (stream: ByteStream) => Promise<void>;
  beatMs?: number;
}

async function spawnLauncher(folder: TempFolder): Promise<ManagedProcess> {
  await Deno.writeTextFile(`${folder.path}/launcher.py`, asset("launcher/launcher.py"));
  await Deno.writeTextFile(`${folder.path}/check.py`, asset("launcher/check.py"));
  const probe = { files: ["/no/such/file"], port: 1, process: Deno.pid, sandboxed: false };
  return ManagedProcess.spawn({
    command: namedProgram(testPython()),
    args: ["-I", "-S", `${folder.path}/launcher.py`, JSON.stringify(probe)],
    env: {},
  });
}

/** The real launcher, without a sandbox, and its program. */
class Launched implements AsyncDisposable {
  readonly #stack: AsyncDisposableStack;

  private constructor(
    stack: AsyncDisposableStack,
    readonly process: ManagedProcess,
    readonly link: Link,
    readonly port: LinkPort,
  ) {
    this.#stack = stack;
  }

  static async start(options: LaunchOptions): Promise<Launched> {
    const { script, input = {}, accept, beatMs } = options;
    await using stack = new AsyncDisposableStack();
    const folder = stack.use(await TempFolder.create());
    const process = stack.use(await spawnLauncher(folder));
    const link = stack.use(Link.open({
      pipes: process.pipes,
      beatMs,
      ...(accept === undefined ? {} : { accept }),
    }));
    await link.ready;
    const port = stack.use(LinkPort.open(link));
    link.start({
      argv: [testPython(), "-I", "-c", script],
      cwd: "/",
      env: { PATH: "/usr/bin:/bin" },
      door: accept !== undefined,
      programs: {},
      inherit: [],
      limits: {},
      input,
    });
    return new Launched(stack.move(), process, link, port);
  }

  connect(): Promise<Deno.TcpConn> {
    return Deno.connect({ hostname: "127.0.0.1", port: this.port.number });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack.disposeAsync();
  }
}

async function readAll(connection: Deno.TcpConn): Promise<Uint8Array> {
  const parts: Uint8Array<ArrayBuffer>[] = [];
  const buffer = new Uint8Array(1 << 16);
  for (let n: number | null; (n = await connection.read(buffer)) !== null;) {
    parts.push(buffer.slice(0, n));
  }
  return await new Blob(parts).bytes();
}

async function writeAll(connection: Deno.TcpConn, bytes: Uint8Array): Promise<void> {
  for (let at = 0; at < bytes.length;) at += await connection.write(bytes.subarray(at));
}

Deno.test("the link carries many streams at once, more bytes than a window, half-closed", async () => {
  await using launched = await Launched.start({ script: ECHO });
  await Promise.all(Array.from({ length: 20 }, async (_, i) => {
    const sent = new Uint8Array(1_000_000 + i).map((_, at) => (at * (i + 1)) % 251);
    using connection = await launched.connect();
    const received = readAll(connection);
    await writeAll(connection, sent);
    await connection.closeWrite();
    assertEquals(await received, sent);
  }));
});

Deno.test("a stream whose reader waits does not hold up the others, and loses nothing", async () => {
  await using launched = await Launched.start({ script: ECHO });
  using slow = await launched.connect();
  const sent = new Uint8Array(100_000_000).fill(7); // more than the buffers of two connections
  const writing = writeAll(slow, sent).then(() => slow.closeWrite());

  for (let i = 0; i < 20; i++) {
    using fast = await launched.connect();
    await fast.write(new Uint8Array([i]));
    const answer = new Uint8Array(1);
    await fast.read(answer);
    assertEquals(answer[0], i);
  }
  assertEquals(await settledWithin(writing, 1), false); // it is held back, not buffered

  assertEquals((await readAll(slow)).length, sent.length);
  await writing;
});

Deno.test("a connection from inside arrives where the host dials, and nowhere else", async () => {
  using host = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  await using launched = await Launched.start({
    script: CALLER,
    input: { say: "ping" },
    accept: async (stream) => {
      const { port } = host.addr;
      const connection = await Deno.connect({ hostname: "127.0.0.1", port });
      await joinStreams(stream, new SocketStream(connection));
    },
  });
  using caller = await host.accept();
  assertEquals(new TextDecoder().decode(await readAll(caller)), "ping");
  await writeAll(caller, new TextEncoder().encode("pong"));
  await caller.closeWrite();

  using connection = await launched.connect();
  await connection.write(new Uint8Array(1));
  assertEquals(new TextDecoder().decode(await readAll(connection)), "pong");
});

Deno.test("a connection from inside is closed when the host cannot serve it", async () => {
  await using launched = await Launched.start({
    script: CALLER,
    input: { say: "ping" },
    accept: () => Promise.reject(new Error("nobody there")),
  });
  // The caller fails on its reset connection, and the launcher reports how.
  assertEquals(await launched.link.exit, { exitCode: 1, signal: null });
});

Deno.test("the launcher reports how its program ended, and its stderr arrives", async () => {
  const script =
    "import os, sys; print('last words', file=sys.stderr, flush=True); os.kill(os.getpid(), 9)";
  await using launched = await Launched.start({ script });
  assertEquals(await launched.link.exit, { exitCode: null, signal: "SIGKILL" });
  await launched.process.exited;
  assertEquals(launched.process.stderrTail, "last words\n");
});

Deno.test("a launcher that gives no sign of life is given up, and one that only rests is not", async () => {
  await using launched = await Launched.start({
    script: "import time; time.sleep(1000)",
    beatMs: 250,
  });
  const { link, process } = launched;
  assertEquals(await settledWithin(link.closed, 2500), false);
  Deno.kill(process.pid, "SIGSTOP");
  try {
    await assertRejects(() => link.closed, LinkError, "no sign of life for 0.75 s");
  } finally {
    Deno.kill(process.pid, "SIGCONT");
  }
});

Deno.test("what is printed on stdout inside does not get into the link", async () => {
  await using launched = await Launched.start({ script: "import os; os.write(1, b'noise')" });
  assertEquals(await launched.link.exit, { exitCode: 0, signal: null });
  await launched.link.closed;
  await launched.process.exited;
  assertEquals(launched.process.stderrTail, "noise\n");
});

Deno.test("the end of stdin ends what the launcher started, and its orphans", async () => {
  const script = `
import os, subprocess, sys, time, signal
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
child = subprocess.Popen(["setsid", "sh", "-c", "sleep 1000 & echo $! >&2; wait"])
time.sleep(1000)
`;
  await using launched = await Launched.start({ script });
  while (!launched.process.stderrTail.includes("\n")) {
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  const orphan = Number(launched.process.stderrTail);
  assert(await exists(`/proc/${orphan}`));
  await launched.process.stop();
  assertEquals(await exists(`/proc/${orphan}`), false);
});

Deno.test("the launcher ends when the host breaks the rules", async () => {
  await using launched = await Launched.start({ script: ECHO });
  launched.link.start({});
  assertEquals(await launched.process.exited, { exitCode: 70, signal: null });
  assert(launched.process.stderrTail.includes("a second START"));
});

async function exists(path: string): Promise<boolean> {
  return await Deno.stat(path).then(() => true, () => false);
}

const HOST_OFFENCES: Record<string, Uint8Array[]> = {
  "opens a stream before there is a program to connect it to": [encodeFrame(FrameType.OPEN, 2)],
  "sends data for a stream that never was": [encodeFrame(FrameType.DATA, 2, new Uint8Array(1))],
  "sends a frame that is too long": [new Uint8Array([1, 0, 0, 0, 2, 0xff, 0, 0, 0])],
  "sends a frame of an unknown type": [new Uint8Array([99, 0, 0, 0, 1, 0, 0, 0, 0])],
  "sends a START that is not JSON": [encodeFrame(FrameType.START, 0, new Uint8Array([0x7b]))],
};

for (const [offence, frames] of Object.entries(HOST_OFFENCES)) {
  Deno.test(`the launcher ends when the host ${offence}`, async () => {
    await using folder = await TempFolder.create();
    await using process = await spawnLauncher(folder);
    for (const frame of frames) await process.pipes.write(frame);
    assertEquals(await process.exited, { exitCode: 70, signal: null });
    assert(process.stderrTail.startsWith("The link is broken: "));
  });
}

Deno.test("the launcher ends when the host sends more than the window allows", async () => {
  await using folder = await TempFolder.create();
  await using process = await spawnLauncher(folder);
  const script = "import socket, time; time.sleep(1000)"; // never accepts
  const spec = {
    argv: [testPython(), "-I", "-c", script],
    cwd: "/",
    env: {},
    door: false,
    programs: {},
    inherit: [],
    limits: {},
    input: {},
  };
  await process.pipes.write(
    encodeFrame(FrameType.START, 0, new TextEncoder().encode(JSON.stringify(spec))),
  );
  await process.pipes.write(encodeFrame(FrameType.OPEN, 2));
  const chunk = encodeFrame(FrameType.DATA, 2, new Uint8Array(1 << 16));
  const flooding = (async () => {
    for (let i = 0; i < 1000; i++) await process.pipes.write(chunk);
  })();
  await assertRejects(() => flooding, Error, "its stdin is closed");
  assertEquals(await process.exited, { exitCode: 70, signal: null });
  assert(process.stderrTail.includes("than it was given credit for"));
});

/** A link whose other end the test controls. */
class Puppet implements AsyncDisposable {
  readonly #toHost = new TransformStream<Uint8Array, Uint8Array>();
  readonly #writer = this.#toHost.writable.getWriter();
  readonly link: Link;

  constructor(
    accept?: (stream: ByteStream) => Promise<void>,
    write: () => Promise<void> = () => Promise.resolve(), // the host's output is ignored
  ) {
    const reader = this.#toHost.readable.getReader();
    const pipes: ByteStream = {
      closed: new Promise(() => {}),
      read: async () => (await reader.read()).value ?? null,
      write,
      end: () => Promise.resolve(),
      close: () => void reader.cancel(),
    };
    this.link = Link.open({
      pipes,
      ...(accept === undefined ? {} : { accept }),
    });
  }

  /** Whether the link reads no more. */
  hadEnough = false;

  async say(...frames: Uint8Array[]): Promise<void> {
    for (const frame of frames) {
      await this.#writer.write(frame).catch(() => void (this.hadEnough = true));
    }
  }

  async end(): Promise<void> {
    await this.#writer.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.link[Symbol.asyncDispose]();
  }
}

const data = (stream: number, length: number) =>
  encodeFrame(FrameType.DATA, stream, new Uint8Array(length));
const open = (stream: number) => encodeFrame(FrameType.OPEN, stream);

const OFFENCES: Record<string, Uint8Array[]> = {
  "more data than the window allows": [open(1), ...Array(5).fill(data(1, 1 << 16))],
  "data after the end": [open(1), encodeFrame(FrameType.EOF, 1), data(1, 1)],
  "data for a stream that never was": [data(3, 1)],
  "data for a stream of the host's that never was": [data(2, 1)],
  "a stream with a number of the host's": [open(4)],
  "the same stream twice": [open(1), open(1)],
  "streams that go back": [open(5), open(3)],
  "more credit than the window": [open(1), encodeCredit(1, 1)],
  "a START": [encodeFrame(FrameType.START, 0)],
  "a second READY": Array(2).fill(encodeFrame(FrameType.READY, 0, new TextEncoder().encode("1"))),
  "a READY that is not JSON": [encodeFrame(FrameType.READY, 0, new TextEncoder().encode("{"))],
  "a malformed EXIT": [encodeFrame(FrameType.EXIT, 0, new TextEncoder().encode("[]"))],
  "a frame that is too long": [new Uint8Array([1, 0, 0, 0, 1, 0xff, 0, 0, 0])],
};

for (const [offence, frames] of Object.entries(OFFENCES)) {
  Deno.test(`the link is broken by ${offence}`, async () => {
    const served = Promise.withResolvers<void>(); // stays under way for the whole test
    await using puppet = new Puppet(() => served.promise);
    await puppet.say(...frames);
    await assertRejects(() => puppet.link.closed, LinkError);
    served.resolve();
  });
}

Deno.test("a launcher that no longer reads still reports how the server ended", async () => {
  await using puppet = new Puppet(undefined, () => Promise.reject(new Error("broken pipe")));
  puppet.link.start({});
  await new Promise((resolve) => setTimeout(resolve)); // the write has failed
  const status = { code: null, signal: "SIGKILL" };
  await puppet.say(
    encodeFrame(FrameType.EXIT, 0, new TextEncoder().encode(JSON.stringify(status))),
  );
  await puppet.end();
  assertEquals(await puppet.link.exit, { exitCode: null, signal: "SIGKILL" });
  await puppet.link.closed;
});

Deno.test("answers that nobody reads fill no memory, however small they are", async () => {
  const served = Promise.withResolvers<void>();
  const taken = Promise.withResolvers<void>();
  await using puppet = new Puppet(() => served.promise, () => taken.promise);
  let count = 0;
  while (count < 1_000_000 && !puppet.hadEnough) {
    const frames = Array.from({ length: 5000 }, () => open(2 * count++ + 1));
    await puppet.say(joinBytes(...frames));
  }
  taken.resolve();
  await assertRejects(() => puppet.link.closed, LinkError, "does not read its input");
  assert(count < 200_000, `${count} streams were refused before`);
  served.resolve();
});

Deno.test("the link refuses streams from inside when the host has no door", async () => {
  await using puppet = new Puppet();
  await puppet.say(open(1));
  await assertRejects(() => puppet.link.closed, LinkError, "must not open stream 1");
});

Deno.test("the link survives or refuses garbage, and always ends", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.uint8Array({ maxLength: 100 })), async (chunks) => {
      const puppet = new Puppet();
      await puppet.say(...chunks);
      await puppet.link[Symbol.asyncDispose]();
      await assertRejects(() => puppet.link.ready, LinkError);
      assertEquals(await puppet.link.exit, null);
    }),
    { numRuns: 50 },
  );
});
