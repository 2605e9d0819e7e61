import { dirname, join } from "node:path";
import { Mutex } from "../base/mutex.ts";
import { ConfigError } from "../base/errors.ts";
import { parseFile } from "../json/document.ts";
import { isRecord } from "../json/exact.ts";
import {
  isPlainFolder,
  lockPlainFolder,
  readHostileFile,
  replaceHostileFile,
} from "../files/safe.ts";
import { checkServerName, parseServerParams, type ServerParams } from "../mcp/params.ts";
import { OwnEntries } from "../files/own_entries.ts";
import { forgetShapes } from "./shapes.ts";

/** Options of {@linkcode ServerRegistry.open}. */
export interface ServerRegistryOptions {
  /** The folder with `.ipybox/mcp.json`; without it nothing is read or written. */
  workspace?: string;
  /** Servers that are registered for this process only, over those of the file. */
  servers?: GivenServers;
}

/** Servers by name, beside those of a workspace's file; or a registry, which is used instead of it. */
export type GivenServers = Readonly<Record<string, ServerParams>> | ServerRegistry;

/** The file, of which only `mcpServers` is ours. */
type RegistryFile = Record<string, unknown> & { mcpServers: Record<string, unknown> };

/**
 * The MCP servers that code may name, and how they are started. `${VAR}` stays as it is written.
 *
 * The file is read when the registry is opened and when it is asked to reload, never because a call
 * comes in: what hostile code may have written there since then has no effect.
 */
export class ServerRegistry {
  /** The file, or `undefined` for a registry without one. */
  readonly path: string | undefined;

  readonly #folder: string | undefined;
  readonly #given: Map<string, ServerParams>;
  /** Which of the file's servers are the person's; absent without a file. */
  readonly #own: OwnEntries | undefined;
  readonly #edits = new Mutex();
  #servers: Map<string, ServerParams> = new Map();

  private constructor(
    workspace: string | undefined,
    own: OwnEntries | undefined,
    given: Map<string, ServerParams>,
  ) {
    this.#own = own;
    this.#folder = workspace === undefined ? undefined : join(workspace, ".ipybox");
    this.path = this.#folder === undefined ? undefined : join(this.#folder, "mcp.json");
    this.#given = given;
  }

  /**
   * Reads the registry of a workspace.
   *
   * @param options The workspace, and servers of this process.
   * @returns The registry.
   * @throws {ConfigError} The file is not a registry, with line and column, or goes through a link.
   * @throws {TypeError} A server's name cannot be one.
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
    return registry;
  }

  /** The names of all servers, sorted. */
  get names(): string[] {
    return [...this.#servers.keys()].sort();
  }

  /** How a server is started or reached, or `undefined` for one that is not registered. */
  get(name: string): ServerParams | undefined {
    return this.#servers.get(name);
  }

  /** All servers by name, in the order of their names. */
  get entries(): (readonly [string, ServerParams])[] {
    return [...this.#servers].sort(([a], [b]) => a < b ? -1 : 1);
  }

  /**
   * Whether the person or the application registered a server.
   *
   * @param name The server's name.
   * @param params How it is started or reached.
   * @returns Whether it is so; not for what appeared in the file in another way.
   */
  isOwn(name: string, params: ServerParams): boolean {
    const given = this.#given.get(name);
    if (given !== undefined && sameParams(given, params)) return true;
    return this.#own?.has(name, params) ?? false;
  }

  /**
   * Whether the person accepted a server of the file that they have not registered.
   *
   * @param name Its name.
   * @param evidence All that decides on what is started or reached.
   * @returns Whether they accepted just that.
   */
  isAccepted(name: string, evidence: object): boolean {
    return this.#own?.has(name, { accepted: evidence }) ?? false;
  }

  /**
   * Remembers that the person accepted a server of the file.
   *
   * @param name Its name.
   * @param evidence All that decides on what is started or reached.
   */
  async accept(name: string, evidence: object): Promise<void> {
    await this.#own?.set(name, { accepted: evidence });
  }

  /** Reads the file again. Servers of this process stay. */
  async reload(): Promise<void> {
    await this.#own?.reload();
    const file = await this.#read();
    const fromFile = checked(Object.entries(file.mcpServers), this.path);
    this.#servers = new Map([...fromFile, ...this.#given]);
  }

  /**
   * Registers a server, in the file where there is one. It takes effect immediately.
   *
   * @param name Its name.
   * @param params How it is started or reached.
   * @returns Takes it back: what was registered before is so again.
   * @throws {TypeError} The name cannot be a server's.
   * @throws {ConfigError} The parameters make no sense, or the file is not a registry.
   */
  async register(name: string, params: ServerParams): Promise<() => Promise<void>> {
    checkServerName(name);
    const parsed = parseServerParams(name, params);
    const before = { given: this.#given.get(name), known: this.#servers.get(name) };
    const wasOwn = before.known !== undefined && this.isOwn(name, before.known);
    await this.#own?.set(name, parsed);
    const inFile = await this.#edit(name, parsed);
    if (this.path === undefined) this.#given.set(name, parsed);
    else this.#given.delete(name); // the newer one counts, also after a reload
    this.#servers.set(name, parsed);
    return async () => {
      await this.#edit(name, inFile);
      await this.#own?.set(name, wasOwn ? before.known : undefined);
      put(this.#given, name, before.given);
      put(this.#servers, name, before.known);
    };
  }

  /**
   * Removes a server, from the file too, and what is known of its results.
   *
   * @param name Its name.
   * @returns Whether it was registered.
   * @throws {ConfigError} The file is not a registry.
   */
  async unregister(name: string): Promise<boolean> {
    await this.#edit(name, undefined);
    await this.#own?.set(name, undefined);
    if (this.#folder !== undefined) await forgetShapes(dirname(this.#folder), name);
    this.#given.delete(name);
    return this.#servers.delete(name);
  }

  /** Changes a server in the file, or removes it, and gives what was there. */
  async #edit(name: string, params: unknown): Promise<unknown> {
    if (this.path === undefined || this.#folder === undefined) return undefined;
    using _turn = await this.#edits.acquire(); // a lock is for processes, and this is one
    // Else one of two processes that change the file concurrently would undo what the other did.
    using _lock = await lockPlainFolder(this.#folder, "mcp.lock");
    const file = await this.#read();
    const before = file.mcpServers[name];
    if (params === undefined) delete file.mcpServers[name];
    else file.mcpServers[name] = params;
    await replaceHostileFile(this.path, JSON.stringify(file, null, 2) + "\n");
    return before;
  }

  async #read(): Promise<RegistryFile> {
    if (this.path === undefined || this.#folder === undefined) return emptyFile();
    if (!await isPlainFolder(this.#folder)) return emptyFile();
    const text = await readHostileFile(this.path);
    return text === undefined ? emptyFile() : parseRegistry(this.path, text);
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

function sameParams(one: ServerParams, other: ServerParams): boolean {
  return one === other || JSON.stringify(one) === JSON.stringify(other);
}

function put<T>(map: Map<string, T>, name: string, value: T | undefined): void {
  if (value === undefined) map.delete(name);
  else map.set(name, value);
}

function emptyFile(): RegistryFile {
  return { mcpServers: {} };
}
