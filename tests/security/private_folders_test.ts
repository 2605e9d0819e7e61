/** The host's own files are where executed code cannot write, and belong to the user alone. */
import {
  assert,
  assertEquals,
  assertMatch,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import { fileURLToPath } from "node:url";
import { z } from "zod";
import { ConfigError } from "../../src/base/errors.ts";
import { forEachAbandoned, HeldFolder } from "../../src/files/private_folder.ts";
import { attack } from "../support/attacker.ts";
import { ipybox } from "../support/cli.ts";
import { exists } from "../support/files.ts";
import { rawServer } from "../support/mcp.ts";
import { runProgram } from "../support/program.ts";
import { denoDirectory } from "../support/temp_cache.ts";
import { TempFolder } from "../support/temp_folder.ts";

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

/** What comes of making a private folder with each of these variables. */
async function privateFolders(...environments: readonly Readonly<Record<string, string>>[]) {
  const said = await inProcess({}, ["folders", JSON.stringify(environments)]);
  return z.array(folderSchema).parse(said);
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

Deno.test("a private folder is empty, nobody else's, not where temporary files are, and gone in the end", async () => {
  await using cache = await TempFolder.create();
  const temporary = ["/no/such", "/dev/null/none", `${cache.path}/${"long".repeat(20)}`];
  const [first, ...others] = await privateFolders(
    { XDG_CACHE_HOME: cache.path },
    ...temporary.map((TMPDIR) => ({ TMPDIR })), // on which it does not depend
  );
  const { path = "", entries, error } = first ?? {};
  assertEquals([entries, error], [[], ""]);
  assertEquals(others.length, temporary.length);
  for (const { path } of others) assertStringIncludes(path, `${cache.path}/ipybox/run/`);
  const run = `${await Deno.realPath(cache.path)}/ipybox/run`;
  assertMatch(path.slice(run.length), /^\/[0-9a-f]{8}\/empty$/);
  const { mode, uid } = await Deno.stat(run);
  assertEquals([(mode ?? 0) & 0o777, uid], [0o700, Deno.uid()]);
  assertEquals(await Array.fromAsync(Deno.readDir(run)), []);
});

Deno.test("a private folder is where code cannot write, and where sockets can be", async () => {
  await using temporary = await TempFolder.create();
  await using cache = await TempFolder.create();
  const root = await Deno.realPath(cache.path);
  await Deno.mkdir(`${root}/workspace/.ipybox`, { recursive: true });
  await Deno.mkdir(`${root}/closed/ipybox`, { recursive: true });
  await Deno.writeTextFile(`${root}/closed/ipybox/run`, "");
  const unusable = ["workspace", "workspace/deep", "long".repeat(20), "closed"];
  const made = await privateFolders(
    ...unusable.map((name) => ({ XDG_CACHE_HOME: `${root}/${name}`, TMPDIR: temporary.path })),
  );
  const elsewhere = `${await Deno.realPath(temporary.path)}/ipybox-${Deno.uid()}/`;
  assertEquals(made.length, unusable.length);
  for (const [at, { path }] of made.entries()) assertStringIncludes(path, elsewhere, unusable[at]);
  const create = () =>
    HeldFolder.create({ parents: [`${root}/workspace/run`, `${root}/closed/ipybox/run`] });
  await assertRejects(create, ConfigError, `executed code can write to ${root}/workspace`);
  await assertRejects(create, ConfigError, "Set XDG_CACHE_HOME to a folder that you can write to");
});

Deno.test("the folder that holds private ones is closed to others, and not another user's", async () => {
  await using folder = await TempFolder.create();
  const root = await Deno.realPath(folder.path);
  const parents = [`${root}/theirs`, `${root}/mine`];
  for (const path of parents) await Deno.mkdir(path);
  await Deno.chmod(`${root}/mine`, 0o777);
  if (Deno.uid() === 0) await Deno.chown(`${root}/theirs`, 65534, 65534);
  else parents.shift(); // nobody else can give a folder away
  {
    await using held = await HeldFolder.create({ parents });
    assertStringIncludes(held.path, `${root}/mine/`);
  }
  assertEquals(((await Deno.stat(`${root}/mine`)).mode ?? 0) & 0o777, 0o700);
  const left = await Promise.all(
    [`${root}/theirs`, `${root}/mine`].map((path) => Array.fromAsync(Deno.readDir(path))),
  );
  assertEquals(left.flat(), []);
});

Deno.test({
  name: "nobody whose folder it is makes it the user's own by exchanging what is made in it",
  ignore: Deno.uid() !== 0, // only root can be another user
  async fn() {
    await using folder = await TempFolder.create();
    const root = await Deno.realPath(folder.path);
    const parents = [`${root}/theirs`, `${root}/mine`];
    await Deno.chmod(root, 0o755);
    await Deno.mkdir(`${root}/theirs`);
    await Deno.chmod(`${root}/theirs`, 0o777);
    await Deno.chown(`${root}/theirs`, 65534, 65534);
    const exchange = `
import os, sys
os.chdir(sys.argv[1])
os.setuid(65534)
print("ready", flush=True)
while True:
    for made in os.scandir():
        try:
            if made.stat(follow_symlinks=False).st_uid == 0:
                os.rename(made, made.name + ".made")
                os.mkdir(made, 0o777)
                os.chmod(made, 0o777)
        except OSError:
            pass`;
    await using _attacker = await attack(["-c", exchange, `${root}/theirs`]);
    for (let round = 0; round < 100; round++) {
      await using held = await HeldFolder.create({ parents });
      assertStringIncludes(held.path, `${root}/mine/`);
    }
  },
});

Deno.test("a folder that another user made in /tmp has the user's own folders removed by no clean", async (t) => {
  await using folder = await TempFolder.create();
  const [mine, made] = [`${folder.path}/mine`, `${folder.path}/ipybox-${Deno.uid()}`];
  await Deno.mkdir(mine);
  for (const name of ["lock", "key"]) await Deno.writeTextFile(`${mine}/${name}`, "");
  await Deno.mkdir(made);
  await using own = await TempFolder.create();
  const env = {
    DENO_DIR: await denoDirectory(),
    TMPDIR: folder.path,
    XDG_CACHE_HOME: own.path,
    XDG_STATE_HOME: own.path,
  };
  const clean = async () => {
    await ipybox(["clean", "--workspace", folder.path], { env });
    assert(await exists(`${mine}/key`));
  };
  await t.step("with a link", async () => {
    await Deno.symlink(mine, `${made}/link`);
    await clean();
    await Deno.remove(`${made}/link`);
  });
  await t.step("as a link", async () => {
    await Deno.remove(made);
    await Deno.symlink(folder.path, made);
    await clean();
    await Deno.remove(made);
  });
  await t.step({
    name: "with a folder that they could exchange",
    ignore: Deno.uid() !== 0, // only root can make another user's
    fn: async () => {
      await Deno.mkdir(made);
      await Deno.chown(made, 65534, 65534);
      await Deno.rename(mine, `${made}/mine`);
      await Deno.symlink(`${made}/mine`, mine);
      await clean();
    },
  });
});

Deno.test("others cannot write to the user's folders from then on", async () => {
  await using state = await TempFolder.create();
  const own = `${state.path}/ipybox`;
  await Deno.mkdir(own);
  await Deno.chmod(own, 0o777);
  const env = { DENO_DIR: await denoDirectory(), XDG_STATE_HOME: state.path };
  const { code, stderr } = await ipybox(["sessions"], { cwd: state.path, env });
  assertEquals(code, 0, stderr);
  assertEquals(((await Deno.stat(own)).mode ?? 0) & 0o777, 0o755);
});

Deno.test("nothing is a leftover while another process takes it over", async () => {
  await using parent = await TempFolder.create();
  const place = await Deno.realPath(parent.path);
  const inUse = new Set<string>();
  const wrong: string[] = [];
  const sweep = () =>
    forEachAbandoned(place, (path) => {
      if (inUse.has(path)) wrong.push(path);
      return Promise.resolve();
    });
  let isOver = false;
  const sweeps = Array.from({ length: 4 }, async () => {
    while (!isOver) await sweep();
  });
  for (let turn = 0; turn < 100; turn++) {
    const folder = await HeldFolder.create({ parents: [place] });
    inUse.add(folder.path);
    const taken = await takeOver(folder.lock);
    folder.leave();
    await sweep();
    if (!await exists(folder.lock)) wrong.push(folder.lock);
    inUse.clear();
    taken.close();
    await Deno.remove(folder.path, { recursive: true }).catch(() => {}); // a sweep was quicker
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
