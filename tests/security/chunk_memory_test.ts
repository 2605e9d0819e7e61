/** Attacks on the host's memory by bodies in pieces of one byte, which come in buffers of 64 KiB. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { exactFetch } from "../../src/mcp/exact_fetch.ts";
import { oauthFetch } from "../../src/mcp/oauth/http.ts";
import { until } from "../support/wait.ts";
import { HttpMcp } from "../support/http_mcp.ts";
import { testIf } from "../support/skip.ts";
import { TempFolder } from "../support/temp_folder.ts";

const MIB = 2 ** 20;
/** The bytes of a body, each in a chunk of its own: 1.2 GiB where each keeps its buffer. */
const PIECES = 20_000;
const encoder = new TextEncoder();

/** The most memory outside of the heap of this test's own thread so far, in MiB. */
class Peak implements Disposable {
  #highest = 0;
  #looks = 0;
  readonly #timer = setInterval(() => this.#look(), 10);

  get taken(): number {
    this.#look();
    return this.#highest;
  }

  /** Waits until it has been looked for long enough to see what has come so far. */
  async settled(): Promise<void> {
    const enough = this.#looks + 30;
    await until(() => this.#looks > enough);
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }

  #look(): void {
    this.#looks++;
    this.#highest = Math.max(this.#highest, Deno.memoryUsage().external / MIB);
  }
}

/** A server whose answer is spaces in chunks of one byte, and then `{}`. */
function tinyChunks(peak: Peak): { url: URL } & AsyncDisposable {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const serve = async (): Promise<void> => {
    using connection = await listener.accept();
    await connection.read(new Uint8Array(65_536));
    await say(connection, HEAD);
    for (let n = 0; n < PIECES; n += 1000) await say(connection, "1\r\n \r\n".repeat(1000));
    await peak.settled();
    await say(connection, "2\r\n{}\r\n0\r\n\r\n");
    await connection.read(new Uint8Array(1)).catch(() => {}); // until the other side has gone
  };
  const served = serve();
  const { port } = listener.addr;
  return {
    url: new URL(`http://127.0.0.1:${port}/`),
    [Symbol.asyncDispose]: async () => {
      await served;
      listener.close();
    },
  };
}

const HEAD = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n" +
  "transfer-encoding: chunked\r\n\r\n";

async function say(connection: Deno.Conn, text: string): Promise<void> {
  const bytes = encoder.encode(text);
  for (let at = 0; at < bytes.length;) at += await connection.write(bytes.subarray(at));
}

const WAYS: Readonly<Record<string, (url: URL) => Promise<Response>>> = {
  "an answer of a server": (url) => exactFetch(url, { method: "POST", body: "{}" }),
  "an answer of an authorization server": (url) => oauthFetch(url)(url),
};

for (const [name, get] of Object.entries(WAYS)) {
  Deno.test(`${name} in pieces of one byte takes the memory of its bytes`, async () => {
    using peak = new Peak();
    await using server = tinyChunks(peak);
    const response = await get(server.url);
    assertEquals((await response.text()).trim(), "{}");
    assert(peak.taken < 400, `${peak.taken} MiB`);
  });
}

testIf(Deno.build.os === "linux", "reads /proc", {
  name: "a request of a tenant in pieces of one byte takes the memory of its bytes",
  fn: async () => {
    await using workspace = await TempFolder.create();
    await using outside = await TempFolder.create();
    const [tokens, token] = [`${outside.path}/tokens`, "alice-alice-alice-alice"];
    await Deno.writeTextFile(tokens, `${token}\n`);
    await using server = await HttpMcp.start([
      "--workspace",
      workspace.path,
      "--token-file",
      tokens,
    ]);
    const { hostname, port } = server.address.url;
    using connection = await Deno.connect({ hostname, port: Number(port) });
    const before = await peakOf(server.pid);
    const head = `POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer ${token}\r\n` +
      "content-type: application/json\r\naccept: application/json, text/event-stream\r\n" +
      "transfer-encoding: chunked\r\n\r\n";
    await say(connection, head);
    const sendAll = async () => {
      for (let n = 0; n < PIECES; n += 1000) await say(connection, "1\r\n \r\n".repeat(1000));
    };
    await sendAll();
    await say(connection, "0\r\n\r\n");
    const answer = new Uint8Array(4096);
    const size = await connection.read(answer) ?? 0;
    assertMatch(new TextDecoder().decode(answer.subarray(0, size)), /^HTTP\/1\.1 400 /);
    const taken = await peakOf(server.pid) - before;
    assert(taken < 400, `${taken} MiB`);
  },
});

/** The most memory that a process has taken so far, in MiB. */
async function peakOf(pid: number): Promise<number> {
  const status = await Deno.readTextFile(`/proc/${pid}/status`);
  return Number(/VmHWM:\s+(\d+)/.exec(status)?.[1]) / 1024;
}
