import { dirname, join } from "node:path";
import { Mutex } from "../base/mutex.ts";
import { ConfigError } from "../base/errors.ts";
import { parseFile } from "../json/document.ts";
import { canonicalJson, sha256 } from "../json/digest.ts";
import { isRecord, toExact } from "../json/exact.ts";
import { lockPlainFolder, readInFolder, replaceHostileFile } from "../files/safe.ts";
import { checkServerName, parseServerParams, type ServerParams } from "../mcp/params.ts";
import { OwnEntries } from "../files/own_entries.ts";
import type { TrustSetting } from "../files/own_entries.ts";
import { launchText } from "./fingerprint.ts";
import { forgetShapes } from "./shapes.ts";

/** Options of {@linkcode ServerRegistry.open}. */
export interface ServerRegistryOptions {
  /** The folder with `.ipybox/mcp.json`. Without it, no file is read or written. */
  workspace?: string;
  /** Servers that are registered for this process only. They override the file's servers. */
  servers?: GivenServers;
  /** Whether the servers that are in the file now count as if they were registered for this process. */
  trust?: TrustSetting | undefined;
}

/** Servers by name, in addition to the file's servers; or a registry to use instead. */
export type GivenServers = Readonly<Record<string, ServerParams>> | ServerRegistry;

/** The files in the workspace that a server's start runs or obeys. */
export interface RunFiles {
  /** Digests of files and folders, by relative path. */
  readonly files: Readonly<Record<string, string>>;
  /** The settings file of its sandbox; its text is `null` if it does not exist. */
  readonly settings?: { readonly text: string | null; readonly isInWorkspace: boolean } | undefined;
}

/** A server of this process. */
interface GivenServer {
  readonly params: ServerParams;
  /** The files in the workspace that it ran when it was given; `"any"` if all files there count. */
  readonly run?: RunFiles | "any";
}

/** The file's content. Only its `mcpServers` are ours. */
type RegistryFile = Record<string, unknown> & { mcpServers: Record<string, unknown> };

/**
 * The MCP servers that code may call, and how they are started or reached. `${VAR}` is kept as written.
 *
 * The file is read when the registry is opened or reloaded, never because of a call: entries that hostile code
 * may have written there since then have no effect.
 */
export class ServerRegistry {
  /** The path of the file; `undefined` for a registry without one. */
  readonly path: string | undefined;

  readonly #given: Map<string, GivenServer>;
  /** Which of the file's servers the user registered; absent without a file. */
  readonly #own: OwnEntries | undefined;
  readonly #edits = new Mutex();
  #servers: Map<string, ServerParams> = new Map();

  private constructor(
    workspace: string | undefined,
    own: OwnEntries | undefined,
    given: Map<string, ServerParams>,
  ) {
    this.#own = own;
    this.path = workspace === undefined ? undefined : join(workspace, ".ipybox", "mcp.json");
    this.#given = new Map([...given].map(([name, params]) => [name, { params }]));
  }

  /**
   * Reads the registry of a workspace.
   *
   * @param options The workspace, and the servers of this process.
   * @returns The registry.
   * @throws {ConfigError} The file is not a registry (with line and column), or is behind a link.
   * @throws {TypeError} The name of a server is invalid.
   */
  static async open(options: ServerRegistryOptions = {}): Promise<ServerRegistry> {
    const { workspace, servers = {} } = options;
    if (servers instanceof ServerRegistry) return servers;
    const registry = new ServerRegistry(
      workspace,
      workspace === undefined ? undefined : await OwnEntries.open(workspace, "registrations"),
      checked(Object.entries(servers)),
    );
    await registry.reload();
    if (options.trust === "all") {
      for (const [name, params] of registry.entries) {
        registry.#given.set(name, { params, run: "any" });
      }
    }
    return registry;
  }

  /** The names of all servers, sorted. */
  get names(): string[] {
    return [...this.#servers.keys()].sort();
  }

  /** How a server is started or reached; `undefined` if it is not registered. */
  get(name: string): ServerParams | undefined {
    return this.#servers.get(name);
  }

  /** All servers, sorted by name. */
  get entries(): (readonly [string, ServerParams])[] {
    return [...this.#servers].sort(([a], [b]) => a < b ? -1 : 1);
  }

  /** The servers of this process whose files have not been recorded yet. */
  get unseen(): (readonly [string, ServerParams])[] {
    return [...this.#given].flatMap(([name, { params, run }]) => run ? [] : [[name, params]]);
  }

  /**
   * Whether the application gave a server for this process.
   *
   * @param name The server's name.
   * @param params How it is started or reached.
   * @returns `false` for a server of the file.
   */
  isGiven(name: string, params: ServerParams): boolean {
    const given = this.#given.get(name);
    return given !== undefined && sameParams(given.params, params);
  }

  /**
   * Whether the user or the application registered a server.
   *
   * @param name The server's name.
   * @param params How it is started or reached.
   * @returns `false` if the server got into the file in any other way.
   */
  isOwn(name: string, params: ServerParams): boolean {
    return this.isGiven(name, params) || (this.#own?.has(name, params) ?? false);
  }

  /**
   * Whether a server runs the files of the workspace that it ran when it was registered or given.
   *
   * @param name The server's name.
   * @param run What it runs now.
   * @returns `true` also for a server that runs none.
   */
  isUnchanged(name: string, run: RunFiles): boolean {
    if (!runsAny(run)) return true;
    const given = this.#given.get(name);
    if (given === undefined) return this.#own?.has(filesOf(name), filesIn(run)) ?? false;
    if (given.run === undefined || given.run === "any") return given.run === "any";
    // Files that code changed since an earlier session are not those that the application gave.
    return sameRun(given.run, run) &&
      (this.#own?.has(givenFilesOf(name, given.params), filesIn(run)) ?? true);
  }

  /**
   * Marks a server of the file as the user's own, as they saw it.
   *
   * @param name The server's name.
   * @param params How it is started or reached.
   * @param run What it runs in the workspace.
   * @returns Whether that was recorded for other processes, too.
   */
  async adopt(name: string, params: ServerParams, run: RunFiles): Promise<boolean> {
    await this.keep(name, run);
    return await this.#own?.set(name, params, launchText(params)) ?? false;
  }

  /**
   * Remembers what a server of the user or the application runs in the workspace.
   *
   * @param name The server's name.
   * @param run What it runs.
   */
  async keep(name: string, run: RunFiles): Promise<void> {
    const given = this.#given.get(name);
    const isBound = runsAny(run) || (given !== undefined && run.settings?.text === null);
    const record = isBound ? filesIn(run) : undefined;
    if (given === undefined) {
      return void await this.#own?.set(filesOf(name), record, record && runText(run));
    }
    this.#given.set(name, { ...given, run });
    await this.#own?.set(givenFilesOf(name, given.params), record);
  }

  /**
   * Remembers what a server of the application runs, unless an earlier session has.
   *
   * @param name The server's name.
   * @param run What it runs.
   */
  async keepFirst(name: string, run: RunFiles): Promise<void> {
    const given = this.#given.get(name);
    if (given === undefined) return;
    const known = this.#own?.entryOf(givenFilesOf(name, given.params));
    if (known === undefined) await this.keep(name, run);
    else this.#given.set(name, { ...given, run });
  }

  /**
   * How a server of the file has changed since the user registered it, in lines of text.
   *
   * @param name Its name.
   * @param params How it is started or reached now.
   * @param run What it runs now.
   * @returns The two texts; `undefined` if the former one was not kept.
   */
  changeOf(
    name: string,
    params: ServerParams,
    run: RunFiles,
  ): { readonly before: string; readonly now: string } | undefined {
    if (this.isGiven(name, params)) return undefined;
    const isOwn = this.isOwn(name, params);
    const before = this.#own?.entryOf(isOwn ? filesOf(name) : name)?.text;
    const now = isOwn ? runText(run) : launchText(params);
    return before === undefined || before === now ? undefined : { before, now };
  }

  /**
   * Whether the user accepted a server of the file that they did not register.
   *
   * @param name Its name.
   * @param evidence Everything that decides what is started or reached.
   * @returns Whether they accepted exactly that.
   */
  isAccepted(name: string, evidence: object): boolean {
    return this.#own?.has(name, { accepted: evidence }) ?? false;
  }

  /**
   * Remembers that the user accepted a server of the file.
   *
   * @param name Its name.
   * @param evidence Everything that decides what is started or reached.
   */
  async accept(name: string, evidence: object): Promise<void> {
    await this.#own?.set(name, { accepted: evidence });
  }

  /** Reads the file again. Servers of this process stay. */
  async reload(): Promise<void> {
    await this.#own?.reload();
    const file = await this.#read();
    const fromFile = checked(Object.entries(file.mcpServers), this.path);
    this.#servers = new Map(fromFile);
    for (const [name, { params }] of this.#given) this.#servers.set(name, params);
  }

  /**
   * Registers a server, in the file if there is one. It takes effect immediately.
   *
   * @param name Its name.
   * @param params How it is started or reached.
   * @param run The files of the workspace that it runs. Once they change, its start is asked about.
   * @returns A function that restores what was registered before.
   * @throws {TypeError} The name is invalid.
   * @throws {ConfigError} The parameters are invalid, or the file is not a registry.
   */
  async register(
    name: string,
    params: ServerParams,
    run: RunFiles = { files: {} },
  ): Promise<() => Promise<void>> {
    checkServerName(name);
    const parsed = parseServerParams(name, params);
    const before = { given: this.#given.get(name), known: this.#servers.get(name) };
    const wasOwn = before.known !== undefined && this.isOwn(name, before.known);
    const files = this.#own?.entryOf(filesOf(name));
    await this.#own?.set(name, parsed, launchText(parsed));
    const inFile = await this.#edit(name, parsed);
    if (this.path === undefined) this.#given.set(name, { params: parsed });
    else this.#given.delete(name); // the newer registration counts, also after a reload
    await this.keep(name, run);
    this.#servers.set(name, parsed);
    return async () => {
      await this.#edit(name, inFile);
      await this.#own?.set(name, wasOwn ? before.known : undefined);
      await this.#own?.restore(filesOf(name), files);
      put(this.#given, name, before.given);
      put(this.#servers, name, before.known);
    };
  }

  /**
   * Removes a server, also from the file, and the recorded facts about its results.
   *
   * @param name Its name.
   * @returns Whether it was registered.
   * @throws {ConfigError} The file is not a registry.
   */
  async unregister(name: string): Promise<boolean> {
    await this.#edit(name, undefined);
    await this.#own?.set(name, undefined);
    await this.#own?.set(filesOf(name), undefined);
    if (this.path !== undefined) await forgetShapes(dirname(dirname(this.path)), name);
    this.#given.delete(name);
    return this.#servers.delete(name);
  }

  /** Changes or removes a server in the file, and returns its former entry. */
  async #edit(name: string, params: unknown): Promise<unknown> {
    if (this.path === undefined) return undefined;
    using _turn = await this.#edits.acquire(); // the lock below only excludes other processes
    // Otherwise processes that change the file concurrently would undo each other's changes.
    using _lock = await lockPlainFolder(dirname(this.path), "mcp.lock");
    const file = await this.#read();
    const before = file.mcpServers[name];
    if (params === undefined) delete file.mcpServers[name];
    else file.mcpServers[name] = params;
    await replaceHostileFile(this.path, JSON.stringify(file, null, 2) + "\n");
    return before;
  }

  async #read(): Promise<RegistryFile> {
    if (this.path === undefined) return { mcpServers: {} };
    return parseRegistry(this.path, await readInFolder(dirname(this.path), "mcp.json") ?? "{}");
  }
}

/** Parses the text of a file in the usual `{"mcpServers": {…}}` format. */
function parseRegistry(path: string, text: string): RegistryFile {
  const file = parseFile(path, text).value;
  if (!isRecord(file)) throw new ConfigError(`Invalid registry ${path}: it must be a JSON object`);
  const { mcpServers = {} } = file;
  if (!isRecord(mcpServers)) {
    throw new ConfigError(`Invalid registry ${path}: "mcpServers" must be an object`);
  }
  return { ...file, mcpServers };
}

function checked(
  servers: Iterable<readonly [name: string, params: unknown]>,
  path?: string,
): Map<string, ServerParams> {
  const result = new Map<string, ServerParams>();
  for (const [name, params] of servers) {
    try {
      checkServerName(name);
      result.set(name, parseServerParams(name, params));
    } catch (error) {
      if (path === undefined || !(error instanceof Error)) throw error;
      throw new ConfigError(`${error.message}, in ${path}`, { cause: error });
    }
  }
  return result;
}

/** Whether two servers are started or reached in the same way. */
export function sameParams(one: ServerParams, other: ServerParams | undefined): boolean {
  return one === other || JSON.stringify(one) === JSON.stringify(other);
}

function sameRun(one: RunFiles, other: RunFiles): boolean {
  const text = (run: RunFiles) => canonicalJson(toExact(filesIn(run)));
  return text(one) === text(other);
}

/** The name of the record of a server's files: no server can have it. */
function filesOf(name: string): string {
  return `${name} files`;
}

/**
 * Like {@linkcode filesOf}, for a server of the application: with other parameters, it is another
 * server.
 */
function givenFilesOf(name: string, params: ServerParams): string {
  return `${filesOf(name)} as given: ${sha256(canonicalJson(toExact(params))).slice(0, 32)}`;
}

/**
 * The sandbox settings that a registration is bound to: settings outside workspaces are the user's
 * own.
 */
export function boundSettings({ settings }: Pick<RunFiles, "settings">): string | undefined {
  return settings?.isInWorkspace ? settings.text ?? undefined : undefined;
}

function filesIn(run: RunFiles): object {
  return { files: run.files, settings: boundSettings(run) ?? null };
}

/** The files that a server runs, for people: the beginning of a digest shows changes. */
function runText(run: RunFiles): string {
  const settings = boundSettings(run);
  const lines = Object.entries(run.files).map(([path, digest]) =>
    `${path}: ${digest.slice(0, 12)}`
  );
  return [...lines, ...settings === undefined ? [] : ["sandbox settings:", settings]].join("\n");
}

function runsAny(run: RunFiles): boolean {
  return boundSettings(run) !== undefined || Object.keys(run.files).length > 0;
}

function put<T>(map: Map<string, T>, name: string, value: T | undefined): void {
  if (value === undefined) map.delete(name);
  else map.set(name, value);
}
