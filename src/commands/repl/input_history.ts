import { join } from "node:path";
import { replaceFile } from "../../files/safe.ts";

/** The most entries, and the longest one, that are kept. */
const MAX_ENTRIES = 1000;
const MAX_LENGTH = 20_000;
/** A file beyond that is not ours. */
const MAX_FILE_BYTES = 64 * 1024 ** 2;

/** Where history is kept: `~/.local/state/ipybox/history`, or below `XDG_STATE_HOME`. */
export async function historyPath(workspace: string): Promise<string | undefined> {
  const home = Deno.env.get("HOME");
  const state = Deno.env.get("XDG_STATE_HOME") || (home && join(home, ".local", "state"));
  if (!state) return undefined;
  const folder = join(state, "ipybox");
  await Deno.mkdir(folder, { recursive: true, mode: 0o700 });
  const real = await Deno.realPath(folder);
  return real === workspace || real.startsWith(`${workspace}/`.replace("//", "/"))
    ? undefined
    : join(real, "history");
}

/** What was typed before, in this session and those before it. */
export class InputHistory {
  /** The entries, the last one last. */
  readonly entries: string[];
  readonly #path: string | undefined;

  private constructor(path: string | undefined, entries: string[]) {
    this.#path = path;
    this.entries = entries;
  }

  /** Reads a history. */
  static async open(path: string | undefined): Promise<InputHistory> {
    if (path === undefined) return new InputHistory(undefined, []);
    const lines = (await readHistory(path)).split("\n").filter((line) => line !== "");
    const entries = lines.slice(-MAX_ENTRIES).map(entryOf).filter((entry) => entry !== undefined);
    if (lines.length > 2 * MAX_ENTRIES) await replaceHistory(path, entries);
    return new InputHistory(path, entries);
  }

  /** Adds an entry, unless it is the last one or very long. */
  async add(text: string): Promise<void> {
    if (text === "" || text.length > MAX_LENGTH || text === this.entries.at(-1)) return;
    this.entries.push(text);
    if (this.entries.length > MAX_ENTRIES) this.entries.shift();
    if (this.#path === undefined) return;
    using file = await Deno.open(this.#path, { append: true, create: true, mode: 0o600 });
    await file.write(new TextEncoder().encode(lineOf(text))); // one write: others append, too
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

async function replaceHistory(path: string, entries: readonly string[]): Promise<void> {
  await replaceFile(path, entries.map(lineOf).join(""));
}

function lineOf(text: string): string {
  return JSON.stringify(text) + "\n";
}

function entryOf(line: string): string | undefined {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === "string" && value.length <= MAX_LENGTH ? value : undefined;
  } catch {
    return undefined; // a torn line, or none of ours
  }
}
