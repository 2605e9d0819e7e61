/** The stream of a durable session elsewhere, over carriers that are cut at any byte. */
import { assert, assertEquals } from "@std/assert";
import { bootCommand } from "../../src/placement/boot.ts";
import { ManagedProcess } from "../../src/process/managed_process.ts";
import { namedProgram } from "../../src/process/program.ts";
import { until } from "../support/executor.ts";
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
  readonly idleSeconds?: number;
  readonly beatSeconds?: number;
}

/** A holder of `cat`, and a relay to it. */
class Held implements AsyncDisposable {
  private constructor(
    readonly relay: ManagedProcess,
    readonly folder: string,
    readonly counter: string,
    readonly parts: AsyncDisposableStack,
  ) {}

  static async start(
    { limits = [], idleSeconds = 30, beatSeconds = 15 }: HeldOptions = {},
  ): Promise<Held> {
    await using parts = new AsyncDisposableStack();
    const { path } = parts.use(await TempFolder.create());
    const common = { secret: "s3cret", beat_seconds: beatSeconds };
    await Deno.mkdir(`${path}/root`);
    const settings = {
      ...{ ...common, folder: `${path}/held`, root: `${path}/root` },
      ...{ idle_seconds: 60, max_seconds: 600 },
    };
    const holder = parts.use(ManagedProcess.spawn({
      command: python,
      args: [fixture("held_echo.py"), program, JSON.stringify(settings)],
      env: {},
    }));
    const said = await holder.pipes.read();
    assertEquals(new TextDecoder().decode(said ?? undefined), '{"held": true}\n');
    const frail = [python, fixture("frail_carrier.py"), `${path}/count`, limits.join(",")];
    const config = {
      ...common,
      ...{ command: [...frail, ...bootCommand(python)], stop: null, made: false, gone: null },
      ...{ socket: `${path}/held/socket`, idle_seconds: idleSeconds },
    };
    await Deno.writeTextFile(`${path}/relay.json`, JSON.stringify(config));
    const relay = parts.use(ManagedProcess.spawn({
      command: python,
      args: ["-I", "-S", program, "relay", `${path}/relay.json`],
      env: {},
    }));
    return new Held(relay, path, `${path}/count`, parts.move());
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
  assertEquals(await held.connections(), limits.length + 1);
  assertEquals((await held.relay.stop()).exitCode, 0);
  await untilNoneWith(held.folder);
  assertEquals(await Array.fromAsync(Deno.readDir(`${held.folder}/held`)).catch(() => []), []);
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
  assertEquals((await held.relay.exited).exitCode, 0);
  await untilNoneWith(held.folder);
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
