import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { makeSessionFolders } from "../../src/mcp_server/http/session_folders.ts";
import { HeldFolder } from "../../src/files/private_folder.ts";
import { nameFor } from "../../src/files/workspace_folders.ts";
import { INITIALIZE } from "../support/initialize.ts";
import { ipybox } from "../support/cli.ts";
import { exists } from "../support/files.ts";
import { HttpMcp } from "../support/http_mcp.ts";
import { TempFolder } from "../support/temp_folder.ts";

Deno.test("ipybox clean leaves sessions in use alone", async () => {
  await using folder = await TempFolder.create();
  const options = { cwd: folder.path, env: { TMPDIR: folder.path, XDG_CACHE_HOME: folder.path } };
  await Deno.mkdir(`${folder.path}/ws`);
  const args = ["clean", "--days", "0.000001", "--workspace", `${folder.path}/ws`];
  const sessions = await makeSessionFolders(`${folder.path}/ws`);
  {
    await using server = await HttpMcp.start(["--no-token", "--workspace", `${folder.path}/ws`]);
    const answer = await fetch(server.address.url, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
      },
      body: JSON.stringify(INITIALIZE),
    });
    await answer.body?.cancel();
    const session = `${sessions}/${answer.headers.get("mcp-session-id")}`;
    assert(await exists(session));

    const { code, stderr } = await ipybox(args, options);
    assertEquals(code, 0, stderr);
    assertStringIncludes(stderr, "Kept 1 session in use");
    assert(await exists(session));
  }
  assertStringIncludes((await ipybox(args, options)).stdout, sessions);
});

Deno.test("ipybox clean removes what is left over, and nothing else", async () => {
  await using folder = await TempFolder.create();
  const root = await Deno.realPath(folder.path);
  const [temporary, cache, cwd] = [`${root}/tmp`, `${root}/cache`, `${root}/ws`];
  const parents = [`${cache}/ipybox/run`];
  await using held = await HeldFolder.create({ parents });
  const ended = await HeldFolder.create({ parents });
  ended.leave();
  const killed = ended.path;
  const young = `${parents[0]}/young`; // without a lock: it has just been made
  const cloned = `${temporary}/ipybox-examples`; // a repository with a file of that name
  const packages = `${cache}/ipybox/python/packages`;
  const sessions = `${root}/state/ipybox/workspaces/${nameFor(cwd)}/sessions`;
  const [old, used] = [`${sessions}/old`, `${sessions}/used`];
  const [gone, kept] = [`${packages}/gone`, `${packages}/kept`];
  const caches = `${cache}/ipybox/workspaces`;
  const [goneCache, keptCache] = [`${caches}/gone`, `${caches}/kept`];
  const folders = [cwd, young, cloned, `${old}/deep`, `${used}/deep`, gone, kept];
  for (const path of [...folders, `${goneCache}/cache/deep`, `${keptCache}/cache`]) {
    await Deno.mkdir(path, { recursive: true });
  }
  await Deno.writeTextFile(`${goneCache}/workspace`, `${root}/no-such`);
  await Deno.writeTextFile(`${keptCache}/workspace`, cwd);
  await Deno.writeTextFile(`${cloned}/lock`, "");
  await Deno.writeTextFile(`${killed}/data`, "x".repeat(5000));
  await Deno.writeTextFile(`${gone}/workspace`, `${root}/no-such`);
  await Deno.writeTextFile(`${kept}/workspace`, cwd);
  const long = new Date(Date.now() - 40 * 86_400_000);
  for (const path of [`${old}/deep`, old, used]) await Deno.utime(path, long, long);
  // What other tests leave in the user's state folder meanwhile is removed as well.
  const env = { TMPDIR: temporary, XDG_CACHE_HOME: cache, XDG_STATE_HOME: `${root}/state` };
  const options = { cwd, env };
  const leftovers = [killed, old, gone, goneCache];
  const needed = [held.path, young, cloned, used, kept, keptCache];

  const dry = await ipybox(["clean", "--dry-run"], options);
  assertEquals(dry.code, 0, dry.stderr);
  for (const path of leftovers) assertStringIncludes(dry.stdout, path);
  for (const path of needed) assert(!dry.stdout.includes(path), dry.stdout);
  assertStringIncludes(dry.stdout, "4.9 KiB");
  assertStringIncludes(dry.stderr, "Would remove 4 folders, ");
  for (const path of leftovers) assert(await exists(path), path);

  const done = await ipybox(["clean"], options);
  assertEquals([done.code, done.stdout], [0, dry.stdout], done.stderr);
  for (const path of leftovers) assert(!await exists(path), path);
  for (const path of needed) assert(await exists(path), path);
  const { stderr } = await ipybox(["clean"], options);
  const scope = `Removing old sessions of ${cwd}, and leftovers of all workspaces\n`;
  assertEquals(stderr, `${scope}Nothing to remove\n`);
});
