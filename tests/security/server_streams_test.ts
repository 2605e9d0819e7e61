/** Remote servers that end their streams of events without end, or write them without events. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { readWhole } from "../../src/base/bytes.ts";
import { allDone } from "../../src/base/signals.ts";
import { connectMcp } from "../../src/mcp/connect.ts";
import type { McpConnection } from "../../src/mcp/connection.ts";
import { EventStream } from "../../src/mcp/exact_fetch.ts";
import { hostBudget } from "../../src/mcp/message.ts";

/** Ends each stream with what it has to say of the next. */
class Ender implements AsyncDisposable {
  streams = 0;
  readonly #server: Deno.HttpServer<Deno.NetAddr>;
  readonly #retry: string;

  constructor(retry: string) {
    this.#retry = retry;
    const onListen = () => {};
    this.#server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen }, (r) => this.#answer(r));
  }

  async connect(type: "http" | "sse"): Promise<McpConnection> {
    const url = `http://127.0.0.1:${this.#server.addr.port}/${type === "sse" ? "sse" : "mcp"}`;
    return await connectMcp("ender", { url, type: type === "sse" ? "sse" : "streamable_http" });
  }

  async #answer(request: Request): Promise<Response> {
    const isStream = request.method === "GET";
    if (isStream) this.streams++;
    if (new URL(request.url).pathname === "/sse") return this.#stream(this.#sse());
    if (isStream) return this.#stream(`retry: ${this.#retry}\nid: ${this.streams}\ndata: \n\n`);
    if (request.method !== "POST") return new Response(null, { status: 405 });
    const { id, method } = await request.json();
    if (id === undefined) return new Response(null, { status: 202 });
    if (method !== "initialize") {
      return Response.json({ jsonrpc: "2.0", id, error: { code: -32601, message: "no" } });
    }
    const result = {
      protocolVersion: "2025-06-18",
      capabilities: {},
      serverInfo: { name: "e", version: "1" },
    };
    return Response.json({ jsonrpc: "2.0", id, result });
  }

  /** The older transport answers on the stream: the first one also brings the handshake's answer. */
  #sse(): string {
    const message = {
      jsonrpc: "2.0",
      id: 0,
      result: {
        protocolVersion: "2024-11-05",
        capabilities: {},
        serverInfo: { name: "e", version: "1" },
      },
    };
    return `retry: ${this.#retry}\nevent: endpoint\ndata: /post\n\ndata: ${
      JSON.stringify(message)
    }\n\n`;
  }

  #stream(text: string): Response {
    return new Response(text, { headers: { "content-type": "text/event-stream" } });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.shutdown();
  }
}

/** All that end their streams are watched side by side, as each takes its seconds. */
const ENDERS = (["http", "sse"] as const).flatMap((type) =>
  ["0", "99999999999"].map((retry) => [type, retry] as const)
);

Deno.test("streams are not opened without end, whatever the server says of when to retry", async () => {
  await allDone(ENDERS.map(async ([type, retry]) => {
    const what = `by ${type}, retry: ${retry}`;
    await using server = new Ender(retry);
    {
      await using _connection = await server.connect(type);
      await new Promise((resolve) => setTimeout(resolve, 3000));
    }
    assert(server.streams <= 80, `${server.streams} streams in 3 s ${what}`);
    const { streams } = server;
    await new Promise((resolve) => setTimeout(resolve, 1000));
    assert(server.streams <= streams + 1, `only one may come later ${what}`);
  }));
});

/** A stream whose parts are there immediately, as what is unpacked is; and how many were read. */
function instant(text: string, parts: number): { body: ReadableStream<Uint8Array>; read: number } {
  const part = new TextEncoder().encode(text.repeat((1 << 16) / text.length));
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      if (stream.read < parts) controller.enqueue(part);
      else controller.close();
      stream.read++;
    },
  });
  const stream = { body, read: 0 };
  return stream;
}

function events(): EventStream {
  const instead = (error: unknown) => `instead: ${error}`;
  return new EventStream({ incoming: hostBudget.begin({}), data: String, instead });
}

for (const text of ["\n", "\r", "a", ":"]) {
  Deno.test(`a stream of ${JSON.stringify(text)} leaves others their turns`, async () => {
    const stream = instant(text, 1000);
    const turn = new Promise<number>((resolve) => setTimeout(() => resolve(stream.read)));

    assertEquals(await new Response(stream.body.pipeThrough(events())).text(), "");

    assert(await turn < 1000, "all of it was read first");
  });
}

Deno.test("a response leaves others their turns", async () => {
  const stream = instant("a", 1000);
  const turn = new Promise<number>((resolve) => setTimeout(() => resolve(stream.read)));

  await readWhole(stream.body, { maxBytes: 2 ** 30, tooLong: () => new RangeError() });

  assert(await turn < 1000, "all of it was read first");
});

Deno.test("a stream that never has a whole event is not read without end", async () => {
  const stream = instant(":", 5000);

  const text = await new Response(stream.body.pipeThrough(events())).text();

  assertMatch(text, /^data: instead: .*sent a message of more than \d+ bytes/);
  assert(stream.read < 4200, `${stream.read} parts were read`);
});
