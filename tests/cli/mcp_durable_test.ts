/** `ipybox mcp --session`: sessions that outlive their server. */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { endDurable, listSessions } from "../../src/executor/durable.ts";
import { ServerRegistry } from "../../src/servers/registry.ts";
import { exists } from "../support/files.ts";
import { until } from "../support/wait.ts";
import { rawServer } from "../support/mcp.ts";
import { type Answer, CLIENT_KINDS, type ClientKind, McpHost } from "../support/mcp_client.ts";
import { RAW } from "../support/mcp_workspace.ts";
import { processesWith, untilNoneWith } from "../support/processes.ts";
import { testPython } from "../support/python.ts";
import { stepsOf } from "../support/steps.ts";
import { TempCache } from "../support/temp_cache.ts";
import { TempFolder } from "../support/temp_folder.ts";

/** A workspace with a session that servers come to and go from. Disposing ends the session. */
class Scene implements AsyncDisposable {
  private constructor(readonly folder: TempFolder, readonly cache: TempCache) {}

  static async create(): Promise<Scene> {
    const scene = new Scene(await TempFolder.create(), await TempCache.create());
    await Deno.mkdir(scene.workspace);
    const registry = await ServerRegistry.open({ workspace: scene.workspace });
    await registry.register("raw", rawServer("normal", scene.effects));
    return scene;
  }

  get workspace(): string {
    return `${this.folder.path}/workspace`;
  }

  get effects(): string {
    return `${this.folder.path}/effects`;
  }

  /** Starts a server, and a client of it. */
  start(answer?: Answer, kind?: ClientKind): Promise<McpHost> {
    const args = ["--workspace", this.workspace, "--no-sandbox", "--session", "work"];
    return McpHost.start({ args, answer, kind, env: this.cache.env });
  }

  /** How often a call has reached its server. */
  async sent(name: string): Promise<number> {
    const text = await Deno.readTextFile(this.effects).catch(() => "");
    return text.split("\n").filter((line) => line === `mark ${name}`).length;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { id } of await listSessions(this.workspace)) await endDurable(id);
    await this.folder[Symbol.asyncDispose]();
    await this.cache[Symbol.asyncDispose]();
  }
}

/** Ends a server as a crash would. */
async function kill(host: McpHost): Promise<void> {
  Deno.kill(host.pid, "SIGKILL");
  await host[Symbol.asyncDispose]().catch(() => {}); // it is gone
}

const execute = (host: McpHost, code: string, more = {}) =>
  host.call("execute_ipython_cell", { code, ...more });
const mark = (name: string) =>
  `${RAW}print(raw.run_sync("mark", {"name": "${name}", "ms": 0}).text)`;
const NEWS = "[Session work continues: its variables are still there]";

/** The earlier cell that a refusal or a note names. */
function cellIn(text: string): string {
  const [, id = ""] = /ID ([0-9a-f]{8}): wait_for_cell/.exec(text) ?? [];
  return id;
}

Deno.test("ipybox mcp --session: a client that restarts finds its session", async (t) => {
  await using scene = await Scene.create();
  const step = stepsOf(t);

  await step("with its variables, after its server was killed, and says so once", async () => {
    const first = await scene.start();
    await first.execute("x = 41");
    await kill(first);
    await using next = await scene.start();
    assertEquals((await execute(next, "print(x + 1)")).text, `42\n\n${NEWS}`);
    assertEquals((await execute(next, "print(x + 1)")).text, "42");
  });

  for (const kind of CLIENT_KINDS.slice(1)) {
    const isKilled = kind === "2.x legacy"; // else taken over
    await step(`with the call that waited for its user, who is asked again (${kind})`, async () => {
      let asked = false;
      const late = Promise.withResolvers<string>();
      await using first = await scene.start(() => {
        asked = true;
        return late.promise;
      });
      const unanswered = execute(first, mark(kind)).catch(() => undefined);
      await until("the user is asked", () => asked);
      if (isKilled) await kill(first);
      const questions: string[] = [];
      await using next = await scene.start((question) => {
        questions.push(question);
        return "allow once";
      }, kind);
      const refused = await execute(next, "1");
      assertEquals(refused.isError, true);
      assertStringIncludes(refused.text, NEWS);
      assertMatch(refused.text, /\nNot run\. Cell \w+ is still running/);
      assertEquals(questions, []);
      const waited = await next.call("wait_for_cell", { cell: cellIn(refused.text) });
      assertEquals([waited.text, questions.length, await scene.sent(kind)], ["marked", 1, 1]);
      assertEquals(await next.execute("print(x)"), "41");
      late.resolve("allow once");
      const text = (await unanswered)?.text;
      assertEquals(text?.startsWith("Another program"), isKilled ? undefined : true, text);
      assertEquals(await scene.sent(kind), 1);
    });
  }

  await step("with the cell that ran when its client went", async () => {
    const first = await scene.start();
    const code = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.02)\nprint(x)";
    await execute(first, code, { wait_seconds: 0.1 });
    const running = execute(first, "1").catch(() => {}); // refused, or ended with its client
    await first[Symbol.asyncDispose]();
    await running;
    await using next = await scene.start();
    await Deno.writeTextFile(`${scene.workspace}/go`, "");
    const { text } = await execute(next, "1");
    assertEquals((await next.call("wait_for_cell", { cell: cellIn(text) })).text, "41");
  });

  await step("also where it waits for a request that its client ends with", async () => {
    const first = await scene.start();
    const code = "import os, time\nopen('begun', 'w').close()\n" +
      "while not os.path.exists('went'): time.sleep(0.02)\nprint(x)";
    const running = execute(first, code).catch(() => {});
    await until("the cell has begun", () => exists(`${scene.workspace}/begun`));
    await first[Symbol.asyncDispose]();
    await running;
    await using next = await scene.start();
    await Deno.writeTextFile(`${scene.workspace}/went`, "");
    const { text } = await execute(next, "1");
    assertEquals((await next.call("wait_for_cell", { cell: cellIn(text) })).text, "41");
  });

  await step("unless it was reset, or another server has it", async () => {
    await using older = await scene.start();
    assertEquals(await older.execute("print(x)"), `41\n\n${NEWS}`);
    await older.call("reset");
    await older.execute("assert 'x' not in dir(); y = 1");
    const running = execute(older, "import time; time.sleep(1000)");
    await using newer = await scene.start();
    await newer.call("reset");
    const taken = `Another program, process ${newer.pid}, has attached to session`;
    for (const { isError, text } of [await running, await execute(older, "1")]) {
      assertEquals(isError, true);
      assertMatch(text, new RegExp(`^${taken}`));
      assertStringIncludes(text, "restart this MCP server");
    }
    assertMatch(await newer.execute("print('y' in dir())"), /^False\n\n\[Session work continues/);
    assertStringIncludes(older.stderr, taken);
  });

  await step("or else hears that it was lost, and gets another one", async () => {
    await using host = await scene.start();
    await host.execute("z = 1");
    const [session] = await listSessions(scene.workspace);
    const root = session?.record?.socket.replace("/host/socket", "") ?? "";
    assert(root !== "");
    for (const pid of await processesWith(`${root}/host/supervisor.py`)) Deno.kill(pid, "SIGKILL");
    await untilNoneWith(root);
    const lost = "[Session work was lost: this is a new one, without the old variables]";
    await until("the loss is known", async () => {
      const { text } = await execute(host, "print('z' in dir())");
      return text === `False\n\n${lost}`;
    });
  });
});

Deno.test("ipybox mcp --session --placement: the next server finds the session there", async () => {
  await using scene = await Scene.create();
  const file = `${scene.folder.path}/place.json`;
  const placement = { type: "command", command: ["/usr/bin/env"], bubblewrap: true };
  await Deno.writeTextFile(file, JSON.stringify(placement));
  const where = ["--placement", file, "--python", testPython()];
  const args = ["--workspace", scene.workspace, "--session", "work", ...where];
  const start = () =>
    McpHost.start({ args: [...args, "--approve", "allow"], env: scene.cache.env });
  const first = await start();
  await first.execute("import os; x = 41; home = os.environ['HOME']");
  await kill(first);
  await using next = await start();
  assertEquals((await execute(next, "print(x + 1)")).text, `42\n\n${NEWS}`);
  assertMatch((await execute(next, mark("a"))).text, /\S/);
  assertEquals(await scene.sent("a"), 1);
  assertMatch((await execute(next, "print(home)")).text, /^\/tmp\/ipybox\./);
});
