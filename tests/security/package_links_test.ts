/** What an installer, or a package that it builds, does to the folders of a workspace's packages. */
import { assert, assertEquals } from "@std/assert";
import { dirname } from "node:path";
import { silentLogger } from "../../src/base/log.ts";
import { findPython, type PythonEnvironment } from "../../src/python/environment.ts";
import { packageLevels } from "../../src/python/package_levels.ts";
import { PackageFolder } from "../../src/python/packages.ts";
import { confine } from "../../src/sandbox/confine.ts";
import { testPython } from "../support/python.ts";
import { TempFolder } from "../support/temp_folder.ts";

/** The packages of a new workspace, where sessions look for them. Disposing removes both. */
class Packages implements AsyncDisposable {
  readonly #workspace: TempFolder;

  private constructor(
    workspace: TempFolder,
    readonly python: PythonEnvironment,
    readonly folder: PackageFolder,
  ) {
    this.#workspace = workspace;
  }

  static async create(): Promise<Packages> {
    const workspace = await TempFolder.create();
    const options = { python: testPython(), workspace: workspace.path, log: silentLogger };
    const python = await findPython(options);
    return new Packages(workspace, python, await PackageFolder.open(workspace.path, python));
  }

  get workspace(): string {
    return this.#workspace.path;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await PackageFolder.remove(this.workspace);
    await this.#workspace[Symbol.asyncDispose]();
  }
}

Deno.test("an installer cannot move the folders of the packages", async () => {
  await using own = await Packages.create();
  await using folder = await TempFolder.create();
  const { python, folder: packages } = own;
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
  }, { log: silentLogger, signal: new AbortController().signal });
  const { stdout, stderr } = await new Deno.Command(program.command, {
    args: [...program.args],
    env: program.env,
    clearEnv: true,
    cwd: session,
  }).output();
  const decoder = new TextDecoder();
  assertEquals(decoder.decode(stdout), "kept\n".repeat(5), decoder.decode(stderr));
});

Deno.test("packages whose workspace is not yet said are not those of a workspace that is gone", async () => {
  await using first = await Packages.create();
  const [all = ""] = packageLevels(first.folder.path).map(dirname);
  const other = `${all}/${crypto.randomUUID().replaceAll("-", "")}`;
  await Deno.mkdir(other);
  try {
    await Deno.writeTextFile(`${other}/workspace`, "");
    await using _second = await Packages.create();
    assert(await Deno.lstat(other));
    const abandoned = await PackageFolder.abandoned();
    assertEquals(abandoned.filter(({ path }) => path === other), []);
  } finally {
    await Deno.remove(other, { recursive: true });
  }
});
