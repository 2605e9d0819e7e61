import { join } from "node:path";
import type { GeneratedTool } from "../apigen/generate.ts";
import { learnResults } from "../apigen/learn.ts";
import {
  compareTools,
  type PackageTool,
  readPackage,
  removePackage,
  type ToolDifference,
} from "../apigen/package.ts";
import { ConfigError } from "../base/errors.ts";
import { stderrLogger } from "../base/log.ts";
import { Mutex } from "../base/mutex.ts";
import { stage } from "../base/stages.ts";
import type { ToolRunner } from "../calls/runner.ts";
import type { ConnectOptions } from "../mcp/connect.ts";
import { checkServerName, type ServerParams } from "../mcp/params.ts";
import { boundSettings } from "../servers/registry.ts";
import { withShapes } from "../servers/shapes.ts";
import type { OwnRegisterOptions } from "./options.ts";

interface ServerApisOptions extends Pick<ConnectOptions, "log"> {
  /** The workspace, as an absolute path without symbolic links. */
  readonly workspace: string;
  readonly runner: ToolRunner;
}

/** Loaded on demand: few sessions generate an API. */
const generator = () => import("../apigen/generate.ts");

/** Keeps a workspace's server registrations and generated Python APIs in sync. */
export class ServerApis {
  readonly #options: ServerApisOptions;
  readonly #mcptools: string;
  readonly #news = new Map<string, ApiNews>();
  /** Only one API is removed or regenerated at a time. */
  readonly #writing = new Mutex();

  constructor(options: ServerApisOptions) {
    this.#options = options;
    this.#mcptools = join(options.workspace, "mcptools");
    options.runner.changes.follow((name) => this.#renew(name));
  }

  /**
   * Registers a server and generates its API. If either fails, nothing is changed. Calls reuse the
   * connection.
   */
  async add(
    name: string,
    params: ServerParams,
    { signal, seen }: OwnRegisterOptions & { readonly signal: AbortSignal },
  ): Promise<GeneratedTool[]> {
    const { runner } = this.#options;
    const { settings } = await runner.starts.evidence(name, params, true);
    if (seen !== undefined && seen.settings !== boundSettings({ settings })) {
      throw new ConfigError(
        `MCP server "${name}" was not registered: its sandbox settings are not those that were shown`,
      );
    }
    const { generateConnected } = await generator();
    using turns = new DisposableStack();
    const { tools, connection } = await generateConnected(name, params, {
      ...this.#options,
      rootDir: this.#mcptools,
      signal,
      connect: () => runner.pool.connect(name, params, { settings, signal }),
      beforeWrite: async () => {
        turns.use(await this.#writing.acquire()); // a change that the server reports comes after this
        const run = await runner.starts.evidence(name, params, true); // it may have written files
        return await runner.registerStarted(name, params, { ...run, settings });
      },
    });
    if (signal.aborted || !runner.pool.adopt(name, connection)) {
      await connection[Symbol.asyncDispose]();
    }
    return tools;
  }

  /** Removes a server from the registry, stops it, and removes its API. */
  async remove(name: string): Promise<boolean> {
    checkServerName(name); // it becomes part of a path
    using _turn = await this.#writing.acquire();
    const registered = await this.#options.runner.unregisterServer(name);
    return await removePackage(this.#mcptools, name) || registered;
  }

  /** Adds the learned shapes of results; never between cells, as code has imported the files. */
  async learn(): Promise<void> {
    using _stage = stage("learn from results");
    const { workspace, runner, log = stderrLogger() } = this.#options;
    using _turn = await this.#writing.acquire(); // before the lock on the shapes, as in remove()
    await withShapes(workspace, async (shapes) => {
      for (const [name, known] of Map.groupBy(shapes, ({ server }) => server)) {
        if (runner.registry.get(name) === undefined) continue;
        await learnResults(this.#mcptools, name, known);
      }
    }).catch((error: unknown) => { // sessions work without it
      log.warn(`Cannot add the types of results to the Python APIs: ${error}`);
    });
  }

  /** Regenerates the API of a server whose tools changed. Code cannot write to `mcptools/`. */
  async #renew(name: string): Promise<void> {
    const { runner } = this.#options;
    const params = runner.registry.get(name);
    if (params === undefined) return; // it is being registered
    const listing = await runner.pool.describe(name);
    using _turn = await this.#writing.acquire();
    const before = await readPackage(this.#mcptools, name);
    // A server without an API does not get one now.
    if (before === undefined || runner.registry.get(name) !== params) return;
    const stale = await compareTools(before.map(({ definition }) => definition), listing.tools);
    if (Object.values(stale).every((tools) => tools.length === 0)) return;
    const { known = before } = this.#news.get(name) ?? {};
    const changes = await compareTools(known.map(({ definition }) => definition), listing.tools);
    const { generatePackage } = await generator();
    const tools = await generatePackage(name, listing, { rootDir: this.#mcptools });
    const modules = new Map([
      ...known.map((tool) => [tool.name, tool.module] as const),
      ...tools.map(({ tool, module }) => [tool, module ?? ""] as const),
    ]);
    this.#news.set(name, { known, note: noteOn(name, changes, modules) });
  }

  /** Takes the notes about regenerated APIs, one line each. */
  takeNews(): string[] {
    const notes = [...this.#news.values()].flatMap(({ note }) => note ?? []);
    this.#news.clear();
    return notes;
  }
}

/** How many modules a note lists of each kind. */
const MAX_NAMES = 10;

/** How a server's tools changed since the last note. */
interface ApiNews {
  /** The tools as of that note. */
  readonly known: readonly PackageTool[];
  /** The next note; `undefined` if the changes cancel out. */
  readonly note: string | undefined;
}

function noteOn(
  server: string,
  { added, changed, removed }: ToolDifference,
  modules: ReadonlyMap<string, string>,
): string | undefined {
  const part = (label: string, tools: readonly string[]) => {
    const names = tools.flatMap((tool) => modules.get(tool) || []);
    const rest = names.length - MAX_NAMES;
    const more = rest > 0 ? ` and ${rest} more` : "";
    return names.length === 0 ? [] : [`${label}: ${names.slice(0, MAX_NAMES).join(", ")}${more}`];
  };
  const parts = [
    ...part("new", added),
    ...part("changed (importlib.reload() what you imported)", changed),
    ...part("gone", removed),
  ];
  if (parts.length === 0) return undefined;
  const change = `The tools of MCP server "${server}" changed; mcptools.${server} has`;
  return `[ipybox] ${change} ${parts.join("; ")}`;
}
