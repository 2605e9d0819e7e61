import {
  assert,
  assertEquals,
  assertMatch,
  assertNotEquals,
  assertStringIncludes,
} from "@std/assert";
import { makeSessionFolders } from "../../src/mcp_server/http/session_folders.ts";
import { join } from "node:path";
import { lockBuilds } from "../../src/python/build.ts";
import { kernelRecipe, writeMarker } from "../../src/python/managed.ts";
import { runningSessions } from "../../src/mcp_server/running_sessions.ts";
import { commandsIn, inThisProcess } from "../support/command_io.ts";
import { until } from "../support/wait.ts";
import { HttpMcp, type HttpMcpOptions } from "../support/http_mcp.ts";
import { McpHost } from "../support/mcp_client.ts";
import { workspaceWithServer } from "../support/mcp_workspace.ts";
import { processesWith } from "../support/processes.ts";
import { testInterpreter } from "../support/python.ts";
import { stepsOf } from "../support/steps.ts";
import { TempCache } from "../support/temp_cache.ts";
import { TempFolder } from "../support/temp_folder.ts";

const CELL = "execute_ipython_cell";
const ALICE = "alice-alice-alice-alice";
const BOB = "bob-bob-bob-bob-bob-bob";
const POOL = ["--pool", "1", "--no-sandbox"];

/** What code says of the process that runs it: its folder, and when it was started, in ticks since the boot. */
const SELF = "import os\nprint(os.getcwd())\n" +
  "print(open('/proc/self/stat').read().rsplit(')', 1)[1].split()[19])";

/** A server that keeps sessions ready. */
class PoolServer implements AsyncDisposable {
  private constructor(
    readonly server: HttpMcp,
    readonly workspace: string,
    readonly tokens: TempFolder,
  ) {}

  static async start(workspace: string, ...args: string[]): Promise<PoolServer> {
    return await PoolServer.startIn({}, workspace, ...args);
  }

  static async startIn(
    options: HttpMcpOptions,
    workspace: string,
    ...args: string[]
  ): Promise<PoolServer> {
    const tokens = await TempFolder.create();
    await Deno.writeTextFile(`${tokens.path}/tokens`, `${ALICE}\n${BOB}\n`);
    const server = await HttpMcp.start([
      ...["--workspace", workspace, "--token-file", `${tokens.path}/tokens`, "--verbose"],
      ...args,
    ], options);
    return new PoolServer(server, workspace, tokens);
  }

  /** How many sessions got ready before their clients. */
  get started(): number {
    return [...this.server.stderr.matchAll(/Session \S+ is ready for a client/g)].length;
  }

  async folders(): Promise<string[]> {
    const sessions = Deno.readDir(await makeSessionFolders(this.workspace));
    const folders = (await Array.fromAsync(sessions)).filter(({ isDirectory }) => isDirectory);
    return folders.map(({ name }) => name);
  }

  async connect(token: string = ALICE): Promise<McpHost> {
    return await McpHost.join({ ...this.server.address, token }, { kind: "1.x" });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.server[Symbol.asyncDispose]();
    await this.tokens[Symbol.asyncDispose]();
  }
}

async function selfOf(host: McpHost): Promise<{ id: string; startedAt: number }> {
  const { text } = await host.call(CELL, { code: SELF });
  const [folder = "", ticks] = text.split("\n");
  assertMatch(folder, /\/ipybox\/workspaces\/[\da-f]{32}\/sessions\/[\da-f-]{36}$/, text);
  return { id: folder.split("/").at(-1) ?? "", startedAt: Number(ticks) };
}

/** The time since the boot, in ticks. */
async function ticks(): Promise<number> {
  return Number((await Deno.readTextFile("/proc/uptime")).split(" ")[0]) * 100;
}

Deno.test("ipybox mcp --http --pool hands out sessions that run already, each to one client", async () => {
  await using workspace = await workspaceWithServer();
  await using pool = await PoolServer.start(workspace.path, "--pool", "1", "--max-sessions", "2");
  await until("one is ready", () => pool.started === 1);
  const [ready] = await pool.folders();
  assertEquals(await runningSessions(workspace.path), []); // it is no session of anybody

  const before = await ticks();
  await using alice = await pool.connect();
  const { id, startedAt } = await selfOf(alice);
  assertEquals(id, ready);
  assert(startedAt < before, `${startedAt} ${before}`);
  await alice.call(CELL, { code: "secret = 'of alice'; open('secret', 'w').write('x')" });

  await until("another one is ready", () => pool.started === 2);
  const [next] = (await pool.folders()).filter((name) => name !== id);
  await using bob = await pool.connect(BOB);
  assertEquals((await selfOf(bob)).id, next);
  const look =
    "import os; print('secret' in globals(), os.path.exists('secret'), os.listdir('..'))";
  assertEquals((await bob.call(CELL, { code: look })).text, `False False ['${next}']`);
  const files = new URL(`/sessions/${next}/files/secret`, pool.server.address.url);
  const theirs = await fetch(files, { headers: { authorization: `Bearer ${ALICE}` } });
  await theirs.body?.cancel();
  assertEquals(theirs.status, 404);
});

Deno.test("The first session that is ready is handed out, though its Python was built for it", async () => {
  await using workspace = await workspaceWithServer();
  await using cache = await TempCache.create();
  const pythons = await cache.pythons();
  const build = await lockBuilds(pythons, {}); // by another process
  const options = { cache, env: { IPYBOX_PYTHON: "" } };
  await using pool = await PoolServer.startIn(options, workspace.path, ...POOL);
  await until("it builds", () => pool.server.stderr.includes("Waiting for another process"));
  await writeMarker(kernelRecipe(), pythons, await testInterpreter());
  build[Symbol.dispose]();
  await until("one is ready", () => pool.started === 1);
  const [ready] = await pool.folders();

  await using host = await pool.connect();

  assertEquals((await selfOf(host)).id, ready);
});

Deno.test("A session that is ready is not handed out after a change", async (t) => {
  await using workspace = await workspaceWithServer();
  await using pool = await PoolServer.start(workspace.path, ...POOL);
  const step = stepsOf(t);
  const taken = new Set<string>();
  const ready = async () => (await pool.folders()).filter((name) => !taken.has(name));
  await until("one is ready", () => pool.started === 1);
  const replaces = async (change: () => Promise<void>) => {
    const { started } = pool;
    const [old = ""] = await ready();

    await change();

    await using host = await pool.connect();
    const { id } = await selfOf(host);
    assertNotEquals(id, old);
    taken.add(id);
    await until("the old one is gone", async () => !(await pool.folders()).includes(old));
    await until(
      "another one is ready",
      async () => pool.started > started && (await ready()).length === 1,
    );
  };

  await step("of its kernel, which died", () =>
    replaces(async () => {
      const [kernel] = await kernelsOf(pool.server.pid);
      assert(kernel !== undefined);
      Deno.kill(kernel, "SIGKILL");
      await until("it is gone", async () => !(await kernelsOf(pool.server.pid)).includes(kernel));
    }));

  await step("of the workspace's servers", () =>
    replaces(async () => {
      const { code, stderr } = await commandsIn(workspace.path)(["unregister", "raw"]);
      assertEquals(code, 0, stderr);
    }));

  await step(
    "of the workspace's variables",
    () => replaces(() => Deno.writeTextFile(join(workspace.path, ".env"), "X=1\n")),
  );
});

for (const [when, count] of [["while one is started", 0], ["with one that is ready", 1]] as const) {
  Deno.test(`SIGTERM ends a server ${when}, and leaves nothing of it`, async () => {
    await using workspace = await TempFolder.create();
    await using pool = await PoolServer.start(workspace.path, "--pool", "1");
    let kernels: number[] = [];
    await until("it is on its way", async () => {
      kernels = await descendantsOf(pool.server.pid);
      return kernels.length > 0 && pool.started === count;
    });

    assertEquals((await pool.server.stop("SIGTERM")).code, 0);

    await until("no process is left", async () => {
      const running = await Promise.all(kernels.map((pid) => isRunning(pid)));
      return !running.includes(true);
    });
    assertEquals(await pool.folders(), []);
  });
}

Deno.test("What a server that was killed kept ready is removed by the next one", async () => {
  await using workspace = await TempFolder.create();
  {
    await using pool = await PoolServer.start(workspace.path, ...POOL);
    await until("one is ready", () => pool.started === 1);
    await pool.server.stop("SIGKILL");
    assertEquals((await pool.folders()).length, 1);
  }
  await using next = await PoolServer.start(workspace.path);
  await until("its folder is gone", async () => (await next.folders()).length === 0);
});

Deno.test("--pool refuses what sessions that are made ahead cannot have", async () => {
  await using workspace = await TempFolder.create();
  for (
    const [args, problem] of [
      [["--http", "0", "--pool", "x"], 'Option --pool needs a whole number: received "x"'],
      [["--pool", "1"], "Option --pool needs --http"],
      [
        ["--http", "0", "--no-token", "--durable", "--pool", "1"],
        "the owner of a durable session is fixed when it starts",
      ],
    ] as const
  ) {
    const { code, stderr } = await inThisProcess(["mcp", "--workspace", workspace.path, ...args]);
    assertEquals(code, 2);
    assertStringIncludes(stderr, problem);
  }
});

async function descendantsOf(root: number): Promise<number[]> {
  const found = await childrenOf(root);
  for (const pid of found) found.push(...await childrenOf(pid));
  return found;
}

async function childrenOf(pid: number): Promise<number[]> {
  const found: number[] = [];
  try {
    for await (const { name } of Deno.readDir(`/proc/${pid}/task`)) {
      const children = await Deno.readTextFile(`/proc/${pid}/task/${name}/children`);
      found.push(...children.split(" ").filter(Boolean).map(Number));
    }
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error; // it has ended meanwhile
  }
  return found;
}

async function kernelsOf(server: number): Promise<number[]> {
  const [all, kernels] = await Promise.all([
    descendantsOf(server),
    processesWith("launcher/kernel.py"),
  ]);
  return kernels.filter((pid) => all.includes(pid));
}

async function isRunning(pid: number): Promise<boolean> {
  return await Deno.stat(`/proc/${pid}`).then(() => true, () => false);
}
