// deno-lint-ignore-file no-console -- it reports to a terminal
/**
 * How often `search_tools` finds the right tool among those of real servers, all registered together.
 *
 * Run it with `deno run -A benchmarks/search.ts [--misses]`. It takes the corpus beside the repository or
 * in `IPYBOX_CORPUS`, and fails where recall is below what is promised.
 *
 * @module
 */
import { isObject, toJson } from "../src/apigen/json.ts";
import { type IndexedTool, ToolRanking } from "../src/apigen/search.ts";
import { CORPUS, corpusServers, NO_CORPUS } from "../tests/support/corpus.ts";
import { REQUESTS, type SearchRequest } from "./search_requests.ts";

/** The least share of requests whose tool is among the first five. */
const LEAST = { "with the server named": 0.85, "without": 0.7 } as const;
const SHOWN = 5;

if (CORPUS === undefined) {
  console.log(`Skipped: ${NO_CORPUS}`);
  Deno.exit(0);
}
const tools = readCorpus();

const ranking = await ToolRanking.of(tools.map(({ tool }) => tool));
const idOf = new Map(tools.map(({ tool, id }) => [tool, id]));
let isGood = true;
for (const [how, least] of Object.entries(LEAST)) {
  const queryOf = ([wanted, where]: SearchRequest) =>
    how === "without" ? wanted : `${wanted} ${where}`;
  const start = performance.now();
  const misses: SearchRequest[] = [];
  for (const request of REQUESTS) {
    if (!await isFound(queryOf(request), request[2])) misses.push(request);
  }
  const ms = (performance.now() - start) / REQUESTS.length;
  const recall = 1 - misses.length / REQUESTS.length;
  console.log(
    `recall@${SHOWN} ${how}: ${recall.toFixed(3)} of ${REQUESTS.length} requests, ` +
      `${tools.length} tools, ${ms.toFixed(2)} ms each`,
  );
  if (Deno.args.includes("--misses")) {
    for (const request of misses) {
      console.log(`  ${queryOf(request)}: ${(await first(queryOf(request))).join(" ")}`);
    }
  }
  isGood &&= recall >= least;
}
Deno.exit(isGood ? 0 : 1);

async function isFound(query: string, wanted: readonly string[]): Promise<boolean> {
  return (await first(query)).some((id) => wanted.includes(id));
}

async function first(query: string): Promise<string[]> {
  const found = await ranking.search(query);
  return found.slice(0, SHOWN).map((tool) => idOf.get(tool) ?? "");
}

/** All tools, under the names that people give servers. */
function readCorpus(): { readonly tool: IndexedTool; readonly id: string }[] {
  const found = corpusServers().flatMap(({ server: published, tools }) =>
    tools.flatMap((tool) => {
      const definition = toJson(tool);
      if (!isObject(definition)) return [];
      const [server, { name }] = [serverName(published), tool];
      const description = String(tool.description ?? "");
      const indexed = { server, module: name, name, description, annotations: {}, definition };
      return [{ tool: indexed, id: `${published}:${name}` }];
    })
  );
  return found.sort((a, b) => a.id < b.id ? -1 : 1);
}

/** Such as `slack` for `mcp-server-slack`. */
function serverName(published: string): string {
  const words = published.split("-").filter((word) => !["mcp", "server", "py"].includes(word));
  const vendors: Readonly<Record<string, string>> = {
    notionhq_notion: "notion",
    zereight_gitlab: "gitlab",
    circleci_circleci: "circleci",
    line_line_bot: "line_bot",
  };
  const name = words.join("_");
  return vendors[name] ?? name;
}
