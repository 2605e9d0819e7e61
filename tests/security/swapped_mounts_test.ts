/**
 * Attacks on a sandbox while it is made: code of a session puts a link in the place of what the next
 * sandbox of its workspace is about to mount.
 */
import { assert, assertEquals, assertMatch, assertNotEquals } from "@std/assert";
import { silentLogger } from "../../src/base/log.ts";
import { namedProgram } from "../../src/process/program.ts";
import { effectiveLimits } from "../../src/sandbox/limits.ts";
import { prepareSandbox } from "../../src/sandbox/sandbox.ts";
import { sandboxServer } from "../../src/sandbox/servers.ts";
import { checked, hostPython } from "../../src/sandbox/wall.ts";
import { runProgram } from "../support/program.ts";
import { testIf } from "../support/skip.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { until } from "../support/wait.ts";

const linux = Deno.build.os === "linux";
const whyNot = "elsewhere a sandbox is rules about paths, and mounts nothing";

/** A workspace beside a folder of the host's, and what a sandbox needs. */
class Place implements AsyncDisposable {
  readonly workspace: string;
  readonly secret: string;

  private constructor(readonly root: TempFolder) {
    this.workspace = `${root.path}/workspace`;
    this.secret = `${root.path}/secret`;
  }

  static async create(): Promise<Place> {
    const place = new Place(await TempFolder.create());
    for (const folder of ["workspace", "secret", "session", "session/tmp", "host", "own"]) {
      await Deno.mkdir(`${place.root.path}/${folder}`);
    }
    await Deno.writeTextFile(`${place.secret}/key`, "of the host");
    return place;
  }

  /** Puts a link in the place of a folder of the workspace, or of the workspace itself. */
  async swap(name: string, target: string): Promise<void> {
    const path = `${this.workspace}/${name}`.replace(/\/$/, "");
    await Deno.rename(path, `${this.root.path}/moved`);
    await Deno.symlink(target, path);
  }

  /** Starts a sandbox, and does something when it has looked at all, and is about to mount it. */
  async run(sandbox: Program, folder: string, meanwhile: () => Promise<void>) {
    const mark = `${this.root.path}/${folder}/waits`;
    await this.insert(`open(${JSON.stringify(mark)}, "w").close()
    import time
    while os.path.exists(${JSON.stringify(mark)}):
        time.sleep(0.01)`);
    const ended = run(sandbox, `${this.root.path}/${folder}`);
    const isThere = () => Deno.stat(mark).then(() => true, () => false);
    await Promise.race([until("it is about to mount", isThere), ended]);
    await meanwhile();
    await Deno.remove(mark);
    return await ended;
  }

  /** Adds lines to what makes the inner sandbox, right before it does. */
  async insert(lines: string): Promise<void> {
    const file = `${this.root.path}/host/wall.py`;
    const [before, after, ...more] = (await Deno.readTextFile(file)).split("    os.execvpe(");
    assertEquals(more, []);
    await Deno.writeTextFile(file, `${before}    ${lines}\n    os.execvpe(${after}`);
  }

  /** Requires that nothing came of a start: no program ran, and nothing was made. */
  async requireNothing(end: Awaited<ReturnType<typeof run>>): Promise<void> {
    assertEquals(end.stdout, "");
    assertNotEquals(end.code, 0);
    assertMatch(end.stderr, /nothing was started|bwrap: Can't/);
    assertEquals(await this.root.list("secret"), ["key"]);
    const made = ["host", "moved", "own", "secret", "session", "workspace"];
    assertEquals((await this.root.list()).filter((name) => !made.includes(name)), []);
  }

  async [Symbol.asyncDispose](): Promise<void> {
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

async function kernelSandbox({ root, workspace }: Place, script: string) {
  const folders = {
    session: `${root.path}/session`,
    temporary: `${root.path}/session/tmp`,
    hostPrivate: `${root.path}/host`,
    workspace,
  };
  const python = await hostPython(workspace);
  const limits = effectiveLimits(undefined, { sandboxed: true });
  const { session: cwd, hostPrivate } = folders;
  const command = await checked(["/bin/sh", "-c", script], { python, hostPrivate, cwd });
  const contents = { command, readOnly: [], readable: [], writable: [] };
  return prepareSandbox(folders, contents, { log, signal, path: PATH, python, limits });
}

async function serverSandbox(place: Place, args: string[], options: { openReads?: boolean } = {}) {
  const { root, workspace } = place;
  const program = {
    command: namedProgram("/bin/sh"),
    args,
    env: { PATH },
    cwd: `${root.path}/own`,
  };
  const path = `${root.path}/settings.json`;
  return await sandboxServer(program, {
    folder: `${root.path}/own`,
    hostPrivate: `${root.path}/host`,
    workspace,
    settings: { path, text: await Deno.readTextFile(path) },
    ...options,
    log,
    signal,
  });
}

/** What a sandbox mounts in a workspace: a part of it, and the folder that can be exchanged. */
const MOUNTED = [
  ["sub/.env", "sub", ["../.ipybox", "../secret", "../../etc"]], // hidden, and the folder is kept in its place
  ["mcptools", "mcptools", ["../secret"]], // read-only
  [".git/hooks", ".git/hooks", ["../../secret"]],
] as const;

for (const [path, folder, targets] of MOUNTED) {
  for (const target of targets) {
    testIf(linux, whyNot, {
      name: `a link to ${target} in the place of ${folder} shows nothing, where ${path} is mounted`,
      fn: async () => {
        await using place = await Place.create();
        const { workspace, secret } = place;
        await Deno.mkdir(`${workspace}/${path.slice(0, path.lastIndexOf("/"))}`, {
          recursive: true,
        });
        if (path.endsWith(".env")) await Deno.writeTextFile(`${workspace}/${path}`, "SECRET=1");
        else await Deno.mkdir(`${workspace}/${path}`, { recursive: true });
        await Deno.mkdir(`${workspace}/.ipybox`);
        await Deno.writeTextFile(`${workspace}/.ipybox/mcp.json`, "of the host");
        const script = `cat ${workspace}/.ipybox/* ${workspace}/${folder}/* ${secret}/*; echo ran`;
        const sandbox = await kernelSandbox(place, script);
        const end = await place.run(sandbox, "session", () => place.swap(folder, target));
        await place.requireNothing(end);
      },
    });
  }
}

testIf(linux, whyNot, {
  name:
    "a folder of the host that was mounted in the place of a part of the workspace is not shown",
  fn: async () => {
    await using place = await Place.create();
    const { workspace, secret } = place;
    const sandbox = await kernelSandbox(place, `cat ${workspace}/mcptools/key; echo ran`);
    // As if the system, in one call, had followed a link in one of two paths that are the same.
    await place.insert(`at = argv.index(${JSON.stringify(`${workspace}/mcptools`)})
    argv[at] = ${JSON.stringify(secret)}`);
    const { stdout, stderr } = await run(sandbox, `${place.root.path}/session`);
    assertEquals(stdout, "");
    assertMatch(stderr, /nothing was started: .*\/mcptools shows something else/);
  },
});

testIf(linux, whyNot, {
  name: "a folder that code closes after it was searched keeps no secret of it in sight",
  fn: async () => {
    await using place = await Place.create();
    const { workspace, root } = place;
    await Deno.mkdir(`${workspace}/sub`);
    await Deno.writeTextFile(`${workspace}/sub/.env`, "SECRET=1");
    const script = `chmod 700 ${workspace}/sub; cat ${workspace}/sub/.env; echo ran`;
    const sandbox = await kernelSandbox(place, script);
    await Deno.chmod(`${workspace}/sub`, 0);
    const end = await run(sandbox, `${root.path}/session`);
    await Deno.chmod(`${workspace}/sub`, 0o700);
    assertEquals(end.stdout, "");
    assertMatch(end.stderr, /sub\/\.env cannot be kept from code/);
  },
});

testIf(linux, whyNot, {
  name: "a link in the place of a repository that was found to be a worktree's shows nothing",
  fn: async () => {
    await using place = await Place.create();
    const { workspace, root, secret } = place;
    const own = `${root.path}/own/main.git`;
    await Deno.mkdir(`${own}/worktrees/tree`, { recursive: true });
    await Deno.writeTextFile(`${own}/worktrees/tree/gitdir`, `${workspace}/.git\n`);
    await Deno.writeTextFile(`${workspace}/.git`, `gitdir: ${own}/worktrees/tree\n`);
    const sandbox = await kernelSandbox(place, `ls ${own}; echo ran`);
    await Deno.rename(own, `${root.path}/moved`);
    await Deno.symlink(secret, own);
    await Deno.mkdir(`${secret}/worktrees/tree`, { recursive: true });
    const end = await run(sandbox, `${root.path}/session`);
    assertEquals(end.stdout, "");
    assertMatch(end.stderr, /main\.git in .* is a link, and code could have put it there/);
  },
});

for (const access of ["allowRead", "allowWrite"]) {
  testIf(linux, whyNot, {
    name: `a server that may ${access} a folder of the workspace is given no other one by a link`,
    fn: async () => {
      await using place = await Place.create();
      const { workspace, root, secret } = place;
      await Deno.symlink("../secret", `${workspace}/data`);
      const settings = { filesystem: { [access]: ["data"] } };
      await Deno.writeTextFile(`${root.path}/settings.json`, JSON.stringify(settings));
      const script = `cat ${workspace}/data/key; echo >${workspace}/data/planted; echo ran`;
      const server = await serverSandbox(place, ["-c", script]);
      const { stdout, stderr } = await run(server, server.cwd);
      assertEquals(stdout, "");
      assertMatch(stderr, /data in .*\/data is a link, and code could have put it there/);
      assertEquals(await root.list("secret"), ["key"]);
      assertEquals(await Deno.readTextFile(`${secret}/key`), "of the host");
    },
  });
}

for (const when of ["before its sandbox is made", "while it is made"]) {
  testIf(linux, whyNot, {
    name: `a link in the place of the workspace shows nothing, put there ${when}`,
    fn: async () => {
      await using place = await Place.create();
      const { workspace, secret } = place;
      const sandbox = await kernelSandbox(
        place,
        `cat ${workspace}/key ${secret}/key; echo >${workspace}/planted; echo ran`,
      );
      const swap = () => place.swap("", secret);
      if (when === "while it is made") {
        // What has been mounted around it stays, and is the workspace's folder.
        const { stdout } = await place.run(sandbox, "session", swap);
        assert(!stdout.includes("of the host"), stdout);
        assertEquals(await place.root.list("secret"), ["key"]);
      } else {
        await swap();
        await place.requireNothing(await run(sandbox, `${place.root.path}/session`));
      }
    },
  });
}

for (const openReads of [false, true]) {
  testIf(linux, whyNot, {
    name: `a link in the place of a server's folder leads ${
      openReads ? "one that reads all" : "it"
    } nowhere`,
    fn: async () => {
      await using place = await Place.create();
      const { workspace, root, secret } = place;
      await Deno.mkdir(`${workspace}/data`);
      const denyRead = openReads ? [secret] : [];
      await Deno.writeTextFile(
        `${root.path}/settings.json`,
        JSON.stringify({ filesystem: { allowWrite: ["data"], denyRead } }),
      );
      const script = `cat "$0"/key; echo planted >"$0"/planted; echo ran`;
      const server = await serverSandbox(place, ["-c", script, `${workspace}/data`], { openReads });
      const { stdout } = await place.run(server, "own", () => place.swap("data", secret));
      assert(!stdout.includes("of the host"), stdout);
      assertEquals(await place.root.list("secret"), ["key"]);
    },
  });
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
