import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import fc from "fast-check";
import { testIf } from "../../tests/support/skip.ts";
import { until } from "../../tests/support/wait.ts";
import { type HeldFolder, socketFolder } from "../files/private_folder.ts";
import { LastingServer, RequestFraming } from "./lasting_server.ts";
import { silentLogger } from "./log.ts";
import { pause } from "./signals.ts";

/** A server to which connections are forwarded. */
async function serve(
  parts: AsyncDisposableStack,
  handler: (request: Request) => Response | Promise<Response> = () => new Response("here"),
): Promise<{ readonly server: LastingServer; readonly folder: string }> {
  const held = await socketFolder(silentLogger);
  const folder: string = parts.use<HeldFolder>(held!).path;
  const options = { hostname: "127.0.0.1", port: 0, handler, log: silentLogger, folder };
  return { server: parts.use(new LastingServer(options)), folder };
}

async function ask({ addr }: LastingServer): Promise<Deno.TcpConn> {
  const connection = await Deno.connect({ hostname: addr.hostname, port: addr.port });
  const head = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
  await connection.write(new TextEncoder().encode(head));
  return connection;
}

Deno.test("LastingServer has clients wait while its socket takes no more connections", async () => {
  await using parts = new AsyncDisposableStack();
  const { server, folder } = await serve(parts);
  const path = `${folder}/1`;
  await Deno.remove(path);
  const busy = Deno.listen({ transport: "unix", path });
  const waiting: Deno.UnixConn[] = [];
  for (let isFull = false; !isFull;) {
    await Deno.connect({ transport: "unix", path }).then(
      (connection) => waiting.push(connection),
      () => isFull = true,
    );
  }
  using client = await ask(server);
  const answer = client.read(new Uint8Array(9)).finally(() => busy.close());
  for (const connection of waiting) connection.close();
  const answerAll = async () => {
    for (;;) {
      using accepted = await busy.accept();
      if (await accepted.read(new Uint8Array(1000)) === null) continue;
      await accepted.write(new TextEncoder().encode("HTTP/1.1 "));
    }
  };
  await assertRejects(answerAll, Deno.errors.BadResource); // the client has its answer, or is gone
  assertEquals(await answer, 9);
});

const descriptors = async () => (await Array.fromAsync(Deno.readDir("/proc/self/fd"))).length;

testIf(Deno.build.os === "linux", "reads /proc", {
  name: "LastingServer refuses whoever sends a body in endless pieces, and keeps nothing of it",
  fn: async () => {
    await using parts = new AsyncDisposableStack();
    const { server: { addr: { hostname, port } } } = await serve(parts, async (request) => {
      await request.text();
      return new Response();
    });
    const before = await descriptors();
    await Promise.all(Array.from({ length: 20 }, async () => {
      using client = await Deno.connect({ hostname, port });
      const head = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
      const pieces = new TextEncoder().encode("1\r\nx\r\n".repeat(10_000));
      await client.write(new TextEncoder().encode(head + "1\r\nx\r\n".repeat(65)));
      const answer = new Uint8Array(1000);
      const length = await client.read(answer) ?? 0;
      assertMatch(new TextDecoder().decode(answer.subarray(0, length)), /^HTTP\/1\.1 400 /);
      // Whoever goes on is cut off.
      const goesOn = async () => {
        for (;;) await client.write(pieces);
      };
      await assertRejects(goesOn);
    }));
    await until("its connections are closed", async () => await descriptors() <= before);
  },
});

testIf(Deno.build.os === "linux", "reads /proc", {
  name: "LastingServer keeps nothing of a body that was refused while it came",
  fn: async () => {
    await using parts = new AsyncDisposableStack();
    const { server: { addr: { hostname, port } } } = await serve(parts, async ({ body }) => {
      const reader = body!.getReader();
      await reader.read();
      reader.releaseLock();
      return new Response(null, { status: 400 });
    });
    const before = await descriptors();
    await Promise.all(Array.from({ length: 20 }, async () => {
      using client = await Deno.connect({ hostname, port });
      const head = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n";
      await client.write(new TextEncoder().encode(head + "x".repeat(1000)));
      const answer = new Uint8Array(1000);
      const length = await client.read(answer) ?? 0;
      assertMatch(new TextDecoder().decode(answer.subarray(0, length)), /^HTTP\/1\.1 400 /);
    }));
    await until("its connections are closed", async () => await descriptors() <= before);
  },
});

Deno.test("LastingServer takes bodies in chunks", async () => {
  await using parts = new AsyncDisposableStack();
  const { server: { addr: { hostname, port } } } = await serve(parts, async (request) => {
    return new Response(`${(await request.text()).length}`);
  });
  for (const pieces of [1, 60, 300]) {
    const body = ReadableStream.from(Array.from({ length: pieces }, () => new Uint8Array(5000)));
    const response = await fetch(`http://${hostname}:${port}`, { method: "POST", body });
    assertEquals(await response.text(), `${pieces * 5000}`);
  }
});

/** Whether a connection with these bytes is accepted, and whether it is in any pieces. */
function isAccepted(text: string): boolean {
  const bytes = new TextEncoder().encode(text);
  const whole = new RequestFraming().accept(bytes);
  fc.assert(fc.property(fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1 }), (sizes) => {
    const framing = new RequestFraming();
    let accepts = true;
    for (let at = 0, n = 0; at < bytes.length && accepts; n++) {
      accepts = framing.accept(bytes.subarray(at, at += sizes[n % sizes.length]!));
    }
    assertEquals(accepts, whole);
  }));
  return whole;
}

Deno.test("RequestFraming finds bodies in small chunks, in any request of a connection", () => {
  const plain = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\n\r\n1\r\nx\r\n1\r\nx\r";
  const get = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
  const chunked = (head: string, chunks: string) => `POST / HTTP/1.1\r\n${head}\r\n\r\n${chunks}`;
  const small = "1\r\nx\r\n";
  const usual = chunked("Transfer-Encoding: chunked", `${small.repeat(60)}0\r\nA: b\r\n\r\n`);
  const large = `1000;a=b\r\n${"x".repeat(4096)}\r\n`;
  const many = chunked("transfer-encoding:chunked", `${large.repeat(70)}0\r\n\r\n`);
  const named = get.replace("/", "/transfer-encoding:").replace("x", "x\r\nA: transfer-encoding:");
  const zeros = plain.replace("11", "0".repeat(30) + "11");
  assert(isAccepted(plain + get + named + zeros + usual + many + usual + get));
  const floods = [
    chunked("Transfer-Encoding: chunked", small.repeat(65)),
    chunked("Content-Length: 9\r\nTRANSFER-ENCODING: chunked", small.repeat(65)),
    chunked("Transfer-Encoding: chunked", small.repeat(65)).replaceAll("\r\n", "\n"),
    chunked("Transfer-Encoding: chunked", "1;" + "a".repeat(2000) + "\r\nx\r\n"),
    chunked("Transfer-Encoding: chunked", "z\r\n"),
    "GET / HTTP/1.1\r\nA: " + "a".repeat(1 << 16),
    plain.replace("11", "1" + "0".repeat(15)),
    plain.replace("11", "11, 11"),
    plain.replace("POST", "CONNECT"),
  ];
  for (const flood of floods) assert(!isAccepted(plain + usual + get + flood), flood.slice(0, 80));
});

Deno.test("LastingServer speaks no HTTP/2, however its beginning is sent", async () => {
  await using parts = new AsyncDisposableStack();
  const { server: { addr: { hostname, port } } } = await serve(parts);
  const settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
  const beginning = new TextEncoder().encode("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
  for (const first of [1, 2, beginning.length]) {
    using client = await Deno.connect({ hostname, port });
    client.setNoDelay();
    await client.write(beginning.subarray(0, first));
    await pause(50); // two segments, as far as that can be told
    const rest = new Uint8Array([...beginning.subarray(first), ...settings]);
    const sent = client.write(rest);
    const answered = client.read(new Uint8Array(9));
    assertEquals(await answered.catch(() => null), null);
    await sent.catch(() => {}); // it may be closed already
  }
});

testIf(Deno.build.os === "linux", "the state of connections is listed in /proc", {
  name: "LastingServer keeps no connection that it has closed, also if its client does",
  fn: async () => {
    await using parts = new AsyncDisposableStack();
    const { server } = await serve(parts);
    using client = await ask(server);
    while (await client.read(new Uint8Array(1000)) !== null);
    const hex = ({ port }: Deno.NetAddr) => port.toString(16).toUpperCase().padStart(4, "0");
    const [own, other] = [hex(server.addr), hex(client.localAddr)];
    const line = new RegExp(`:${own} \\w+:${other} (?:\\S+\\s+){6}(\\d+)`);
    // Nobody has it open any more.
    await until(async () => line.exec(await Deno.readTextFile("/proc/net/tcp"))?.[1] === "0");
  },
});

Deno.test("RequestFraming takes few empty lines before a request, so that a flood of them ends", () => {
  const bytes = (text: string) => new TextEncoder().encode(text);
  const request = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
  const framing = new RequestFraming();
  for (let n = 0; n < 20; n++) assert(framing.accept(bytes(`${"\r\n".repeat(n % 8)}${request}`)));
  assert(!framing.accept(bytes("\n".repeat(100))));
  assert(!new RequestFraming().accept(bytes(`${"\r\n".repeat(9)}${request}`)));
});
