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
import { REQUESTS, SAMPLED, type SampledRequest } from "./search_requests.ts";

/** The least share of requests whose tool is among the first five. */
const LEAST = { "with the server named": 0.85, "without": 0.7 } as const;
const SHOWN = 5;
/**
 * The sets of requests. The ranking is improved by looking at what it misses of the first two; what it
 * misses of the last is never shown, so that its recall says what to expect of other requests.
 */
const SETS: readonly { name: string; requests: readonly SampledRequest[]; isHidden?: true }[] = [
  { name: "chosen", requests: REQUESTS },
  { name: "sampled, for tuning", requests: SAMPLED.filter((_, at) => at % 2 === 0) },
  { name: "sampled, held out", requests: SAMPLED.filter((_, at) => at % 2 === 1), isHidden: true },
];

if (CORPUS === undefined) {
  console.log(`Skipped: ${NO_CORPUS}`);
  Deno.exit(0);
}
const tools = readCorpus();
const ranking = await ToolRanking.of(tools.map(({ tool }) => tool));
const idOf = new Map(tools.map(({ tool, id }) => [tool, id]));
console.log(`${tools.length} tools`);
let isGood = true;
for (const { name, requests, isHidden } of SETS) {
  for (const [how, least] of Object.entries(LEAST)) {
    const isNamed = how !== "without";
    const start = performance.now();
    const misses: string[] = [];
    for (const [wanted, where, here, elsewhere = []] of requests) {
      const query = isNamed ? `${wanted} ${where}` : wanted;
      const found = ranking.search(query).slice(0, SHOWN).map((tool) => idOf.get(tool) ?? "");
      const right = isNamed ? here : [...here, ...elsewhere];
      if (!found.some((id) => right.includes(id))) misses.push(`  ${query}: ${found.join(" ")}`);
    }
    const ms = (performance.now() - start) / requests.length;
    const recall = 1 - misses.length / requests.length;
    console.log(
      `${name}: recall@${SHOWN} ${how} ${recall.toFixed(3)} of ${requests.length} requests, ` +
        `${ms.toFixed(1)} ms each`,
    );
    if (Deno.args.includes("--misses") && !isHidden) console.log(misses.join("\n"));
    isGood &&= recall >= least;
  }
}
Deno.exit(isGood ? 0 : 1);

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
