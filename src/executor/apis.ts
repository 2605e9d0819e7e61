import { join } from "node:path";
import type { GeneratedTool } from "../apigen/generate.ts";
import { learnResults } from "../apigen/learn.ts";
import {
  compareTools,
  findStaleTools,
  readPackage,
  removePackage,
  type StaleTools,
} from "../apigen/package.ts";
import { stderrLogger } from "../base/log.ts";
import { Mutex } from "../base/mutex.ts";
import { stage } from "../base/stages.ts";
import type { ToolRunner } from "../calls/runner.ts";
import type { ConnectOptions } from "../mcp/connect.ts";
import { checkServerName, type ServerParams } from "../mcp/params.ts";
import { withShapes } from "../servers/shapes.ts";

/** Options of {@linkcode ServerApis}. */
interface ServerApisOptions extends ConnectOptions {
  /** The workspace, as an absolute path without symbolic links. */
  readonly workspace: string;
  /** Knows the registered servers, and runs them. */
  readonly runner: ToolRunner;
}

/** Loaded when an API is to be made: few sessions make one. */
const generator = () => import("../apigen/generate.ts");

/** The MCP servers of a workspace: keeps their registrations and their generated Python APIs in step. */
export class ServerApis {
  readonly #options: ServerApisOptions;
  readonly #mcptools: string;
  readonly #news = new Map<string, ApiNews>();
  /** One at a time removes an API, or makes it again. */
  readonly #writing = new Mutex();

  /** @param options The workspace, and how its servers are reached. */
  constructor(options: ServerApisOptions) {
    this.#options = options;
    this.#mcptools = join(options.workspace, "mcptools");
    options.runner.followTools((name) => this.#renew(name));
  }

  /** Registers a server and generates its API. Whatever fails, either both is done or nothing. */
  async add(name: string, params: ServerParams, signal: AbortSignal): Promise<GeneratedTool[]> {
    const { runner } = this.#options;
    const { generateMcpSources } = await generator();
    return await generateMcpSources(name, params, {
      ...this.#options,
      rootDir: this.#mcptools,
      variables: runner.variables,
      settingsFiles: runner.settingsFiles,
      signal,
      beforeWrite: () => runner.registerServer(name, params),
    });
  }

  /** Removes a server from the registry, stops it, and removes its API. */
  async remove(name: string): Promise<boolean> {
    checkServerName(name); // it is about to become a path
    using _turn = await this.#writing.acquire();
    const registered = await this.#options.runner.unregisterServer(name);
    return await removePackage(this.#mcptools, name) || registered;
  }

  /**
   * Has the APIs show what earlier calls have taught of results. It is done before a kernel runs code,
   * never between its cells: what code has imported would no longer be what it reads.
   */
  async learn(): Promise<void> {
    using _stage = stage("learn from results");
    const { workspace, runner, log = stderrLogger() } = this.#options;
    await withShapes(workspace, async (shapes) => {
      using _turn = await this.#writing.acquire();
      for (const [name, known] of Map.groupBy(shapes, ({ server }) => server)) {
        if (runner.registry.get(name) === undefined) continue;
        await learnResults(this.#mcptools, name, known);
      }
    }).catch((error: unknown) => { // without it, sessions are as they were
      log.warn(`Cannot add the types of results to the Python APIs: ${error}`);
    });
  }

  /** Compares a server's tools with its API. */
  async stale(name: string): Promise<StaleTools> {
    const tools = await this.#options.runner.listTools(name);
    return await findStaleTools(this.#mcptools, name, tools);
  }

  /**
   * Generates the API of a server whose tools changed again, from what the server lists now, and notes
   * for the code what is different. Code plays no part in it: it cannot write to `mcptools/`.
   */
  async #renew(name: string): Promise<void> {
    const { runner } = this.#options;
    const params = runner.registry.get(name);
    const listing = await runner.describe(name);
    using _turn = await this.#writing.acquire();
    const before = await readPackage(this.#mcptools, name);
    // One that has no API needs none now, either.
    if (before === undefined || params === undefined || runner.registry.get(name) !== params) {
      return;
    }
    const stale = await compareTools(before.map(({ definition }) => definition), listing.tools);
    if (Object.values(stale).every((tools) => tools.length === 0)) return;
    const { generatePackage } = await generator();
    const tools = await generatePackage(name, listing, { rootDir: this.#mcptools });
    const modules = new Map([
      ...before.map((tool) => [tool.name, tool.module] as const),
      ...tools.map(({ tool, module }) => [tool, module ?? ""] as const),
    ]);
    const news = this.#news.get(name) ?? new ApiNews();
    this.#news.set(name, news);
    news.add(stale, modules);
  }

  /** Receives notes about regenerated APIs, one line each. */
  takeNews(): string[] {
    const lines = [...this.#news].flatMap(([name, news]) => news.line(name) ?? []);
    this.#news.clear();
    return lines;
  }
}

/** How many modules are named of each kind. */
const MAX_NAMES = 10;

/** What became of a server's modules since somebody was told. */
class ApiNews {
  readonly #added = new Set<string>();
  readonly #changed = new Set<string>();
  readonly #removed = new Set<string>();

  /** Adds what is different once more. */
  add(stale: StaleTools, modules: ReadonlyMap<string, string>): void {
    const named = (tools: readonly string[]) => tools.flatMap((tool) => modules.get(tool) || []);
    for (const module of named(stale.removed)) {
      this.#changed.delete(module);
      if (!this.#added.delete(module)) this.#removed.add(module);
    }
    for (const module of named(stale.added)) {
      if (this.#removed.delete(module)) this.#changed.add(module);
      else this.#added.add(module);
    }
    for (const module of named(stale.changed)) {
      if (!this.#added.has(module)) this.#changed.add(module);
    }
  }

  /** It in a line; `undefined` where nothing came of it. */
  line(server: string): string | undefined {
    const parts = [
      ...part("new", this.#added),
      ...part("changed (importlib.reload() what you imported)", this.#changed),
      ...part("gone", this.#removed),
    ];
    if (parts.length === 0) return undefined;
    const what = `The tools of MCP server "${server}" changed; mcptools.${server} has`;
    return `[ipybox] ${what} ${parts.join("; ")}`;
  }
}

function part(what: string, modules: ReadonlySet<string>): string[] {
  if (modules.size === 0) return [];
  const names = [...modules];
  const rest = names.length - MAX_NAMES;
  const more = rest > 0 ? ` and ${rest} more` : "";
  return [`${what}: ${names.slice(0, MAX_NAMES).join(", ")}${more}`];
}
