/**
 * Writes and reads the folders of generated files, and compares them with a server's current tools. Code
 * in the sandbox can write there too, so nothing follows symbolic links.
 *
 * @module
 */
import { basename, dirname, join, resolve } from "node:path";
import { ConfigError } from "../base/errors.ts";
import { Mutex } from "../base/mutex.ts";
import { isAllGranted } from "../base/permission.ts";
import { turn } from "../base/signals.ts";
import { PinnedFolder } from "../files/pinned_folder.ts";
import {
  ifPresent,
  lstatIfPresent,
  readHostileBytes,
  readHostileFile,
  replaceFile,
} from "../files/safe.ts";
import { isRecord } from "../json/exact.ts";
import { type ObservedResults, resultsFromJson } from "../json/shape.ts";
import { parsedJson } from "../json/plain.ts";
import {
  isObject,
  type Json,
  type JsonObject,
  keyOf,
  readDefinition,
  textOf,
  toJson,
} from "./json.ts";
import { moduleNames } from "./names.ts";

/** Files by their names. */
export type Files = ReadonlyMap<string, string>;

/** How a folder is written. */
export interface WriteOptions {
  /** Merges the generated text of a file with the present one; by default, the generated one counts. */
  readonly merge?: (name: string, generated: string, present: string, old: Files) => string;
  /** Whether a present file that is no longer generated was generated before. */
  readonly isGenerated: (name: string, text: string | undefined) => boolean;
}

/** Larger files are not read, and so not compared: hardly any list of tools is larger. */
const MAX_FILE_SIZE = 4 * 2 ** 20;
/** How much of a folder is read: a repository or code may have filled it, even with sparse files. */
const MAX_FOLDER_SIZE = 64 * 2 ** 20;

const writing = new Mutex();

/** Replaces a folder as a whole. Unchanged files keep their modification time. */
export async function writeFolder(
  rootDir: string,
  name: string,
  files: Files,
  options: WriteOptions,
): Promise<void> {
  using _turn = await writing.acquire();
  using root = await openRoot(rootDir);
  const present = await readPresent(root, name, rootDir);
  const wanted = await merged(files, present, options);
  if (present !== undefined && isSame(wanted, present, options)) return;
  const staging = `.${name}-${crypto.randomUUID()}`;
  const [from, target] = [`${root.path}/${staging}`, `${root.path}/${name}`];
  try {
    using after = root.child(staging);
    await fillFolder(after.path, wanted, present).catch((error: unknown) => {
      throw after.named(error);
    });
    if (present === undefined) return await Deno.rename(from, target);
    await swap(from, target);
    using old = root.child(`${staging}-old`, { create: false });
    using now = root.child(name, { create: false });
    for (const [file, { text }] of present) {
      if (options.isGenerated(file, text)) continue;
      await moveOver(`${old.path}/${file}`, `${now.path}/${file}`);
    }
    await Deno.remove(`${root.path}/${staging}-old`, { recursive: true });
  } catch (error) {
    await Deno.remove(from, { recursive: true }).catch(() => {}); // the error says more
    throw error;
  }
}

interface PresentFile {
  /** Its text; `undefined` if it is not a plain file or too large. */
  readonly text: string | undefined;
  readonly modified: Date | null;
}

type Present = ReadonlyMap<string, PresentFile>;

async function openRoot(rootDir: string): Promise<PinnedFolder> {
  await Deno.mkdir(dirname(resolve(rootDir)), { recursive: true });
  await requireFolder(rootDir);
  return PinnedFolder.open(rootDir, { mode: 0o755 });
}

/** Reads the files in a folder; `undefined` if the folder does not exist. */
async function readPresent(
  root: PinnedFolder,
  name: string,
  rootDir: string,
): Promise<Present | undefined> {
  if (!await requireFolder(join(rootDir, name))) return undefined;
  using folder = root.child(name, { create: false });
  return await readFolder(folder.path);
}

/** Whether a folder exists. Throws if there is something else in its place. */
async function requireFolder(folder: string): Promise<boolean> {
  const info = await lstatIfPresent(folder);
  if (info === undefined || info.isDirectory) return info !== undefined;
  const kind = info.isSymlink ? "a symbolic link" : "a file";
  throw new ConfigError(`Cannot write to ${folder}: it is ${kind}. Remove it first`);
}

async function readFolder(folder: string): Promise<Present> {
  const present = new Map<string, PresentFile>();
  let room = MAX_FOLDER_SIZE;
  for await (const entry of Deno.readDir(folder)) {
    const path = `${folder}/${entry.name}`;
    const { mtime } = await Deno.lstat(path);
    const bytes = await readHostileBytes(path, Math.min(MAX_FILE_SIZE, room));
    room -= bytes?.length ?? 0;
    const text = bytes && new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
    present.set(entry.name, { text, modified: mtime });
  }
  return present;
}

async function merged(
  files: Files,
  present: Present | undefined,
  options: WriteOptions,
): Promise<Files> {
  const { merge } = options;
  if (present === undefined || merge === undefined) return files;
  const old = new Map<string, string>();
  for (const [name, { text }] of present) if (text !== undefined) old.set(name, text);
  const wanted = new Map<string, string>();
  for (const [name, generated] of files) {
    await turn();
    const text = old.get(name);
    const isNew = text === undefined || text === generated;
    wanted.set(name, isNew ? generated : merge(name, generated, text, old));
  }
  return wanted;
}

function isSame(wanted: Files, present: Present, options: WriteOptions): boolean {
  return [...wanted].every(([name, text]) => present.get(name)?.text === text) &&
    [...present].every(([name, { text }]) => wanted.has(name) || !options.isGenerated(name, text));
}

async function fillFolder(
  folder: string,
  files: Files,
  present: Present | undefined,
): Promise<void> {
  if (Deno.build.os !== "windows") await Deno.chmod(folder, 0o755);
  for (const [name, text] of files) {
    const path = `${folder}/${name}`;
    await Deno.writeTextFile(path, text, { createNew: true });
    const old = present?.get(name);
    if (old?.text === text && old.modified !== null) {
      await Deno.utime(path, old.modified, old.modified);
    }
  }
}

/** Replaces the target with the staged folder. If that fails, the target stays as it was. */
async function swap(staging: string, target: string): Promise<void> {
  const old = `${staging}-old`;
  await Deno.rename(target, old);
  try {
    await Deno.rename(staging, target);
  } catch (error) {
    await Deno.rename(old, target);
    throw error;
  }
}

/** Moves a file or folder of the user, unless something new has its name. */
async function moveOver(from: string, to: string): Promise<void> {
  const { isSymlink } = await Deno.lstat(from);
  if (!isSymlink && await lstatIfPresent(to) === undefined) await Deno.rename(from, to);
}

export interface PackageTool {
  /** Its name, as the server knows it. */
  readonly name: string;
  readonly module: string;
  /** The server's description. */
  readonly description: string;
  /** The server's boolean hints about its effects. */
  readonly annotations: Readonly<Record<string, boolean>>;
  readonly definition: JsonObject;
  /** Observed results, if it declares no output schema. */
  readonly results?: ObservedResults;
}

/** Reads the tools of a generated package from the definitions in it; `undefined` without a package. */
export async function readPackage(
  root: string,
  server: string,
): Promise<PackageTool[] | undefined> {
  const listing = await readListing(root, server);
  if (listing === undefined) return undefined;
  return toolsOf(listing);
}

/** The tools of a package, with the names of their modules. */
export function toolsOf({ tools, results }: PackageListing): PackageTool[] {
  const modules = moduleNames(tools.map(nameOf));
  return tools.map((definition) => {
    const name = nameOf(definition);
    return {
      name,
      module: modules.get(name) ?? "",
      description: textOf(definition.get("description")),
      annotations: hintsOf(definition.get("annotations")),
      definition,
      results: results.get(name),
    };
  });
}

/** Whether a tool declares an output schema. */
export function declaresResult(definition: JsonObject): boolean {
  return (definition.get("outputSchema") ?? undefined) !== undefined;
}

/** The inputs of a generated package. */
interface PackageListing {
  readonly tools: readonly JsonObject[];
  readonly serverInfo?: unknown;
  readonly instructions: string;
  /** Observed results by the tools' names. */
  readonly results: ReadonlyMap<string, ObservedResults>;
}

/** Reads the inputs of a generated package; `undefined` if it does not exist. */
export async function readListing(
  root: string,
  server: string,
): Promise<PackageListing | undefined> {
  const path = join(root, server, "schema.json");
  const text = await readHostileFile(path);
  if (text === undefined) return undefined;
  return parseListing(path, text, await readHostileFile(join(root, server, "observed.json")));
}

/** Parses the texts of a `schema.json` and an `observed.json`. */
export function parseListing(path: string, text: string, observed = "{}"): PackageListing {
  const damaged = (cause?: unknown) =>
    new ConfigError(`${path} is damaged: register the server again`, { cause });
  const raw = parsedJson(text);
  if (!isRecord(raw) || !Array.isArray(raw.tools)) throw damaged();
  const { serverInfo, instructions } = raw;
  let tools: readonly (Json | undefined)[];
  try {
    tools = raw.tools.map(toJson);
  } catch (cause) {
    throw damaged(cause);
  }
  return {
    tools: tools.map((tool) => {
      if (isObject(tool) && typeof tool.get("name") === "string") return tool;
      throw damaged();
    }),
    serverInfo,
    instructions: typeof instructions === "string" ? instructions : "",
    results: parseResults(observed),
  };
}

/** A damaged file counts as empty: calls will fill it again. */
function parseResults(text: string): Map<string, ObservedResults> {
  const json = parsedJson(text);
  const results = isRecord(json) ? Object.entries(json) : [];
  return new Map(results.map(([name, observed]) => [name, resultsFromJson(observed)]));
}

function hintsOf(annotations: Json | undefined): Record<string, boolean> {
  if (!isObject(annotations)) return {};
  return Object.fromEntries(
    [...annotations].filter((entry): entry is [string, boolean] => typeof entry[1] === "boolean"),
  );
}

function nameOf(definition: JsonObject): string {
  return textOf(definition.get("name"));
}

/** Removes a server's package; `false` if it does not exist, or it or its parent is a link. */
export async function removePackage(root: string, server: string): Promise<boolean> {
  const path = join(root, server);
  for (const folder of [root, path]) {
    if (!(await lstatIfPresent(folder))?.isDirectory) return false;
  }
  using folder = PinnedFolder.open(root, { create: false });
  await ifPresent(Deno.remove(`${folder.path}/${server}`, { recursive: true }));
  return true;
}

/** The first sentence of a description, at most 120 characters. */
export function firstSentence(description: string): string {
  const line = description.split("\n").find((line) => line.trim() !== "")?.trim() ?? "";
  const sentence = /^.{10,}?[.!?](?=\s|$)/.exec(line)?.[0] ?? line;
  return sentence.length <= 120 ? sentence : `${sentence.slice(0, 119).trimEnd()}…`;
}

// Compares packages with the current tools of servers.

/** How a server's tools differ from those that its package was generated from. */
export interface ToolDifference {
  /** Tools whose definition changed. */
  readonly changed: readonly string[];
  /** Tools that the package lacks. */
  readonly added: readonly string[];
  /** Tools that the server no longer has. */
  readonly removed: readonly string[];
}

/** Compares a server's tools with its former ones. */
export async function compareTools(
  former: readonly Json[],
  tools: readonly unknown[],
): Promise<ToolDifference> {
  const before = await byName(former);
  const now = await byName(tools);
  return {
    changed: [...now.keys()].filter((name) =>
      before.has(name) && before.get(name) !== now.get(name)
    ),
    added: [...now.keys()].filter((name) => !before.has(name)),
    removed: [...before.keys()].filter((name) => !now.has(name)),
  };
}

/** Each tool's definition as text, equal for equal definitions. The first tool of a name counts. */
async function byName(tools: readonly unknown[]): Promise<Map<string, string>> {
  const texts = new Map<string, string>();
  for (const tool of tools) {
    await turn();
    const json = readable(tool);
    const name = isObject(json) ? json.get("name") : undefined;
    if (typeof name === "string" && json !== undefined && !texts.has(name)) {
      texts.set(name, keyOf(json));
    }
  }
  return texts;
}

/** A tool as JSON; `undefined` if it is too deep or too large, so that it was not generated either. */
function readable(tool: unknown): Json | undefined {
  try {
    return readDefinition(tool);
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

// Stubs that lead editors and type checkers to the runtime: they look for imported modules beside
// `mcptools`. Python ignores stubs, and kernels have their own runtime.

const MCPTOOLS = "mcptools";
const RUNTIME = "ipybox_runtime";

/** The modules that generated code and code actions import. */
const STUBS: ReadonlyMap<string, string> = new Map([
  ["__init__.pyi", `${MCPTOOLS}.${RUNTIME}`],
  ["models.pyi", `${MCPTOOLS}.${RUNTIME}.models`],
]);

/** Whether stubs can be written safely: on Linux through `/proc/self/fd`, which Deno opens only with all permissions. */
function isPermitted(): boolean {
  if (Deno.build.os !== "linux") return true;
  return isAllGranted();
}

/** Writes the stubs beside the packages. Files that code put in their place are left alone. */
export async function writeStubs(rootDir: string): Promise<void> {
  const path = resolve(rootDir);
  if (basename(path) !== MCPTOOLS || !isPermitted()) return;
  const parent = dirname(path);
  const place = await ifPresent(Deno.lstat(join(parent, RUNTIME)));
  if (place !== undefined && !place.isDirectory) return;
  for (const [name, module] of STUBS) {
    const file = join(parent, RUNTIME, name);
    const text = `# Generated by ipybox, for editors and type checkers.\nfrom ${module} import *\n`;
    const present = await readHostileBytes(file, text.length);
    if (present !== undefined && new TextDecoder().decode(present) === text) continue;
    using folder = PinnedFolder.open(parent, { create: false });
    using runtime = folder.child(RUNTIME, { mode: 0o755 });
    await replaceFile(`${runtime.path}/${name}`, text, 0o644);
  }
}
