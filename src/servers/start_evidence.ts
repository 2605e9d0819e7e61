import { isAbsolute, join, relative, resolve } from "node:path";
import { ConfigError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import { mayRead } from "../base/permission.ts";
import { readHostileBytes } from "../files/safe.ts";
import { sha256 } from "../json/digest.ts";
import { type ReadSettings, readSettings, wantedSandbox } from "../mcp/launch.ts";
import {
  fillVariables,
  type ServerParams,
  type VariableLookup,
  variableLookup,
  WORKSPACE_VARIABLE,
} from "../mcp/params.ts";
import { isInside, lstatIfAllowed, realPathIfSeen } from "../process/trusted_path.ts";
import { isOwnProgram } from "../sandbox/workspace.ts";
import type { ServerRegistry } from "./registry.ts";

/** Everything that decides on the program or URL: the registration, and the files it refers to. */
export interface StartEvidence {
  /** How it is started or reached. Only variables of the user's environment stay as `${VAR}`. */
  readonly params: ServerParams;
  /** The settings file of its sandbox, to be used as it was read. */
  readonly settings?: ReadSettings | undefined;
  /** Digests of the files and folders that it names, may run, and that code could change, by path. */
  readonly files: Readonly<Record<string, string>>;
}

/** Options of {@linkcode startEvidence}. */
interface StartEvidenceOptions {
  /** The registry's workspace. */
  readonly workspace: string | undefined;
  /** The source of `${VAR}`, instead of the environment and the workspace's `.env`. */
  readonly variables?: VariableLookup | undefined;
  /** Whether the user registered it, so that nobody needs to read what it runs. */
  readonly isOwn?: boolean;
  /** Receives warnings about the `.env`. */
  readonly log: Logger;
}

/** More words, files or bytes than this are too much to ask about. */
const MAX_WORDS = 10_000;
const MAX_FILES = 20_000;
const MAX_BYTES = 256 * 1024 * 1024;

/** The evidence that users accept with a registration: changes are asked about. */
export async function startEvidence(
  serverName: string,
  params: ServerParams,
  options: StartEvidenceOptions,
): Promise<StartEvidence> {
  const { workspace, variables, isOwn = false, log } = options;
  const environment = variables ?? await variableLookup(workspace, { dotenv: false });
  const lookup = variables ?? await variableLookup(workspace, { log });
  const filled = fillVariables(serverName, params, lookup);
  const shown = fillVariables(serverName, params, (name) => {
    const isOwn = name !== WORKSPACE_VARIABLE && environment(name) !== undefined;
    return isOwn ? `\${${name}}` : lookup(name);
  });
  if (!("command" in filled) || workspace === undefined) {
    return { params: shown, files: {} };
  }
  const base = await realPathIfSeen(resolve(workspace));
  const settings = await readSettings(serverName, filled, base);
  const { command, args = [], env = {}, cwd = "." } = filled;
  const texts = [command, ...args, ...Object.values(env), cwd];
  const files = new NamedFiles(serverName, base);
  const digests = await files.add(texts, resolve(base, cwd)).then(
    () => Object.fromEntries(files.digests),
    (error: unknown) => {
      if (isOwn && error instanceof TooMuchError) return { ".ipybox": "too much to compare" };
      throw error;
    },
  );
  return { params: shown, settings, files: digests };
}

/**
 * Finds the evidence to start a server with, if unchanged since the user or the application
 * registered it.
 */
export async function unaskedStart(
  registry: ServerRegistry,
  [serverName, params]: readonly [string, ServerParams],
  options: Omit<StartEvidenceOptions, "isOwn">,
): Promise<StartEvidence | undefined> {
  if (!registry.isOwn(serverName, params)) return undefined;
  const run = await startEvidence(serverName, params, { ...options, isOwn: true });
  return registry.isUnchanged(serverName, run) ? run : undefined;
}

/**
 * A warning about files that executed code can change, of a server that runs with the user's
 * rights.
 */
export function reachText(
  serverName: string,
  { params, files }: Pick<StartEvidence, "params" | "files">,
  workspace: string,
): string | undefined {
  if (!("command" in params) || wantedSandbox(serverName, params).sandbox !== "none") return;
  const { cwd = ".ipybox" } = params;
  const folder = relative(workspace, resolve(workspace, cwd)) || ".";
  const open = [...Object.keys(files), ...folder.startsWith("..") ? [] : [folder]]
    .filter((path) => path !== ".ipybox" && !path.startsWith(".ipybox/"));
  if (open.length === 0) return;
  return `Code that runs here can change ${
    open.slice(0, 5).join(", ")
  }, and ${serverName} runs with ` +
    "your rights: move it out of the workspace, or use a sandbox (--sandbox)";
}

class TooMuchError extends ConfigError {}

/** Digests of the files that a registration names, may run, and that code could change. */
class NamedFiles {
  readonly digests = new Map<string, string>();
  readonly #serverName: string;
  readonly #workspace: string;
  #files = 0;
  #bytes = 0;

  constructor(serverName: string, workspace: string) {
    this.#serverName = serverName;
    this.#workspace = workspace;
  }

  /** Adds the files that texts or words in them name, relative to the working directory or workspace. */
  async add(texts: readonly string[], cwd: string): Promise<void> {
    const words = new Set(texts.flatMap((text) => [text, ...text.split(/[\s:=;,'"`()]+/)]));
    if (words.size > MAX_WORDS) throw this.#tooMuch();
    for (const word of words) {
      if (word === "" || word.includes("\0") || word.length > 4000) continue;
      for (const from of isAbsolute(word) ? ["/"] : [cwd, this.#workspace]) {
        const path = resolve(from, word);
        const real = await realOrNone(path);
        if (real === undefined) continue;
        for (const each of [path, real]) await this.#addPath(each);
      }
    }
  }

  /**
   * Adds a file that may run and that code can change; for a file in `.ipybox`, the entry that
   * contains it.
   */
  async #addPath(path: string): Promise<void> {
    const hidden = join(this.#workspace, ".ipybox");
    if (isInside(path, hidden)) {
      const [name] = relative(hidden, path).split("/");
      if (name === undefined || name === "") throw this.#tooMuch();
      return await this.#addRoot(join(hidden, name));
    }
    const status = await lstatIfAllowed(path);
    if (status === undefined || status.isDirectory) return;
    if (!await isOwnProgram(path, this.#workspace)) await this.#addRoot(path);
  }

  async #addRoot(path: string): Promise<void> {
    const name = isInside(path, this.#workspace) ? relative(this.#workspace, path) : path;
    if (this.digests.has(name)) return;
    this.digests.set(name, ""); // links may lead back here
    const digest = await this.#digestOf(path);
    if (digest === undefined) this.digests.delete(name);
    else this.digests.set(name, digest);
  }

  /** The digest of files that may run; `undefined` for a folder of data, which a server may write. */
  async #digestOf(path: string): Promise<string | undefined> {
    if (++this.#files > MAX_FILES) throw this.#tooMuch();
    const status = await Deno.lstat(path);
    if (isData(path, status)) return undefined;
    if (status.isSymlink) {
      const real = await realOrNone(path);
      if (real !== undefined) await this.#addPath(real);
      return sha256(`link ${await Deno.readLink(path)}`);
    }
    if (status.isDirectory) {
      const names = await Array.fromAsync(Deno.readDir(path), ({ name }) => name);
      const parts: (readonly [string, string])[] = [];
      for (const name of names.sort()) {
        const digest = await this.#digestOf(join(path, name));
        if (digest !== undefined) parts.push([name, digest]);
      }
      return parts.length === 0 ? undefined : sha256(`folder ${JSON.stringify(parts)}`);
    }
    if (!status.isFile) return sha256("no file"); // such as a socket
    this.#bytes += status.size;
    if (this.#bytes > MAX_BYTES) throw this.#tooMuch();
    // By now, code may have replaced it with something that never ends.
    return sha256(await readHostileBytes(path, status.size) ?? "no file");
  }

  #tooMuch(): TooMuchError {
    return new TooMuchError(
      `Cannot start MCP server "${this.#serverName}": it names too many files to ask about. ` +
        "If you trust it, register it with `ipybox register`, or put its program into its own folder " +
        "in .ipybox/",
    );
  }
}

/**
 * Names of data files. A file with any other name may run, because scripts need no special name.
 */
const DATA = new RegExp(
  "\\.((db|sqlite3?)(-(wal|shm|journal))?|duckdb(\\.wal)?|json|jsonl|ndjson|geojson|csv|tsv|parquet|arrow|feather|avro|xls|xlsx|ods|" +
    "doc|docx|odt|ppt|pptx|odp|pdf|epub|md|markdown|rst|log|bib|eml|mbox|ics|vcf|png|jpe?g|gif|" +
    "svg|webp|bmp|tiff?|ico|mp3|wav|ogg|flac|m4a|mp4|webm|mov|mkv|npy|npz|h5|hdf5|gpkg|shp|kml|gpx|" +
    "pem|crt|key)$",
  "i",
);

function isData(path: string, { isFile, mode }: Deno.FileInfo): boolean {
  return isFile && DATA.test(path) && ((mode ?? 0) & 0o111) === 0;
}

async function realOrNone(path: string): Promise<string | undefined> {
  if (!mayRead(path)) return undefined;
  return await Deno.realPath(path).catch(() => undefined); // a missing file cannot run
}
