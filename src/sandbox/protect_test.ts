import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { TempFolder } from "../../tests/support/temp_folder.ts";
import { ConfigError } from "../base/errors.ts";
import { findProtectedPaths, makeOwnFolders } from "./protect.ts";

async function make(folder: TempFolder, ...paths: string[]): Promise<void> {
  for (const path of paths) {
    const target = `${folder.path}/${path}`;
    if (path.endsWith("/")) await Deno.mkdir(target, { recursive: true });
    else {
      await Deno.mkdir(target.slice(0, target.lastIndexOf("/")), { recursive: true });
      await Deno.writeTextFile(target, "");
    }
  }
}

Deno.test("findProtectedPaths() finds what the host or others would obey, at every depth", async () => {
  await using workspace = await TempFolder.create();
  await make(
    workspace,
    ".ipybox/",
    "mcptools/",
    ".git/hooks/",
    "CLAUDE.md",
    "a/.ipybox/",
    "a/b/.hg/",
    ".env",
    ".env.local",
    ".env.example",
    ".mcp.json",
    "a/.git/hooks/",
    "a/b/.env",
    "a/b/.venv/bin/",
    "a/mcptools/",
    "node_modules/x/.git/",
    "a/c/environment/pyvenv.cfg",
    "a/c/environment/bin/python",
    "plain.txt",
    ".git-credentials",
    "a/.dev.vars.local",
    "a/.envrc",
    "keys/id_ed25519",
    "keys/id_ed25519.pub",
    "opencode.jsonc",
    "a/AGENTS.override.md",
    ".agents/skills/",
    "a/.config/mise/",
    ".lefthook-local.yml",
    ".helix/languages.toml",
    ".Rprofile",
    "QWEN.md",
    ".cargo/credentials.toml",
    ".claude/worktrees/x/.env",
    ".claude/worktrees/x/.mcp.json",
    ".claude/worktrees/x/.venv/pyvenv.cfg",
    "a/b/.gemini/.env",
    ".gemini/.ipybox/",
    "node_modules/x/.npmrc",
  );
  const { unreadable, readOnly, otherStates } = await findProtectedPaths(workspace.path);
  const names = (paths: readonly string[]) =>
    paths.filter((path) => path.startsWith(workspace.path))
      .map((path) => path.slice(workspace.path.length + 1)).sort();
  assertEquals(names(unreadable), [
    ".cargo/credentials.toml",
    ".claude/worktrees/x/.env",
    ".env",
    ".env.local",
    ".gemini/.ipybox",
    ".git-credentials",
    ".ipybox",
    "a/.dev.vars.local",
    "a/.envrc",
    "a/.ipybox",
    "a/b/.env",
    "a/b/.gemini/.env",
    "keys/id_ed25519",
  ]);
  assertEquals(names(otherStates), ["a/.ipybox"]);
  assertEquals(names(readOnly), [
    ".Rprofile",
    ".agents",
    ".cargo",
    ".claude",
    ".gemini",
    ".git",
    ".helix",
    ".lefthook-local.yml",
    ".mcp.json",
    "CLAUDE.md",
    "QWEN.md",
    "a/.config/mise",
    "a/.git",
    "a/AGENTS.override.md",
    "a/b/.gemini",
    "a/b/.hg",
    "a/b/.venv",
    "a/c/environment",
    "mcptools",
    "node_modules",
    "opencode.jsonc",
  ]);
});

Deno.test("findProtectedPaths() protects what a link leads to, and the folder that holds the link", async () => {
  await using workspace = await TempFolder.create();
  await make(workspace, "a/", "secrets/local", "shared/tools/", "b/c/");
  const link = (target: string, name: string) => Deno.symlink(target, `${workspace.path}/${name}`);
  await link("../secrets/local", "a/.env.local");
  await link("../../shared/tools", "b/c/.vscode");
  await link("/etc", "b/.git");
  await link("/etc", "plain");
  const { unreadable, readOnly } = await findProtectedPaths(workspace.path);
  const names = (paths: readonly string[]) =>
    paths.flatMap((path) => path.split(`${workspace.path}/`)[1] ?? []).sort();
  assertEquals(names(unreadable), ["secrets/local"]);
  assertEquals(names(readOnly), ["a", "b", "b/c", "shared/tools"]);
});

Deno.test("findProtectedPaths() refuses a link of the workspace's own, which nothing can protect", async () => {
  for (const name of [".git", ".venv", ".mcp.json", ".env.local", "node_modules", "CLAUDE.md"]) {
    await using workspace = await TempFolder.create();
    await Deno.symlink("elsewhere", `${workspace.path}/${name}`);
    await assertRejects(
      () => findProtectedPaths(workspace.path),
      ConfigError,
      `${name} is a symbolic link`,
    );
  }
  await using environment = await TempFolder.create();
  await make(environment, "pyvenv.cfg", "lib/");
  await Deno.symlink("lib", `${environment.path}/lib64`);
  await assertRejects(() => findProtectedPaths(environment.path), ConfigError, "lib64 is a symbol");
});

Deno.test("findProtectedPaths() refuses names that are no text, and takes those that look like it", async () => {
  await using workspace = await TempFolder.create();
  await make(workspace, "a/\ufffd/.env");
  const { unreadable } = await findProtectedPaths(workspace.path);
  assertEquals(unreadable, [`${workspace.path}/a/\ufffd/.env`]);

  // The real one stands for the other as well, as Deno spells them the same.
  const python = `import os, sys; os.makedirs(os.fsencode(sys.argv[1]) + b"/a/\\xff")`;
  const mkdir = new Deno.Command("/usr/bin/python3", { args: ["-c", python, workspace.path] });
  assert((await mkdir.output()).success);
  const refused = () =>
    assertRejects(
      () => findProtectedPaths(workspace.path),
      ConfigError,
      `${workspace.path}/a/\\x??: its name is not UTF-8`,
    );
  await refused();
  await Deno.remove(`${workspace.path}/a/\ufffd`, { recursive: true });
  await refused();
});

Deno.test("findProtectedPaths() protects what is run of a workspace that is an environment", async () => {
  await using workspace = await TempFolder.create();
  await make(workspace, "pyvenv.cfg", "bin/python", "lib/x.py", "data/a.txt");
  const { readOnly } = await findProtectedPaths(workspace.path);
  const names = readOnly.flatMap((path) => path.split(`${workspace.path}/`)[1] ?? []);
  assertEquals(names.sort(), ["bin", "lib", "pyvenv.cfg"]);
});

Deno.test("findProtectedPaths() refuses a workspace that it cannot look through", async () => {
  await using workspace = await TempFolder.create();
  await make(workspace, ...Array.from({ length: 20 }, (_, i) => `folder/file${i}`));
  await assertRejects(
    () => findProtectedPaths(workspace.path, { maxEntries: 10 }),
    ConfigError,
    "more than 10 files and folders",
  );
});

Deno.test("findProtectedPaths() stops where there is more to protect than a sandbox could", async () => {
  await using workspace = await TempFolder.create();
  await make(workspace, ".env.0");
  for (let i = 1; i < 4000; i++) {
    await Deno.link(`${workspace.path}/.env.0`, `${workspace.path}/.env.${i}`);
  }
  const { message } = await assertRejects(() => findProtectedPaths(workspace.path), ConfigError);
  const [count = 0] = /\d+(?= files and folders in)/.exec(message)?.map(Number) ?? [];
  assert(count > 2000 && count < 3000, message);
});

Deno.test("findProtectedPaths() finds the host's own folders however full code made the workspace", async () => {
  await using workspace = await TempFolder.create();
  await make(workspace, ...Array.from({ length: 30 }, (_, i) => `file${i}`));
  await makeOwnFolders(workspace.path);
  const { unreadable, readOnly } = await findProtectedPaths(workspace.path, { maxEntries: 1 });
  assertEquals(unreadable, [`${workspace.path}/.ipybox`]);
  assert(readOnly.includes(`${workspace.path}/mcptools`));
});

Deno.test("makeOwnFolders() makes the host's folders, and accepts nothing else in their place", async () => {
  await using workspace = await TempFolder.create();
  await makeOwnFolders(workspace.path);
  await makeOwnFolders(workspace.path);
  const mode = (await Deno.stat(`${workspace.path}/.ipybox`)).mode ?? 0;
  assertEquals(mode & 0o777, 0o700);

  await Deno.remove(`${workspace.path}/mcptools`);
  await Deno.symlink("/tmp", `${workspace.path}/mcptools`);
  await assertRejects(() => makeOwnFolders(workspace.path), ConfigError, "symbolic link");
  const error = await assertRejects(() => makeOwnFolders("/proc"), ConfigError);
  assertMatch(
    error.message,
    /^Workspace "\/proc" cannot be written to: .+: mkdir '\/proc\/\.ipybox'$/,
  );
});
