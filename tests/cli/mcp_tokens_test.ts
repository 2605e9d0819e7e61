/** `ipybox mcp --http`: tokens with settings of their own, and what an owner's sessions know of each other. */
import { assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import { makeSessionFolders } from "../../src/mcp_server/http/session_folders.ts";
import { dirname } from "node:path";
import { silentLogger } from "../../src/base/log.ts";
import { endDurable, listSessions } from "../../src/executor/durable.ts";
import type { HttpToken } from "../../src/mcp_server/http/bearer_tokens.ts";
import { McpServer } from "../../src/mcp_server/mcp_server.ts";
import type { McpHttpServerOptions } from "../../src/mcp_server/option_keys.ts";
import { inThisProcess } from "../support/command_io.ts";
import { HttpMcp } from "../support/http_mcp.ts";
import { McpHost } from "../support/mcp_client.ts";
import { testPython } from "../support/python.ts";
import { beginWriting, makeOwnFolders } from "../../src/sandbox/workspace.ts";
import { TempFolder } from "../support/temp_folder.ts";

const ALICE = "alice-alice-alice-alice";
const BOB = "bob-bob-bob-bob-bob-bob";
const CAROL = "carol-carol-carol-carol";
const FOLDER = "import os; print(os.getcwd())";

/** A place whose Python is the tests', and where code has a folder of its own. */
const THERE = {
  type: "command",
  command: ["/usr/bin/env", `PATH=${dirname(testPython())}:/usr/bin:/bin`],
  bubblewrap: true,
} as const;
/** The folder of code there. */
const FAR = /^\/tmp\/ipybox\./;

async function withTokens(text: string) {
  const folder = await TempFolder.create();
  await Deno.mkdir(`${folder.path}/work`);
  await Deno.writeTextFile(`${folder.path}/tokens`, text);
  const args = ["--workspace", `${folder.path}/work`, "--token-file", `${folder.path}/tokens`];
  return { folder, workspace: `${folder.path}/work`, args };
}

Deno.test("A token has as many sessions as its line says, and the others share the rest", async () => {
  const { folder, args } = await withTokens(`${ALICE} sessions=1\n${BOB} sessions=3\n${CAROL}\n`);
  await using _folder = folder;
  const noKernels = ["--python", "/bin/false"];
  await using server = await HttpMcp.start([...args, "--max-sessions", "6", ...noKernels]);
  await using hosts = new AsyncDisposableStack();
  const join = async (token: string) =>
    hosts.use(await McpHost.join({ url: server.address.url, token }, { kind: "2.x legacy" }));
  const refusal = async (token: string) => (await assertRejects(() => join(token), Error)).message;

  await join(ALICE);
  assertStringIncludes(
    await refusal(ALICE),
    "Your token already has as many sessions as it may have, 1: close one, or ask whoever runs ipybox",
  );
  for (let count = 0; count < 3; count++) await join(BOB);
  assertStringIncludes(await refusal(BOB), "as many sessions as it may have, 3");
  for (let count = 0; count < 2; count++) await join(CAROL);
  assertStringIncludes(await refusal(CAROL), "its share of the sessions: 2 of 6");
});

Deno.test("ipybox mcp --http says which line of the token file is wrong", async () => {
  const { folder, workspace, args } = await withTokens("");
  await using _folder = folder;
  const placements = {
    [`${workspace}/inside.json`]: { type: "kubernetes" }, // code ran there
    [`${folder.path}/ssh.json`]: { type: "ssh", host: "nowhere" },
    [`${folder.path}/good.json`]: { type: "kubernetes", namespace: "team-a" },
  };
  for (const [path, placement] of Object.entries(placements)) {
    await Deno.writeTextFile(path, JSON.stringify(placement));
  }
  await makeOwnFolders(workspace);
  await beginWriting(workspace);
  for (
    const [settings, message, ...more] of [
      ["sessions=many", 'received "many"'],
      ["placement=missing.json", `No file "${folder.path}/missing.json"`],
      ["placement=work/inside.json", "could have written it"],
      ["placement=ssh.json", "a --placement that keeps sessions apart"],
      ["placement=good.json", "--placement and --project cannot", "--project", folder.path],
    ] as const
  ) {
    await Deno.writeTextFile(`${folder.path}/tokens`, `${ALICE}\n${BOB} ${settings}\n`);
    const { code, stderr } = await inThisProcess(["mcp", "--http", "0", ...args, ...more]);
    assertEquals(code, 2, stderr);
    assertStringIncludes(stderr, `Line 2 of "${folder.path}/tokens": `);
    assertStringIncludes(stderr, message);
    assertEquals(stderr.includes(BOB), false);
  }
});

/** Serves in this process, where placements by any command are possible. */
async function serve(
  folder: TempFolder,
  tokens: readonly (string | HttpToken)[],
  options: McpHttpServerOptions = {},
): Promise<McpServer> {
  const common = { workspace: folder.path, python: testPython(), log: silentLogger };
  return await McpServer.serveHttp({ ...common, tokens, ...options });
}

Deno.test("Kernels of a token with a placement run there, also where sessions are ready", async () => {
  await using folder = await TempFolder.create();
  const tokens = [{ token: ALICE, placement: THERE }, BOB];
  await using server = await serve(folder, tokens, { pool: { size: 1 } });
  const { url } = server.http ?? {};
  if (url === undefined) throw new Error("It is not served");
  await using alice = await McpHost.join({ url, token: ALICE }, { kind: "2.x legacy" });
  await using bob = await McpHost.join({ url, token: BOB }, { kind: "2.x legacy" });
  assertMatch(await alice.execute(FOLDER), FAR);
  assertStringIncludes(await bob.execute(FOLDER), await makeSessionFolders(folder.path));
  await assertRejects(
    () => serve(folder, [{ token: ALICE, placement: { type: "docker", cpus: -1 } }]),
    Error,
    "A token's placement cannot be used",
  );
});

Deno.test("A durable session stays where it is when the placement of its token changes", async () => {
  await using folder = await TempFolder.create();
  const folders = await makeSessionFolders(folder.path);
  const first = await serve(folder, [{ token: ALICE, placement: THERE }, BOB], { durable: true });
  const { url = new URL("http://127.0.0.1") } = first.http ?? {};
  const port = Number(url.port);
  await using _sessions = {
    [Symbol.asyncDispose]: async () => {
      const left = await listSessions((one) => one.workspace.startsWith(folders));
      for (const { id } of left) await endDurable(id);
    },
  };
  await using alice = await McpHost.join({ url, token: ALICE }, { kind: "2.x legacy" });
  await using bob = await McpHost.join({ url, token: BOB }, { kind: "2.x legacy" });
  const [far, near] = [
    await alice.execute(`x = 41; ${FOLDER}`),
    await bob.execute(`y = 1; ${FOLDER}`),
  ];
  assertMatch(far, FAR);
  await first[Symbol.asyncDispose]();

  const tokens = [ALICE, { token: BOB, placement: THERE }];
  await using _second = await serve(folder, tokens, { durable: true, port });
  const news = /\n\n\[Session [0-9a-f-]{36} continues: its variables are still there\]$/;
  assertMatch(await alice.execute("print(x + 1)"), news);
  assertEquals(await alice.execute(FOLDER), far);
  assertMatch(await bob.execute("print(y)"), news);
  assertEquals(await bob.execute(FOLDER), near);
  await using next = await McpHost.join({ url, token: ALICE }, { kind: "2.x legacy" });
  assertStringIncludes(await next.execute(FOLDER), folders);
});
