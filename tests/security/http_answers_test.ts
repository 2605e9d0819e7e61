/** Attacks on the host of an HTTP server by way of the answers that its clients ask for. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { z } from "zod";
import { INITIALIZE } from "../support/initialize.ts";
import { HttpMcp } from "../support/http_mcp.ts";
import { McpHost } from "../support/mcp_client.ts";
import { until } from "../support/wait.ts";
import { testIf } from "../support/skip.ts";
import { TempFolder } from "../support/temp_folder.ts";

const ALICE = "alice-alice-alice-alice";
const BOB = "bob-bob-bob-bob-bob-bob";
const CELL = "execute_ipython_cell";
/** Prints 31 MiB, which become a resource. */
const PRINT = "for n in range(31): print(('y' * 1023 + '\\n') * 1024, end='')";

testIf(Deno.build.os === "linux", "only Linux says how much memory a process took", {
  name: "resources that nobody reads take no more of the host than their owner's share",
  fn: async () => {
    await using parts = new AsyncDisposableStack();
    const server = await serve(parts);
    await using bob = await McpHost.join({ url: server.address.url, token: BOB });
    await bob.execute("1");
    const alice = await RawClient.open(server.address.url);
    const uri = await alice.output(PRINT);
    const reads = Array.from({ length: 20 }, (_, id) => request(id, "resources/read", { uri }));

    const batch = await alice.send(reads);
    assertMatch(await bob.execute("6 * 7"), /42/);
    const answers = await Promise.all(reads.map((read) => alice.send(read)));
    assertMatch(await bob.execute("6 * 7"), /42/);

    assert(await peakOf(server.pid) < 1500);
    assertEquals(new Set(answers.map(({ status }) => status)), new Set([200, 429]));
    for (const { body } of [batch, ...answers]) await body?.cancel();
    await until(async () => {
      const { body, status } = await alice.send(reads[0]);
      await body?.cancel();
      return status === 200;
    });
  },
});

Deno.test("the messages of a batch are answered one after the other, each with its own outcome", async () => {
  await using parts = new AsyncDisposableStack();
  const { address: { url } } = await serve(parts);
  const alice = await RawClient.open(url);

  const answers = await alice.ask([
    { jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: "?" } },
    request("cell", "tools/call", { name: CELL, arguments: { code: "6 * 7" } }),
    request("late", "initialize", INITIALIZE.params),
    request("ping", "ping", {}),
  ]);

  assertEquals(answers.map(({ id }) => id), ["cell", "late", "ping"]);
  assertMatch(JSON.stringify(answers[0]), /42/);
  assertMatch(JSON.stringify(answers[1]?.error), /already initialized/);
  const note = { jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: "?" } };
  const { body, status } = await alice.send([note]);
  await body?.cancel();
  assertEquals(status, 202);
  const many = await alice.send(Array.from({ length: 101 }, (_, id) => request(id, "ping", {})));
  assertMatch(await many.text(), /A batch must not exceed 100 messages/);
});

Deno.test("ids that answers and notifications repeat are short", async () => {
  await using parts = new AsyncDisposableStack();
  const { address: { url } } = await serve(parts);
  const alice = await RawClient.open(url);
  const cell = { name: CELL, arguments: { code: "6 * 7" } };
  const send = async (length: number, params: object = cell): Promise<number> => {
    const { body, status } = await alice.send(request("A".repeat(length), "tools/call", params));
    await body?.cancel();
    return status;
  };
  const telling = (length: number) => ({ ...cell, _meta: { progressToken: "A".repeat(length) } });

  assertEquals([await send(256), await send(1, telling(256))], [200, 200]);
  assertEquals([await send(257), await send(1, telling(257))], [400, 400]);
  const batch = await alice.send([request(1, "ping", {}), request(2, "ping", telling(257))]);
  assertMatch(await batch.text(), /Ids and progress tokens must not exceed 256 characters/);
});

Deno.test("names, URIs and arguments that answers repeat are not megabytes long", async () => {
  await using parts = new AsyncDisposableStack();
  const { address: { url } } = await serve(parts);
  const alice = await RawClient.open(url);
  const long = "a".repeat(2 ** 20);
  const requests: readonly (readonly [method: string, params: object])[] = [
    ["resources/read", { uri: `mcptools://${long}/schema.json` }],
    ["prompts/get", { name: "use_server", arguments: { server: long } }],
    ["completion/complete", {
      ref: { type: "ref/resource", uri: "mcptools://{server}/{module}.py" },
      argument: { name: "server", value: long },
    }],
    ["tools/call", { name: long, arguments: {} }],
    [long, {}],
  ];
  for (const [method, params] of requests) {
    const response = await alice.send(request(1, method, params));
    assertEquals([response.status, (await response.text()).length < 1000], [400, true]);
  }
  const server = { name: "search_tools", arguments: { server: long } };
  const [answer] = await alice.ask(request(1, "tools/call", server));
  assert(JSON.stringify(answer).length < 1000);
  // Code may be that long.
  await alice.execute(`"${long}"; 6 * 7`);
});

Deno.test("an output that would be several times its size as JSON is not sent", async () => {
  await using parts = new AsyncDisposableStack();
  const { address: { url } } = await serve(parts);
  const alice = await RawClient.open(url);
  const uri = await alice.output(PRINT);
  const file = `images/${uri.split("/").at(-1)}`;
  await alice.execute(`with open("${file}", "wb") as f: f.write(bytes([1]) * 31 * 2**20)`);

  const [answer] = await alice.ask(request(1, "resources/read", { uri }));

  assertMatch(JSON.stringify(answer?.error), /larger than 32 MiB; read a part of it in a cell/);
});

Deno.test("clients that leave in the middle of a body fill no log", async () => {
  await using parts = new AsyncDisposableStack();
  const server = await serve(parts);
  const { url } = server.address;
  for (const length of [500, 500_000]) {
    for (let at = 0; at < 30; at++) {
      using connection = await Deno.connect({ hostname: url.hostname, port: Number(url.port) });
      const head = `POST /mcp HTTP/1.1\r\nhost: ${url.host}\r\nauthorization: Bearer ${ALICE}\r\n` +
        `content-type: application/json\r\ncontent-length: ${length}\r\n\r\n{`;
      await connection.write(new TextEncoder().encode(head));
    }
  }
  const alice = await RawClient.open(url);
  await alice.execute("1");

  assertEquals(server.stderr.match(/error: /g), null);
});

/** Makes a picture that takes long to scale down: `png(side)`. */
const PNG = `
import struct, zlib
from IPython.display import Image, display
def png(side, dot=1):
    rows = bytes([0] + [dot] * 3 * side) * side
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0))
    body = chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return Image(data=b"\\x89PNG\\r\\n\\x1a\\n" + head + body)
`;

Deno.test("the pictures of one session come between those of another", async () => {
  await using parts = new AsyncDisposableStack();
  const { address: { url } } = await serve(parts);
  const alice = await RawClient.open(url);
  await using bob = await McpHost.join({ url, token: BOB });
  await Promise.all([
    alice.execute(`${PNG}large = png(1600)`),
    bob.execute(`${PNG}own = png(1600)`),
  ]);
  let pending = 5;
  const call = { name: CELL, arguments: { code: "display(large)" } };
  const shown = Array.from({ length: pending }, async (_, id) => {
    await alice.ask(request(id, "tools/call", call));
    pending--;
  });
  await bob.execute("import time; time.sleep(2)"); // by when they have been displayed

  await bob.execute("display(own)");

  assert(pending > 0, "all pictures of Alice were made fit first");
  await Promise.all(shown);
});

Deno.test("the pictures of a cell are made fit once, however often it is waited for", async () => {
  await using parts = new AsyncDisposableStack();
  const { address: { url } } = await serve(parts);
  const alice = await RawClient.open(url);
  const ask = async (name: string, args: object) =>
    JSON.stringify(await alice.ask(request(0, "tools/call", { name, arguments: args })));
  const code = `${PNG}display(png(1600)); import time; time.sleep(2)`;
  const cell = /Cell (\w+) still/.exec(await ask(CELL, { code, wait_seconds: 1 }))?.[1];
  let first = "";
  await until(async () => {
    first = await ask("wait_for_cell", { cell });
    return first.includes('"image"');
  });
  await alice.execute(`import glob
for path in glob.glob("images/*.png"): open(path, "wb").write(png(1600, 200).data)`);

  assertEquals(await ask("wait_for_cell", { cell }) === first, true);
});

/** A server for two owners. */
async function serve(parts: AsyncDisposableStack): Promise<HttpMcp> {
  const [workspace, outside] = [
    parts.use(await TempFolder.create()),
    parts.use(await TempFolder.create()),
  ];
  const tokens = `${outside.path}/tokens`;
  await Deno.writeTextFile(tokens, `${ALICE}\n${BOB}\n`);
  return parts.use(
    await HttpMcp.start(["--workspace", workspace.path, "--token-file", tokens]),
  );
}

function request(id: number | string, method: string, params: unknown): unknown {
  return { jsonrpc: "2.0", id, method, params };
}

const answerSchema = z.object({
  id: z.union([z.string(), z.number(), z.null()]),
  result: z.looseObject({}).optional(),
  error: z.unknown().optional(),
});
type Answer = z.infer<typeof answerSchema>;

/** A client of the older protocol era that says what no real one would. */
class RawClient {
  readonly #url: URL;
  readonly #session: string;

  private constructor(url: URL, session: string) {
    this.#url = url;
    this.#session = session;
  }

  static async open(url: URL): Promise<RawClient> {
    const opened = await post(url, INITIALIZE);
    await opened.body?.cancel();
    return new RawClient(url, opened.headers.get("mcp-session-id") ?? "");
  }

  /** Sends a body, and leaves the answer unread. */
  send(body: unknown): Promise<Response> {
    return post(this.#url, body, { "mcp-session-id": this.#session });
  }

  /** Sends a body, and reads the answers. */
  async ask(body: unknown): Promise<Answer[]> {
    const text = await (await this.send(body)).text();
    return [...text.matchAll(/^data: (.+)$/gm)].map(([, json = ""]) =>
      answerSchema.parse(JSON.parse(json))
    );
  }

  async execute(code: string): Promise<void> {
    const [answer] = await this.ask(
      request(0, "tools/call", { name: CELL, arguments: { code } }),
    );
    assert(answer?.result?.isError !== true, JSON.stringify(answer));
  }

  /** Executes code whose output is too long for an answer, and gives the address of that. */
  async output(code: string): Promise<string> {
    await this.execute(code);
    const [answer] = await this.ask(request(0, "resources/list", {}));
    return /ipybox:\/\/outputs\/\w+\.txt/.exec(JSON.stringify(answer))?.[0] ?? "";
  }
}

async function post(url: URL, body: unknown, headers?: HeadersInit): Promise<Response> {
  return await fetch(url, {
    method: "POST",
    headers: {
      authorization: `Bearer ${ALICE}`,
      accept: "application/json, text/event-stream",
      "content-type": "application/json",
      ...headers,
    },
    body: JSON.stringify(body),
  });
}

/** The most memory that a process has taken so far, in MiB. */
async function peakOf(pid: number): Promise<number> {
  const status = await Deno.readTextFile(`/proc/${pid}/status`);
  return Number(/VmHWM:\s+(\d+)/.exec(status)?.[1]) / 1024;
}
