/** What code could do to the machine that a placement leads to, by the folder that it works in there. */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { dirname } from "node:path";
import { ConfigError } from "../../src/base/errors.ts";
import { TestExecutor } from "../support/executor.ts";
import { rawServer } from "../support/mcp.ts";
import { testPython } from "../support/python.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { rejection, until } from "../support/wait.ts";

function walled(workspace: string, ...variables: readonly string[]) {
  const command = ["/usr/bin/env", ...variables];
  return { type: "command", command, bubblewrap: true, workspace } as const;
}

async function refusal(
  workspace: string,
  { python, home }: { readonly python?: string; readonly home?: string } = {},
): Promise<string> {
  const placement = walled(workspace, ...(home === undefined ? [] : [`HOME=${home}`]));
  const options = { placement, ...(python && { python }) };
  const error = await rejection(TestExecutor.start(options));
  assert(error instanceof Error);
  return Deno.inspect(error);
}

Deno.test("code cannot have another session work in a folder that a link leads to", async () => {
  await using far = await TempFolder.create();
  await using other = await TempFolder.create();
  await Deno.mkdir(`${far.path}/project`);
  {
    await using outer = await TestExecutor.start({ placement: walled(far.path) });
    await outer.executor.execute(
      `import os; os.rename("project", "old"); os.symlink("${other.path}", "project")`,
    );
  }
  for (const inner of ["project", "project/sub"]) {
    assertMatch(await refusal(`${far.path}/${inner}`), /project in .* is a link or a file/);
  }
  assertEquals(await Array.fromAsync(Deno.readDir(other.path)), []);
});

Deno.test("code cannot replace the Python that starts the next session there", async () => {
  await using far = await TempFolder.create();
  await using tools = await TempFolder.create();
  const real = `${far.path}/venv/bin/python`;
  await Deno.mkdir(`${far.path}/venv/bin`, { recursive: true });
  await Deno.writeTextFile(`${far.path}/venv/pyvenv.cfg`, "home = /usr/bin\n");
  await Deno.symlink(testPython(), real);
  const error = await rejection(
    TestExecutor.start({ placement: walled(far.path), python: real }),
  );
  assert(error instanceof ConfigError, `${error}`);
  assertStringIncludes(error.message, `Cannot use ${real}`);

  // The same by a path that does not show it.
  const python = testPython();
  const environment = python.slice(0, python.lastIndexOf("/bin/"));
  await Deno.symlink(environment, `${tools.path}/environment`);
  const hidden = { python: `${tools.path}/environment/bin/python`, home: tools.path };
  assertMatch(
    await refusal(await Deno.realPath(environment), hidden),
    /is in .*, where code could replace/,
  );
});

Deno.test("code cannot put a Python there where the next session looks for one, and sees only what it needs", async () => {
  await using far = await TempFolder.create();
  const bin = dirname(testPython());
  const workspace = `${far.path}/project`;
  const path = (...folders: readonly string[]) => `PATH=${folders.join(":")}`;
  const placement = walled(workspace, path(`${workspace}/bin`, bin));
  const error = await rejection(TestExecutor.start({ placement, python: "python3" }));
  assertMatch(
    Deno.inspect(error),
    /python3 is looked for in .*\/project\/bin, where code could put/,
  );

  // Of a home that is Python's folder, code sees only what Python needs.
  const home = await Deno.realPath(dirname(bin));
  const after = walled(workspace, `HOME=${home}`, path(bin, `${workspace}/bin`));
  const parts = ["bin", "lib", "lib64", "pyvenv.cfg"];
  const there = await Array.fromAsync(Deno.readDir(home), ({ name }) => name);
  assert(there.some((name) => !parts.includes(name)), `${there}`);
  await using started = await TestExecutor.start({ placement: after, python: "python3" });
  const code = `import os; print(*sorted(os.listdir("${home}")))`;
  const { text } = await started.executor.execute(code);
  assertEquals(text?.trim().split(" ").filter((name) => !parts.includes(name)), []);
});

Deno.test("no secret of the host or of its servers goes where code runs elsewhere", async () => {
  const secret = crypto.randomUUID();
  Deno.env.set("IPYBOX_TEST_SECRET_ELSEWHERE", `of the host ${secret}`);
  await using far = await TempFolder.create();
  const env = { KEY: `of a server ${secret}`, HOSTS: "${IPYBOX_TEST_SECRET_ELSEWHERE}" };
  await using started = await TestExecutor.start({
    placement: walled(`${far.path}/a/work`),
    kernelEnv: { GIVEN: "to code" },
    approval: "allow",
  });
  const { executor, workspace } = started;
  await Deno.writeTextFile(`${workspace}/.env`, `X=of the workspace ${secret}`);
  await executor.registerServer("raw", { ...rawServer(), env });
  const { text } = await executor.execute(`
import os, pathlib
from mcptools.raw import echo
print("said" in str(echo.run(echo.Params(text="said"))), os.environ["GIVEN"])
wanted = "${[...secret].reverse().join("")}"[::-1].encode()
found, seen = [], 0
places = ["/proc", "/tmp", "/run", "/dev/shm", os.getcwd(), os.environ["HOME"], "${far.path}"]
for place in [*places, *os.environ["PYTHONPATH"].split(":")]:
    for folder, _, names in os.walk(place):
        for name in names:
            path = pathlib.Path(folder, name)
            if place == "/proc" and name not in ("environ", "cmdline"):
                continue
            try:
                if place == "/proc" or path.is_file() and path.stat().st_size < 1_000_000:
                    seen += 1
                    if wanted in path.read_bytes():
                        found.append(str(path))
            except OSError:
                pass
print(seen > 10, found)`);
  assertEquals(text, "True to code\nTrue []");
  await executor.execute("open('made', 'w').close()"); // the folder was made, with the one above it
  assert((await Deno.stat(`${far.path}/a/work/made`)).isFile);
});

Deno.test("code elsewhere cannot write to the home directory, or to other sessions", async () => {
  await using folder = await TempFolder.create();
  const home = `${folder.path}/home`;
  await Deno.mkdir(home);
  for (const workspace of [home, folder.path, `${home}/.`, `/${home}`]) {
    assertMatch(await refusal(workspace, { home }), /contains the home directory/);
  }
  assertMatch(await refusal("/tmp"), /contains the folders of sessions/);
});

for (const durable of [false, true]) {
  const what = durable ? "a durable session" : "a session";
  Deno.test(`nothing that code of ${what} leaves there stays, however deep and closed it is`, async () => {
    const placement = { type: "command", command: ["/usr/bin/env"], bubblewrap: true } as const;
    let root = "";
    {
      await using started = await TestExecutor.start({
        placement,
        ...(durable && { durable: {} }),
      });
      const { text } = await started.executor.execute(`
import os
print(os.environ["HOME"])
os.chdir(os.environ["TMPDIR"])
os.makedirs("closed/below")
open("closed/below/file", "w").close()
os.chmod("closed", 0)
for _ in range(2100):  # deeper than any path can name
    os.mkdir("d")
    os.chdir("d")`);
      [root = ""] = /^\/tmp\/[^/\n]+/.exec(text ?? "") ?? [];
      assert(root !== "", `${text}`);
    }
    const left = async () => {
      const names = await Array.fromAsync(Deno.readDir("/tmp"), ({ name }) => `/tmp/${name}`);
      return names.filter((path) => path.startsWith(root));
    };
    await until("it is removed", async () => (await left()).length === 0);
  });
}

Deno.test("a folder that was replaced while it was mounted is refused", async () => {
  await using folder = await TempFolder.create();
  const { dev, ino } = await Deno.stat(folder.path);
  const check = new URL("../../templates/launcher/check.py", import.meta.url).pathname;
  const replaced = async (identity: unknown) => {
    const probe = { files: [], process: 1, ambiguous: true, workspace: [folder.path, identity] };
    const run = `
import json, runpy, sys
print(json.dumps(runpy.run_path(sys.argv[1])["check"](json.loads(sys.argv[2]), None)["failures"]))`;
    const { stdout } = await new Deno.Command(testPython(), {
      args: ["-I", "-S", "-c", run, check, JSON.stringify(probe)],
    }).output();
    const failures: string[] = JSON.parse(new TextDecoder().decode(stdout));
    return failures.filter((failure) => failure.includes("replaced"));
  };
  assertEquals(await replaced([dev, ino]), []);
  const [failure = ""] = await replaced([dev, (ino ?? 0) + 1]);
  assertStringIncludes(failure, "the workspace was replaced while it was mounted");
});

Deno.test("the number of a file proves nothing where code can choose it", async () => {
  await using folder = await TempFolder.create();
  const boot = new URL("../../templates/launcher/boot.py", import.meta.url).pathname;
  const { dev, ino } = await Deno.stat(folder.path);
  const kernel = await Deno.readTextFile("/proc/sys/kernel/random/boot_id");
  const run = async (last: string, ...args: readonly unknown[]) => {
    const program = `
import json, sys
with open(sys.argv[1]) as file:
    exec(file.read().removesuffix("\\nmain()\\n"))
print(${last}(*map(json.loads, sys.argv[2:])))`;
    const { stdout, stderr } = await new Deno.Command(testPython(), {
      args: ["-I", "-S", "-c", program, boot, ...args.map((arg) => JSON.stringify(arg))],
    }).output();
    return new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr);
  };
  const files = [[folder.path, (dev ?? 0) + 1, ino]];
  assertEquals(
    await run("check_mounts", { kernel, files }),
    `${folder.path} was replaced while it was mounted: try again\n`,
  );
  assertEquals(await run("check_mounts", { kernel, files: [[folder.path, dev, ino]] }), "None\n");
  assertEquals(await run("check_mounts", { kernel: "another", files }), "None\n");
  // Only of a file system that an engine mounts once more does the number count.
  assertEquals(await run("is_from_outside", folder.path, ino), "False\n");
});
