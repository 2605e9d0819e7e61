/** Attacks on the host of an HTTP server by way of the answers that its clients ask for. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { z } from "zod";
import { INITIALIZE } from "../support/initialize.ts";
import { HttpMcp } from "../support/http_mcp.ts";
import { stepsOf } from "../support/steps.ts";
import { TempFolder } from "../support/temp_folder.ts";

const ALICE = "alice-alice-alice-alice";
const BOB = "bob-bob-bob-bob-bob-bob";
const CELL = "execute_ipython_cell";

Deno.test("what clients send and leave unread", async (t) => {
  const step = stepsOf(t);
  await using parts = new AsyncDisposableStack();
  const server = await serve(parts);
  const { url } = server.address;
  const alice = await RawClient.open(url);

  await step("clients that leave in the middle of a body fill no log", async () => {
    for (const length of [500, 500_000]) {
      for (let at = 0; at < 30; at++) {
        using connection = await Deno.connect({ hostname: url.hostname, port: Number(url.port) });
        const head =
          `POST /mcp HTTP/1.1\r\nhost: ${url.host}\r\nauthorization: Bearer ${ALICE}\r\n` +
          `content-type: application/json\r\ncontent-length: ${length}\r\n\r\n{`;
        await connection.write(new TextEncoder().encode(head));
      }
    }
    await alice.execute("1");

    assertEquals(server.stderr.match(/error: /g), null);
  });

  await step("the messages of a batch are answered, each with its own outcome", async () => {
    const answers = Object.groupBy(
      await alice.ask([
        { jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: "?" } },
        request("cell", "tools/call", { name: CELL, arguments: { code: "6 * 7" } }),
        request("none", "nothing/like/it", {}),
        request("ping", "ping", {}),
      ]),
      ({ id }) => `${id}`,
    );

    assertEquals(Object.keys(answers).sort(), ["cell", "none", "ping"]);
    assertMatch(JSON.stringify(answers.cell), /42/);
    assertMatch(JSON.stringify(answers.none), /Method not found/);
    const again = await alice.send([request("late", "initialize", INITIALIZE.params)]);
    assertMatch(await again.text(), /already initialized/);
    const note = { jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: "?" } };
    const { body, status } = await alice.send([note]);
    await body?.cancel();
    assertEquals(status, 202);
    const many = await alice.send(Array.from({ length: 101 }, (_, id) => request(id, "ping", {})));
    assertMatch(await many.text(), /Batch must not exceed 100 messages/);
  });
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
