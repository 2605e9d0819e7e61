import { assert, assertEquals, assertMatch } from "@std/assert";
import fc from "fast-check";
import { settledWithin } from "../base/signals.ts";
import { type DoorAnswer, Refused } from "./door.ts";
import { DoorServer, type DoorServerOptions, type IncomingRequest } from "./door_server.ts";
import { MAX_HEAD, parseHead } from "./door_http.ts";

const encoder = new TextEncoder();
const decoder = new TextDecoder();

const refusal = ({ status, message }: Refused): DoorAnswer => ({
  status,
  text: JSON.stringify(message),
});

/** Answers with what was asked. */
async function echo(request: IncomingRequest): Promise<DoorAnswer> {
  try {
    const body = await request.readBody((bytes) => decoder.decode(bytes));
    return { status: 200, text: JSON.stringify([request.method, request.target, body]) };
  } catch (error) {
    if (error instanceof Refused) return refusal(error);
    return { status: 200, text: '"gone"' };
  }
}

/** A door on a port, and whatever is said to it. */
class Door implements AsyncDisposable {
  readonly port: number;
  readonly #server: DoorServer;

  constructor(options: Partial<DoorServerOptions> = {}) {
    this.#server = new DoorServer({ handler: echo, refusal, maxBodyBytes: 1 << 20, ...options });
    this.port = this.#server.listen();
  }

  connect(): Promise<Deno.TcpConn> {
    return Deno.connect({ hostname: "127.0.0.1", port: this.port });
  }

  /** Says all at once, and reads until the door hangs up. */
  async say(text: string | Uint8Array): Promise<string> {
    using connection = await this.connect();
    await writeAll(connection, typeof text === "string" ? encoder.encode(text) : text);
    return await readAll(connection);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server[Symbol.asyncDispose]();
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
async function readAnswer(connection: Deno.TcpConn): Promise<string> {
  const latin1 = new TextDecoder("latin1"); // each byte a character
  let text = "";
  const buffer = new Uint8Array(1 << 16);
  while (true) {
    const end = text.indexOf("\r\n\r\n");
    const length = Number(/content-length: (\d+)/.exec(text)?.[1]);
    if (end !== -1 && text.length >= end + 4 + length) return text.slice(end + 4);
    const n = await connection.read(buffer);
    if (n === null) return text;
    text += latin1.decode(buffer.subarray(0, n));
  }
}

function post(body: string, ...headers: string[]): string {
  const length = encoder.encode(body).length;
  const lines = ["POST /x HTTP/1.1", "Host: h", `Content-Length: ${length}`, ...headers];
  return `${lines.join("\r\n")}\r\n\r\n${body}`;
}

async function untilAborted(signal: AbortSignal): Promise<void> {
  const aborted = Promise.withResolvers<void>();
  signal.addEventListener("abort", () => aborted.resolve(), { once: true });
  if (!signal.aborted) await aborted.promise;
}

function statusOf(answer: string): number {
  return Number(/^HTTP\/1\.1 (\d+) /.exec(answer)?.[1] ?? 0);
}

Deno.test("DoorServer answers one request after the other on a connection, however they are cut", async () => {
  await using door = new Door();
  using connection = await door.connect();
  for (const cut of [1, 7, 50, 1000]) {
    const request = encoder.encode(post(`${"x".repeat(cut)}`));
    for (let at = 0; at < request.length; at += cut) {
      await writeAll(connection, request.subarray(at, at + cut));
    }
    assertEquals(await readAnswer(connection), JSON.stringify(["POST", "/x", "x".repeat(cut)]));
  }
});

Deno.test("DoorServer hangs up after the answer when it is asked to", async () => {
  await using door = new Door();
  const answer = await door.say(post("1", "Connection: close"));
  assertMatch(
    answer,
    /^HTTP\/1\.1 200 OK\r\n.*connection: close\r\n.*\r\n\r\n\["POST","\/x","1"\]$/s,
  );
});

const OFFENCES: Record<string, readonly [status: number, request: string]> = {
  "another version": [505, "POST /x HTTP/1.0\r\nHost: h\r\nContent-Length: 0\r\n\r\n"],
  "no version": [400, "GET /x\r\n\r\n"],
  "another target": [400, "GET http://h/x HTTP/1.1\r\nHost: h\r\n\r\n"],
  "a control character in the target": [400, "GET /\x01 HTTP/1.1\r\nHost: h\r\n\r\n"],
  "bare line feeds": [400, "GET /x HTTP/1.1\nHost: h\n\r\n\r\n"],
  "a bare carriage return": [400, "GET /x HTTP/1.1\r\nHost: h\rX: y\r\n\r\n"],
  "a folded header": [400, "GET /x HTTP/1.1\r\nHost: h\r\nX: a\r\n b\r\n\r\n"],
  "a space before the colon": [400, "GET /x HTTP/1.1\r\nHost : h\r\n\r\n"],
  "a nul": [400, "GET /x HTTP/1.1\r\nHost: h\r\nX: \0\r\n\r\n"],
  "no host": [400, "GET /x HTTP/1.1\r\n\r\n"],
  "two hosts": [400, "GET /x HTTP/1.1\r\nHost: h\r\nhost: h\r\n\r\n"],
  "two lengths": [400, post("1", "content-length: 1")],
  "a list of lengths": [400, "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 1, 1\r\n\r\n1"],
  "a signed length": [400, "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: +1\r\n\r\n1"],
  "a length in hexadecimal": [400, "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 0x1\r\n\r\n1"],
  "no length": [411, "POST /x HTTP/1.1\r\nHost: h\r\n\r\n"],
  "chunks": [411, "POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"],
  "chunks and a length": [411, post("0\r\n\r\n", "Transfer-Encoding: chunked")],
  "a wait for a word": [417, post("1", "Expect: 100-continue")],
  "a body that is too large": [413, post(" ".repeat((1 << 20) + 1))],
  "a long header": [431, post("1", `X: ${"x".repeat(MAX_HEAD)}`)],
  "endless headers": [431, "GET /x HTTP/1.1\r\n" + "X: y\r\n".repeat(MAX_HEAD)],
  "many headers": [431, post("1", ...Array.from({ length: 70 }, (_, n) => `X${n}: y`))],
  "too many values": [413, post(`[${"1,".repeat(300_000)}1]`, "Connection: close")],
};

for (const [offence, [status, request]] of Object.entries(OFFENCES)) {
  Deno.test(`DoorServer refuses ${offence} with ${status}, and hangs up`, async () => {
    await using door = new Door();
    const answer = await door.say(request);
    assertEquals(statusOf(answer), status, answer);
    assertEquals(answer.match(/^HTTP/gm)?.length, 1, "only one answer");
  });
}

Deno.test("DoorServer counts no values within strings", async () => {
  await using door = new Door();
  const body = JSON.stringify({ csv: `"a\\",b,${"1,".repeat(300_000)}` });
  assertEquals(statusOf(await door.say(post(body, "Connection: close"))), 200);
});

Deno.test("DoorServer cancels a request whose caller does not wait for the answer", async () => {
  const cancelled = Promise.withResolvers<void>();
  const handler = async (request: IncomingRequest): Promise<DoorAnswer> => {
    await request.readBody(() => {});
    await untilAborted(request.signal);
    cancelled.resolve();
    return { status: 200, text: "1" };
  };
  await using door = new Door({ handler });
  const answer = await door.say(post("1") + post("2"));
  await cancelled.promise;
  assertEquals(statusOf(answer), 400);
  assertMatch(answer, /Wait for the answer/);
});

Deno.test("DoorServer cancels a request whose caller leaves", async () => {
  const begun = Promise.withResolvers<void>();
  const cancelled = Promise.withResolvers<void>();
  const handler = async (request: IncomingRequest): Promise<DoorAnswer> => {
    await request.readBody(() => {});
    begun.resolve();
    await untilAborted(request.signal);
    cancelled.resolve();
    return { status: 200, text: "1" };
  };
  await using door = new Door({ handler });
  const connection = await door.connect();
  await writeAll(connection, encoder.encode(post("1")));
  await begun.promise;
  connection.close();
  await cancelled.promise;
});

Deno.test("A15: DoorServer cuts off heads that do not come, and serves the others meanwhile", async () => {
  await using door = new Door({ headTimeoutMs: 300 });
  const slow = await Promise.all(Array.from({ length: 100 }, () => door.connect()));
  for (const [n, connection] of slow.entries()) {
    if (n % 2 === 0) await writeAll(connection, encoder.encode("POST /x HTTP/1.1\r\nHost"));
  }
  assertEquals(statusOf(await door.say(post("1", "Connection: close"))), 200);
  const answers = await Promise.all(slow.map(readAll));
  for (const connection of slow) connection.close();
  assertEquals(answers.filter((answer) => statusOf(answer) === 408).length, 50);
  assertEquals(answers.filter((answer) => answer === "").length, 50, "nothing was asked, nor said");
});

Deno.test("DoorServer drops a connection that is only kept, for a new one", async () => {
  await using door = new Door({ maxConnections: 1 });
  using kept = await door.connect();
  await writeAll(kept, encoder.encode(post("1")));
  assertEquals(await readAnswer(kept), '["POST","/x","1"]');
  assertEquals(statusOf(await door.say(post("2", "Connection: close"))), 200);
  assertEquals(await readAll(kept), "");
});

Deno.test("DoorServer refuses connections above its limit", async () => {
  const begun = Promise.withResolvers<void>();
  const release = Promise.withResolvers<void>();
  const handler = async (request: IncomingRequest): Promise<DoorAnswer> => {
    await request.readBody(() => {});
    begun.resolve();
    await release.promise;
    return { status: 200, text: "1" };
  };
  await using door = new Door({ handler, maxConnections: 1 });
  using busy = await door.connect();
  await writeAll(busy, encoder.encode(post("1")));
  await begun.promise;
  assertEquals(statusOf(await door.say(post("2"))), 503);
  release.resolve();
  assertEquals(await readAnswer(busy), "1");
});

Deno.test("DoorServer sends lines before an answer, and drops those that nobody reads", async () => {
  const handler = async (request: IncomingRequest): Promise<DoorAnswer> => {
    await request.readBody(() => {});
    request.tell("first\n");
    for (let n = 0; n < 100; n++) request.tell("x".repeat(1 << 20) + "\n");
    return { status: 200, text: "last" };
  };
  await using door = new Door({ handler });
  const answer = await door.say(post("1", "Connection: close"));
  assertMatch(answer, /\r\n\r\n6\r\nfirst\n\r\n/);
  assertMatch(answer, /\r\n4\r\nlast\r\n0\r\n\r\n$/);
  assert(answer.length < 4 << 20, `${answer.length}`);
});

Deno.test("DoorServer lets the request that is being answered end before it does", async () => {
  const begun = Promise.withResolvers<void>();
  const release = Promise.withResolvers<void>();
  const handler = async (request: IncomingRequest): Promise<DoorAnswer> => {
    await request.readBody(() => {});
    begun.resolve();
    await release.promise;
    return { status: 200, text: "1" };
  };
  const door = new Door({ handler });
  using connection = await door.connect();
  await writeAll(connection, encoder.encode(post("1")));
  await begun.promise;
  const closed = door[Symbol.asyncDispose]();
  assertEquals(await settledWithin(closed, 1), false);
  release.resolve();
  assertMatch(await readAll(connection), /\r\n\r\n1$/);
  await closed;
});

Deno.test("DoorServer answers or refuses whatever comes, and never more often than was asked", async () => {
  await using door = new Door({ headTimeoutMs: 100 });
  const piece = fc.oneof(
    fc.constantFrom("POST /x HTTP/1.1", "Host: h", "Content-Length: 3", "\r\n", "\n", " ", "abc"),
    fc.string(),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(piece, { maxLength: 12 }), async (pieces) => {
      using connection = await door.connect();
      await writeAll(connection, encoder.encode(pieces.join("")));
      await connection.closeWrite();
      const answer = await readAll(connection);
      assert(answer === "" || statusOf(answer) >= 400, answer); // a caller that has gone gets none
    }),
    { numRuns: 300 },
  );
});

Deno.test("parseHead() gives what was sent, or refuses it", () => {
  const name = fc.stringMatching(/^[a-z][a-z0-9-]{0,10}$/);
  const value = fc.stringMatching(/^[!-~]([ -~]{0,20}[!-~])?$/);
  fc.assert(fc.property(fc.dictionary(name, value), (sent) => {
    const headers = { ...sent, host: "h", "content-length": "7", connection: "x" };
    for (const special of ["expect", "transfer-encoding"]) delete sent[special];
    const { expect: _1, "transfer-encoding": _2, ...rest } = {
      expect: "",
      "transfer-encoding": "",
      ...headers,
    };
    const lines = Object.entries(rest).map(([key, text]) => `${key}:  ${text} `);
    const head = parseHead(["POST /a?b HTTP/1.1", ...lines].join("\r\n"));
    assertEquals([head.method, head.target, head.length, head.keep], ["POST", "/a?b", 7, true]);
    assertEquals(Object.fromEntries(head.headers), rest);
  }));
  fc.assert(fc.property(fc.string({ maxLength: 200 }), (text) => {
    try {
      parseHead(text);
    } catch (error) {
      assert(error instanceof Refused);
    }
  }));
});
