/**
 * Remembers the shape of results that tools do not declare: names and broad types, in the user's state
 * folder for the workspace.
 */
import { join } from "node:path";
import type { CallObserver, ObservedCall } from "../approval/observed_call.ts";
import type { Logger } from "../base/log.ts";
import { Mutex } from "../base/mutex.ts";
import {
  lockUserFolder,
  lstatIfPresent,
  readHostileFile,
  replaceHostileFile,
} from "../files/safe.ts";
import { makeWorkspaceState, workspaceState } from "../files/workspace_state.ts";
import { type ExactJson, isRecord } from "../json/exact.ts";
import {
  mergeResults,
  type ObservedResults,
  resultsFromJson,
  resultsToJson,
  shapeOf,
} from "../json/shape.ts";
import { parsedJson } from "../json/plain.ts";
import { responseOf, type ToolResult } from "../mcp/results.ts";

/** Facts about a tool's results. */
interface ToolShape {
  /** The server's name. */
  readonly server: string;
  /** The tool's name on the wire. */
  readonly tool: string;
  /** The hash of the tool's definition, to which the results belong. */
  readonly hash: string;
  readonly results: ObservedResults;
}

/** Longer texts are not parsed for their shape. */
const MAX_TEXT = 2 ** 19;
/** How long results are collected before they are saved. */
const SAVE_MS = 5000;
/** The size limit of the file, in characters. The most recently called tools are kept. */
const MAX_FILE = 2 ** 20;

/** Learns the shape of results from calls. Disposing it saves what is not saved yet. */
export class ResultShapes implements CallObserver, AsyncDisposable {
  readonly #workspace: string;
  readonly #log: Logger;
  readonly #writing = new Mutex();
  #saving: ReturnType<typeof setTimeout> | undefined;
  #fresh = new Map<string, ToolShape>();
  #failed = false;

  constructor(workspace: string, log: Logger) {
    this.#workspace = workspace;
    this.#log = log;
  }

  /** Records the shape of a result, unless its tool declares an output schema. */
  ended({ call, tool, target, result, status }: Readonly<ObservedCall>): void {
    const hash = target?.toolHash;
    if (status !== "ok" || result === undefined || hash === undefined) return;
    if (tool?.outputSchema !== undefined) return;
    const json = jsonOf(result);
    if (json === undefined) return;
    const { serverName: server, toolName } = call;
    const results = { calls: 1, shape: shapeOf(json) };
    add(this.#fresh, { server, tool: toolName, hash, results });
    if (this.#saving !== undefined) return;
    this.#saving = setTimeout(() => void this.flush(), SAVE_MS);
    Deno.unrefTimer(this.#saving);
  }

  /** Saves what is not saved yet. Failures are logged. */
  async flush(): Promise<void> {
    clearTimeout(this.#saving);
    this.#saving = undefined;
    using _turn = await this.#writing.acquire();
    const fresh = [...this.#fresh.values()];
    if (fresh.length === 0) return;
    this.#fresh = new Map();
    try {
      const folder = await makeWorkspaceState(this.#workspace);
      if (folder === undefined) return; // they cannot be kept
      using _lock = await lockUserFolder(folder);
      const all = new Map<string, ToolShape>();
      for (const shape of [...await read(folder), ...fresh]) add(all, shape);
      await write(folder, [...all.values()]);
      this.#failed = false;
    } catch (error) {
      if (!this.#failed) this.#log.warn(`Cannot save the observed result types: ${error}`);
      this.#failed = true;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.flush();
  }
}

/** The JSON of a result, as the runtime's `run_json()` returns it to code. */
function jsonOf(result: ToolResult): ExactJson | undefined {
  if ((responseOf(result)?.length ?? 0) > 2 * MAX_TEXT) return undefined; // it takes a while to read
  const { structuredContent, content } = result;
  if (structuredContent !== undefined) return structuredContent;
  const texts = content.flatMap(({ type, text }) => type === "text" ? [String(text)] : []);
  if (texts.reduce((sum, { length }) => sum + length, 0) > MAX_TEXT) return undefined;
  const text = texts.join("\n");
  return /^\s*[[{]/.test(text) ? parsedJson(text) : undefined;
}

/** Runs a function with the recorded shapes of results, if any, while other processes wait. */
export async function withShapes(
  workspace: string,
  use: (shapes: readonly ToolShape[], folder: string) => Promise<void>,
): Promise<void> {
  const folder = await workspaceState(workspace);
  if (folder === undefined || await lstatIfPresent(join(folder, FILE)) === undefined) return;
  using _lock = await lockUserFolder(folder);
  await use(await read(folder), folder);
}

/** Forgets the shapes of a server's results. */
export async function forgetShapes(workspace: string, server: string): Promise<void> {
  await withShapes(workspace, async (shapes, folder) => {
    const others = shapes.filter((shape) => shape.server !== server);
    if (others.length < shapes.length) await write(folder, others);
  });
}

const FILE = "shapes.json";

/** Merges a shape into the record of its tool, which moves to the end. */
function add(all: Map<string, ToolShape>, shape: ToolShape): void {
  const key = JSON.stringify([shape.server, shape.tool]);
  const known = all.get(key);
  all.delete(key);
  const isSame = known?.hash === shape.hash;
  all.set(key, isSame ? { ...shape, results: mergeResults(known.results, shape.results) } : shape);
}

/** Reads the file. A damaged one counts as empty, and is replaced later. */
async function read(folder: string): Promise<ToolShape[]> {
  const text = await readHostileFile(join(folder, FILE)) ?? "{}";
  const json: unknown = parsedJson(text);
  const tools = isRecord(json) && Array.isArray(json.tools) ? json.tools : [];
  return tools.flatMap((entry: unknown): ToolShape[] => {
    if (!isRecord(entry)) return [];
    const { server, tool, hash } = entry;
    if (typeof server !== "string" || typeof tool !== "string" || typeof hash !== "string") {
      return [];
    }
    return [{ server, tool, hash, results: resultsFromJson(entry) }];
  });
}

async function write(folder: string, shapes: readonly ToolShape[]): Promise<void> {
  const lines: string[] = [];
  let room = MAX_FILE;
  for (const { server, tool, hash, results } of shapes.toReversed()) {
    const line = JSON.stringify({ server, tool, hash, ...resultsToJson(results) });
    if (line.length > room) continue;
    room -= line.length;
    lines.unshift(line);
  }
  const text = `{"version":1,"tools":[\n${lines.join(",\n")}\n]}\n`;
  await replaceHostileFile(join(folder, FILE), text);
}
