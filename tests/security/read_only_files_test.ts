/** What code reads in its workspace and cannot change: what the user's programs obey, and what is named. */
import { assertEquals } from "@std/assert";
import { TestExecutor } from "../support/executor.ts";
import { filesBelow } from "../support/files.ts";
import { TempFolder } from "../support/temp_folder.ts";

/** The paths in the table of `docs/security.md`, and two of the application's choice. */
const FILES = [
  ".bash_profile",
  ".bashrc",
  ".git/config",
  ".gitconfig",
  ".gitmodules",
  ".mcp.json",
  ".profile",
  ".ripgreprc",
  ".zprofile",
  ".zshrc",
  "kept.json",
];
const FOLDERS = [
  ".claude/agents",
  ".claude/commands",
  ".git/hooks",
  ".idea",
  ".vscode",
  "mcptools",
  "rules",
];

Deno.test("code changes nothing in the workspace that programs of the user obey, or that the application names", async () => {
  await using folder = await TempFolder.create();
  const workspace = folder.path;
  for (const path of [...FOLDERS, ".claude", ".git"]) {
    await Deno.mkdir(`${workspace}/${path}`, { recursive: true });
  }
  const files = [...FILES, ...FOLDERS.map((path) => `${path}/file`)];
  for (const path of files) await Deno.writeTextFile(`${workspace}/${path}`, "the user's");
  const readOnly = ["kept.json", "rules"].map((path) => `${workspace}/${path}`);
  await using started = await TestExecutor.start({ workspace, sandbox: { readOnly } });

  const { text } = await started.executor.execute(`
import os, pathlib
changed = []
def attempt(act, path):
    try:
        act(path)
        changed.append((str(path), act.__name__))
    except OSError:
        pass
def write(path): path.write_text("code's")
def plant(path): (path / "planted").write_text("code's")
def remove(path): path.unlink()
def move(path): path.rename(f"{path}.old")
def open_up(path): path.chmod(0o777)
files = [pathlib.Path(path) for path in ${JSON.stringify(files)}]
read = {path.read_text() for path in files}
for path in files:
    for act in (write, remove, move, open_up):
        attempt(act, path)
for path in map(pathlib.Path, ${JSON.stringify([...FOLDERS, ".claude", ".git"])}):
    for act in (plant, move)[path.name in (".claude", ".git"):]:
        attempt(act, path)
pathlib.Path("own.txt").write_text("works")
print(read, changed)`);
  assertEquals(text, `{"the user's"} []`);
  const left = await filesBelow(workspace);
  assertEquals(files.filter((path) => left.get(path) !== "the user's"), []);
});
