/** What other users put where everybody can write is not found by the programs that ipybox starts. */
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { fileURLToPath } from "node:url";
import { z } from "zod";
import { ConfigError } from "../../src/base/errors.ts";
import { requireOwnProgram } from "../../src/sandbox/workspace.ts";
import { heldRecords, holdRecord } from "../../src/files/held_records.ts";
import { forEachAbandoned, HeldFolder } from "../../src/files/private_folder.ts";
import { foreignOn } from "../../src/process/trusted_path.ts";
import { environmentKey, readManaged, writeMarker } from "../../src/python/managed.ts";
import { ipybox } from "../support/cli.ts";
import { exists } from "../support/files.ts";
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
  await Deno.chmod(cache.path, 0o777);
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

    const link = `${theirs}/link`; // which its owner can make lead elsewhere
    await Deno.symlink(homes.path, link);
    const own = await Deno.realPath(homes.path);
    for (const cache of [mine, link]) {
      const { path } = await privateFolder({ XDG_CACHE_HOME: cache, TMPDIR: homes.path });
      assertStringIncludes(path, `${own}/ipybox-`, `not in ${cache}`);
    }
  },
});

testIf(Deno.uid() === 0, "only root can give folders to other users", {
  name: "a private folder is not made where a member of a group could replace it",
  fn: async () => {
    await using folder = await TempFolder.create();
    const scratch = `${folder.path}/scratch`; // of a project on a cluster
    await Deno.mkdir(scratch);
    const make = async () => {
      await using held = await HeldFolder.create({ parent: scratch });
      return held.path;
    };
    for (const mode of [0o770, 0o2770]) {
      await Deno.chown(scratch, 0, 4242);
      await Deno.chmod(scratch, mode);
      await assertRejects(make, ConfigError, `other users can write to ${scratch}; set TMPDIR`);
      await Deno.chown(scratch, 0, 0); // a group of this user's own
      await Deno.chmod(scratch, mode);
      assertStringIncludes(await make(), scratch);
    }
    await Deno.chown(scratch, 0, 4242);
    await Deno.chmod(scratch, 0o1770); // whoever made a folder there keeps it
    assertStringIncludes(await make(), scratch);
    assertEquals(await Array.fromAsync(Deno.readDir(scratch)), []);
  },
});

testIf(Deno.uid() === 0, "only root can give folders to other users", {
  name: "the user's folders are not those that another user made first",
  fn: async () => {
    await using shared = await TempFolder.create();
    await using workspace = await TempFolder.create();
    const theirs = `${shared.path}/theirs`;
    await Deno.mkdir(theirs);
    await Deno.chown(theirs, NOBODY, NOBODY);
    await Deno.symlink(theirs, `${shared.path}/mine`);
    const variables = ["XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "HOME"];
    for (const mode of [0o777, 0o1777]) {
      await Deno.chmod(shared.path, mode);
      for (const variable of variables) {
        const env = {
          DENO_DIR: await denoDirectory(),
          ...(variable === "HOME" ? { XDG_CACHE_HOME: "", XDG_STATE_HOME: "" } : {}),
          [variable]: `${shared.path}/mine`,
        };
        const { code, stderr } = await ipybox(["run", "-c", "1"], { cwd: workspace.path, env });
        assert(code !== 0);
        assertStringIncludes(stderr, `${theirs} belongs to another user`);
        assertStringIncludes(stderr, `set ${variable} to a folder of your own`);
      }
    }
    await Deno.chmod(shared.path, 0o755); // a folder that their owner gave to this user
    const given = { XDG_STATE_HOME: `${shared.path}/mine` };
    const { code, stderr } = await ipybox(["run", "-c", "1"], { cwd: workspace.path, env: given });
    assertEquals(code, 0, stderr);
  },
});

Deno.test("the user's folders are not those that others can write to", async () => {
  await using state = await TempFolder.create();
  const own = `${state.path}/ipybox`;
  await Deno.mkdir(own);
  const env = { DENO_DIR: await denoDirectory(), XDG_STATE_HOME: state.path };
  const list = async () => await ipybox(["sessions"], { cwd: state.path, env });
  await Deno.chmod(own, 0o757);
  const { code, stderr } = await list();
  assert(code !== 0);
  assertStringIncludes(stderr.replaceAll(/\s+/g, " "), `Cannot use ${own}: others can write to it`);
  if (Deno.uid() === 0) {
    await Deno.chown(own, 0, 4242); // a group with other members, and a umask of 002
    await Deno.chmod(own, 0o775);
    assert((await list()).code !== 0);
    await Deno.chown(own, 0, 0);
  }
  await Deno.chmod(own, 0o775); // this user's own group
  assertEquals((await list()).code, 0);
});

testIf(Deno.uid() === 0, "only root can give folders to other users", {
  name: "a program that may not read what is above a shared folder finds who made one in it",
  fn: async () => {
    await using shared = await TempFolder.create();
    const folder = await Deno.realPath(shared.path);
    const theirs = `${folder}/theirs`;
    await Deno.mkdir(theirs);
    await Deno.chown(theirs, NOBODY, NOBODY);
    await Deno.chmod(folder, 0o1777);
    const [module, config] = ["../../src/process/trusted_path.ts", "../../deno.json"]
      .map((path) => new URL(path, import.meta.url));
    const program = `${folder}/program.ts`;
    await Deno.writeTextFile(
      program,
      `import { foreignOn } from "${module}"; console.log(foreignOn("${theirs}/ipybox"));`,
    );
    const flags = ["--no-prompt", "--allow-sys=uid", `--allow-read=${folder}`];
    const deno = ["run", "--quiet", `--config=${fileURLToPath(config!)}`, ...flags, program];
    const { stdout, stderr } = await runProgram(Deno.execPath(), deno);
    assertEquals(stdout.trim(), theirs, stderr);
  },
});

testIf(Deno.uid() === 0, "only root can give folders to other users", {
  name: "what a member of a group made in the group's folder counts as another user's",
  fn: async () => {
    await using shared = await TempFolder.create();
    const folder = `${await Deno.realPath(shared.path)}/group`;
    const theirs = `${folder}/theirs`;
    await Deno.mkdir(`${theirs}/ipybox`, { recursive: true });
    await Deno.chown(theirs, NOBODY, NOBODY);
    await Deno.chmod(folder, 0o2775);
    assertEquals(foreignOn(`${theirs}/ipybox`), theirs);
    await Deno.chown(folder, NOBODY, 0); // a home directory in a container: no third user made it
    assertEquals(foreignOn(`${theirs}/ipybox`), undefined);
  },
});

testIf(Deno.uid() === 0, "only root can give files to other users", {
  name: "a Python that another user could have put in the cache is not started",
  fn: async () => {
    await using cache = await TempFolder.create();
    const directory = await Deno.realPath(cache.path);
    const recipe = { requirements: "", modules: {} };
    const prefix = `${directory}/${environmentKey(recipe)}-py3.11-0`;
    const executable = `${prefix}/bin/python`;
    const marker = `${directory}/${environmentKey(recipe)}.json`;
    await Deno.mkdir(`${prefix}/bin`, { recursive: true });
    await Deno.writeTextFile(executable, "");
    await writeMarker(recipe, directory, {
      ...{ executable, prefix, basePrefix: "/usr", makesEnvironments: true },
      ...{ version: "3.11.7", packages: {}, missing: {} },
    });
    for (const theirs of [marker, prefix]) {
      await Deno.chown(theirs, NOBODY, NOBODY);
      await Deno.chmod(directory, 0o775);
      await assertRejects(
        () => readManaged(recipe, directory),
        ConfigError,
        `${theirs} belongs to another user, and others can create files in ${directory}; remove it`,
      );
      await Deno.chmod(directory, 0o755); // nobody else can have made it here
      assertEquals((await readManaged(recipe, directory))?.prefix, prefix);
      await Deno.chown(theirs, 0, 0);
    }
  },
});

testIf(Deno.uid() === 0, "only root can give folders to other users", {
  name: "another user who takes a shared folder for a workspace holds up nobody's programs",
  fn: async () => {
    await using shared = await TempFolder.create();
    await Deno.chmod(shared.path, 0o1777);
    await Deno.mkdir(`${shared.path}/.ipybox`);
    const check = () => requireOwnProgram(`${shared.path}/_`, { what: "program" });
    await assertRejects(check, ConfigError, `could replace ${shared.path}/_`);
    await Deno.chown(`${shared.path}/.ipybox`, NOBODY, NOBODY);
    await check();
  },
});

Deno.test("folders of other users with our names hold up no start, however many", async () => {
  await using parent = await TempFolder.create();
  for (let n = 0; n < 2000; n++) await Deno.mkdir(`${parent.path}/ipybox-${n}`);
  const { lstat } = Deno;
  let looks = 0;
  Deno.lstat = (path) => {
    looks++;
    return lstat(path);
  };
  try {
    await using _held = await HeldFolder.create({ parent: parent.path });
  } finally {
    Deno.lstat = lstat;
  }
  assert(looks > 1000 && looks < 2500, `${looks}`); // two for each that it looks at
});

Deno.test("nothing is a leftover while another process takes it over", async () => {
  await using parent = await TempFolder.create();
  const place = { parent: await Deno.realPath(parent.path), uid: Deno.uid() };
  const records = `${place.parent}/records`;
  await Deno.mkdir(records);
  const inUse = new Set<string>();
  const wrong: string[] = [];
  const sweep = async () => {
    await forEachAbandoned(place, (path) => {
      if (inUse.has(path)) wrong.push(path);
      return Promise.resolve();
    });
    await heldRecords(records);
  };
  let isOver = false;
  const sweeps = Array.from({ length: 4 }, async () => {
    while (!isOver) await sweep();
  });
  for (let turn = 0; turn < 300; turn++) {
    const folder = await HeldFolder.create({ parent: place.parent });
    const record = await holdRecord(records, { turn });
    inUse.add(folder.path);
    const taken = await Promise.all([folder, record].map(({ lock }) => takeOver(lock)));
    for (const held of [folder, record]) held.leave();
    await sweep();
    for (const { lock } of [folder, record]) if (!await exists(lock)) wrong.push(lock);
    inUse.clear();
    for (const file of taken) file.close();
    for (const path of [folder.path, record.lock]) {
      await Deno.remove(path, { recursive: true }).catch(() => {}); // a sweep was quicker
    }
  }
  isOver = true;
  await Promise.all(sweeps);
  assertEquals(wrong, []);
});

/** Replaces a locked file as a supervisor does. */
async function takeOver(lock: string): Promise<Deno.FsFile> {
  const file = await Deno.open(`${lock}.next`, { createNew: true, write: true });
  await file.write(await Deno.readFile(lock));
  await file.lock(true);
  await Deno.rename(`${lock}.next`, lock);
  return file;
}

Deno.test("a server without a home starts as well", async () => {
  await using workspace = await TempFolder.create();
  const variables = { XDG_CACHE_HOME: undefined, HOME: undefined };
  const tools = await toolsOf({ ...rawServer() }, variables, workspace.path);
  assert(tools.length > 0);
});
