import { parseExact } from "../json/exact.ts";
import { isSameShape, type ObservedResults } from "../json/shape.ts";
import { readTool, toolHash } from "../mcp/tools.ts";
import { type JsonObject, writeJson } from "./json.ts";
import { declaresResult, readListing } from "./package.ts";

/** Facts about a tool's results. */
interface KnownResults {
  /** The tool's name, as the server knows it. */
  readonly tool: string;
  readonly hash: string;
  readonly results: ObservedResults;
}

/** Regenerates a package if more is known of its tools' results: another type, or ten times as many calls. */
export async function learnResults(
  root: string,
  server: string,
  known: readonly KnownResults[],
): Promise<void> {
  const listing = await readListing(root, server);
  if (listing === undefined) return;
  const definitions = new Map(listing.tools.map((tool) => [tool.get("name"), tool]));
  const updates = known.filter(({ tool, hash, results }) => {
    const definition = definitions.get(tool);
    return definition !== undefined && !declaresResult(definition) &&
      saysMore(results, listing.results.get(tool)) && hashOf(definition) === hash;
  });
  if (updates.length === 0) return;
  const fresh = updates.map(({ tool, results }) => [tool, results] as const);
  const results = new Map([...listing.results, ...fresh]);
  const { generatePackage } = await import("./generate.ts"); // loaded on demand: few sessions need it
  await generatePackage(server, { ...listing, results }, { rootDir: root });
}

/** Whether results are worth an update. The package may already show more calls than this workspace made. */
function saysMore(known: ObservedResults, shown: ObservedResults | undefined): boolean {
  if (shown === undefined || known.calls >= 10 * shown.calls) return true;
  return known.calls > shown.calls && !isSameShape(known.shape, shown.shape);
}

/** The hash that identifies a tool's definition. */
function hashOf(definition: JsonObject): string | undefined {
  const tool = readTool(parseExact(writeJson(definition)));
  return tool && toolHash(tool);
}
