/**
 * Code actions that were saved as tools in `gentools/<category>/<name>/`.
 *
 * Executed code can write there, so nothing there runs outside the sandbox, and links are not followed.
 *
 * @module
 */
import { join } from "node:path";
import { asset, type AssetPath } from "../assets/mod.ts";
import { ConfigError } from "../base/errors.ts";
import { PinnedFolder } from "../files/pinned_folder.ts";
import { isPlainFolder, readInside } from "../files/safe.ts";
import { KEYWORDS } from "./names.ts";
import type { IndexedTool } from "./search.ts";

export interface SavedAction {
  /** Category and name, such as `github.commits_of_top_repos`. */
  readonly name: string;
  /** The first line of its docstring; empty without one. */
  readonly summary: string;
}

/** The folder of all saved actions in a workspace, and the package that code imports them from. */
export const ACTIONS = "gentools";
/** Valid names: they become paths and modules. */
const NAME = /^[A-Za-z][A-Za-z0-9_]{0,99}$/;
/** How much of a file is searched for the summary, in bytes. */
const MAX_HEAD = 4096;
/** Limits on the number of actions and the size of their files, as code can write anything. */
const MAX_ACTIONS = 1000;
const MAX_API_BYTES = 65_536;
const MAX_SOURCE_BYTES = 4 * 2 ** 20;

/** Lists a workspace's saved actions. */
export async function listActions(workspace: string): Promise<SavedAction[]> {
  const root = join(workspace, ACTIONS);
  const actions: SavedAction[] = [];
  let looks = 0; // also at folders without an action
  for (const category of await foldersIn(root)) {
    for (const name of await foldersIn(join(root, category))) {
      if (looks++ === MAX_ACTIONS) return actions;
      const parts = [ACTIONS, category, name, "api.py"];
      const api = await readInside(workspace, parts, MAX_API_BYTES);
      if (api === undefined) continue;
      const head = new TextDecoder().decode(api.subarray(0, MAX_HEAD));
      actions.push({ name: `${category}.${name}`, summary: summaryIn(head) });
    }
  }
  return actions;
}

/** Lists saved actions as if they were tools of a server, to be searched with those. Their modules have a dot. */
export async function actionTools(workspace: string): Promise<readonly IndexedTool[]> {
  return (await listActions(workspace)).map(({ name, summary }) => ({
    server: ACTIONS,
    name,
    module: name,
    description: summary,
    annotations: {},
    definition: new Map(),
  }));
}

/** The first line of a module's docstring. */
function summaryIn(api: string): string {
  let rest = api.trimStart();
  while (rest.startsWith("#")) {
    const end = rest.indexOf("\n");
    rest = end === -1 ? "" : rest.slice(end).trimStart();
  }
  const [opening, quotes] = /^[rR]?("""|''')/.exec(rest) ?? [];
  if (opening === undefined || quotes === undefined) return "";
  const text = rest.slice(opening.length).trimStart();
  const ends = [text.indexOf(quotes), text.indexOf("\n")].filter((at) => at !== -1);
  return ends.length === 0 ? "" : text.slice(0, Math.min(...ends)).trimEnd();
}

/** Reads a saved action's source. */
export async function readAction(
  workspace: string,
  name: string,
  part: "api" | "impl",
): Promise<string | undefined> {
  const [category = "", action = "", ...more] = name.split(".");
  if (more.length > 0 || !NAME.test(category) || !NAME.test(action)) return undefined;
  const source = await readInside(
    workspace,
    [ACTIONS, category, action, `${part}.py`],
    MAX_SOURCE_BYTES,
  );
  return source && new TextDecoder().decode(source);
}

/** The files of an action, and their initial contents. */
const SKELETON = {
  "api.py": "action/api.py",
  "impl.py": "action/impl.py",
  "__init__.py": "action/__init__.py",
} satisfies Record<string, AssetPath>;

/**
 * Creates a working action to start from. Returns the paths of its files.
 *
 * @throws {TypeError} The name cannot be imported.
 * @throws {ConfigError} There is something at its path.
 */
export async function createAction(workspace: string, name: string): Promise<string[]> {
  const parts = name.split(".");
  const [category = "", action = ""] = parts;
  if (parts.length !== 2 || !parts.every((part) => NAME.test(part) && !KEYWORDS.has(part))) {
    throw new TypeError(
      `"${name}" cannot be the name of a saved action: use CATEGORY.NAME, ` +
        "each of letters, digits and underscores and not a Python keyword, such as sales.by_region",
    );
  }
  using root = PinnedFolder.open(join(workspace, ACTIONS), { mode: 0o755 });
  using group = root.child(category, { mode: 0o755 });
  for (const folder of [root, group]) await writeNew(`${folder.path}/__init__.py`, "");
  const path = `${ACTIONS}/${category}/${action}`;
  try {
    await Deno.mkdir(`${group.path}/${action}`, { mode: 0o755 });
  } catch (error) {
    if (!(error instanceof Deno.errors.AlreadyExists)) throw group.named(error);
    throw new ConfigError(`Cannot make the saved action "${name}": ${path} exists already`);
  }
  using folder = group.child(action, { create: false });
  for (const [file, from] of Object.entries(SKELETON)) {
    await writeNew(`${folder.path}/${file}`, asset(from));
  }
  return Object.keys(SKELETON).map((file) => `${path}/${file}`);
}

/** Writes a file, unless it exists. Follows no link in its place. */
async function writeNew(path: string, text: string): Promise<void> {
  try {
    await Deno.writeTextFile(path, text, { createNew: true, mode: 0o644 });
  } catch (error) {
    if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
  }
}

async function foldersIn(folder: string): Promise<string[]> {
  if (!await isPlainFolder(folder)) return [];
  const names: string[] = [];
  for await (const { isDirectory, name } of Deno.readDir(folder)) {
    if (isDirectory && NAME.test(name)) names.push(name);
    if (names.length === MAX_ACTIONS) break;
  }
  return names.sort();
}
