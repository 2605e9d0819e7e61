/** `ipybox mcp --http --durable`: sessions over HTTP that outlive their server. */
import { assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import { CallJournal } from "../../src/calls/journal.ts";
import { endDurable, folderOf, listSessions } from "../../src/executor/durable.ts";
import { sessionsPath } from "../../src/files/workspace_state.ts";
import { ServerRegistry } from "../../src/servers/registry.ts";
import { untilReady } from "../support/approval_page.ts";
import { browserTest } from "../support/browser.ts";
import { inThisProcess } from "../support/command_io.ts";
import { leaveEndedSessions } from "../support/ended_sessions.ts";
import { until } from "../support/wait.ts";
import { HttpMcp } from "../support/http_mcp.ts";
import { rawServer } from "../support/mcp.ts";
import { McpHost } from "../support/mcp_client.ts";
import { RAW } from "../support/mcp_workspace.ts";
import { stepsOf } from "../support/steps.ts";
import { TempCache } from "../support/temp_cache.ts";
import { TempFolder } from "../support/temp_folder.ts";

const ALICE = "alice-alice-alice-alice";
const BOB = "bob-bob-bob-bob-bob-bob";
const CELL = "execute_ipython_cell";
const NEWS = /\n\n\[Session [0-9a-f-]{36} continues: its variables are still there\]$/;
const FOLDER = "import os; print(os.getcwd())";

/** A workspace whose server is killed and started again, at the same port. Disposing ends its sessions. */
class Scene implements AsyncDisposable {
  #server: HttpMcp | undefined;

  private constructor(
    readonly folder: TempFolder,
    readonly cache: TempCache,
    readonly args: readonly string[],
  ) {}

  static async create(...args: readonly string[]): Promise<Scene> {
    const scene = new Scene(await TempFolder.create(), await TempCache.create(), args);
    await Deno.mkdir(scene.workspace);
    await Deno.writeTextFile(`${scene.folder.path}/tokens`, `${ALICE}\n${BOB}\n`);
    const registry = await ServerRegistry.open({ workspace: scene.workspace });
    await registry.register("raw", rawServer("normal", scene.effects));
    await scene.start();
    return scene;
  }

  get workspace(): string {
    return `${this.folder.path}/workspace`;
  }

  get effects(): string {
    return `${this.folder.path}/effects`;
  }

  get server(): HttpMcp {
    if (this.#server === undefined) throw new Error("There is no server");
    return this.#server;
  }

  async start(): Promise<void> {
    const { workspace, folder, cache, args } = this;
    const port = this.#server?.address.url.port;
    this.#server = await HttpMcp.start(
      ["--workspace", workspace, "--durable", "--token-file", `${folder.path}/tokens`, ...args],
      { cache, port },
    );
  }

  async restart(signal: Deno.Signal = "SIGKILL"): Promise<void> {
    await this.server.stop(signal);
    await this.start();
  }

  join(token: string, kind: "2.x legacy" | "2.x 2026-07-28" = "2.x legacy"): Promise<McpHost> {
    return McpHost.join({ url: this.server.address.url, token }, { kind });
  }

  /** Asks for the tools of a session, and gives the status and what was said. */
  async ask(token: string, id: string, method = "POST"): Promise<[number, string]> {
    const response = await fetch(this.server.address.url, {
      method,
      headers: {
        authorization: `Bearer ${token}`,
        accept: "application/json, text/event-stream",
        "content-type": "application/json",
        "mcp-session-id": id,
        "mcp-protocol-version": "2025-11-25",
      },
      ...(method === "POST"
        ? { body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/list" }) }
        : {}),
    });
    return [response.status, await response.text()];
  }

  /** The workspace's sessions that have a supervisor. */
  async sessions() {
    const folders = await sessionsPath(this.workspace);
    return (await listSessions()).filter(({ record, status }) =>
      status !== undefined && record?.workspace.startsWith(`${folders}/`)
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server?.[Symbol.asyncDispose]();
    for (const { id } of await this.sessions()) await endDurable(id);
    await this.folder[Symbol.asyncDispose]();
    await this.cache[Symbol.asyncDispose]();
  }
}

const idIn = (folder: string) => folder.split("/").at(-1) ?? "";

Deno.test("ipybox mcp --http --durable: sessions outlive the server", async (t) => {
  await using scene = await Scene.create("--max-sessions", "4", "--no-sandbox");
  const tomorrow = new Date(Date.now() + 86_400_000);
  await leaveEndedSessions(scene.workspace, ALICE, tomorrow); // her others are the first to go
  const step = stepsOf(t);
  await using alice = await scene.join(ALICE);
  const id = idIn(await alice.execute(FOLDER));
  await using newer = await scene.join(BOB, "2.x 2026-07-28");

  await step("a client of the older era goes on with its session ID", async () => {
    await alice.execute("x = 41; open('kept', 'w').close()");
    await scene.restart();
    assertMatch(await alice.execute("print(x + 1)"), NEWS);
    assertEquals(await alice.execute("print(os.path.getsize('kept'))"), "0");
    assertEquals(idIn(await alice.execute(FOLDER)), id);
    await scene.restart("SIGTERM");
    assertMatch(await alice.execute("print(x + 1)"), NEWS);
  });

  await step("a registry that cannot be read stops the start, and loses no session", async () => {
    const file = `${scene.workspace}/.ipybox/mcp.json`;
    const text = await Deno.readTextFile(file);
    await scene.server.stop("SIGKILL");
    await Deno.writeTextFile(file, "{");
    await assertRejects(() => scene.start(), Error, "mcp.json");
    await Deno.writeTextFile(file, text);
    await scene.start();
    assertMatch(await alice.execute("print(x + 1)"), NEWS);
  });

  await step("a client of the newer era with its default session, and those it names", async () => {
    await newer.execute("y = 'default'");
    const session = await newer.openSession();
    await newer.call(CELL, { code: "y = 'named'", session });
    await scene.restart();
    assertMatch(await newer.execute("y"), /^'default'/);
    assertMatch((await newer.call(CELL, { code: "y", session })).text, /^'named'/);
    assertEquals((await newer.call("close_session", { session })).isError, false);
    assertStringIncludes((await newer.call(CELL, { code: "y", session })).text, "is no session");
  });

  await step("a session of another token is one that there is not", async () => {
    await scene.restart();
    const unknown = await scene.ask(BOB, crypto.randomUUID());
    assertEquals(unknown[0], 404);
    assertEquals(await scene.ask(BOB, id), unknown);
    assertEquals(await scene.ask(BOB, id, "DELETE"), unknown);
    const files = new URL(`/sessions/${id}/files/kept`, scene.server.address.url);
    const headers = { authorization: `Bearer ${BOB}` };
    assertEquals(await (await fetch(files, { headers })).json(), {
      jsonrpc: "2.0",
      error: { code: -32600, message: "No such session" },
      id: null,
    });
    assertEquals((await scene.ask(ALICE, id))[0], 200);
  });

  await step("those that no client has asked for yet count, until they have ended", async () => {
    const second = await scene.join(ALICE);
    const ended = idIn(await second.execute(FOLDER));
    await scene.restart();
    await assertRejects(() => scene.join(ALICE), Error, "2 of 4");
    await second.call(CELL, { code: "1" });
    await assertRejects(() => scene.join(ALICE), Error, "2 of 4");
    await scene.restart();
    await second[Symbol.asyncDispose]();
    const other = async () => (await scene.sessions()).find(({ record }) => record?.name === ended);
    await until("the server continues it", async () => (await other())?.status?.attached === true);
    await endDurable((await other())?.id ?? "");
    await until("the server hears", async () => (await scene.ask(ALICE, ended))[0] === 404);
    await using third = await scene.join(ALICE);
    const last = idIn(await third.execute(FOLDER));
    assertEquals(await alice.execute("print(x)").then((text) => text.slice(0, 2)), "41");
    assertEquals((await scene.ask(ALICE, last, "DELETE"))[0], 200);
  });

  await step("a session ends by a person, and by DELETE", async () => {
    const ids = async () => (await scene.sessions()).map(({ record }) => record?.name);
    const own = (await scene.sessions()).find(({ record }) => record?.name === id);
    const attached = await inThisProcess(["attach", own?.id ?? ""]);
    assertEquals(attached.code, 2);
    assertStringIncludes(attached.stderr, "only that server continues it");
    await endDurable(own?.id ?? "");
    await until("its client hears", async () => (await scene.ask(ALICE, id))[0] === 404);
    await using last = await scene.join(ALICE);
    const next = idIn(await last.execute(FOLDER));
    await scene.restart();
    assertEquals((await scene.ask(ALICE, next, "DELETE"))[0], 200);
    await until("it has ended", async () => !(await ids()).includes(next));
    assertEquals((await scene.ask(ALICE, next))[0], 404);
  });

  await step("sessions end with their token", async () => {
    const ids = async () => (await scene.sessions()).map(({ record }) => record?.name);
    await using revoked = await scene.join(BOB);
    const left = idIn(await revoked.execute(FOLDER));
    await using other = await scene.join(ALICE);
    const kept = idIn(await other.execute(FOLDER));
    await Deno.writeTextFile(`${scene.folder.path}/tokens`, `${ALICE}\n`);
    await scene.restart();
    assertEquals((await ids()).includes(left), false);
    assertEquals((await ids()).includes(kept), true);
    assertStringIncludes(scene.server.stderr, `Ending session ${left}: its token`);
  });
});

browserTest("A call of a durable HTTP session is asked again on the page", async (browser) => {
  await using scene = await Scene.create("--page", "--no-sandbox");
  await using host = await scene.join(ALICE);
  const code = `${RAW}print(raw.run_sync("mark", {"name": "once", "ms": 0}).text)`;
  const gone = new AbortController(); // the SDK waits for the rest of a stream that broke
  const unanswered = host.call(CELL, { code }, gone).catch(() => {});
  const waiting = async () => {
    const [session] = await scene.sessions();
    return session === undefined ? [] : await CallJournal.waitingIn(folderOf(session.id));
  };
  await until("the call waits", async () => (await waiting()).length > 0);
  await scene.server.stop("SIGKILL");
  const waits = /raw\.mark has waited.+; start its .+ again: the approval page asks you$/m;
  await until(
    "a person is told",
    async () => waits.test((await inThisProcess(["sessions"])).stdout),
  );
  await scene.start();
  const link = () => /Approvals of [^:]+: (\S+)/.exec(scene.server.stderr)?.[1] ?? "";
  await until("the page is there, before the client is", () => link() !== "");
  const page = await browser.open(link());
  await page.getByRole("heading", { name: "raw.mark" }).waitFor();
  await untilReady(page);
  await page.keyboard.press("y");
  const marks = async () =>
    (await Deno.readTextFile(scene.effects)).split("\n").filter((line) => line.startsWith("mark "));
  await until("the call is made", async () => (await marks()).length > 0);
  const { text } = await host.call(CELL, { code: "1" });
  const [, cell = ""] = /ID ([0-9a-f]{8}): wait_for_cell/.exec(text) ?? [];
  assertEquals((await host.call("wait_for_cell", { cell })).text, "marked");
  assertEquals(await marks(), ["mark once"]);
  gone.abort();
  await unanswered;
});
