/** Attacks on the host of an HTTP server by way of its connections, its requests and its cells. */
import { assertEquals, assertMatch } from "@std/assert";
import { HttpMcp } from "../support/http_mcp.ts";
import { McpHost } from "../support/mcp_client.ts";
import { until } from "../support/wait.ts";
import { testIf } from "../support/skip.ts";
import { stepsOf } from "../support/steps.ts";
import { TempFolder } from "../support/temp_folder.ts";

const ALICE = "alice-alice-alice-alice";
const BOB = "bob-bob-bob-bob-bob-bob";
const CELL = "execute_ipython_cell";
const MIB = 2 ** 20;

/** A server for two owners. */
async function serve(
  parts: AsyncDisposableStack,
  options: { readonly maxFiles?: number } = {},
): Promise<HttpMcp> {
  const [workspace, outside] = [
    parts.use(await TempFolder.create()),
    parts.use(await TempFolder.create()),
  ];
  const tokens = `${outside.path}/tokens`;
  await Deno.writeTextFile(tokens, `${ALICE}\n${BOB}\n`);
  const args = ["--workspace", workspace.path, "--token-file", tokens];
  return parts.use(await HttpMcp.start(args, options));
}

const MAX_FILES = 96;

testIf(Deno.build.os === "linux", "accept() fails otherwise elsewhere", {
  name: "connections that take all descriptors of the host leave it able to serve",
  fn: async () => {
    await using parts = new AsyncDisposableStack();
    const server = await serve(parts, { maxFiles: MAX_FILES });
    const { url } = server.address;
    const connect = () => Deno.connect({ hostname: url.hostname, port: Number(url.port) });
    using kept = await connect();
    assertEquals(await statusOf(kept, head({ token: "nobody's" })), 401);

    for (let round = 0; round < 3; round++) {
      const flood: Deno.TcpConn[] = [];
      let isCut = false;
      for (let n = 0; n < 200; n++) {
        const connection = await connect().catch(() => undefined);
        if (connection === undefined) { // it has stopped
          isCut = true;
          break;
        }
        connection.read(new Uint8Array(1)).then(() => isCut = true, () => {}); // closed below
        flood.push(connection);
      }
      // Which of its steps fails depends on the number: it says so, disconnects a client, or accepts none.
      await until(async () =>
        isCut || server.stderr.includes("Too many open files") ||
        (await Array.fromAsync(Deno.readDir(`/proc/${server.pid}/fd`))).length >= MAX_FILES - 1
      );
      for (const connection of flood) connection.close();
      let status: number | undefined;
      await until(async () => {
        status = await fetch(url, { headers: { connection: "close" } }).then(
          async (response) => {
            await response.body?.cancel();
            return response.status;
          },
          () => undefined, // it serves again after half a second
        );
        return status !== undefined;
      });
      assertEquals(status, 401);
    }
    assertEquals(await statusOf(kept, head({ token: "nobody's" })), 401);
  },
});

Deno.test("requests and cells of one owner leave the host able to serve others", async (t) => {
  const step = stepsOf(t);
  await using parts = new AsyncDisposableStack();
  const { address: { url } } = await serve(parts);
  let bob: McpHost;

  await step("bodies that never end count for their owner, each MiB as a request", async () => {
    const begin = async (token: string, length: number): Promise<Deno.TcpConn> => {
      const connection = await Deno.connect({ hostname: url.hostname, port: Number(url.port) });
      await connection.write(bytesOf(`${head({ token, length })}"A`));
      return connection;
    };

    const attack = await Promise.all(Array.from({ length: 60 }, () => begin(ALICE, 16 * MIB)));

    const refused: number[] = [];
    for (const connection of attack) {
      statusOf(connection).then((status) => refused.push(status), () => {});
    }
    await until(() => refused.length >= 45);
    assertEquals(new Set(refused), new Set([429]));
    assertEquals(refused.length, 45); // 15 of 17 each are 255 of 256
    bob = parts.use(await McpHost.join({ url, token: BOB }));
    assertMatch(await bob.execute("6 * 7"), /42/);
    using another = await begin(ALICE, 16 * MIB);
    assertEquals(await statusOf(another), 429);

    for (const connection of attack) connection.close();
    await until(async () => {
      const response = await fetch(url, {
        method: "POST",
        headers: { authorization: `Bearer ${ALICE}`, "content-type": "application/json" },
        body: " ".repeat(15 * MIB),
      });
      await response.body?.cancel();
      return response.status === 400; // it is no JSON, but was read
    });
  });

  await step("cells that wait for their turn are so many, and no more", async () => {
    await using alice = await McpHost.join({ url, token: ALICE });
    await alice.execute("import time");
    const ended: string[] = [];
    const cancel = new AbortController();
    const start = (code: string) =>
      alice.call(CELL, { code }, { signal: cancel.signal })
        .then(({ text }) => void ended.push(text), () => {});
    const calls = [start("time.sleep(100)"), ...Array.from({ length: 39 }, () => start("1"))];

    await until(() => ended.length === 8);
    for (const text of ended) {
      assertMatch(text, /^32 cells are already running or queued in this session/);
    }
    assertMatch(await bob.execute("6 * 7"), /42/);
    await alice.call("reset", {});
    await Promise.all(calls);

    ended.length = 0;
    await alice.execute("import time");
    const long = [start("time.sleep(100)")];
    for (let n = 0; n < 3; n++) long.push(start(`#${"A".repeat(7 * MIB)}`));
    await until(() => ended.length === 1);
    assertMatch(ended[0] ?? "", /^Cells with much code are already running or queued/);
    cancel.abort();
    await Promise.all(long);
    assertMatch(await alice.execute("6 * 7"), /42/);
  });
});

/** The head of a request, whose body is as long. */
function head({ token, length = 0 }: { token: string; length?: number }): string {
  return [
    "POST /mcp HTTP/1.1",
    "Host: 127.0.0.1",
    `Authorization: Bearer ${token}`,
    "Content-Type: application/json",
    "Accept: application/json, text/event-stream",
    `Content-Length: ${length}`,
    "\r\n",
  ].join("\r\n");
}

function bytesOf(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

/** The status of the answer to what is sent. */
async function statusOf(connection: Deno.TcpConn, sent = ""): Promise<number> {
  await connection.write(bytesOf(sent));
  const buffer = new Uint8Array(4096);
  const length = await connection.read(buffer);
  const text = new TextDecoder().decode(buffer.subarray(0, length ?? 0));
  return Number(text.split(" ")[1]);
}
