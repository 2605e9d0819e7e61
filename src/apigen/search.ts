import { ConfigError } from "../base/errors.ts";
import { Mutex } from "../base/mutex.ts";
import { turn } from "../base/signals.ts";
import { lstatIfPresent } from "../files/safe.ts";
import { isObject, type Json, textOf } from "./json.ts";
import { singular } from "./names.ts";
import { firstSentence, type PackageTool, readPackage } from "./package.ts";

/** A tool that can be found. */
export interface IndexedTool extends PackageTool {
  readonly server: string;
}

/** The result of {@linkcode ToolIndex.search}. */
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

  /**
   * Searches names, descriptions, parameters and results. Throws if no Python API can be read.
   *
   * @param others Tools without a package, to be ranked with those of the servers.
   */
  async search(
    query: string,
    servers: readonly string[],
    others: readonly IndexedTool[] = [],
  ): Promise<ToolMatches> {
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
        damages.push(error); // the other servers are still searched
      }
    }
    if (packages.length === 0 && damages[0] !== undefined) throw damages[0];
    const damaged = damages.map(({ message }) => message);
    const tools = [...packages.flatMap((read) => read.tools), ...others];
    if (query.trim() === "") return { tools, missing, damaged };
    const texts = others.map(({ server, name, description }) => [server, name, description]);
    const key = JSON.stringify([servers, packages.map(({ version }) => version), texts]);
    if (this.#index?.key !== key) this.#index = { key, ranking: await ToolRanking.of(tools) };
    return { tools: this.#index.ranking.search(query), missing, damaged };
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

/** The fields of a tool that are read. */
interface Field {
  /** How much a word counts here. */
  readonly weight: number;
  /** BM25's b here: how much long texts are penalized. */
  readonly penalty: number;
  readonly textOf: (tool: IndexedTool) => string;
}

/** Words count most in a name, less in the first sentence of a description, least in parameters. */
const FIELDS: readonly Field[] = [
  { weight: 5, penalty: 0.3, textOf: ({ name }) => name },
  { weight: 2, penalty: 0.3, textOf: ({ definition }) => textOf(definition.get("title")) },
  { weight: 2, penalty: 0.75, textOf: ({ description }) => firstSentence(description) },
  { weight: 1, penalty: 0.75, textOf: ({ description }) => description },
  {
    weight: 0.5,
    penalty: 0.75,
    textOf: ({ definition }) => propertiesText(definition.get("inputSchema")),
  },
  {
    weight: 0.25,
    penalty: 0.75,
    textOf: ({ definition }) => propertiesText(definition.get("outputSchema")),
  },
];

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
/** The weight of related words. */
const RELATED_WEIGHT = 0.7;
/** The weight of words that start with a word of the query. */
const PREFIX_WEIGHT = 0.5;
const SHORTEST_PREFIX = 3;
/** How much better a tool matches if it has all words of the query. */
const COVERAGE = 1;
/** How much better a tool matches if the query has all words of its name. */
const NAME_COVERAGE = 1;
/** A tool's extra score if the query names its server, and the extra weight of its other matches then. */
const SERVER_SCORE = 2;
const NAMED_SERVER = 4;
/** How many words of a query count: each takes a pass over all known words. */
const MAX_QUERY_WORDS = 32;

interface RankedTool {
  readonly tool: IndexedTool;
  /** The words of its name that are not its server's. */
  readonly name: ReadonlySet<string>;
}

/** Statistics on the words of the tools. */
interface Matches {
  /** How well words match one of the query. */
  readonly weights: Map<string, number>;
  readonly scores: Map<number, number>;
  /** How many words of the query a tool has. */
  readonly found: Map<number, number>;
}

/** Ranks tools by how well they answer a query, with BM25F. Lets other work run meanwhile. */
export class ToolRanking {
  readonly #tools: RankedTool[] = [];
  /** For each word, the tools that have it, and its frequency, weighted by field. */
  readonly #postings = new Map<string, Map<number, number>>();
  /** For each word of servers' names, those servers. */
  readonly #servers = new Map<string, Set<string>>();

  private constructor() {}

  /** Reads the tools' texts. */
  static async of(tools: readonly IndexedTool[]): Promise<ToolRanking> {
    const ranking = new ToolRanking();
    const lengths = FIELDS.map(() => 0);
    const texts: string[][][] = [];
    for (const tool of tools) {
      ranking.#add(tool);
      const fields = FIELDS.map((field) => stemsOf(field.textOf(tool)));
      fields.forEach(({ length }, at) => lengths[at] = (lengths[at] ?? 0) + length);
      texts.push(fields);
      await turn();
    }
    for (const [id, fields] of texts.entries()) {
      for (const [at, { weight, penalty }] of FIELDS.entries()) {
        const words = fields[at] ?? [];
        const length = words.length * tools.length / (lengths[at] ?? 1);
        for (const word of words) {
          ranking.#count(word, id, weight / (1 - penalty + penalty * length));
        }
      }
      await turn();
    }
    return ranking;
  }

  #add(tool: IndexedTool): void {
    const server = new Set(stemsOf(tool.server));
    for (const word of server) {
      this.#servers.set(word, (this.#servers.get(word) ?? new Set()).add(tool.server));
    }
    const name = new Set(stemsOf(tool.name).filter((word) => !server.has(word)));
    this.#tools.push({ tool, name });
  }

  #count(word: string, id: number, weight: number): void {
    const posting = this.#postings.get(word) ?? new Map<number, number>();
    this.#postings.set(word, posting.set(id, (posting.get(id) ?? 0) + weight));
  }

  /** Finds tools with a word of the query, a form of it, a related or a longer one; best first. */
  search(query: string): IndexedTool[] {
    const words = new Set(this.#joined(stemsOf(query)).slice(0, MAX_QUERY_WORDS));
    const matches: Matches = { weights: new Map(), scores: new Map(), found: new Map() };
    for (const word of words) this.#match(word, matches);
    const named = this.#namedServers(words);
    return this.#tools.map(({ tool, name }, id) => {
      const server = named.get(tool.server) ?? 0;
      // Matching most of the words counts more than one rare word.
      const covered = COVERAGE * (matches.found.get(id) ?? 0) / words.size;
      const ofName = NAME_COVERAGE * this.#shareOf(name, matches.weights);
      const score = ((matches.scores.get(id) ?? 0) + SERVER_SCORE * server) *
        (1 + covered + ofName) * (1 + NAMED_SERVER * server);
      return { tool, score };
    })
      .filter(({ score }) => score > 0)
      .sort((a, b) => b.score - a.score)
      .map(({ tool }) => tool);
  }

  /** Joins pairs of words that name a server: "Eleven Labs" becomes "elevenlabs". */
  #joined(words: readonly string[]): string[] {
    const joined: string[] = [];
    for (const word of words) {
      const pair = `${joined.at(-1) ?? ""}${word}`;
      if (this.#servers.has(pair)) joined.pop();
      joined.push(this.#servers.has(pair) ? pair : word);
    }
    return joined;
  }

  /** The share of each server's name that is in a query, weighted by how rare its words are among servers. */
  #namedServers(query: ReadonlySet<string>): Map<string, number> {
    const count = new Set([...this.#servers.values()].flatMap((servers) => [...servers])).size;
    const whole = new Map<string, number>();
    const named = new Map<string, number>();
    for (const [word, servers] of this.#servers) {
      const rarity = rarityOf(servers.size, count);
      for (const server of servers) {
        whole.set(server, (whole.get(server) ?? 0) + rarity);
        if (query.has(word)) named.set(server, (named.get(server) ?? 0) + rarity);
      }
    }
    for (const [server, part] of named) named.set(server, part / (whole.get(server) ?? part));
    return named;
  }

  /** The share of a name that matches, weighted by how rare its words are. */
  #shareOf(name: ReadonlySet<string>, weights: ReadonlyMap<string, number>): number {
    let [whole, matched] = [0, 0];
    for (const word of name) {
      const rarity = rarityOf(this.#postings.get(word)?.size ?? 0, this.#tools.length);
      whole += rarity;
      matched += rarity * (weights.get(word) ?? 0);
    }
    return whole === 0 ? 0 : matched / whole;
  }

  /** Adds the score of one word of a query in each tool, by its best match there. */
  #match(word: string, { weights, scores, found }: Matches): void {
    const best = new Map<number, number>();
    const related = relatedTo(word);
    const own = this.#postings.get(word);
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
      weights.set(known, Math.max(weights.get(known) ?? 0, weight));
      // A rare word that is related to a common one says no more than the common one.
      const having = Math.max(posting.size, own?.size ?? 0);
      const rarity = rarityOf(having, this.#tools.length);
      for (const [id, frequency] of posting) {
        const score = rarity * weight * frequency * (SATURATION + 1) / (frequency + SATURATION);
        best.set(id, Math.max(best.get(id) ?? 0, score));
      }
    }
    const servers = this.#servers.get(word);
    for (const [id, score] of best) {
      // Words that name the server do not distinguish its tools.
      if (servers?.has(this.#tools[id]?.tool.server ?? "")) continue;
      scores.set(id, (scores.get(id) ?? 0) + score);
      found.set(id, (found.get(id) ?? 0) + 1);
    }
  }
}

/** BM25's inverse document frequency. */
function rarityOf(having: number, all: number): number {
  return Math.log(1 + (all - having + 0.5) / (having + 0.5));
}

function stemsOf(text: string): string[] {
  return wordsOf(text.slice(0, MAX_TEXT)).map(stem);
}

/** Words too common to describe a tool. */
const STOP_WORDS: ReadonlySet<string> = new Set(
  ("a all am an and another any anybody are as at be been being both but by can could did do does " +
    "each else every everybody everything for from had has have he her his how i if in into is it " +
    "its just me much my no nobody not nothing of on one or other our over please she should so " +
    "some somebody something than that the their them then there these they this those to together " +
    "use want was we were what when which who whom whose why will with yet you your").split(" "),
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
  "delete remove erase drop clear destroy purge forget clean rid discard",
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
  "approve accept merge allow approval review",
  "analyze analysis diagnose investigate cause root debug reason",
  "transition move status state resolve",
  "switch checkout branch",
  "remember memory observation store note",
  "simulate would",
  "click press tap button",
  "type enter fill input",
  "write enter fill",
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
  "column field attribute property schema",
  "sheet worksheet spreadsheet workbook",
  "cell range",
  "folder directory path",
  "file document attachment",
  "content text body paragraph block",
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
  "time clock date timezone day today",
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
function relatedTo(stemmed: string): ReadonlySet<string> {
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
