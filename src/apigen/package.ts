/**
 * Writes folders of generated files. Code in the sandbox can write to the same place, so nothing here
 * goes through a symbolic link.
 *
 * @module
 */
import { dirname, join } from "node:path";
import { ConfigError } from "../base/errors.ts";
import { Mutex } from "../base/mutex.ts";
import { removeFromWorkspace } from "../files/remove_tree.ts";
import { readHostileFile } from "../files/safe.ts";
import { isArray, isObject, type Json, type JsonObject, toJson } from "./json.ts";
import { moduleNames } from "./names.ts";

/** Files by their names. */
export type Files = ReadonlyMap<string, string>;

/** How a folder is written. */
export interface WriteOptions {
  /**
   * Makes the text of a file of what is generated and what is there.
   *
   * @default The generated text.
   */
  readonly merge?: (name: string, generated: string, present: string, old: Files) => string;
  /** Whether a file that is there and not generated any more was generated before. */
  readonly isGenerated: (name: string, text: string | undefined) => boolean;
}

/** Files larger than this were not generated, and are not read. */
const MAX_FILE_SIZE = 32 * 1024 * 1024;

const writing = new Mutex();

/**
 * Replaces a folder as a whole. If it already holds just that, nothing is written; files that stay the
 * same keep their time of change.
 */
export async function writeFolder(
  rootDir: string,
  name: string,
  files: Files,
  options: WriteOptions,
): Promise<void> {
  using _turn = await writing.acquire();
  const root = await openRoot(rootDir);
  const target = `${root}/${name}`;
  const present = await readFolder(target);
  const wanted = merged(files, present, options);
  if (present !== undefined && isSame(wanted, present, options)) return;
  const staging = await Deno.makeTempDir({ dir: root, prefix: `.${name}-` });
  try {
    await fillFolder(staging, wanted, present);
    await swap(staging, target, present, options);
  } catch (error) {
    await Deno.remove(staging, { recursive: true }).catch(() => {}); // the error says more
    throw error;
  }
}

/** A file that is there. */
interface PresentFile {
  /** Its text; `undefined` for what is no file of a reasonable size. */
  readonly text: string | undefined;
  readonly modified: Date | null;
}

type Present = ReadonlyMap<string, PresentFile>;

async function openRoot(rootDir: string): Promise<string> {
  await Deno.mkdir(rootDir, { recursive: true });
  const info = await Deno.lstat(rootDir);
  if (info.isSymlink) throw new TypeError(`Cannot write to ${rootDir}: it is a symbolic link`);
  return await Deno.realPath(rootDir);
}

/** Reads the files in a folder; `undefined` if there is none. */
async function readFolder(folder: string): Promise<Present | undefined> {
  let info: Deno.FileInfo;
  try {
    info = await Deno.lstat(folder);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
  if (!info.isDirectory) {
    throw new TypeError(
      `Cannot write ${folder}: it is ${info.isSymlink ? "a symbolic link" : "a file"}`,
    );
  }
  const present = new Map<string, PresentFile>();
  for await (const entry of Deno.readDir(folder)) {
    const path = `${folder}/${entry.name}`;
    const { isFile, size, mtime } = await Deno.lstat(path);
    const text = isFile && size <= MAX_FILE_SIZE ? await Deno.readTextFile(path) : undefined;
    present.set(entry.name, { text, modified: mtime });
  }
  return present;
}

function merged(files: Files, present: Present | undefined, options: WriteOptions): Files {
  const { merge } = options;
  if (present === undefined || merge === undefined) return files;
  const old = new Map<string, string>();
  for (const [name, { text }] of present) if (text !== undefined) old.set(name, text);
  return new Map([...files].map(([name, generated]) => {
    const text = old.get(name);
    return [
      name,
      text === undefined || text === generated ? generated : merge(name, generated, text, old),
    ];
  }));
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

/** Puts the staged folder into the place of the target, or leaves that as it was. */
async function swap(
  staging: string,
  target: string,
  present: Present | undefined,
  options: WriteOptions,
): Promise<void> {
  if (present === undefined) return await Deno.rename(staging, target);
  const old = `${staging}-old`;
  await Deno.rename(target, old);
  try {
    await Deno.rename(staging, target);
  } catch (error) {
    await Deno.rename(old, target);
    throw error;
  }
  for (const [name, { text }] of present) {
    if (!options.isGenerated(name, text)) await moveOver(`${old}/${name}`, `${target}/${name}`);
  }
  await removeFromWorkspace(old, dirname(dirname(old)));
}

/** Moves a file or folder of the user's, unless something new has its name. */
async function moveOver(from: string, to: string): Promise<void> {
  const { isSymlink } = await Deno.lstat(from);
  if (isSymlink) return;
  try {
    await Deno.lstat(to);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
    await Deno.rename(from, to);
  }
}

/** A tool of a generated package. */
export interface PackageTool {
  /** Its name on the wire. */
  readonly name: string;
  /** Its module in the package. */
  readonly module: string;
  /** What its server says of it. */
  readonly description: string;
  /** What its server says that it does, and does not do. */
  readonly annotations: Readonly<Record<string, boolean>>;
  /** Its whole definition. */
  readonly definition: JsonObject;
}

/** Reads which tools a generated package has, from the definitions that it keeps. */
export async function readPackage(
  root: string,
  server: string,
): Promise<PackageTool[] | undefined> {
  const path = join(root, server, "schema.json");
  const text = await readHostileFile(path);
  if (text === undefined) return undefined;
  const definitions = parse(path, text);
  const modules = moduleNames(definitions.map(nameOf));
  return definitions.map((definition) => ({
    name: nameOf(definition),
    module: modules.get(nameOf(definition)) ?? "",
    description: textOf(definition.get("description")),
    annotations: hintsOf(definition.get("annotations")),
    definition,
  }));
}

function hintsOf(annotations: Json | undefined): Record<string, boolean> {
  if (!isObject(annotations)) return {};
  return Object.fromEntries(
    [...annotations].filter((entry): entry is [string, boolean] => typeof entry[1] === "boolean"),
  );
}

function parse(path: string, text: string): JsonObject[] {
  const damaged = (cause?: unknown) =>
    new ConfigError(`${path} is damaged: register the server again`, { cause });
  let json: Json | undefined;
  try {
    json = toJson(JSON.parse(text));
  } catch (cause) {
    throw damaged(cause);
  }
  const tools = isObject(json) ? json.get("tools") : undefined;
  if (!isArray(tools)) throw damaged();
  return tools.map((tool) => {
    if (isObject(tool) && typeof tool.get("name") === "string") return tool;
    throw damaged();
  });
}

function nameOf(definition: JsonObject): string {
  return textOf(definition.get("name"));
}

function textOf(value: Json | undefined): string {
  return typeof value === "string" ? value : "";
}

/** Removes the Python package of a server. Neither it nor the folder above it may be a link. */
export async function removePackage(root: string, server: string): Promise<boolean> {
  const path = join(root, server);
  try {
    for (const folder of [root, path]) {
      if (!(await Deno.lstat(folder)).isDirectory) return false;
    }
    await removeFromWorkspace(path, dirname(root));
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}
