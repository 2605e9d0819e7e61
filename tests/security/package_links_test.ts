/** What an installer, or a package that it builds, does to the folders of a workspace's packages. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { ConfigError } from "../../src/errors.ts";
import { silentLogger } from "../../src/log.ts";
import { findPython } from "../../src/python/environment.ts";
import { packageLevels } from "../../src/python/overlay_environment.ts";
import { PackageFolder } from "../../src/python/packages.ts";
import { confine } from "../../src/sandbox/confine.ts";
import { testPython } from "../support/python.ts";
import { TempFolder } from "../support/temp_folder.ts";

/** The packages of a new workspace, where sessions look for them. */
async function packagesIn(cache: string) {
  Deno.env.set("XDG_CACHE_HOME", cache);
  const workspace = `${cache}/workspace`;
  await Deno.mkdir(workspace);
  const python = await findPython({ python: testPython(), workspace, log: silentLogger });
  return { workspace, python, packages: await PackageFolder.open(workspace, python) };
}

class CacheFolder implements AsyncDisposable {
  readonly #before = Deno.env.get("XDG_CACHE_HOME");
  private constructor(readonly path: string) {}

  static async create(): Promise<CacheFolder> {
    return new CacheFolder(await Deno.realPath(await Deno.makeTempDir()));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#before === undefined) Deno.env.delete("XDG_CACHE_HOME");
    else Deno.env.set("XDG_CACHE_HOME", this.#before);
    await Deno.remove(this.path, { recursive: true });
  }
}

for (const level of [1, 2, 3]) {
  Deno.test(`a link in the place of level ${level} of the packages' folder leads no session elsewhere`, async () => {
    await using secret = await TempFolder.create();
    await Deno.mkdir(`${secret.path}/python3.11/site-packages`, { recursive: true });
    await using cache = await CacheFolder.create();
    const { workspace, python, packages } = await packagesIn(cache.path);
    assertEquals(await PackageFolder.find(workspace, python), packages.path);
    const path = packageLevels(packages.path)[level] ?? "";
    const below = packages.path.slice(path.length);
    await Deno.mkdir(secret.path + below, { recursive: true });
    await Deno.rename(path, `${path}.old`);
    await Deno.symlink(secret.path, path);
    await assertRejects(
      () => PackageFolder.find(workspace, python),
      ConfigError,
      `${path} is not a plain folder`,
    );
    await assertRejects(() => PackageFolder.open(workspace, python), ConfigError, "is not a plain");
    await PackageFolder.remove(workspace);
    assert(await Deno.lstat(secret.path + below));
  });
}

Deno.test("an installer cannot move the folders of the packages", async () => {
  await using cache = await CacheFolder.create();
  await using folder = await TempFolder.create();
  const { packages, python } = await packagesIn(cache.path);
  const [session, hostPrivate] = [`${folder.path}/session`, `${folder.path}/host`];
  await Deno.mkdir(`${session}/tmp`, { recursive: true });
  await Deno.mkdir(hostPrivate);
  const levels = packageLevels(packages.path);
  const attempt = `
import json, os, sys
for path in json.loads(sys.argv[1]):
    open(path + "/written", "w").close()
    try: os.rename(path, path + ".old"); print("moved", path)
    except OSError as error: print("kept")
`;
  const program = await confine({
    command: [testPython(), "-c", attempt, JSON.stringify(levels)],
    env: { HOME: session, TMPDIR: `${session}/tmp` },
    session,
    writable: packages.writable,
    readable: [python.prefix, python.basePrefix],
    hostPrivate,
    hosts: [],
  }, { log: silentLogger, signal: new AbortController().signal });
  const { stdout, stderr } = await new Deno.Command(program.command, {
    args: program.args,
    env: program.env,
    clearEnv: true,
    cwd: session,
  }).output();
  const decoder = new TextDecoder();
  assertEquals(decoder.decode(stdout), "kept\n".repeat(4), decoder.decode(stderr));
});

Deno.test("packages whose workspace is not yet said are not those of a workspace that is gone", async () => {
  await using cache = await CacheFolder.create();
  const other = `${cache.path}/ipybox/python/packages/${"0".repeat(32)}`;
  await Deno.mkdir(other, { recursive: true });
  await Deno.writeTextFile(`${other}/workspace`, "");
  await packagesIn(cache.path);
  assert(await Deno.lstat(other));
  assertEquals(await PackageFolder.abandoned(), []);
});
