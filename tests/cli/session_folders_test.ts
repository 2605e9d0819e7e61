import { assert, assertEquals } from "@std/assert";
import { until } from "../support/wait.ts";
import { HttpMcp } from "../support/http_mcp.ts";
import { INITIALIZE } from "../support/initialize.ts";
import { TempFolder } from "../support/temp_folder.ts";

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
  const entries = await Array.fromAsync(Deno.readDir(`${workspace}/.ipybox/sessions`));
  return new Set(entries.map(({ name }) => name));
}

Deno.test("ipybox mcp --http keeps the folders of as many ended sessions as it is told", async () => {
  await using workspace = await TempFolder.create();
  const args = ["--no-token", "--workspace", workspace.path, "--keep-sessions", "2"];
  const sessions: string[] = [];
  {
    await using server = await HttpMcp.start(args);
    const { url } = server.address;
    const live = await open(url); // longer than the others
    for (let i = 0; i < 4; i++) {
      const session = await open(url);
      sessions.push(session);
      await close(url, session);
    }
    const expected = new Set([live, ...sessions.slice(2)]);
    await until(
      "two ended sessions are left",
      async () => (await foldersOf(workspace.path)).size <= expected.size,
    );
    assertEquals(await foldersOf(workspace.path), expected);

    // Another server leaves the sessions of this one alone, too.
    await using other = await HttpMcp.start([...args.slice(0, -1), "1"]);
    await until("one is left", async () => (await foldersOf(workspace.path)).size <= 2);
    assertEquals(await foldersOf(workspace.path), new Set([live, ...sessions.slice(3)]));
    await close(other.address.url, await open(other.address.url));
    await until(
      "a later one took its place",
      async () => !(await foldersOf(workspace.path)).has(sessions[3] ?? ""),
    );
    assert((await foldersOf(workspace.path)).has(live));
  }
});

Deno.test("Ended sessions of one token remove no folder of another's, also after a restart", async () => {
  await using workspace = await TempFolder.create();
  const tokens = `${workspace.path}.tokens`;
  await using _tokens = { [Symbol.asyncDispose]: () => Deno.remove(tokens) };
  const [alice, bob] = ["alice-alice-alice-alice", "bob-bob-bob-bob-bob-bob"];
  const args = ["--token-file", tokens, "--workspace", workspace.path, "--keep-sessions", "1"];
  let kept = "";
  for (const text of [`${alice}\n${bob}`, `${bob}\n${alice}`]) {
    await Deno.writeTextFile(tokens, text);
    await using server = await HttpMcp.start(args);
    const { url } = server.address;
    kept ||= await open(url, alice);
    if (text.startsWith(alice)) await close(url, kept, alice);
    const sessions = [await open(url, bob), await open(url, bob)];
    for (const session of sessions) await close(url, session, bob);
    const expected = new Set([kept, sessions[1]]);
    await until(
      "one session of each is left",
      async () => (await foldersOf(workspace.path)).size <= expected.size,
    );
    assertEquals(await foldersOf(workspace.path), expected);
  }
});

Deno.test("ipybox mcp --http removes the folders of old sessions when it starts", async () => {
  await using workspace = await TempFolder.create();
  const folders = `${workspace.path}/.ipybox/sessions`;
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
