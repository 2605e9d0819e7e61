import { join } from "node:path";
import { replaceFile } from "../../files/safe.ts";
import { stateFolder } from "../../files/user_folders.ts";
import { isInside } from "../../process/trusted_path.ts";
import { parsedJson } from "../../json/plain.ts";

const MAX_ENTRIES = 1000;
const MAX_LENGTH = 20_000;
/** Larger files are not ours. */
const MAX_FILE_BYTES = 64 * 1024 ** 2;

/** The history file: `~/.local/state/ipybox/history`, or below `XDG_STATE_HOME`. */
export async function historyPath(workspace: string): Promise<string | undefined> {
  const folder = stateFolder();
  if (folder === undefined) return undefined;
  await Deno.mkdir(folder, { recursive: true, mode: 0o700 });
  const real = await Deno.realPath(folder);
  return isInside(real, workspace) ? undefined : join(real, "history");
}

/** The inputs of this session and earlier ones. */
export class InputHistory {
  /** The entries, oldest first. */
  readonly entries: string[];
  readonly #path: string | undefined;

  private constructor(path: string | undefined, entries: string[]) {
    this.#path = path;
    this.entries = entries;
  }

  static async open(path: string | undefined): Promise<InputHistory> {
    if (path === undefined) return new InputHistory(undefined, []);
    const lines = (await readHistory(path)).split("\n").filter((line) => line !== "");
    const entries = lines.slice(-MAX_ENTRIES).map(entryOf).filter((entry) => entry !== undefined);
    if (lines.length > 2 * MAX_ENTRIES) {
      await replaceFile(path, entries.map(lineOf).join(""));
    }
    return new InputHistory(path, entries);
  }

  /** Adds an entry, unless it repeats the last one or is very long. */
  async add(text: string): Promise<void> {
    if (text === "" || text.length > MAX_LENGTH || text === this.entries.at(-1)) return;
    this.entries.push(text);
    if (this.entries.length > MAX_ENTRIES) this.entries.shift();
    if (this.#path === undefined) return;
    using file = await Deno.open(this.#path, { append: true, create: true, mode: 0o600 });
    await file.write(new TextEncoder().encode(lineOf(text))); // one write, as other processes append too
  }
}

async function readHistory(path: string): Promise<string> {
  try {
    const { mode, isFile, size } = await Deno.stat(path);
    if (!isFile || size > MAX_FILE_BYTES) {
      throw new Error(`Cannot use ${path} as the history file: remove or rename it`);
    }
    if (mode !== null && (mode & 0o077) !== 0) await Deno.chmod(path, 0o600);
    return await Deno.readTextFile(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return "";
    throw error;
  }
}

function lineOf(text: string): string {
  return JSON.stringify(text) + "\n";
}

function entryOf(line: string): string | undefined {
  const value = parsedJson(line); // it may be torn, or not ours
  return typeof value === "string" && value.length <= MAX_LENGTH ? value : undefined;
}
