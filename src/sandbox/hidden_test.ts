import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { TempFolder } from "../../tests/support/temp_folder.ts";
import { findHidden } from "./hidden.ts";
import { hostPython } from "./wall.ts";

const isPosix = Deno.build.os !== "windows";

async function make(folder: string, ...paths: string[]): Promise<void> {
  for (const path of paths) {
    const target = `${folder}/${path}`;
    await Deno.mkdir(target.slice(0, target.lastIndexOf("/")), { recursive: true });
    if (!path.endsWith("/")) await Deno.writeTextFile(target, "");
  }
}

async function find(folder: string) {
  return await findHidden(folder, { python: await hostPython(folder) });
}

/** The hidden paths in a folder, relative to it. */
async function hiddenIn(folder: string): Promise<string[]> {
  const { paths, warning } = await find(folder);
  assertEquals(warning, undefined);
  return paths.map((path) => path.slice(folder.length + 1)).sort();
}

Deno.test("findHidden() finds secrets and ipybox's own folders, four levels deep", async () => {
  await using folder = await TempFolder.create();
  await make(
    folder.path,
    ".ipybox/mcp.json",
    "inner/project/.ipybox/",
    "a/b/c/.ipybox/",
    "a/b/c/.env",
    "a/b/c/d/.env",
    ".env",
    ".env.local",
    ".envrc",
    ".dev.vars",
    ".npmrc",
    "sub/.pypirc",
    "sub/.netrc",
    ".git-credentials",
    ".git/.git-credentials",
    ".cargo/credentials.toml",
    "keys/id_ed25519",
    "keys/id_rsa",
  );
  assertEquals(await hiddenIn(folder.path), [
    ".cargo/credentials.toml",
    ".dev.vars",
    ".env",
    ".env.local",
    ".envrc",
    ".git-credentials",
    ".git/.git-credentials",
    ".ipybox",
    ".npmrc",
    "a/b/c/.env",
    "a/b/c/.ipybox",
    "inner/project/.ipybox",
    "keys/id_ed25519",
    "keys/id_rsa",
    "sub/.netrc",
    "sub/.pypirc",
  ]);
});

Deno.test("findHidden() leaves what is no secret, and looks into no node_modules", async () => {
  await using folder = await TempFolder.create();
  await make(
    folder.path,
    ".env-example",
    ".env.example",
    ".env.sample",
    ".npmrc.template",
    ".environment",
    "keys/id_ed25519.pub",
    ".git/hooks/pre-commit",
    ".mcp.json",
    ".vscode/settings.json",
    "CLAUDE.md",
    "node_modules/x/.npmrc",
    ".venv/pyvenv.cfg",
  );
  assertEquals(await hiddenIn(folder.path), []);
  await make(folder.path, ".env/pyvenv.cfg", ".env/.env"); // an environment may have that name
  assertEquals(await hiddenIn(folder.path), [".env/.env"]);
});

Deno.test("findHidden() finds the file that a secret's link leads to, and no link", async () => {
  await using folder = await TempFolder.create();
  await using outside = await TempFolder.create();
  await make(folder.path, "config/named", "config/folder/file");
  await make(outside.path, ".env", "file");
  const links = {
    ".env": "config/named",
    ".env.outside": `${outside.path}/file`,
    ".env.nowhere": "nothing",
    ".env.loop": ".env.loop",
    ".env.folder": "config/folder",
    "plain": "config/named",
    "elsewhere": outside.path,
  };
  for (const [name, target] of Object.entries(links)) {
    await Deno.symlink(target, `${folder.path}/${name}`);
  }
  assertEquals(await hiddenIn(folder.path), ["config/named"]);
});

Deno.test({
  name: "findHidden() finds sockets, also those of git's programs",
  ignore: !isPosix,
  fn: async () => {
    await using folder = await TempFolder.create();
    await make(folder.path, "sub/", ".git/worktrees/x/", ".git/objects/", "node_modules/x/");
    const names = ["s", "sub/s", ".git/fsmonitor--daemon.ipc", ".git/worktrees/x/s"];
    const unseen = [".git/objects/s", "node_modules/x/s"]; // where nobody puts one
    const listeners = [...names, ...unseen].map((name) =>
      Deno.listen({ transport: "unix", path: `${folder.path}/${name}` })
    );
    assertEquals(await hiddenIn(folder.path), names.toSorted());
    for (const listener of listeners) listener.close();
  },
});

Deno.test("findHidden() hides 500 paths, and says how many are left", async () => {
  await using folder = await TempFolder.create();
  await make(folder.path, ".env");
  for (let i = 1; i < 503; i++) await Deno.link(`${folder.path}/.env`, `${folder.path}/.env.${i}`);
  const { paths, warning } = await find(folder.path);
  assertEquals(paths.length, 500);
  assertMatch(warning ?? "", /^Code can read 3 files with names of secrets in /);
});

Deno.test("findHidden() hides the secrets that were there first, however many code makes", async () => {
  await using folder = await TempFolder.create();
  await make(folder.path, "a/b/.env", "a/b/.npmrc");
  const changed = async (name: string) => Number((await Deno.stat(`${folder.path}/${name}`)).ctime);
  do await make(folder.path, "clock"); while (
    await changed("clock") <= await changed("a/b/.npmrc")
  );
  for (let i = 0; i < 600; i++) await Deno.writeTextFile(`${folder.path}/.env.${i}`, "");
  const { paths } = await find(folder.path);
  assertEquals(
    new Set(paths.slice(0, 2)),
    new Set(["a/b/.env", "a/b/.npmrc"].map((name) => `${folder.path}/${name}`)),
  );
});

Deno.test("findHidden() hides ipybox's own folders, however many secrets code makes", async () => {
  await using folder = await TempFolder.create();
  await make(folder.path, ".env.0");
  for (let i = 1; i < 1500; i++) {
    await Deno.link(`${folder.path}/.env.0`, `${folder.path}/.env.${i}`);
    if (i === 750) await make(folder.path, ".ipybox/", "inner/.ipybox/");
  }
  const { paths } = await find(folder.path);
  assertEquals(paths.length, 500);
  assertEquals(paths.slice(0, 2), [`${folder.path}/.ipybox`, `${folder.path}/inner/.ipybox`]);
});

Deno.test("findHidden() hides secrets, however many folders a repository has for ipybox's own", async () => {
  await using folder = await TempFolder.create();
  for (let i = 0; i < 600; i++) await make(folder.path, `fixtures/${i}/.ipybox/`);
  await make(folder.path, ".env", "app/.env", ".ipybox/");
  const { paths } = await find(folder.path);
  const shown = new Set(paths);
  for (const name of [".env", "app/.env", ".ipybox"]) assert(shown.has(`${folder.path}/${name}`));
  assertEquals(paths.length, 500);
});

Deno.test("findHidden() searches worktrees that are kept in .git", async () => {
  await using folder = await TempFolder.create();
  await make(folder.path, ".git/wt/f/.env", ".git/wt/f/.ipybox/", ".git/objects/.env");
  assertEquals(await hiddenIn(folder.path), [".git/wt/f/.env", ".git/wt/f/.ipybox"]);
});

Deno.test({
  name: "findHidden() looks into folders whose names are not UTF-8",
  ignore: Deno.build.os !== "linux", // elsewhere, all names are
  fn: async () => {
    await using folder = await TempFolder.create();
    await make(folder.path, "a/\ufffd/.env"); // that is a character, too
    const code = "import os, sys; path = os.fsencode(sys.argv[1]) + b'/a/\\xff'; os.mkdir(path); " +
      "open(path + b'/.env', 'w').close()";
    const { success } = await new Deno.Command("python3", { args: ["-c", code, folder.path] })
      .output();
    assert(success);
    // As Python spells the byte, which is how the wall gets it.
    assertEquals(await hiddenIn(folder.path), ["a/\udcff/.env", "a/\ufffd/.env"]);
  },
});

Deno.test("findHidden() takes a folder that cannot be listed as one that code cannot list either", async () => {
  await using folder = await TempFolder.create();
  assertEquals(await find(`${folder.path}/missing`), { paths: [], repository: [] });
});

Deno.test("findHidden() hides folders that their owner cannot look into, which code can open again", async () => {
  await using folder = await TempFolder.create();
  await make(folder.path, "a/unlisted/.env", "a/unfound/.env", "a/open/.env");
  await Deno.chmod(`${folder.path}/a/unlisted`, 0o311);
  await Deno.chmod(`${folder.path}/a/unfound`, 0o644);
  assertEquals(await hiddenIn(folder.path), ["a/open/.env", "a/unfound", "a/unlisted"]);
  await Deno.chmod(folder.path, 0o311);
  await assertRejects(() => find(folder.path), Error, "it cannot be listed");
  await Deno.chmod(folder.path, 0o700);
});

Deno.test("findHidden() hides what a user keeps at the top, however many secrets are older", async () => {
  await using folder = await TempFolder.create();
  for (let i = 0; i < 600; i++) await make(folder.path, `.env.${i}`);
  await make(folder.path, ".env", ".npmrc");
  const { paths } = await find(folder.path);
  assertEquals(
    new Set(paths.slice(0, 2)),
    new Set([`${folder.path}/.env`, `${folder.path}/.npmrc`]),
  );
});

Deno.test("findHidden() finds what git needs for a worktree and a submodule, if that names it, too", async () => {
  await using folder = await TempFolder.create();
  const { path } = folder;
  await make(path, "main/.git/worktrees/tree/HEAD", "main/.git/modules/sub/HEAD", "main/sub/");
  await make(
    path,
    "main/.git/HEAD",
    "main/.git/objects/",
    "main/.git/other/.env",
    "main/.git/info/",
  );
  await make(path, "tree/file", "other/.git/worktrees/tree/HEAD");
  const own = `${path}/main/.git`;
  await Deno.symlink("/etc", `${own}/refs`);
  await Deno.writeTextFile(`${own}/worktrees/tree/gitdir`, `${path}/tree/.git\n`);
  await Deno.writeTextFile(`${own}/modules/sub/config`, "[core]\n\tworktree = ../../../sub\n");
  const repositoryOf = async (tree: string, dotGit: string) => {
    await Deno.writeTextFile(`${path}/${tree}/.git`, dotGit);
    return (await find(`${path}/${tree}`)).repository;
  };
  const parts = ["HEAD", "info", "objects", "worktrees/tree"].map((name) => `${own}/${name}`);
  assertEquals(await repositoryOf("tree", `gitdir: ${own}/worktrees/tree\n`), parts);
  await make(path, "main/.git/info/.git-credentials");
  assertEquals((await find(`${path}/tree`)).paths, [`${own}/info/.git-credentials`]);
  assertEquals(
    await repositoryOf("main/sub", "gitdir: ../.git/modules/sub\n"),
    ["HEAD", "config"].map((name) => `${own}/modules/sub/${name}`),
  );
  for (
    const named of [
      "gitdir: /etc\n",
      "gitdir: ../other/.git/worktrees/tree",
      "gitdir: .",
      "",
      "gitdir: ",
    ]
      .concat(`gitdir: ${own}/modules/sub`, `gitdir: ${own}`, "gitdir: ../../.git/modules/\0")
  ) {
    assertEquals(await repositoryOf("tree", named), [], named);
  }
  await Deno.remove(`${path}/tree/.git`);
  await Deno.symlink(`${path}/main/.git`, `${path}/tree/.git`);
  assertEquals((await find(`${path}/tree`)).repository, []);
});
