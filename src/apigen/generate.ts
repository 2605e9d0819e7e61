/**
 * Generates Python packages for the tools of MCP servers.
 *
 * @module
 */
import { assetTree } from "../assets/mod.ts";
import { ConfigError, McpLoginRequiredError, ToolCallError } from "../base/errors.ts";
import type { ConnectOptions, SessionConnectOptions } from "../mcp/connect.ts";
import type { McpConnection, ServerDescription } from "../mcp/connection.ts";
import { shellWord } from "../base/shell_word.ts";
import { checkServerName, type ServerParams } from "../mcp/params.ts";
import type { ObservedResults } from "../json/shape.ts";
import { withAdditions } from "./additions.ts";
import { isObject, type Json, type JsonObject, readDefinition, textOf, writeJson } from "./json.ts";
import type { ModuleOrigin } from "./model.ts";
import { modelOf } from "./module_builder.ts";
import { moduleNames } from "./names.ts";
import {
  compareTools,
  type Files,
  firstSentence,
  type PackageTool,
  parseListing,
  readListing,
  toolsOf,
  writeFolder,
  writeStubs,
} from "./package.ts";
import { renderModule, renderPackage, renderResults } from "./render.ts";

/** The outcome for one tool. */
export interface GeneratedTool {
  /** The tool's name, as the server knows it. */
  readonly tool: string;
  /** The name of its module in the server's package; `null` if the tool was omitted. */
  readonly module: string | null;
  /** Unsupported parts of its definition, or the reason why it was omitted. */
  readonly warnings: readonly string[];
}

/** The observed results of tools, by the tools' names. */
type Results = ReadonlyMap<string, ObservedResults>;

/** The inputs of a package. */
interface ToolListing
  extends Pick<ServerDescription, "tools">, Partial<Omit<ServerDescription, "tools">> {
  /** Observed results; by default those in the present package. */
  readonly results?: Results;
}

/** Options for {@linkcode generatePackage}. */
interface GeneratePackageOptions {
  /** The folder with the packages of all servers. */
  readonly rootDir: string;
}

/** Generates a server's package in place of an older one. Users' additions and observed results are kept. */
export async function generatePackage(
  serverName: string,
  listing: ToolListing,
  options: GeneratePackageOptions,
): Promise<GeneratedTool[]> {
  checkServerName(serverName);
  const results = limited(listing.results ?? await knownResults(serverName, listing, options));
  const { files, tools } = renderFiles(serverName, { ...listing, results });
  await writeFolder(options.rootDir, RUNTIME, runtimeFiles(), { isGenerated: () => true });
  await writeStubs(options.rootDir);
  let former: ReturnType<typeof formerPackage> | undefined;
  await writeFolder(options.rootDir, serverName, files, {
    isGenerated: isGeneratedFile,
    merge: (name, generated, present, old) => {
      if (!name.endsWith(".py") || name === "__init__.py") return generated;
      former ??= formerPackage(serverName, old);
      return withAdditions(generated, present, former(name));
    },
  });
  return tools;
}

/** The results in the present package for tools that have not changed. */
async function knownResults(
  serverName: string,
  { tools }: ToolListing,
  { rootDir }: GeneratePackageOptions,
): Promise<Results> {
  // If the package cannot be read, writing replaces it or reports why not.
  const before = await readListing(rootDir, serverName).catch(() => undefined);
  if (before === undefined || before.results.size === 0) return new Map();
  const { changed, removed } = await compareTools(before.tools, tools);
  const stale = new Set([...changed, ...removed]);
  return new Map([...before.results].filter(([name]) => !stale.has(name)));
}

/** How many characters of observed results a package keeps. */
const MAX_RESULTS = 2 ** 20;

function limited(results: Results): Results {
  let room = MAX_RESULTS;
  return new Map([...results].filter((entry) => (room -= renderResults([entry]).length) >= 0));
}

/** A package before it is written. */
interface RenderedPackage {
  /** The files by name. */
  readonly files: Files;
  /** The outcome for each tool. */
  readonly tools: GeneratedTool[];
}

/** Renders the files of a package without writing them. */
export function renderFiles(serverName: string, listing: ToolListing): RenderedPackage {
  const entries = readTools(listing);
  const about = aboutServer(listing);
  const { files, summaries, definitions, tools } = renderTools(
    serverName,
    entries,
    listing.results,
  );
  files.set("__init__.py", renderPackage({ server: serverName, ...about, modules: summaries }));
  files.set("schema.json", `${writeJson(listingOf(serverName, about, definitions), 2)}\n`);
  if (listing.results !== undefined && listing.results.size > 0) {
    files.set("observed.json", renderResults(listing.results));
  }
  files.set("py.typed", "");
  return { files, tools };
}

/** Renders the modules of a list. */
function renderTools(
  serverName: string,
  entries: readonly ToolEntry[],
  results: Results | undefined,
) {
  const names = entries.flatMap((entry) => "reason" in entry ? [] : [entry.name]);
  const modules = moduleNames(names);
  const files = new Map<string, string>();
  const summaries: { module: string; summary: string }[] = [];
  const definitions: JsonObject[] = [];
  const tools: GeneratedTool[] = [];
  for (const entry of entries) {
    const { name: tool } = entry;
    if ("reason" in entry) {
      tools.push({ tool, module: null, warnings: [entry.reason] });
      continue;
    }
    const module = modules.get(tool) ?? "";
    const origin: ModuleOrigin = { server: serverName, tool, module };
    const model = modelOf(origin, entry.definition, results?.get(tool));
    definitions.push(entry.definition);
    files.set(`${module}.py`, renderModule(model));
    summaries.push({ module, summary: firstSentence(model.description || model.title) });
    const { warning } = entry;
    const warnings = warning === undefined ? model.warnings : [warning, ...model.warnings];
    tools.push({ tool, module, warnings });
  }
  return { files, summaries, definitions, tools };
}

const RUNTIME = "ipybox_runtime";

/** The part of the runtime that generated code imports: its folders are for kernels only. */
function runtimeFiles(): Files {
  const files = assetTree(`runtime/${RUNTIME}`)
    .filter(({ path }) => !path.includes("/"))
    .map(({ path, text }) => [path, text] as const);
  return new Map([...files, ["py.typed", ""]]);
}

/** How many tools of a server get a module. The largest real servers have a few hundred. */
const MAX_TOOLS = 5_000;

type ToolEntry =
  | { readonly name: string; readonly definition: JsonObject; readonly warning?: string }
  | { readonly name: string; readonly reason: string };

function readTools({ tools, unusable = [] }: ToolListing): ToolEntry[] {
  const seen = new Set<string>();
  return tools.map((tool, index): ToolEntry => {
    if (seen.size >= MAX_TOOLS) {
      const name = nameOf(tool) ?? `#${index + 1}`;
      return { name, reason: `The server has more than ${MAX_TOOLS} tools` };
    }
    const entry = readTool(tool, `#${index + 1}`);
    if ("reason" in entry) return entry;
    const reason = unusable[index];
    if (reason !== undefined) return { name: entry.name, reason };
    if (seen.has(entry.name)) {
      return { name: entry.name, reason: "An earlier tool in the list has the same name" };
    }
    seen.add(entry.name);
    return entry;
  });
}

function readTool(tool: unknown, place: string): ToolEntry {
  const name = nameOf(tool);
  let definition: Json | undefined;
  try {
    definition = readDefinition(tool);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    if (name === undefined) return { name: place, reason: error.message };
    // With only its name, the tool can still be called.
    const warning = `Its definition is too deep or too large to be read (${error.message})`;
    return { name, definition: new Map([["name", name]]), warning };
  }
  if (!isObject(definition)) {
    return { name: place, reason: "The entry in the list is not an object" };
  }
  if (name === undefined) return { name: place, reason: "The tool has no name" };
  return { name, definition };
}

function nameOf(tool: unknown): string | undefined {
  if (typeof tool !== "object" || tool === null) return undefined;
  const name: unknown = tool instanceof Map ? tool.get("name") : Reflect.get(tool, "name");
  return typeof name === "string" ? name : undefined;
}

/** A server's description of itself. */
interface ServerAbout {
  readonly info: JsonObject | undefined;
  readonly title: string;
  readonly instructions: string;
}

function aboutServer({ serverInfo, instructions = "" }: ToolListing): ServerAbout {
  const info = readInfo(serverInfo);
  const title = textOf(info?.get("title")).trim() || textOf(info?.get("name")).trim();
  return { info, title, instructions };
}

function readInfo(info: unknown): JsonObject | undefined {
  try {
    const json = readDefinition(info);
    return isObject(json) ? json : undefined;
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return undefined;
  }
}

function listingOf(
  serverName: string,
  { info, instructions }: ServerAbout,
  definitions: readonly JsonObject[],
): JsonObject {
  const object = new Map<string, Json>([["server", serverName]]);
  if (info !== undefined) object.set("serverInfo", info);
  if (instructions !== "") object.set("instructions", instructions);
  object.set("tools", definitions);
  return object;
}

const DATA_FILES: ReadonlySet<string> = new Set([
  "__init__.py",
  "schema.json",
  "observed.json",
  "py.typed",
]);

/** Whether a file in a package was generated, so that it is removed with its tool. */
function isGeneratedFile(name: string, text: string | undefined): boolean {
  if (DATA_FILES.has(name)) return true;
  if (name === "__pycache__") return true;
  return name.endsWith(".py") && (text?.slice(0, 1_000).includes("(generated by ipybox") ?? false);
}

/** Renders the former files of a package from its definitions; `undefined` for unknown ones. */
function formerPackage(server: string, old: Files): (file: string) => string | undefined {
  const tools = new Map(toolsIn(old).map((tool) => [`${tool.module}.py`, tool]));
  return (file) => {
    const known = tools.get(file);
    if (known === undefined) return undefined;
    const { name: tool, module, definition, results } = known;
    return renderModule(modelOf({ server, tool, module }, definition, results));
  };
}

function toolsIn(files: Files): PackageTool[] {
  try {
    const text = files.get("schema.json") ?? "";
    return toolsOf(parseListing("", text, files.get("observed.json")));
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return []; // it is damaged
  }
}

/** Options of {@linkcode generateMcpSources}. */
export interface GenerateMcpSourcesOptions extends ConnectOptions {
  /** Cancels the generation. */
  signal?: AbortSignal;
  /** The folder with the packages of all servers, usually `mcptools` in the workspace. */
  rootDir: string;
  /**
   * Called once the server has listed its tools, before anything is written. It returns a function that
   * undoes what it did, which is called if the package cannot be written.
   */
  beforeWrite?: () => Promise<() => Promise<void>>;
}

/** Those options, and ipybox's own. */
export interface OwnGenerateOptions
  extends GenerateMcpSourcesOptions, Pick<SessionConnectOptions, "settings"> {}

/** How long a server's list must stay unchanged: some servers add tools after the handshake. */
const SETTLE_MS = 300;

/**
 * Connects to an MCP server and generates the Python package for its tools, replacing an older one.
 * Users' additions to modules are kept.
 *
 * @param serverName The name of the package: a lowercase Python identifier.
 * @param params How the server is started or reached. `${VAR}` is filled in now; its value is not saved.
 * @param options Where the package goes, and how long to wait for the server.
 * @returns The outcome for each tool, in the server's order.
 * @throws {TypeError} The server's name is not a valid package name.
 * @throws {ConfigError} A variable is not set or the parameters are invalid; nothing was started.
 * @throws {McpLoginRequiredError} The server requires a login, and `login` is not set.
 * @throws {McpConnectionError} The server does not start, cannot be reached, or does not answer in
 * time. An older package stays.
 *
 * @example
 * ```ts
 * import { generateMcpSources } from "@ipybox/ipybox";
 *
 * const server = { command: "npx", args: ["-y", "@modelcontextprotocol/server-everything"] };
 * const tools = await generateMcpSources("everything", server, { rootDir: "mcptools" });
 * for (const { tool, module } of tools) console.error(`${tool} → mcptools.everything.${module}`);
 * ```
 */
export async function generateMcpSources(
  serverName: string,
  params: ServerParams,
  options: GenerateMcpSourcesOptions,
): Promise<GeneratedTool[]> {
  checkServerName(serverName);
  const connect = async () => {
    const { connectMcp } = await import("../mcp/connect.ts"); // large, and not needed to import this
    const own: OwnGenerateOptions = options;
    return await connectMcp(serverName, params, own);
  };
  const { tools, connection } = await generateConnected(serverName, params, {
    ...options,
    connect,
  });
  await connection[Symbol.asyncDispose]();
  return tools;
}

/** Does the same, and leaves the connection open. */
export async function generateConnected(
  serverName: string,
  params: ServerParams,
  options: GenerateMcpSourcesOptions & { readonly connect: () => Promise<McpConnection> },
): Promise<{ tools: GeneratedTool[]; connection: McpConnection }> {
  const { rootDir, beforeWrite, connect, signal } = options;
  await using stack = new AsyncDisposableStack();
  let listing: ServerDescription;
  let connection: McpConnection;
  try {
    connection = stack.use(await connect());
    // Some servers require a login only for this.
    listing = await connection.describe({ settleMs: SETTLE_MS, signal });
  } catch (error) {
    throw asRegistration(error, params, options);
  }
  signal?.throwIfAborted();
  const undo = await beforeWrite?.();
  try {
    const tools = await generatePackage(serverName, listing, { rootDir });
    stack.move();
    return { tools, connection };
  } catch (error) {
    await undo?.();
    throw error;
  }
}

/** A server that is not registered yet has no name for `ipybox login`: suggest `register` instead. */
function asRegistration(
  error: unknown,
  params: ServerParams,
  { workspace }: GenerateMcpSourcesOptions,
): unknown {
  const cause = error instanceof ToolCallError ? error.cause : error;
  if (!(cause instanceof McpLoginRequiredError) || !("url" in params)) return error;
  const where = workspace === undefined ? [] : ["--workspace", workspace];
  const words = ["ipybox", "register", cause.serverName, "--url", params.url, ...where];
  return new McpLoginRequiredError(cause.serverName, cause.what, words.map(shellWord).join(" "));
}
