/** What other users put where everybody can write is not found by the programs that ipybox starts. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { fileURLToPath } from "node:url";
import { z } from "zod";
import { npmRegistry } from "../support/npm_registry.ts";
import { rawServer } from "../support/mcp.ts";
import { runProgram } from "../support/program.ts";
import { testIf } from "../support/skip.ts";
import { denoDirectory } from "../support/temp_cache.ts";
import { TempFolder } from "../support/temp_folder.ts";

const registry = await npmRegistry();
const PACKAGE = "@modelcontextprotocol/server-memory";
const VERSION = "2026.8.31";
/** The user that plants, where there can be another one. */
const NOBODY = 65534;

/** What another process says, whose environment has these variables, or lacks them. */
async function inProcess(
  variables: Readonly<Record<string, string | undefined>>,
  args: readonly string[],
): Promise<unknown> {
  const env = { ...Deno.env.toObject(), DENO_DIR: await denoDirectory(), ...variables };
  const program = fileURLToPath(new URL("../fixtures/private_folder.ts", import.meta.url));
  const deno = ["run", "-A", "--quiet", program, ...args];
  const { success, stdout, stderr } = await runProgram(Deno.execPath(), deno, {
    clearEnv: true,
    env: Object.fromEntries(
      Object.entries(env).flatMap(([name, value]) => value === undefined ? [] : [[name, value]]),
    ),
    signal: AbortSignal.timeout(180_000),
  });
  assert(success, stderr);
  return JSON.parse(stdout);
}

const folderSchema = z.object({
  path: z.string().default(""),
  entries: z.array(z.string()).default([]),
  error: z.string().default(""),
});

/** What comes of making a private folder with these variables. */
async function privateFolder(variables: Readonly<Record<string, string>>) {
  return folderSchema.parse(await inProcess(variables, ["folder"]));
}

/** The tools of a server that is started with these variables. */
async function toolsOf(
  params: Readonly<Record<string, unknown>>,
  variables: Readonly<Record<string, string | undefined>>,
  workspace: string,
): Promise<readonly string[]> {
  const args = ["server", JSON.stringify(params), workspace];
  return z.array(z.string()).parse(await inProcess(variables, args));
}

/** A folder for temporary files as `/tmp` is, with what another user put there. */
async function sharedFolder(marker: string): Promise<TempFolder> {
  const shared = await TempFolder.create();
  await Deno.chmod(shared.path, 0o1777);
  const planted = `${shared.path}/node_modules/${PACKAGE}`;
  await Deno.mkdir(`${shared.path}/node_modules/.bin`, { recursive: true });
  await Deno.mkdir(planted, { recursive: true });
  const evil = `#!/bin/sh\necho planted >> '${marker}'\n`;
  await Deno.writeTextFile(`${planted}/evil.js`, evil, { mode: 0o755 });
  const bin = { "mcp-server-memory": "evil.js" };
  const manifest = { name: PACKAGE, version: VERSION, bin };
  await Deno.writeTextFile(`${planted}/package.json`, JSON.stringify(manifest));
  const link = `${shared.path}/node_modules/.bin/mcp-server-memory`;
  await Deno.symlink(`../${PACKAGE}/evil.js`, link);
  const root = { name: "all", workspaces: ["*", "*/*", "**"] };
  await Deno.writeTextFile(`${shared.path}/package.json`, JSON.stringify(root));
  await Deno.writeTextFile(
    `${shared.path}/evil.ts`,
    `Deno.writeTextFileSync("${marker}", "planted")`,
  );
  const imports = { [`npm:${PACKAGE}@${VERSION}`]: "./evil.ts" };
  await Deno.writeTextFile(`${shared.path}/deno.json`, JSON.stringify({ imports }));
  if (Deno.uid() === 0) {
    for (const name of ["node_modules", "package.json", "deno.json", "evil.ts"]) {
      await Deno.chown(`${shared.path}/${name}`, NOBODY, NOBODY);
    }
  }
  return shared;
}

const SERVERS = {
  npx: { command: "npx", args: ["-y", `${PACKAGE}@${VERSION}`] },
  deno: { command: Deno.execPath(), args: ["run", "-A", "--quiet", `npm:${PACKAGE}@${VERSION}`] },
};

for (const [name, params] of Object.entries(SERVERS)) {
  for (const place of ["the user's cache", "the folder for temporary files"]) {
    testIf(registry !== undefined, "the npm registry cannot be reached", {
      name: `a server that ${name} starts in ${place} is not another user's`,
      async fn() {
        await using scratch = await TempFolder.create();
        const marker = `${scratch.path}/ran`;
        await using shared = await sharedFolder(marker);
        const tools = await toolsOf(params, {
          TMPDIR: shared.path,
          XDG_CACHE_HOME: place === "the user's cache" ? `${scratch.path}/cache` : "/dev/null/none",
        }, scratch.path);
        assert(tools.includes("read_graph"));
        assertEquals(await Deno.readTextFile(marker).catch(() => ""), "");
      },
    });
  }
}

Deno.test("a private folder is empty, nobody else's, and gone in the end", async () => {
  await using cache = await TempFolder.create();
  const { path, entries, error } = await privateFolder({ XDG_CACHE_HOME: cache.path });
  assertEquals([entries, error], [[], ""]);
  assertStringIncludes(path, `${await Deno.realPath(cache.path)}/ipybox/run/ipybox-`);
  const { mode, uid } = await Deno.stat(`${cache.path}/ipybox/run`);
  assertEquals([(mode ?? 0) & 0o777, uid], [0o700, Deno.uid()]);
  assertEquals(await Array.fromAsync(Deno.readDir(`${cache.path}/ipybox/run`)), []);
});

Deno.test("a private folder is not made where another user could have made it first", async () => {
  await using cache = await TempFolder.create();
  await using theirs = await TempFolder.create();
  await using temporary = await TempFolder.create();
  const variables = { XDG_CACHE_HOME: cache.path, TMPDIR: temporary.path };
  const own = await Deno.realPath(temporary.path);
  await Deno.mkdir(`${cache.path}/ipybox`);
  await Deno.symlink(theirs.path, `${cache.path}/ipybox/run`);
  assertStringIncludes((await privateFolder(variables)).path, `${own}/ipybox-`);

  await Deno.remove(`${cache.path}/ipybox/run`);
  await Deno.mkdir(`${cache.path}/ipybox/run`);
  await Deno.chmod(`${cache.path}/ipybox`, 0o777);
  assertStringIncludes((await privateFolder(variables)).path, `${own}/ipybox-`);

  await Deno.chmod(temporary.path, 0o777); // without the sticky bit, anybody can swap folders
  const { error } = await privateFolder(variables);
  assertStringIncludes(error, `other users can write to ${own}; set TMPDIR`);
  assertEquals(await Array.fromAsync(Deno.readDir(own)), []);
});

testIf(Deno.uid() === 0, "only root can give folders to other users", {
  name: "a private folder is not made where another user owns what leads there",
  fn: async () => {
    await using homes = await TempFolder.create();
    const theirs = `${homes.path}/theirs`;
    const mine = `${theirs}/mine`;
    await Deno.mkdir(mine, { recursive: true, mode: 0o755 });
    await Deno.chown(theirs, 4242, 4242); // who can move what is in it
    // Nor in the cache of a home that is not there.
    const { error } = await privateFolder({ XDG_CACHE_HOME: "/proc/none", TMPDIR: mine });
    assertStringIncludes(error, " belongs to another user; set TMPDIR");
    assertEquals(await Array.fromAsync(Deno.readDir(mine)), []);

    // As in the jobs of a CI service whose home directory belongs to the user outside of the container.
    await using temporary = await TempFolder.create();
    const { path } = await privateFolder({ XDG_CACHE_HOME: mine, TMPDIR: temporary.path });
    assertStringIncludes(path, `${await Deno.realPath(temporary.path)}/ipybox-`);
  },
});

Deno.test("a server without a home starts as well", async () => {
  await using workspace = await TempFolder.create();
  const variables = { XDG_CACHE_HOME: undefined, HOME: undefined };
  const tools = await toolsOf({ ...rawServer() }, variables, workspace.path);
  assert(tools.length > 0);
});
