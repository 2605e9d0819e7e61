import { Mutex } from "../async/mutex.ts";
import { Bm25, type WeightedText, wordsOf } from "./bm25.ts";
import { isObject, type Json } from "./json.ts";
import { type PackageTool, readPackage } from "./package_reader.ts";

/** A tool that can be found. */
export interface IndexedTool extends PackageTool {
  /** The registered server. */
  readonly server: string;
}

/** What {@linkcode ToolIndex.search} found. */
export interface ToolMatches {
  /** The tools, best first; for an empty query all, by server and in its order. */
  readonly tools: readonly IndexedTool[];
  /** Servers without a Python API. */
  readonly missing: readonly string[];
}

/** A package as it was read. */
interface ReadPackage {
  /** Tells whether it was written anew since. */
  readonly version: string;
  readonly tools: readonly IndexedTool[];
}

/** How much better a tool is found whose server the query names. */
const NAMED_SERVER = 2;

/** Tools in the order of how well they answer a query. */
export class ToolRanking {
  readonly #ranking: Bm25<IndexedTool>;

  /** @param tools The tools. */
  constructor(tools: readonly IndexedTool[]) {
    this.#ranking = new Bm25(tools, textsOf);
  }

  /** Finds tools, best first. */
  search(query: string): IndexedTool[] {
    const words = wordsOf(query);
    // Also as one word: "eleven labs" is "elevenlabs".
    const named = new Set([...words, ...words.slice(1).map((word, i) => `${words[i]}${word}`)]);
    const isNamed = new Map<string, boolean>();
    const matches = this.#ranking.search(query).map(({ item, score }) => {
      const { server } = item;
      if (!isNamed.has(server)) {
        isNamed.set(server, wordsOf(server).some((word) => named.has(word)));
      }
      return { item, score: isNamed.get(server) ? score * NAMED_SERVER : score };
    });
    return matches.sort((a, b) => b.score - a.score).map(({ item }) => item);
  }
}

/**
 * Finds tools in the generated packages. A package is read again when it was written anew; no server
 * is started.
 */
export class ToolIndex {
  readonly #root: string;
  readonly #packages = new Map<string, ReadPackage>();
  readonly #turns = new Mutex();
  #index: { readonly key: string; readonly ranking: ToolRanking } | undefined;

  /** @param root The folder of all packages. */
  constructor(root: string) {
    this.#root = root;
  }

  /** Searches names, descriptions, parameters and results. */
  async search(query: string, servers: readonly string[]): Promise<ToolMatches> {
    using _turn = await this.#turns.acquire();
    const missing: string[] = [];
    const packages: ReadPackage[] = [];
    for (const server of servers) {
      const read = await this.#read(server);
      if (read === undefined) missing.push(server);
      else packages.push(read);
    }
    const tools = packages.flatMap((read) => read.tools);
    if (query.trim() === "") return { tools, missing };
    const key = JSON.stringify([servers, packages.map(({ version }) => version)]);
    if (this.#index?.key !== key) this.#index = { key, ranking: new ToolRanking(tools) };
    return { tools: this.#index.ranking.search(query), missing };
  }

  async #read(server: string): Promise<ReadPackage | undefined> {
    const version = await versionOf(`${this.#root}/${server}/schema.json`);
    const known = this.#packages.get(server);
    if (version !== undefined && known?.version === version) return known;
    const tools = version === undefined ? undefined : await readPackage(this.#root, server);
    if (version === undefined || tools === undefined) {
      this.#packages.delete(server);
      return undefined;
    }
    const read = { version, tools: tools.map((tool) => ({ server, ...tool })) };
    this.#packages.set(server, read);
    return read;
  }
}

async function versionOf(path: string): Promise<string | undefined> {
  try {
    const { ino, size, mtime } = await Deno.lstat(path);
    return `${ino}-${size}-${mtime?.getTime()}`;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}

/** The words of a name say more than those of a description, and these more than a parameter's. */
function textsOf({ server, name, description, definition }: IndexedTool): WeightedText[] {
  const title = definition.get("title");
  return [
    { text: name, weight: 5 },
    { text: server, weight: 2 },
    { text: typeof title === "string" ? title : "", weight: 2 },
    { text: description, weight: 1 },
    { text: propertiesText(definition.get("inputSchema")), weight: 0.5 },
    { text: propertiesText(definition.get("outputSchema")), weight: 0.25 },
  ];
}

function propertiesText(schema: Json | undefined): string {
  const properties = isObject(schema) ? schema.get("properties") : undefined;
  return isObject(properties) ? [...properties].map(propertyText).join(" ") : "";
}

function propertyText([name, schema]: [string, Json]): string {
  const description = isObject(schema) ? schema.get("description") : undefined;
  return typeof description === "string" ? `${name} ${description}` : name;
}
