/**
 * Generates Python packages for the tools of MCP servers.
 *
 * @module
 */
import { join } from "node:path";
import { assetTree } from "../assets/mod.ts";
import { ConfigError, McpLoginRequiredError, ToolCallError } from "../base/errors.ts";
import { FairTurns } from "../base/signals.ts";
import { connectMcp, type ConnectOptions } from "../mcp/connect.ts";
import { shellWord } from "../base/shell_word.ts";
import { checkServerName, type ServerParams } from "../mcp/params.ts";
import type { ObservedResults } from "../json/shape.ts";
import { withAdditions } from "./additions.ts";
import { isObject, type Json, type JsonObject, toJson } from "./json.ts";
import type { ModuleModel } from "./model.ts";
import { buildModule, type ModuleOrigin, openModule } from "./module_builder.ts";
import { moduleNames } from "./names.ts";
import {
  type Files,
  findStaleTools,
  firstSentence,
  type PackageListing,
  parseListing,
  readListing,
  writeFolder,
  writeStubs,
} from "./package.ts";
import { renderDefinitions, renderModule, renderPackage, renderResults } from "./render.ts";
import {
  LIST_WORK,
  READ_LIST_WORK,
  READ_WORK,
  spend,
  TooMuchWorkError,
  withWork,
  WorkBudget,
  workLeft,
} from "./work.ts";

/** What became of one tool. */
export interface GeneratedTool {
  /** The tool's name on the wire. */
  readonly tool: string;
  /** The name of its module in the server's package; `null` if the tool was left out. */
  readonly module: string | null;
  /** What in its definition could not be followed, or why it was left out. */
  readonly warnings: readonly string[];
}

/** What the results of tools have been like, by the tools' names. */
type Results = ReadonlyMap<string, ObservedResults>;

/** What a server says of itself and of its tools. */
interface ToolListing {
  /** The tools of all pages of `tools/list`, as they came. */
  readonly tools: readonly unknown[];
  /** For each of them, why it cannot be called; such a tool is left out. */
  readonly unusable?: readonly (string | undefined)[];
  /** The server's name, title and version, as it gives them. */
  readonly serverInfo?: unknown;
  /** The server's instructions for its users. */
  readonly instructions?: string;
  /** What is known of results; what the package that is there knows where nothing is given. */
  readonly results?: Results;
}

/** Options for {@linkcode generatePackage}. */
interface GeneratePackageOptions {
  /** The folder that holds the packages of all servers. */
  readonly rootDir: string;
}

/**
 * Generates the Python package for a server's tools. It takes the place of an older one as a whole;
 * what a user has added to a module stays, and so does what is known of the results of tools whose
 * definition is the same.
 */
export async function generatePackage(
  serverName: string,
  listing: ToolListing,
  options: GeneratePackageOptions,
): Promise<GeneratedTool[]> {
  checkServerName(serverName);
  const results = limited(listing.results ?? await knownResults(serverName, listing, options));
  const { files, tools } = await inTurns(renderSteps(serverName, { ...listing, results }));
  await writeFolder(options.rootDir, RUNTIME, runtimeFiles(), { isGenerated: () => true });
  await writeStubs(options.rootDir);
  let former: FormerPackage | undefined;
  await writeFolder(options.rootDir, serverName, files, {
    isGenerated: isGeneratedFile,
    merge: (name, generated, present, old) => {
      if (!name.endsWith(".py") || name === "__init__.py") return generated;
      former ??= new FormerPackage(serverName, old);
      return withAdditions(generated, present, former.text(name));
    },
  });
  return tools;
}

/** What the package that is there knows of the results of tools that have not changed. */
async function knownResults(
  serverName: string,
  { tools }: ToolListing,
  { rootDir }: GeneratePackageOptions,
): Promise<Results> {
  // What cannot be read is replaced, or nothing is written, for a reason that is said then.
  const before = await readListing(rootDir, serverName).catch(() => undefined);
  if (before === undefined || before.results.size === 0) return new Map();
  const { changed, removed } = await findStaleTools(join(rootDir, serverName), tools);
  const stale = new Set([...changed, ...removed]);
  return new Map([...before.results].filter(([name]) => !stale.has(name)));
}

/** Characters of what a package keeps of results. */
const MAX_RESULTS = 2 ** 20;

function limited(results: Results): Results {
  let room = MAX_RESULTS;
  return new Map([...results].filter((entry) => (room -= renderResults([entry]).length) >= 0));
}

/** A package that is not written yet. */
interface RenderedPackage {
  /** The files by name. */
  readonly files: Files;
  /** What became of each tool. */
  readonly tools: GeneratedTool[];
}

/** Makes the files of a package without writing them. */
export function renderFiles(serverName: string, listing: ToolListing): RenderedPackage {
  const steps = renderSteps(serverName, listing);
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
  }
}

/** Takes steps one after the other, while everything else has its turn. */
async function inTurns<T>(steps: Generator<void, T>): Promise<T> {
  const turns = new FairTurns();
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
    await turns.giveWay();
  }
}

/** Makes the files of a package: a step for each module. */
function* renderSteps(serverName: string, listing: ToolListing): Generator<void, RenderedPackage> {
  const entries = withWork(READ_LIST_WORK, () => readTools(listing));
  const about = aboutServer(listing);
  const { files, summaries, definitions, tools } = yield* renderTools(
    serverName,
    entries,
    listing.results,
  );
  files.set("__init__.py", renderPackage({ server: serverName, ...about, modules: summaries }));
  files.set("schema.json", renderDefinitions(listingOf(serverName, about, definitions)));
  if (listing.results !== undefined && listing.results.size > 0) {
    files.set("observed.json", renderResults(listing.results));
  }
  files.set("py.typed", "");
  return { files, tools };
}

/** The modules of all tools for which there is work left. */
function* renderTools(
  serverName: string,
  entries: readonly ToolEntry[],
  results: Results | undefined,
) {
  const work = new WorkBudget(LIST_WORK);
  const names = entries.flatMap((entry) => "reason" in entry ? [] : [entry.name]);
  const modules = work.run(() => moduleNames(names));
  const files = new Map<string, string>();
  const summaries: { module: string; summary: string }[] = [];
  const definitions: JsonObject[] = [];
  const tools: GeneratedTool[] = [];
  for (const entry of entries) {
    yield;
    const { name: tool } = entry;
    if ("reason" in entry) {
      tools.push({ tool, module: null, warnings: [entry.reason] });
      continue;
    }
    const module = modules.get(tool) ?? "";
    const origin: ModuleOrigin = { server: serverName, tool, module };
    const rendered = work.run(() => renderTool(origin, entry.definition, results?.get(tool)));
    if (rendered === undefined) {
      tools.push({ tool, module: null, warnings: [LEFT_OUT] });
      continue;
    }
    const { model, text } = rendered;
    definitions.push(entry.definition);
    files.set(`${module}.py`, text);
    summaries.push({ module, summary: firstSentence(model.description || model.title) });
    const { warning } = entry;
    const warnings = warning === undefined ? model.warnings : [warning, ...model.warnings];
    tools.push({ tool, module, warnings });
  }
  return { files, summaries, definitions, tools };
}

const RUNTIME = "ipybox_runtime";

/** The runtime as far as generated code imports it: its folders are for kernels. */
function runtimeFiles(): Files {
  const files = assetTree(`runtime/${RUNTIME}`)
    .filter(({ path }) => !path.includes("/"))
    .map(({ path, text }) => [path, text] as const);
  return new Map([...files, ["py.typed", ""]]);
}

/** What the text of a module takes that no schema adds to. */
const MODULE_WORK = 2_000;

/** Tools of a server that get a module. The largest real servers have some hundreds. */
const MAX_TOOLS = 5_000;

/** Characters of a tool's name. MCP recommends 128 at most. */
const MAX_NAME = 1_000;

/** Characters of instructions that a package's docstring shows. Real ones have some thousands. */
const MAX_INSTRUCTIONS = 100_000;

const LEFT_OUT =
  "The server's list of tools is too large to generate an API for all of them: this tool is omitted";

/**
 * Renders a tool. One that defeats the generator gets a module that takes any arguments; `undefined`
 * where there is not even work left for that.
 */
function renderTool(
  origin: ModuleOrigin,
  definition: JsonObject,
  results: ObservedResults | undefined,
): { model: ModuleModel; text: string } | undefined {
  const render = (build: () => ModuleModel) =>
    withWork(workLeft() / 4, () => { // so that some tools do not take all of it
      spend(MODULE_WORK);
      const model = build();
      return { model, text: renderModule(model) };
    });
  try {
    return render(() => buildModule(origin, definition, results));
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    const reason =
      `The schema is too deep or too large: arguments are not checked (${error.message})`;
    try {
      return render(() => openModule(origin, definition, reason));
    } catch (again) {
      if (again instanceof TooMuchWorkError) return undefined;
      throw again;
    }
  }
}

type ToolEntry =
  | { readonly name: string; readonly definition: JsonObject; readonly warning?: string }
  | { readonly name: string; readonly reason: string };

function readTools({ tools, unusable = [] }: ToolListing): ToolEntry[] {
  const seen = new Set<string>();
  return tools.map((tool, index): ToolEntry => {
    if (seen.size >= MAX_TOOLS) {
      const name = nameOf(tool)?.slice(0, MAX_NAME) ?? `#${index + 1}`;
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
  if (name !== undefined && name.length > MAX_NAME) {
    return { name: place, reason: `The tool's name is longer than ${MAX_NAME} characters` };
  }
  let definition: Json | undefined;
  try {
    definition = withWork(READ_WORK, () => toJson(tool));
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    if (name === undefined) return { name: place, reason: error.message };
    // The name alone still makes a tool that can be called.
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

/** What a server says of itself. */
interface ServerWords {
  readonly info: JsonObject | undefined;
  readonly title: string;
  readonly instructions: string;
}

/** What a server says of itself, as far as that is not too long to be read. */
function aboutServer({ serverInfo, instructions = "" }: ToolListing): ServerWords {
  const info = readInfo(serverInfo);
  const title = textOf(info?.get("title")) || textOf(info?.get("name"));
  const isReadable = instructions.length <= MAX_INSTRUCTIONS;
  return { info, title, instructions: isReadable ? instructions : "" };
}

function readInfo(info: unknown): JsonObject | undefined {
  try {
    const json = withWork(MODULE_WORK, () => toJson(info));
    return isObject(json) ? json : undefined;
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return undefined;
  }
}

function textOf(value: Json | undefined): string {
  return typeof value === "string" ? value.trim() : "";
}

function listingOf(
  serverName: string,
  { info, instructions }: ServerWords,
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

/** Whether a file in a package is one of ours, so that it goes when its tool does. */
function isGeneratedFile(name: string, text: string | undefined): boolean {
  if (DATA_FILES.has(name)) return true;
  if (name === "__pycache__") return true;
  return name.endsWith(".py") && (text?.slice(0, 1_000).includes("(generated by ipybox") ?? false);
}

/** What had been generated before, made again from the definitions beside it. */
class FormerPackage {
  readonly #server: string;
  readonly #work = new WorkBudget(LIST_WORK);
  readonly #listing: PackageListing | undefined;
  /** The definitions of tools by their modules' files. */
  readonly #definitions: ReadonlyMap<string, JsonObject>;

  constructor(server: string, old: Files) {
    this.#server = server;
    this.#listing = listingIn(old);
    const tools = this.#listing?.tools ?? [];
    const modules = moduleNames(tools.map((tool) => nameOf(tool) ?? ""));
    this.#definitions = new Map(
      tools.map((tool) => [`${modules.get(nameOf(tool) ?? "")}.py`, tool]),
    );
  }

  /** The text of a file; without it, generated code is told by its looks. */
  text(file: string): string | undefined {
    const definition = this.#definitions.get(file);
    if (definition === undefined) return undefined;
    const tool = nameOf(definition) ?? "";
    const origin = { server: this.#server, tool, module: file.slice(0, -".py".length) };
    const results = this.#listing?.results.get(tool);
    return this.#work.run(() => renderTool(origin, definition, results))?.text;
  }
}

function listingIn(files: Files): PackageListing | undefined {
  try {
    return parseListing("", files.get("schema.json") ?? "", files.get("observed.json"));
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return undefined; // it is damaged
  }
}

/** Options of {@linkcode generateMcpSources}. */
export interface GenerateMcpSourcesOptions extends ConnectOptions {
  /**
   * The settings files in the workspace, for sandboxes of servers, that executed code cannot change.
   * Others there are refused; without the list, all are taken.
   */
  settingsFiles?: readonly string[];
  /** Cancels it. */
  signal?: AbortSignal;
  /** The folder that holds the packages of all servers, usually `mcptools` in the workspace. */
  rootDir: string;
  /**
   * Called before anything is written, once the server has told its tools. What it returns is called
   * if the package then cannot be written, and undoes what it did.
   */
  beforeWrite?: () => Promise<() => Promise<void>>;
}

/** How long a server's list must stay as it is: some servers add tools after the handshake. */
const SETTLE_MS = 300;

/**
 * Connects to an MCP server and generates the Python package for its tools, in place of an older one.
 * What a user has added to a module stays.
 *
 * @param serverName The name of the package: a Python identifier in lower case.
 * @param params How the server is started or reached. `${VAR}` is filled in now and not written.
 * @param options Where the package goes, and how long to wait for the server.
 * @returns What became of each tool, in the order of the server's list.
 * @throws {TypeError} The server's name is none that a package can have.
 * @throws {ConfigError} A variable is not set or the parameters make no sense; nothing was started.
 * @throws {McpLoginRequiredError} The server asks for a login, and `login` is not given.
 * @throws {McpConnectionError} The server does not start, cannot be reached, or does not answer in
 * time. The older package stays.
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
  const { rootDir, beforeWrite, ...connectOptions } = options;
  checkServerName(serverName);
  await using connection = await connectMcp(serverName, params, connectOptions)
    .catch((error) => {
      throw asRegistration(error, params, options);
    });
  const listOptions = { settleMs: SETTLE_MS, signal: options.signal };
  // Some servers ask for a login only here.
  const listing = await connection.describe(listOptions).catch((error) => {
    throw asRegistration(error, params, options);
  });
  options.signal?.throwIfAborted();
  const undo = await beforeWrite?.();
  try {
    return await generatePackage(serverName, listing, { rootDir });
  } catch (error) {
    await undo?.();
    throw error;
  }
}

/** A server that is not registered yet is not logged in to by its name. */
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
