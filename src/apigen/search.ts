import { ConfigError } from "../base/errors.ts";
import { Mutex } from "../base/mutex.ts";
import { fairTurns } from "../base/signals.ts";
import { lstatIfPresent } from "../files/safe.ts";
import { isObject, type Json, textOf } from "./json.ts";
import { singular } from "./names.ts";
import { type PackageTool, readPackage } from "./package.ts";

/** A tool that can be found. */
export interface IndexedTool extends PackageTool {
  readonly server: string;
}

/** What {@linkcode ToolIndex.search} found. */
export interface ToolMatches {
  /** The tools, best first; for an empty query all, in the order of servers and their lists. */
  readonly tools: readonly IndexedTool[];
  /** Servers without a Python API. */
  readonly missing: readonly string[];
  /** Why Python APIs of other servers cannot be read. */
  readonly damaged: readonly string[];
}

interface ReadPackage {
  /** Changes when the package is rewritten. */
  readonly version: string;
  readonly tools: readonly IndexedTool[];
}

/** Searches the tools of generated packages. Rewritten packages are read again; no server is started. */
export class ToolIndex {
  readonly #root: string;
  readonly #packages = new Map<string, ReadPackage>();
  readonly #turns = new Mutex();
  #index: { readonly key: string; readonly ranking: ToolRanking } | undefined;

  /** @param root The folder of the packages. */
  constructor(root: string) {
    this.#root = root;
  }

  /** Searches names, descriptions, parameters and results. Throws if no Python API can be read. */
  async search(query: string, servers: readonly string[]): Promise<ToolMatches> {
    using _turn = await this.#turns.acquire();
    const missing: string[] = [];
    const damages: ConfigError[] = [];
    const packages: ReadPackage[] = [];
    for (const server of servers) {
      try {
        const read = await this.#read(server);
        if (read === undefined) missing.push(server);
        else packages.push(read);
      } catch (error) {
        if (!(error instanceof ConfigError)) throw error;
        damages.push(error); // which costs other servers nothing
      }
    }
    if (packages.length === 0 && damages[0] !== undefined) throw damages[0];
    const damaged = damages.map(({ message }) => message);
    const tools = packages.flatMap((read) => read.tools);
    if (query.trim() === "") return { tools, missing, damaged };
    const key = JSON.stringify([servers, packages.map(({ version }) => version)]);
    if (this.#index?.key !== key) this.#index = { key, ranking: await ToolRanking.of(tools) };
    return { tools: await this.#index.ranking.search(query), missing, damaged };
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
  const info = await lstatIfPresent(path);
  return info && `${info.ino}-${info.size}-${info.mtime?.getTime()}`;
}

/** How much of a text counts. Servers and code choose its length. */
const MAX_TEXT = 20_000;

/** Words count most in a name, less in a description, least in parameters. */
function textsOf(
  { server, name, description, definition }: IndexedTool,
): { text: string; weight: number }[] {
  return [
    { text: name, weight: 5 },
    { text: server, weight: 2 },
    { text: textOf(definition.get("title")), weight: 2 },
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

/** BM25's k1, how soon repetitions of a word stop counting: the usual value. */
const SATURATION = 1.2;
/** BM25's b, how much long documents are penalized: the usual value. */
const LENGTH_PENALTY = 0.75;
/** The weight of words that start with a word of the query. */
const PREFIX_WEIGHT = 0.5;
/** How much better a document is if it has all words of the query. */
const COVERAGE = 1;
const SHORTEST_PREFIX = 3;
/** How much better a tool matches if the query names its server. */
const NAMED_SERVER = 2;
/** The weight of related words. */
const RELATED_WEIGHT = 0.6;
/** How many words of a query count: each takes a pass over all known words. */
const MAX_QUERY_WORDS = 32;

/** Ranks tools by how well they answer a query, with Okapi BM25. Others have their turns meanwhile. */
export class ToolRanking {
  readonly #documents: { readonly tool: IndexedTool; readonly length: number }[] = [];
  readonly #postings = new Map<string, Map<number, number>>();
  #totalLength = 0;

  private constructor() {}

  /** Reads the tools' texts. */
  static async of(tools: readonly IndexedTool[]): Promise<ToolRanking> {
    const ranking = new ToolRanking();
    fairTurns.resume();
    for (const tool of tools) {
      ranking.#add(tool);
      await fairTurns.giveWay();
    }
    return ranking;
  }

  #add(tool: IndexedTool): void {
    const id = this.#documents.length;
    let length = 0;
    for (const { text, weight } of textsOf(tool)) {
      for (const word of wordsOf(text.slice(0, MAX_TEXT)).map(stem)) {
        const posting = this.#postings.get(word) ?? new Map<number, number>();
        this.#postings.set(word, posting.set(id, (posting.get(id) ?? 0) + weight));
        length += weight;
      }
    }
    this.#documents.push({ tool, length });
    this.#totalLength += length;
  }

  /** Finds tools with a word of the query, a form of it, a related or a longer one; best first. */
  async search(query: string): Promise<IndexedTool[]> {
    const words = wordsOf(query);
    // Also joined pairs: "eleven labs" names "elevenlabs".
    const named = new Set([...words, ...words.slice(1).map((word, i) => `${words[i]}${word}`)]);
    const isNamed = new Map<string, boolean>();
    const scores = new Map<number, number>();
    const found = new Map<number, number>();
    const stems = new Set(words.slice(0, MAX_QUERY_WORDS).map(stem));
    fairTurns.resume();
    for (const word of stems) {
      await fairTurns.giveWay();
      for (const [id, score] of this.#scoresOf(word)) {
        scores.set(id, (scores.get(id) ?? 0) + score);
        found.set(id, (found.get(id) ?? 0) + 1);
      }
    }
    return this.#documents.map(({ tool }, id) => {
      const { server } = tool;
      if (!isNamed.has(server)) {
        isNamed.set(server, wordsOf(server).some((word) => named.has(word)));
      }
      // Matching most of the words counts more than one rare word.
      const covered = 1 + COVERAGE * (found.get(id) ?? 0) / stems.size;
      const score = (scores.get(id) ?? 0) * covered * (isNamed.get(server) ? NAMED_SERVER : 1);
      return { tool, score };
    })
      .filter(({ score }) => score > 0)
      .sort((a, b) => b.score - a.score)
      .map(({ tool }) => tool);
  }

  /** The score of one word of a query in each document, by its best match there. */
  #scoresOf(word: string): Map<number, number> {
    const best = new Map<number, number>();
    const related = relatedTo(word);
    const averageLength = this.#totalLength / Math.max(1, this.#documents.length);
    for (const [known, posting] of this.#postings) {
      const isPrefix = word.length >= SHORTEST_PREFIX && known.startsWith(word);
      const weight = known === word
        ? 1
        : related.has(known)
        ? RELATED_WEIGHT
        : isPrefix
        ? PREFIX_WEIGHT
        : 0;
      if (weight === 0) continue;
      const count = this.#documents.length;
      const rarity = Math.log(1 + (count - posting.size + 0.5) / (posting.size + 0.5));
      for (const [id, frequency] of posting) {
        const length = (this.#documents[id]?.length ?? 0) / averageLength;
        const damping = SATURATION * (1 - LENGTH_PENALTY + LENGTH_PENALTY * length);
        const score = rarity * weight * frequency * (SATURATION + 1) / (frequency + damping);
        best.set(id, Math.max(best.get(id) ?? 0, score));
      }
    }
    return best;
  }
}

/** Words too common to describe a tool. */
const STOP_WORDS: ReadonlySet<string> = new Set(
  ("a an and are as at be by can did do does for from had has have how i in into is it its me much " +
    "my of on one or our over some somebody that the their there this to together use want was we " +
    "what when which why with you your").split(" "),
);

/** The words of a text: lower case, singular, with `camelCase` and `snake_case` split. */
export function wordsOf(text: string): string[] {
  const words = text
    .replaceAll(/(\p{Ll}|\p{N})(\p{Lu})/gu, "$1 $2")
    .replaceAll(/(\p{Lu})(\p{Lu}\p{Ll})/gu, "$1 $2")
    .toLowerCase()
    .match(/[\p{L}\p{N}]+/gu) ?? [];
  return words.filter((word) => !STOP_WORDS.has(word)).map((word) => singular(word) ?? word);
}

// Words that mean the same in a search: forms of one word, and related words.

/** Groups of words related in searches for tools. The relation is not transitive across groups. */
const GROUPS: readonly string[] = [
  "create add new make insert open post register generate",
  "delete remove erase drop clear destroy purge forget clean",
  "update edit modify change set patch adjust alter mark",
  "get fetch retrieve read show view see describe display open look",
  "list show enumerate browse which",
  "search find query lookup look discover filter locate where explore",
  "send post push message publish notify broadcast",
  "run execute start launch trigger invoke kick call begin",
  "stop abort cancel kill terminate end halt",
  "restart reboot rollout rerun retry redo",
  "save write store put commit",
  "copy clone fork duplicate",
  "move rename relocate",
  "upload attach import load append",
  "download export save",
  "deploy release ship rollout",
  "build package compile bundle",
  "test check validate verify try",
  "approve accept merge allow",
  "analyze analysis diagnose investigate cause root debug reason",
  "transition move status state resolve",
  "switch checkout branch",
  "remember memory observation store note",
  "simulate would",
  "click press tap button",
  "type write enter fill input",
  "navigate go visit open url",
  "transcribe transcript speech text",
  "speech voice audio aloud sound speak say",
  "image picture screenshot photo capture snapshot icon",
  "comment note reply remark annotation",
  "issue ticket bug error problem defect incident crash",
  "repository repo project",
  "pull pr",
  "request pr mr",
  "merge mr",
  "commit change log history",
  "log output message console line",
  "database db sql table collection",
  "row record item entry document",
  "column field attribute property",
  "sheet worksheet spreadsheet workbook",
  "cell range",
  "folder directory path",
  "file document attachment",
  "content text body",
  "info information detail metadata about",
  "user person people member account profile contact somebody",
  "permission policy access role right",
  "secret key password credential vault",
  "price cost spend pricing bill budget money",
  "anomaly unexpected spike",
  "page web website site url html",
  "channel room conversation thread",
  "message text chat",
  "emoji reaction",
  "time clock date timezone",
  "hour worklog time",
  "chart graph plot diagram",
  "format style bold font",
  "pod container exec",
  "scale dyno resize",
  "job task run workflow pipeline",
  "pipeline workflow build ci",
  "flaky sometime",
  "fail failure failed error",
  "audit event trail",
  "alarm alert firing active",
  "metric cpu measure value",
  "config configuration setting option",
  "company contact object deal crm",
  "data dataset result output",
  "markdown scrape",
  "last recent latest",
  "map sitemap",
];

/** The common form of a word's forms, such as `creat` for create, creates, creating and creation. */
export function stem(word: string): string {
  if (word.length < 4 || !/^[a-z]+$/.test(word)) return word;
  const base = withoutEnding(word);
  const single = /([bdfgkmnprt])\1$/.test(base) && base !== word ? base.slice(0, -1) : base;
  if (single.length > 3 && single.endsWith("e")) return single.slice(0, -1);
  return single.length > 3 && single.endsWith("y") ? `${single.slice(0, -1)}i` : single;
}

/** The stems of related words. */
export function relatedTo(stemmed: string): ReadonlySet<string> {
  return (related ??= relations()).get(stemmed) ?? NONE;
}

const NONE: ReadonlySet<string> = new Set();

function withoutEnding(word: string): string {
  for (const [ending, shortest] of ENDINGS) {
    if (word.endsWith(ending) && word.length - ending.length >= shortest) {
      return word.slice(0, -ending.length);
    }
  }
  return /[st]ion$/.test(word) && word.length > 5 ? word.slice(0, -3) : word;
}

/** Endings to cut off, and how many letters must remain. */
const ENDINGS: readonly (readonly [ending: string, shortest: number])[] = [
  ["ing", 3],
  ["ment", 4],
  ["ed", 3],
];

function relations(): Map<string, Set<string>> {
  const all = new Map<string, Set<string>>();
  for (const group of GROUPS) {
    const stems = group.split(" ").map(stem);
    for (const one of stems) {
      const others = all.get(one) ?? new Set();
      for (const other of stems) if (other !== one) others.add(other);
      all.set(one, others);
    }
  }
  return all;
}

/** Made for the first search: most sessions start without one. */
let related: ReturnType<typeof relations> | undefined;
