/**
 * Attacks on a sandbox while it is made: code of a session puts a link in the place of what the next
 * sandbox of its workspace is about to mount.
 */
import {
  assert,
  assertEquals,
  assertMatch,
  assertNotEquals,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import { SandboxUnavailableError } from "../../src/base/errors.ts";
import { silentLogger } from "../../src/base/log.ts";
import { namedProgram } from "../../src/process/program.ts";
import { prepareSandbox, protectWorkspace } from "../../src/sandbox/sandbox.ts";
import { sandboxServer } from "../../src/sandbox/servers.ts";
import { TestExecutor } from "../support/executor.ts";
import { runProgram } from "../support/program.ts";
import { testIf } from "../support/skip.ts";
import { TempFolder } from "../support/temp_folder.ts";

const linux = Deno.build.os === "linux";
const whyNot = "elsewhere a sandbox is rules about paths, and mounts nothing";

/** A workspace beside a folder of the host's, and what a sandbox needs. */
class Place implements AsyncDisposable {
  readonly belongings = new AsyncDisposableStack();
  readonly workspace: string;
  readonly secret: string;

  private constructor(readonly root: TempFolder) {
    this.workspace = `${root.path}/workspace`;
    this.secret = `${root.path}/secret`;
  }

  static async create(): Promise<Place> {
    const place = new Place(await TempFolder.create());
    for (const folder of ["workspace", "secret", "session", "host", "own"]) {
      await Deno.mkdir(`${place.root.path}/${folder}`);
    }
    await Deno.writeTextFile(`${place.secret}/key`, "of the host");
    return place;
  }

  /** Has a link take the place of a folder when `srt` has looked, and `bwrap` is about to mount it. */
  async swap(name: string, target: string): Promise<void> {
    const outer = `${this.root.path}/host/wall/outer`;
    const [first, ...rest] = (await Deno.readTextFile(outer)).split("\n");
    const path = `${this.workspace}/${name}`;
    // srt also runs it to see whether it works.
    const swap = `case " $* " in *" ${path} "*) ` +
      `mv '${path}' '${this.workspace}/moved' && ln -s '${target}' '${path}' ;; esac`;
    await Deno.writeTextFile(outer, [first, swap, ...rest].join("\n"));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.belongings.disposeAsync();
    await this.root[Symbol.asyncDispose]();
  }
}

interface Program {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Record<string, string>;
}

/** Runs what a sandbox is started with. */
async function run({ command, args, env }: Program, cwd = "/") {
  const signal = AbortSignal.timeout(60_000);
  return await runProgram(command, args, { env, clearEnv: true, cwd, signal });
}

const log = silentLogger;
const { signal } = new AbortController();
const PATH = "/usr/bin:/bin";

function kernelSandbox({ root, workspace, belongings }: Place, script: string) {
  const folders = {
    session: `${root.path}/session`,
    hostPrivate: `${root.path}/host`,
    workspace,
  };
  const contents = { command: ["/bin/sh", "-c", script], readOnly: [], readable: [] };
  return prepareSandbox(folders, contents, { log, signal, path: PATH, belongings });
}

function serverSandbox(place: Place, args: string[], options: { openReads?: boolean } = {}) {
  const { root, workspace, belongings } = place;
  const program = {
    command: namedProgram("/bin/sh"),
    args,
    env: { PATH },
    cwd: `${root.path}/own`,
  };
  return sandboxServer(program, {
    folder: `${root.path}/own`,
    hostPrivate: `${root.path}/host`,
    workspace,
    settings: `${root.path}/settings.json`,
    ...options,
    belongings,
    log,
    signal,
  });
}

for (const target of ["../.ipybox", "../../secret"]) {
  testIf(linux, whyNot, {
    name: `a link to ${target} in the place of a protected folder shows nothing`,
    fn: async () => {
      await using place = await Place.create();
      const { workspace } = place;
      await Deno.mkdir(`${workspace}/sub/.git`, { recursive: true });
      await Deno.mkdir(`${workspace}/.ipybox`);
      await Deno.writeTextFile(`${workspace}/.ipybox/consents.json`, "of the host");
      const sandbox = await kernelSandbox(
        place,
        `cat ${workspace}/.ipybox/* ${workspace}/sub/.git/* ${place.secret}/*; echo ran`,
      );
      await place.swap("sub/.git", target);
      const { code, stdout, stderr } = await run(sandbox, `${place.root.path}/session`);
      assertEquals(stdout, "");
      assertNotEquals(code, 0);
      assertMatch(stderr, /nothing was started: |Can't bind mount/);
    },
  });
}

for (const openReads of [false, true]) {
  const filesystems = [{}, { allowWrite: ["data"] }];
  for (const filesystem of filesystems) {
    const what = `${openReads ? "that reads all " : ""}with ${JSON.stringify(filesystem)}`;
    testIf(linux, whyNot, {
      name: `a link in the place of a server's folder leads it nowhere, ${what}`,
      fn: async () => {
        await using place = await Place.create();
        const { workspace, root, secret } = place;
        await Deno.mkdir(`${workspace}/data`);
        const denyRead = openReads ? [secret] : [];
        await Deno.writeTextFile(
          `${root.path}/settings.json`,
          JSON.stringify({ filesystem: { ...filesystem, denyRead } }),
        );
        const script = `cat "$0"/key; echo planted >"$0"/planted; echo ran`;
        const server = await serverSandbox(place, ["-c", script, `${workspace}/data`], {
          openReads,
        });
        await place.swap("data", secret);
        const { stdout } = await run(server, server.cwd);
        assert(!stdout.includes("of the host"), stdout);
        assertEquals(await names(secret), ["key"]);
      },
    });
  }
}

testIf(linux, whyNot, {
  name: "what settings name outside of the workspace may be behind links, whatever the names",
  fn: async () => {
    await using place = await Place.create();
    const { root } = place;
    const target = `${root.path}/My \\ Drive`;
    await Deno.mkdir(target);
    await Deno.writeTextFile(`${target}/file`, "seen\n");
    const links = [`${root.path}/link`, `${root.path}/a \tlink`];
    for (const link of links) await Deno.symlink(target, link);
    await Deno.writeTextFile(
      `${root.path}/settings.json`,
      JSON.stringify({ filesystem: { allowRead: links } }),
    );
    const script = `cat ${links.map((link) => `'${link}/file'`).join(" ")}`;
    const server = await serverSandbox(place, ["-c", script]); // with arguments it would show what they lead to
    const { stdout, stderr } = await run(server, server.cwd);
    assertEquals(stdout, "seen\nseen\n", stderr);
  },
});

for (const openReads of [false, true]) {
  testIf(linux, whyNot, {
    name: `a server that ${openReads ? "reads all and " : ""}may write keeps no secret in sight`,
    fn: async () => {
      await using place = await Place.create();
      const { root, workspace } = place;
      await Deno.writeTextFile(`${workspace}/.env`, "SECRET=1\n");
      const settings = { filesystem: { allowWrite: ["."] } };
      await Deno.writeTextFile(`${root.path}/settings.json`, JSON.stringify(settings));
      await serverSandbox(place, ["-c", "true"], { openReads }); // it counts as running from here on
      await Deno.remove(`${root.path}/host`, { recursive: true });
      await Deno.mkdir(`${root.path}/host`);
      const sandbox = await kernelSandbox(place, `cat ${workspace}/.env; echo ran`);
      const { stdout } = await run(sandbox, `${root.path}/session`);
      assertEquals(stdout, "ran\n");
    },
  });
}

testIf(linux, whyNot, {
  name: "nothing is mounted on what appeared while a session runs, until all of them have ended",
  fn: async () => {
    await using workspace = await TempFolder.create();
    await Deno.mkdir(`${workspace.path}/sub`);
    await Deno.writeTextFile(`${workspace.path}/sub/.env`, "OLD=1");
    const options = { workspace: workspace.path };
    const look = `
import os
for name in ("sub/.env", "sub/.env.local", "sub/.git/config"):
    try:
        open(name, "r+").close(); print(name, "open")
    except OSError as error:
        print(name, type(error).__name__)
print([line.split()[4] for line in open("/proc/self/mountinfo") if "/sub/" in line.split()[4]])`;
    {
      await using first = await TestExecutor.start(options);
      await first.executor.execute("1");
      await Deno.writeTextFile(`${workspace.path}/sub/.env.local`, "NEW=1");
      await Deno.mkdir(`${workspace.path}/sub/.git`);
      await Deno.writeTextFile(`${workspace.path}/sub/.git/config`, "");
      const lines: string[] = [];
      const log = { ...silentLogger, warn: (line: string) => void lines.push(line) };
      await using second = await TestExecutor.start({ ...options, log });
      const text = (await second.executor.execute(look)).text ?? "";
      assertStringIncludes(text, "sub/.env.local open\nsub/.git/config open");
      assertMatch(text, /^sub\/\.env \w+Error$/m);
      assert(!/sub\/\.(git|env\.local)'/.test(text), text);
      assertMatch(lines.join("\n"), /Code can read .*\/sub\/\.env\.local: files that appear while/);
    }
    await using third = await TestExecutor.start(options);
    const text = (await third.executor.execute(look)).text ?? "";
    assert(!text.includes("open"), text);
  },
});

async function names(folder: string): Promise<string[]> {
  return (await Array.fromAsync(Deno.readDir(folder), ({ name }) => name)).sort();
}

testIf(linux, whyNot, {
  name: "an engine mounts nothing that code of another session could replace",
  fn: async () => {
    await using place = await Place.create();
    const { root, workspace, belongings } = place;
    const protect = () =>
      protectWorkspace(workspace, {
        ...{ log, belongings, nestedWorkspace: true, hostPrivate: `${root.path}/host` },
        sandbox: { readOnly: [`${workspace}/settings.json`] },
      });
    await Deno.mkdir(`${workspace}/before/.ipybox`, { recursive: true });
    await protect(); // what is there before any code runs
    await protect();
    await Deno.mkdir(`${workspace}/x/.ipybox`, { recursive: true });
    const error = await assertRejects(protect, SandboxUnavailableError, "/x/.ipybox");
    assertStringIncludes(error.fix, "End the sessions");
    await Deno.remove(`${workspace}/x`, { recursive: true });
    await Deno.writeTextFile(`${workspace}/settings.json`, "{}");
    await assertRejects(protect, SandboxUnavailableError, "/settings.json");
  },
});
