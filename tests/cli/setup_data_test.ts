/** The packages of `ipybox setup --data`. They come from wheels of the tests, so no network is needed. */
import {
  assert,
  assertEquals,
  assertMatch,
  assertNotEquals,
  assertStringIncludes,
} from "@std/assert";
import { DATA_PACKAGES } from "../../src/commands/setup.ts";
import { type CliEnd, ipybox } from "../support/cli.ts";
import { CommandProcess } from "../support/command_process.ts";
import { inOwnProcess } from "../support/own_process.ts";
import { runProgram } from "../support/program.ts";
import { testPython } from "../support/python.ts";
import { stepsOf } from "../support/steps.ts";
import { TempCache } from "../support/temp_cache.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { makeWheels } from "../support/wheels.ts";

const VERSION = "import openpyxl; print(openpyxl.OWN)";

/** A machine with a cache of its own, and a package index with one version of all packages. */
class Machine implements AsyncDisposable {
  readonly #parts = new AsyncDisposableStack();
  #commands: CommandProcess | undefined;

  private constructor(
    readonly cache: TempCache,
    readonly wheels: TempFolder,
    readonly workspace: string,
    readonly other: string,
  ) {
    this.#parts.use(wheels);
    this.#parts.use(cache);
  }

  static async create(): Promise<Machine> {
    const cache = await TempCache.create();
    const wheels = await TempFolder.create();
    const [workspace, other] = [`${wheels.path}/workspace`, `${wheels.path}/other`];
    for (const path of [workspace, other]) await Deno.mkdir(path);
    return new Machine(cache, wheels, workspace, other);
  }

  /** Publishes a version of all packages. */
  async publish(version: string): Promise<void> {
    const own = `OWN: int = ${version[0]}\n`;
    const others = DATA_PACKAGES.filter((name) => name !== "openpyxl");
    await makeWheels(this.wheels.path, [
      { name: "openpyxl", version, requires: ["grass"], files: { "openpyxl.py": own } },
      { name: "grass", version },
      { name: "cow", version, requires: ["openpyxl", "grass"] },
      ...others.map((name) => ({ name, version })),
    ]);
  }

  async ipybox(args: readonly string[], { index = true, env = {} } = {}): Promise<CliEnd> {
    if (!index) return await ipybox(args, { env: { ...this.#env, ...env } });
    this.#commands ??= this.#parts.use(
      new CommandProcess({ env: { ...this.#env, PIP_FIND_LINKS: this.wheels.path } }),
    );
    return await this.#commands.run(args);
  }

  get #env(): Record<string, string> {
    return {
      ...this.cache.env,
      XDG_STATE_HOME: `${this.cache.path}/state`,
      PIP_NO_INDEX: "1",
    };
  }

  /** Runs code in a workspace, and gives what it prints. */
  async run(code: string, workspace: string): Promise<string> {
    const { stdout, stderr } = await this.ipybox(["run", "-c", code, "--workspace", workspace]);
    assertEquals(stderr, "");
    return stdout.trimEnd();
  }

  /** What a session that is kept ready would be made from now. */
  async basis(): Promise<unknown> {
    const code = `const { basisOf } = await load("src/mcp_server/http/session_basis.ts");
      return await basisOf({ workspace: ${JSON.stringify(this.other)}, session: {} });`;
    return await inOwnProcess(code, this.cache.env);
  }

  /** What is in the folder of Pythons and packages. */
  async names(): Promise<string[]> {
    const folder = Deno.readDir(`${this.cache.path}/ipybox/python`);
    return (await Array.fromAsync(folder, ({ name }) => name)).sort();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#parts.disposeAsync();
  }
}

Deno.test("ipybox setup --data installs packages for the code of all workspaces", async (t) => {
  await using machine = await Machine.create();
  const { workspace, other } = machine;
  const step = stepsOf(t);
  await machine.publish("1.0");
  let basis = await machine.basis();

  await step("and says which", async () => {
    const { code, stdout, stderr } = await machine.ipybox(["setup", "--data"]);
    assertEquals(code, 0, stderr);
    assertStringIncludes(stderr, `ipybox installs:\n  - for all workspaces`);
    assertMatch(
      stderr,
      /Installed beautifulsoup4 1\.0, .*, scipy 1\.0 and 1 package that they need/,
    );
    assertStringIncludes(stdout, "Everything is set up");
  });

  await step("once", async () => {
    const { stdout, stderr } = await machine.ipybox(["setup", "--data"], { index: false });
    assertEquals(stderr, "");
    assertStringIncludes(stdout, "Everything is in place");
    const missing = { index: false, env: { PATH: other } }; // without programs, it starts no kernel
    const doctor = await machine.ipybox(["doctor", "--json", "--workspace", workspace], missing);
    const rows: { name: string; detail: string }[] = JSON.parse(doctor.stdout).prerequisites;
    const row = rows.find(({ name }) => name === "data packages");
    assertEquals(row?.detail, DATA_PACKAGES.toSorted().join(", "));
    const before = basis;
    basis = await machine.basis();
    assertNotEquals(basis, before);
  });

  await step("which is checked with them", async () => {
    const at = ["--workspace", workspace];
    await machine.ipybox(["actions", "new", "sales.of", ...at]);
    await Deno.writeTextFile(
      `${workspace}/gentools/sales/of/impl.py`,
      "from openpyxl import OWN\n\n\ndef run(name: str) -> str:\n    return OWN\n",
    );
    const { stdout } = await machine.ipybox(["actions", "check", ...at]);
    assertStringIncludes(stdout, "expected `str`, found `int`");
  });

  await step(
    "and cannot change them, and whose own packages need no others, and come first",
    async () => {
      await machine.publish("2.0");
      const at = ["--workspace", workspace];
      const cow = await machine.ipybox(["install", "cow", ...at]);
      assertMatch(cow.stderr, /^Installed cow 2\.0 \(.+ s\)\n$/);
      const remove = await machine.ipybox(["packages", "remove", "openpyxl", ...at]);
      assertStringIncludes(remove.stderr, 'Cannot remove "openpyxl": it belongs to all workspaces');
      const newer = await machine.ipybox(["install", "openpyxl==2.0", ...at]);
      assertEquals(newer.code, 0, newer.stderr);
      assertEquals(await machine.run(VERSION, workspace), "2");
      const change = `${VERSION}\ntry: open(openpyxl.__file__, 'a')\n` +
        "except OSError as error: print(error.strerror)";
      assertEquals(await machine.run(change, other), "1\nRead-only file system");
      const { stdout } = await machine.ipybox(["packages", ...at]);
      assertMatch(stdout, /^ *cow +2\.0\n *openpyxl +2\.0\n *beautifulsoup4 +1\.0 {2}\(of all/);
      assertEquals(stdout.match(/openpyxl/g)?.length, 1);
    },
  );

  await step("and keeps them if they cannot be renewed", async () => {
    const names = await machine.names();
    const { code, stderr } = await machine.ipybox(["setup", "--data", "--rebuild"], {
      index: false,
    });
    assertEquals(code, 1);
    assertMatch(stderr, /^ {2}\| .*numpy[^]*\nipybox: numpy .* was not installed\n$/m);
    assertEquals(await machine.names(), names);
  });

  await step("or renews them as a whole", async () => {
    const { code, stderr } = await machine.ipybox(["setup", "--data", "--rebuild"]);
    assertEquals(code, 0, stderr);
    assertEquals(await machine.run(VERSION, other), "2");
    assertNotEquals(await machine.basis(), basis);
  });

  await step("but not for a Python of the user's", async () => {
    const python = await ownPython(machine.wheels.path);
    const args = ["setup", "--data", "--python", python];
    const { code, stderr } = await machine.ipybox(args);
    assertEquals(code, 3);
    assertStringIncludes(stderr, `${python} is not the managed Python\n`);
    assertStringIncludes(stderr, `${python} -m pip install numpy pandas`);
    const at = ["--workspace", other, "--json"];
    const { stdout } = await machine.ipybox(["packages", "--python", python, ...at]);
    assertEquals(JSON.parse(stdout).shared, []);
  });

  await step("until `ipybox clean --data` removes them", async () => {
    const at = ["--workspace", other];
    const common = `${machine.cache.path}/ipybox/python/common`;
    const kept = await machine.ipybox(["clean", ...at]);
    assert(!kept.stdout.includes(common), kept.stdout);
    const dry = await machine.ipybox(["clean", "--data", "--dry-run", ...at]);
    assertStringIncludes(dry.stdout, common);
    assert((await Deno.stat(common)).isDirectory);
    const { code, stdout, stderr } = await machine.ipybox(["clean", "--data", ...at]);
    assertEquals(code, 0, stderr);
    assertStringIncludes(stdout, common);
    const run = ["run", "--no-sandbox", "-c", VERSION, ...at];
    const { code: failed, stderr: error } = await machine.ipybox(run);
    assertEquals(failed, 1);
    assertStringIncludes(error, "No module named 'openpyxl'");
  });
});

/** An environment of the user's, with what kernels need. */
async function ownPython(folder: string): Promise<string> {
  const make = `
import pathlib, sys, sysconfig, venv
folder = pathlib.Path(sys.argv[1]) / "venv"
venv.create(folder, with_pip=False, symlinks=True)
site, = folder.glob("lib/python*/site-packages")
(site / "tests.pth").write_text(sysconfig.get_path("purelib"))
`;
  const { success, stderr } = await runProgram(testPython(), ["-c", make, folder]);
  assert(success, stderr);
  return `${folder}/venv/bin/python`;
}
