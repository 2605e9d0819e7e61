/** The stream of a durable session elsewhere, over carriers that are cut at any byte. */
import { assert, assertEquals } from "@std/assert";
import { bootCommand } from "../../src/placement/boot.ts";
import { settledWithin } from "../../src/base/signals.ts";
import { ManagedProcess } from "../../src/process/managed_process.ts";
import { namedProgram } from "../../src/process/program.ts";
import { until } from "../support/wait.ts";
import { processesWith, untilNoneWith } from "../support/processes.ts";
import { testPython } from "../support/python.ts";
import { TempFolder } from "../support/temp_folder.ts";

const fixture = (name: string) => new URL(`../fixtures/${name}`, import.meta.url).pathname;
const program = new URL("../../templates/launcher/resumable.py", import.meta.url).pathname;
const python = namedProgram(testPython());

/** The length of what a relay sends before the stream begins, about. */
const OPENING = (await Deno.stat(program)).size;

interface HeldOptions {
  /** What passes on each connection. */
  readonly limits?: readonly string[];
  /** How long the holder waits for a connection. */
  readonly holderIdleSeconds?: number;
  readonly beatSeconds?: number;
}

/** A holder of `cat`, and a relay to it. */
class Held implements AsyncDisposable {
  private constructor(
    readonly relay: ManagedProcess,
    readonly holder: ManagedProcess,
    readonly folder: string,
    readonly counter: string,
    readonly parts: AsyncDisposableStack,
  ) {}

  static async start(
    { limits = [], holderIdleSeconds = 60, beatSeconds = 15 }: HeldOptions = {},
  ): Promise<Held> {
    await using parts = new AsyncDisposableStack();
    const { path } = parts.use(await TempFolder.create());
    const common = { secret: "s3cret", beat_seconds: beatSeconds };
    await Deno.mkdir(`${path}/root`);
    const settings = {
      ...{ ...common, folder: `${path}/held`, root: `${path}/root` },
      ...{ idle_seconds: holderIdleSeconds, max_seconds: 600 },
    };
    const holder = parts.use(ManagedProcess.spawn({
      command: python,
      args: [fixture("held_echo.py"), program, JSON.stringify(settings)],
      env: {},
      inputGraceMs: 0,
    }));
    const said = await holder.pipes.read();
    assertEquals(new TextDecoder().decode(said ?? undefined), '{"held": true}\n');
    const frail = [python, fixture("frail_carrier.py"), `${path}/count`, limits.join(",")];
    const config = {
      ...common,
      ...{ command: [...frail, ...bootCommand(python)], stop: null, made: false, gone: null },
      ...{ socket: `${path}/held/socket`, idle_seconds: 60 },
    };
    await Deno.writeTextFile(`${path}/relay.json`, JSON.stringify(config));
    const relay = parts.use(ManagedProcess.spawn({
      command: python,
      args: ["-I", "-S", program, "relay", `${path}/relay.json`],
      env: {},
    }));
    return new Held(relay, holder, path, `${path}/count`, parts.move());
  }

  /** Sends bytes, and reads as many. */
  async echo(bytes: Uint8Array): Promise<Uint8Array> {
    const { pipes } = this.relay;
    const sent = pipes.write(bytes);
    const back = new Uint8Array(bytes.length);
    for (let at = 0; at < back.length;) {
      const read = await pipes.read();
      assert(read !== null, this.relay.stderrTail);
      back.set(read, at);
      at += read.length;
    }
    await sent;
    return back;
  }

  /** Ends it, and checks that nothing is left. */
  async assertEnds(): Promise<void> {
    await this.relay.pipes.end();
    for (const process of [this.relay, this.holder]) {
      if (!await settledWithin(process.exited, 20_000)) {
        throw new Error(`${process.command} goes on`);
      }
      assertEquals((await process.exited).exitCode, 0);
    }
    await untilNoneWith(this.folder);
    const left = await Array.fromAsync(Deno.readDir(this.folder), ({ name }) => name);
    assertEquals(left.filter((name) => name === "held" || name === "root"), []);
  }

  /** How often a connection was made. */
  async connections(): Promise<number> {
    return (await Deno.stat(this.counter)).size;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.parts.disposeAsync();
  }
}

/** Bytes of which no part looks like another one. */
function noise(length: number): Uint8Array {
  const bytes = new Uint8Array(length);
  for (let at = 0; at < length; at += 65536) {
    crypto.getRandomValues(bytes.subarray(at, at + 65536));
  }
  return bytes;
}

/** Starts a relay whose far side is a command that does as it likes. */
async function startRelay(
  folder: string,
  command: readonly string[],
  idleSeconds: number,
): Promise<ManagedProcess> {
  const config = {
    ...{ secret: "s", beat_seconds: 15, idle_seconds: idleSeconds, stop: null },
    ...{ made: false, gone: null, command, socket: "/nowhere" },
  };
  await Deno.writeTextFile(`${folder}/relay.json`, JSON.stringify(config));
  return ManagedProcess.spawn({
    command: python,
    args: ["-I", "-S", program, "relay", `${folder}/relay.json`],
    env: {},
  });
}

Deno.test("a stream is whole, wherever the connections that carry it are cut", async () => {
  // In the opening, between and in lines, headers and payloads, of either direction.
  const early = [0, 1, 33, 34, 35, 36, 40, 44, 45, 46, 47, 48, 49, 60, 1000];
  const limits = [
    // What leads nowhere is put off for longer each time, until one leads somewhere.
    ...early.flatMap((count) => [`out:${count}`, `out:${5_000 + count}`]),
    ...[1, 1000, OPENING - 1, OPENING + 20, OPENING + 150, OPENING + 200, OPENING + 70_000]
      .map((count) => `in:${count}`),
    ...[5_000, 65_000, 70_000, 100_000].map((count) => `out:${count}`),
  ];
  await using held = await Held.start({ limits });
  const bytes = noise(1_000_000);
  assertEquals(await held.echo(bytes), bytes);
  // How much passes on a connection before it is cut in the other direction depends on the machine.
  for (let round = 0; round < 1000 && await held.connections() <= limits.length; round++) {
    const more = noise(100_000);
    assertEquals(await held.echo(more), more);
  }
  assertEquals(await held.connections(), limits.length + 1);
  await held.assertEnds();
});

Deno.test("more than both sides keep passes, and waits where nobody reads it", async () => {
  await using held = await Held.start({ limits: ["out:3000000", "in:9000000"] });
  const bytes = noise(20_000_000);
  assertEquals(await held.echo(bytes), bytes);
});

Deno.test("a connection that is silent is given up, and another one takes its place", async () => {
  await using held = await Held.start({ beatSeconds: 1 });
  await held.echo(noise(10));
  const [attached] = await processesWith(`${held.folder}/count`);
  Deno.kill(attached ?? 0, "SIGSTOP");
  const bytes = noise(100);
  assertEquals(await held.echo(bytes), bytes);
  assertEquals(await held.connections(), 2);
});

Deno.test("the end is said to the other side, also while there is no connection", async () => {
  await using held = await Held.start();
  await held.echo(noise(10));
  await Deno.writeTextFile(`${held.counter}.down`, "");
  const [attached] = await processesWith(held.counter);
  Deno.kill(attached ?? 0, "SIGKILL");
  await until("it is lost", () => held.relay.stderrTail.includes("was lost"));
  await held.relay.pipes.end();
  await Deno.remove(`${held.counter}.down`);
  await held.assertEnds();
});

Deno.test("a relay says where there is nothing any more, and what it could not end", async () => {
  {
    await using held = await Held.start();
    await held.echo(noise(10));
    await Deno.remove(`${held.folder}/held/socket`);
    const [attached] = await processesWith(held.counter);
    Deno.kill(attached ?? 0, "SIGKILL");
    assertEquals((await held.relay.exited).exitCode, 76);
    assert(held.relay.stderrTail.includes("not there any more: it has ended"));
  }
  await using held = await Held.start();
  await held.echo(noise(10));
  await Deno.writeTextFile(`${held.counter}.down`, "");
  const [attached] = await processesWith(held.counter);
  Deno.kill(attached ?? 0, "SIGKILL");
  await held.relay.pipes.end();
  assertEquals((await held.relay.exited).exitCode, 75);
  assert(held.relay.stderrTail.includes("could not be ended there: No route to host"));
});

Deno.test("a holder that nobody comes to ends what it holds, and leaves nothing", async () => {
  await using held = await Held.start({ holderIdleSeconds: 1 });
  await held.echo(noise(10));
  Deno.kill(held.relay.pid, "SIGKILL");
  assertEquals((await held.holder.exited).exitCode, 0);
  for (const name of ["held", "root"]) {
    assertEquals(await Deno.stat(`${held.folder}/${name}`).catch(() => "gone"), "gone");
  }
});

Deno.test("a holder takes only those who know its secret, and no connection twice", async () => {
  await using held = await Held.start();
  await held.echo(noise(10));
  const hello = { protocol: 1, secret: "s3cret", epoch: 1, received: 0 };
  const say = async (text: string) => {
    using socket = await Deno.connect({ transport: "unix", path: `${held.folder}/held/socket` });
    await socket.write(new TextEncoder().encode(text));
    const buffer = new Uint8Array(1000);
    const count = await socket.read(buffer);
    return count === null ? null : new TextDecoder().decode(buffer.subarray(0, count));
  };
  const line = (change: object) => JSON.stringify({ ...hello, ...change }) + "\n";
  assertEquals(await say(line({ secret: "guessed" })), '{"refused": "secret"}\n');
  assertEquals(await say(line({})), '{"refused": "epoch"}\n');
  assertEquals(await say(line({ protocol: 2 })), '{"refused": "protocol"}\n');
  for (const text of ["[]\n", "{}\n", "\0".repeat(5000), line({ secret: 1, epoch: "x" })]) {
    const said = await say(text);
    assert(said === null || said.includes("refused"), `${text}: ${said}`);
  }
  const bytes = noise(1000);
  assertEquals(await held.echo(bytes), bytes);
  assertEquals(await held.connections(), 1);
});

Deno.test("a far side that lies ends the session, and does not fill the memory of this one", async () => {
  const answer = '{"protocol": 1, "received": 0}\n';
  const header = (type: number, length: number) => [type, 0, 0, length >> 8, length & 255];
  const data = (length: number) =>
    new Uint8Array([...header(0, length), ...new Uint8Array(length)]);
  const lies: [string, Uint8Array, number][] = [
    ['{"protocol": 1, "received": 5}\n', new Uint8Array(0), 0],
    ['{"protocol": 1, "received": -1}\n', new Uint8Array(0), 0],
    [answer, new Uint8Array([...header(1, 8), 0, 0, 0, 0, 0, 0, 0, 9]), 0],
    [answer, new Uint8Array([9, 0, 0, 0, 0]), 0],
    [answer, new Uint8Array([0, 1, 0, 0, 0]), 0],
    [answer, new Uint8Array([...header(3, 0), ...data(1)]), 0],
    [answer, data(60_000), 200], // more than it may send while nobody reads
  ];
  await using folder = await TempFolder.create();
  for (const [index, [said, frames, times]] of lies.entries()) {
    const liar = `${folder.path}/liar${index}.py`;
    const hex = frames.toHex();
    await Deno.writeTextFile(
      liar,
      `import os,sys\nos.write(1, ${JSON.stringify(said)}.encode())\n` +
        `data = bytes.fromhex("${hex}")\nfor _ in range(${times || 1}): os.write(1, data)\n` +
        `while os.read(0, 65536): pass\n`,
    );
    await using relay = await startRelay(folder.path, [python, liar], 60);
    assertEquals((await relay.exited).exitCode, 76, `${said}${hex.slice(0, 40)}`);
    assert(relay.stderrTail.includes("not there any more: it said"), relay.stderrTail);
  }
});

Deno.test("an end that comes with the last bytes is an end", async () => {
  await using folder = await TempFolder.create();
  // It says its end in one piece with its last byte, when it has heard the relay's, and nothing else.
  const far = `import os
def until(frame):
    got = b""
    while not got.endswith(frame):
        got += os.read(0, 65536)
until(b"}\\n")
os.write(1, b'{"protocol": 1, "received": 0}\\n')
until(bytes([3, 0, 0, 0, 0]))
os.write(1, bytes([0, 0, 0, 0, 1]) + b"x" + bytes([3, 0, 0, 0, 0]))
until(bytes([4, 0, 0, 0, 0]))
os.write(1, bytes([4, 0, 0, 0, 0]))
`;
  await using relay = await startRelay(folder.path, [python, "-c", far], 60);
  await relay.pipes.end();
  assertEquals((await relay.exited).exitCode, 0, relay.stderrTail);
});

Deno.test("a line that is nested too deeply is no answer, and the next attempt is made", async () => {
  await using folder = await TempFolder.create();
  const liar = "import os; os.write(1, b'[' * 4000 + b'\\n'); os.read(0, 1)";
  await using relay = await startRelay(folder.path, [python, "-c", liar], 0.5);
  assertEquals((await relay.exited).exitCode, 76, relay.stderrTail);
  assert(relay.stderrTail.includes("it has not answered for too long"), relay.stderrTail);
});
