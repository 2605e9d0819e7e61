import { join } from "node:path";
import { type GeneratedTool, generatePackage } from "../apigen/generate.ts";
import { readPackage } from "../apigen/package_reader.ts";
import { removePackage } from "../apigen/remove_package.ts";
import { generateMcpSources } from "../apigen/sources.ts";
import { findStaleTools, type StaleTools } from "../apigen/stale.ts";
import { Mutex } from "../async/mutex.ts";
import type { Logger } from "../log.ts";
import type { LoginOptions } from "../mcp/oauth/login.ts";
import { ApiNews } from "./api_news.ts";
import { checkServerName } from "../mcp/server_name.ts";
import type { ServerParams } from "../mcp/server_params.ts";
import type { ToolRunner } from "../tool_server/tool_runner.ts";

/** Options of {@linkcode ServerApis}. */
export interface ServerApisOptions {
  /** The workspace, as an absolute path without symbolic links. */
  readonly workspace: string;
  /** Knows the registered servers, and runs them. */
  readonly runner: ToolRunner;
  /** How long a server may take to start, in milliseconds. */
  readonly connectTimeoutMs: number | undefined;
  /** Lets a person log in to servers that ask for it. */
  readonly login: LoginOptions | undefined;
  /** Told what happens. */
  readonly log: Logger;
}

/** The MCP servers of a workspace: keeps their registrations and their generated Python APIs in step. */
export class ServerApis {
  readonly #options: ServerApisOptions;
  readonly #mcptools: string;
  readonly #news = new Map<string, ApiNews>();
  /** One at a time removes an API, or makes it anew. */
  readonly #writing = new Mutex();

  /** @param options The workspace, and how its servers are reached. */
  constructor(options: ServerApisOptions) {
    this.#options = options;
    this.#mcptools = join(options.workspace, "mcptools");
    options.runner.followTools((name) => this.#renew(name));
  }

  /** Registers a server and generates its API. Whatever fails, either both is done or nothing. */
  async add(name: string, params: ServerParams, signal: AbortSignal): Promise<GeneratedTool[]> {
    const { workspace, runner, connectTimeoutMs, login, log } = this.#options;
    return await generateMcpSources(name, params, {
      rootDir: this.#mcptools,
      workspace,
      variables: runner.variables,
      settingsFiles: runner.settingsFiles,
      connectTimeoutMs,
      login,
      signal,
      log,
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

  /** Compares a server's tools with its API. */
  async stale(name: string): Promise<StaleTools> {
    const tools = await this.#options.runner.listTools(name);
    return await findStaleTools(join(this.#mcptools, name), tools);
  }

  /**
   * Generates the API of a server whose tools changed anew, from what the server lists now, and notes
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
    const stale = await findStaleTools(join(this.#mcptools, name), listing.tools);
    const tools = await generatePackage(name, listing, { rootDir: this.#mcptools });
    const modules = new Map([
      ...before.map((tool) => [tool.name, tool.module] as const),
      ...tools.map(({ tool, module }) => [tool, module ?? ""] as const),
    ]);
    const news = this.#news.get(name) ?? new ApiNews();
    this.#news.set(name, news);
    news.add(stale, modules);
  }

  /** Takes what is to be told of APIs that were made anew, a line for each. */
  takeNews(): string[] {
    const lines = [...this.#news].flatMap(([name, news]) => news.line(name) ?? []);
    this.#news.clear();
    return lines;
  }
}
