import { assertEquals, assertRejects } from "@std/assert";
import { lockOf, makeSessionFolders } from "../../src/mcp_server/http/session_folders.ts";
import { leaveEndedSessions } from "../support/ended_sessions.ts";
import { until } from "../support/wait.ts";
import { HttpMcp } from "../support/http_mcp.ts";
import { INITIALIZE } from "../support/initialize.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { stateOf } from "../support/workspace_state.ts";

/** Opens a session and gives its id. */
async function open(url: URL, token?: string): Promise<string> {
  const answer = await fetch(url, {
    method: "POST",
    headers: {
      ...authorization(token),
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
    },
    body: JSON.stringify(INITIALIZE),
  });
  await answer.body?.cancel();
  return answer.headers.get("mcp-session-id") ?? "";
}

async function close(url: URL, session: string, token?: string): Promise<void> {
  const headers = { ...authorization(token), "mcp-session-id": session };
  const answer = await fetch(url, { method: "DELETE", headers });
  await answer.body?.cancel();
  assertEquals(answer.status, 200);
}

function authorization(token: string | undefined): Record<string, string> {
  return token === undefined ? {} : { authorization: `Bearer ${token}` };
}

async function foldersOf(workspace: string): Promise<Set<string>> {
  const entries = await Array.fromAsync(Deno.readDir(await makeSessionFolders(workspace)));
  return new Set(entries.flatMap(({ name, isDirectory }) => isDirectory ? [name] : []));
}

Deno.test("ipybox mcp --http keeps the folders of the last hundred ended sessions", async () => {
  await using workspace = await TempFolder.create();
  const args = ["--no-token", "--workspace", workspace.path];
  const ended = await leaveEndedSessions(workspace.path);
  const folders = await makeSessionFolders(workspace.path);
  const state = await stateOf(`${folders}/${ended[0]}`);
  await using server = await HttpMcp.start(args);
  const { url } = server.address;
  const live = await open(url); // longer than the others
  const sessions: string[] = [];
  for (let i = 0; i < 2; i++) {
    const session = await open(url);
    sessions.push(session);
    await close(url, session);
  }
  const expected = new Set([live, ...ended.slice(2), ...sessions]);
  await until(
    "a hundred ended sessions are left",
    async () => (await foldersOf(workspace.path)).size <= expected.size,
  );
  assertEquals(await foldersOf(workspace.path), expected);
  for (const path of [state, lockOf(`${folders}/${ended[0]}`)]) {
    await assertRejects(() => Deno.lstat(path), Deno.errors.NotFound);
  }

  // Another server leaves the sessions of this one alone, too.
  await using other = await HttpMcp.start(args);
  const session = await open(other.address.url);
  await close(other.address.url, session);
  const others = new Set([live, ...ended.slice(3), ...sessions, session]);
  await until(
    "a later one took the place of the oldest",
    async () => (await foldersOf(workspace.path)).size <= others.size,
  );
  assertEquals(await foldersOf(workspace.path), others);
});

Deno.test("Ended sessions of one token remove no folder of another's, also after a restart", async () => {
  await using workspace = await TempFolder.create();
  const tokens = `${workspace.path}.tokens`;
  await using _tokens = { [Symbol.asyncDispose]: () => Deno.remove(tokens) };
  const [alice, bob] = ["alice-alice-alice-alice", "bob-bob-bob-bob-bob-bob"];
  const ended = await leaveEndedSessions(workspace.path, bob);
  const args = ["--token-file", tokens, "--workspace", workspace.path];
  let kept = "";
  for (const text of [`${alice}\n${bob}`, `${bob}\n${alice}`]) {
    await Deno.writeTextFile(tokens, text);
    await using server = await HttpMcp.start(args);
    const { url } = server.address;
    kept ||= await open(url, alice);
    if (text.startsWith(alice)) await close(url, kept, alice);
    const session = await open(url, bob);
    await close(url, session, bob);
    ended.push(session);
    ended.shift();
    const expected = new Set([kept, ...ended]);
    await until(
      "bob's oldest session is gone",
      async () => (await foldersOf(workspace.path)).size <= expected.size,
    );
    assertEquals(await foldersOf(workspace.path), expected);
  }
});

Deno.test("ipybox mcp --http removes the folders of old sessions when it starts", async () => {
  await using workspace = await TempFolder.create();
  const folders = await makeSessionFolders(workspace.path);
  const long = new Date(Date.now() - 40 * 86_400_000);
  for (const name of ["old", "used"]) {
    await Deno.mkdir(`${folders}/${name}/deep`, { recursive: true });
    for (const path of [`${name}/deep`, name]) await Deno.utime(`${folders}/${path}`, long, long);
  }
  const now = new Date();
  await Deno.utime(`${folders}/used/deep`, now, now);

  await using _server = await HttpMcp.start(["--no-token", "--workspace", workspace.path]);

  await until("the old one is gone", async () => !(await foldersOf(workspace.path)).has("old"));
  assertEquals(await foldersOf(workspace.path), new Set(["used"]));
});
