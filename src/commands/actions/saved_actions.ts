/**
 * Code actions that were saved as tools, in `gentools/<category>/<name>/`.
 *
 * Executed code can write there, so nothing of it is run outside the sandbox, and links are not
 * followed.
 *
 * @module
 */
import { join } from "node:path";
import { z } from "zod";
import { isPlainFolder, readHostileFile } from "../../files/safe.ts";
import type { Output } from "../../kernel/outputs.ts";

/** A saved code action. */
export interface SavedAction {
  /** Category and name, such as `github.commits_of_top_repos`. */
  readonly name: string;
  /** The first line of its interface's documentation; empty where there is none. */
  readonly summary: string;
}

/** The folder of all saved actions in a workspace. */
const ROOT = "gentools";
/** Names become paths and modules, so only these are looked at. */
const NAME = /^[A-Za-z][A-Za-z0-9_]{0,99}$/;
/** Where a summary must end: what follows may be anything. */
const MAX_HEAD = 4096;
/** Lists a workspace's saved actions. */
export async function listActions(workspace: string): Promise<SavedAction[]> {
  const root = join(workspace, ROOT);
  const actions: SavedAction[] = [];
  for (const category of await foldersIn(root)) {
    for (const name of await foldersIn(join(root, category))) {
      const api = await readHostileFile(join(root, category, name, "api.py"));
      if (api === undefined) continue;
      actions.push({ name: `${category}.${name}`, summary: summaryIn(api.slice(0, MAX_HEAD)) });
    }
  }
  return actions;
}

/** The first line of the text that a module begins with, after comments. */
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
  let folder = join(workspace, ROOT);
  for (const step of [category, action]) {
    if (!await isPlainFolder(folder)) return undefined;
    folder = join(folder, step);
  }
  if (!await isPlainFolder(folder)) return undefined;
  return await readHostileFile(join(folder, `${part}.py`));
}

async function foldersIn(folder: string): Promise<string[]> {
  if (!await isPlainFolder(folder)) return [];
  const entries = await Array.fromAsync(Deno.readDir(folder));
  return entries.filter(({ isDirectory, name }) => isDirectory && NAME.test(name))
    .map(({ name }) => name)
    .sort();
}

// The code that works with saved actions in a kernel, and what comes back.

const MIME_TYPE = "application/vnd.ipybox.actions+json";

/** The code that checks saved actions. */
export function checkCode(names: readonly string[]): string {
  return call(`check(${literal(names)})`);
}

/** The arguments of an action, by parameter. */
export interface ActionArguments {
  /** Values from JSON. */
  readonly values: Readonly<Record<string, unknown>>;
  /** What was typed for other parameters; their types say what it means. */
  readonly texts: Readonly<Record<string, string>>;
}

/** The code that runs a saved action. */
export function runCode(name: string, { values, texts }: ActionArguments): string {
  return call(`run(${JSON.stringify(name)}, ${literal(values)}, ${literal(texts)})`);
}

/** Reads what is wrong with each action. */
export function checkedIn(outputs: readonly Output[]): Record<string, string[]> | undefined {
  return problems.safeParse(told(outputs)).data;
}

/** Reads an action's result. */
export function resultIn(outputs: readonly Output[]): unknown {
  return outcome.safeParse(told(outputs)).data?.result;
}

const problems = z.record(z.string(), z.array(z.string()));
const outcome = z.object({ result: z.unknown() });

/** An expression, so that the user's namespace stays as it is. */
function call(expression: string): string {
  return `__import__("ipybox_runtime.actions").actions.${expression};`;
}

/** A value as a Python expression. A JSON text in quotes is a Python text in quotes, too. */
function literal(value: unknown): string {
  return `__import__("json").loads(${JSON.stringify(JSON.stringify(value))})`;
}

function told(outputs: readonly Output[]): unknown {
  const last = outputs.findLast((output) =>
    output.type === "display_data" && MIME_TYPE in output.data
  );
  return last?.type === "display_data" ? last.data[MIME_TYPE] : undefined;
}
