import { assert, assertEquals, assertMatch } from "@std/assert";
import fc from "../../tests/support/fast_check.ts";
import { settledWithin } from "../base/signals.ts";
import { Refused } from "./http_checks.ts";
import {
  type IncomingCall,
  KernelCallServer,
  type KernelCallServerOptions,
  MAX_HEAD,
} from "./kernel_call_server.ts";

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** Answers with the call itself. */
async function echo(call: IncomingCall): Promise<string> {
  try {
    const body = await call.readBody((bytes) => decoder.decode(bytes));
    return JSON.stringify([call.head.call, body]);
  } catch (error) {
    if (error instanceof Refused) throw error;
    return '"gone"';
  }
}

/** A door on a port, and ways to send to it. */
class Door implements AsyncDisposable {
  readonly port: number;
  readonly server: KernelCallServer;

  constructor(options: Partial<KernelCallServerOptions> = {}) {
    this.server = new KernelCallServer({ handler: echo, maxBodyBytes: 1 << 20, ...options });
    this.port = this.server.listen();
  }

  connect(): Promise<Deno.TcpConn> {
    return Deno.connect({ hostname: "127.0.0.1", port: this.port });
  }

  /** Sends everything at once, and reads until the door hangs up. */
  async say(text: string): Promise<string> {
    using connection = await this.connect();
    await this.send(connection, text);
    return await readAll(connection);
  }

  /** Makes one call. */
  async call(body: string): Promise<string> {
    using connection = await this.connect();
    await this.send(connection, callOf(body));
    return await readLine(connection);
  }

  /** Sends texts, with the door's token in the place of `TOKEN`. */
  async send(connection: Deno.TcpConn, text: string): Promise<void> {
    await writeAll(connection, this.bytes(text));
  }

  /** The bytes that {@linkcode send} sends. */
  bytes(text: string): Uint8Array {
    return encoder.encode(text.replaceAll("TOKEN", this.server.token));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.server[Symbol.asyncDispose]();
  }
}

async function writeAll(connection: Deno.TcpConn, bytes: Uint8Array): Promise<void> {
  for (let at = 0; at < bytes.length;) at += await connection.write(bytes.subarray(at));
}

async function readAll(connection: Deno.TcpConn): Promise<string> {
  let text = "";
  const buffer = new Uint8Array(1 << 16);
  for (let n: number | null; (n = await connection.read(buffer)) !== null;) {
    text += decoder.decode(buffer.subarray(0, n));
  }
  return text;
}

/** Reads one answer and leaves the connection open. */
async function readLine(connection: Deno.TcpConn): Promise<string> {
  let text = "";
  const buffer = new Uint8Array(1 << 16);
  while (!text.endsWith("\n")) {
    const n = await connection.read(buffer);
    if (n === null) return text;
    text += decoder.decode(buffer.subarray(0, n));
  }
  return text.slice(0, -1);
}

function callOf(body: string, head: object = {}): string {
  const size = encoder.encode(body).length;
  return `${JSON.stringify({ token: "TOKEN", call: "run", size, ...head })}\n${body}`;
}

async function untilAborted(signal: AbortSignal): Promise<void> {
  const aborted = Promise.withResolvers<void>();
  signal.addEventListener("abort", () => aborted.resolve(), { once: true });
  if (!signal.aborted) await aborted.promise;
}

/** A handler that answers on request. */
class Held {
  readonly begun = Promise.withResolvers<void>();
  readonly release = Promise.withResolvers<void>();
  readonly cancelled = Promise.withResolvers<void>();
  readonly handler = async (call: IncomingCall): Promise<string> => {
    await call.readBody(() => {});
    this.begun.resolve();
    await Promise.race([this.release.promise, untilAborted(call.signal)]);
    if (call.signal.aborted) this.cancelled.resolve();
    return "1";
  };
}

Deno.test("KernelCallServer answers one call after the other on a stream, however they are cut", async () => {
  await using door = new Door();
  using connection = await door.connect();
  for (const cut of [1, 7, 50, 1000, 100_000]) {
    const call = door.bytes(callOf("é".repeat(cut)));
    for (let at = 0; at < call.length; at += cut) {
      await writeAll(connection, call.subarray(at, at + cut));
    }
    assertEquals(await readLine(connection), JSON.stringify(["run", "é".repeat(cut)]));
  }
});

const OFFENCES: Record<string, readonly [why: RegExp, said: string]> = {
  "a request of HTTP": [/not a tool call/, "POST /run HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n{}"],
  "a request of HTTP with a call as its body": [
    /not a tool call/,
    `POST / HTTP/1.1\n\n${callOf("1")}`,
  ],
  "a call behind an empty line": [/not a tool call/, `\n${callOf("1")}`],
  "an array": [/not a tool call/, `[${callOf("1").replace("\n", "]\n")}`],
  "no token": [/not a tool call/, '{"call":"run","size":1}\n1'],
  "a wrong token": [/Wrong token/, callOf("1", { token: "0".repeat(64) })],
  "an unknown call": [/not a tool call/, callOf("1", { call: "reset" })],
  "another field": [/not a tool call/, callOf("1", { approved: true })],
  "a negative size": [/not a tool call/, callOf("1", { size: -1 })],
  "a size that is no whole number": [/not a tool call/, callOf("1", { size: 0.5 })],
  "a size that is beyond all numbers": [/not a tool call/, callOf("1").replace(":1}", ":1e999}")],
  "words behind the JSON": [
    /not a tool call/,
    '{"token":"TOKEN","call":"run","size":1} HTTP/1.1\n1',
  ],
  "a body that is too large": [/exceeds 1048576 bytes/, callOf(" ".repeat((1 << 20) + 1))],
  "a long first line": [/exceeds 4096 bytes/, callOf("1", { token: "x".repeat(MAX_HEAD) })],
  "an endless first line": [/exceeds 4096 bytes/, "[".repeat(1 << 20)],
  "a second call before the answer": [/Wait for the answer/, callOf("1") + callOf("2")],
};

for (const [offence, [why, said]] of Object.entries(OFFENCES)) {
  Deno.test(`KernelCallServer refuses ${offence}, and hangs up`, async () => {
    await using door = new Door();
    const answer = await door.say(said);
    assertEquals(Object.keys(JSON.parse(answer)), ["refused"]); // and one line
    assertMatch(answer, why);
  });
}

Deno.test("KernelCallServer ends the streams of the token before, and knows only the new one", async () => {
  const held = new Held();
  await using door = new Door({ handler: held.handler });
  using connection = await door.connect();
  await door.send(connection, callOf("1"));
  await held.begun.promise;
  const before = door.server.token;
  assertEquals(door.server.renew(), door.server.token);
  await held.cancelled.promise;
  assertEquals(await readAll(connection), "");
  assertMatch(await door.say(callOf("1", { token: before })), /Wrong token/);
});

Deno.test("KernelCallServer refuses a body with too many values, and answers the next call", async () => {
  await using door = new Door();
  using connection = await door.connect();
  await door.send(connection, callOf(`[${"1,".repeat(300_000)}1]`));
  assertMatch(await readLine(connection), /"refused":"The body has more than 250000 values/);
  await door.send(connection, callOf("2"));
  assertEquals(await readLine(connection), '["run","2"]');
});

Deno.test("KernelCallServer counts no values within strings", async () => {
  await using door = new Door();
  const body = JSON.stringify({ csv: `"a\\",b,${"1,".repeat(300_000)}` });
  assertMatch(await door.call(body), /^\["run",/);
});

Deno.test("KernelCallServer cancels a call whose caller does not wait for the answer", async () => {
  const held = new Held();
  await using door = new Door({ handler: held.handler });
  using connection = await door.connect();
  await door.send(connection, callOf("1"));
  await held.begun.promise;
  await door.send(connection, "x");
  await held.cancelled.promise;
  assertEquals(
    await readAll(connection),
    '{"refused":"Wait for the answer before the next call"}\n',
  );
});

for (const leave of ["closes", "half-closes"]) {
  Deno.test(`KernelCallServer cancels a call whose caller ${leave} the stream`, async () => {
    const held = new Held();
    await using door = new Door({ handler: held.handler });
    using connection = await door.connect();
    await door.send(connection, callOf("1"));
    await held.begun.promise;
    await (leave === "closes" ? connection.close() : connection.closeWrite());
    await held.cancelled.promise;
    if (leave === "closes") return;
    assertEquals(await readAll(connection), "");
  });
}

Deno.test("KernelCallServer drops a stream that is only kept, for a new one", async () => {
  await using door = new Door({ maxStreams: 1 });
  using kept = await door.connect();
  await door.send(kept, callOf("1"));
  assertEquals(await readLine(kept), '["run","1"]');
  assertEquals(await door.call("2"), '["run","2"]');
  assertEquals(await readAll(kept), "");
});

Deno.test("KernelCallServer refuses streams above its limit", async () => {
  const held = new Held();
  await using door = new Door({ handler: held.handler, maxStreams: 1 });
  using busy = await door.connect();
  await door.send(busy, callOf("1"));
  await held.begun.promise;
  assertEquals(await door.say(callOf("2")), '{"refused":"Too many connections: the limit is 1"}\n');
  held.release.resolve();
  assertEquals(await readLine(busy), "1");
});

Deno.test("KernelCallServer sends lines before an answer, and drops those that nobody reads", async () => {
  const handler = async (call: IncomingCall): Promise<string> => {
    await call.readBody(() => {});
    call.push('"first"');
    for (let n = 0; n < 100; n++) call.push("x".repeat((1 << 20) - 100));
    return '"last"';
  };
  await using door = new Door({ handler, maxStreams: 1 });
  using connection = await door.connect();
  await door.send(connection, callOf("1"));
  let text = "";
  while (!text.endsWith('"last"\n')) text += `${await readLine(connection)}\n`;
  assert(text.startsWith('"first"\n'));
  assert(text.length < 4 << 20, `${text.length}`);
});

Deno.test("KernelCallServer lets the call that is being answered end before it does", async () => {
  const held = new Held();
  const door = new Door({ handler: held.handler });
  using connection = await door.connect();
  await door.send(connection, callOf("1"));
  await held.begun.promise;
  const closed = door[Symbol.asyncDispose]();
  assertEquals(await settledWithin(closed, 1), false);
  held.release.resolve();
  assertEquals(await readAll(connection), "1\n");
  await closed;
});

Deno.test("KernelCallServer ends although there are kept streams, and calls that never come whole", async () => {
  const door = new Door();
  using kept = await door.connect();
  await door.send(kept, callOf("1"));
  await readLine(kept);
  using half = await door.connect();
  await door.send(half, callOf("1", { size: 100 }));
  assertEquals(await settledWithin(door[Symbol.asyncDispose](), 1900), true);
});

Deno.test("KernelCallServer answers or refuses whatever comes, and never more often than was asked", async () => {
  await using door = new Door();
  const head = '{"token":"TOKEN","call":"run","size":3}';
  const piece = fc.oneof(
    fc.constantFrom(
      callOf("1"),
      head,
      "\n",
      " ",
      "abc",
      "{",
      "}",
    ),
    fc.string(),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(piece, { maxLength: 12 }), async (pieces) => {
      using connection = await door.connect();
      await door.send(connection, pieces.join(""));
      await connection.closeWrite();
      const answers = (await readAll(connection)).split("\n").slice(0, -1);
      const refusals = answers.filter((answer) => "refused" in JSON.parse(answer)).length;
      assert(refusals <= 1, `${answers}`);
      const asked = pieces.filter((text) => text === callOf("1") || text === head).length;
      assert(answers.length - refusals <= asked);
    }),
    { numRuns: 300, examples: [[[head, "\n", "abc"]]] },
  );
});

Deno.test("KernelCallServer takes calls from any bytes, cut anywhere, and gives each its own answer", async () => {
  await using door = new Door();
  const bodies = fc.array(fc.string({ unit: "binary", maxLength: 50 }), { maxLength: 5 });
  const cuts = fc.array(fc.integer({ min: 3, max: 60 }), { minLength: 1, maxLength: 5 });
  await fc.assert(
    fc.asyncProperty(bodies, cuts, async (bodies, cuts) => {
      using connection = await door.connect();
      for (const body of bodies) {
        const call = door.bytes(callOf(body));
        for (let at = 0, n = 0; at < call.length; n++) {
          const next = at + (cuts[n % cuts.length] ?? 1);
          await writeAll(connection, call.subarray(at, next));
          at = next;
        }
        const sent = decoder.decode(encoder.encode(body));
        assertEquals(await readLine(connection), JSON.stringify(["run", sent]));
      }
    }),
    { numRuns: 30 },
  );
});
