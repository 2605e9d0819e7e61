/**
 * What servers offer besides tools: resources, prompts and completions of their arguments.
 *
 * @module
 */
import { z } from "zod";
import { ToolCallError } from "../base/errors.ts";
import { RateLimit } from "../base/rate_limit.ts";
import { weightOf } from "../json/exact.ts";
import type { ServerParams } from "./params.ts";
import { problemOf } from "./results.ts";
import { SealedEntry } from "./tools.ts";

const text = z.string().max(65_536);
const texts = z.record(z.string().max(1024), text);

/** The methods of a server's catalog, in the protocol's own names. */
export type CatalogMethod =
  | "resources/list"
  | "resources/templates/list"
  | "prompts/list"
  | "resources/read"
  | "prompts/get"
  | "completion/complete";

/** A method that lists a part of the catalog, page by page. */
export type ListMethod = Extract<CatalogMethod, `${string}/list`>;

const REQUESTS: Readonly<Record<CatalogMethod, z.ZodType<Record<string, unknown>>>> = {
  "resources/list": z.strictObject({}),
  "resources/templates/list": z.strictObject({}),
  "resources/read": z.strictObject({ uri: text }),
  "prompts/list": z.strictObject({}),
  "prompts/get": z.strictObject({ name: text, arguments: texts.optional() }),
  "completion/complete": z.strictObject({
    ref: z.discriminatedUnion("type", [
      z.strictObject({ type: z.literal("ref/prompt"), name: text }),
      z.strictObject({ type: z.literal("ref/resource"), uri: text }),
    ]),
    argument: z.strictObject({ name: text, value: text }),
    context: z.strictObject({ arguments: texts }).optional(),
  }),
};

export const CATALOG_METHODS = Object.keys(REQUESTS) as readonly CatalogMethod[];

const item = { name: z.string().optional() } as const;

/** The property and the item schema of each list, by method. */
const LISTS: Readonly<
  Record<ListMethod | "tools/list", readonly [key: string, item: z.ZodType]>
> = {
  "tools/list": ["tools", z.unknown().transform(SealedEntry.open)], // checked one by one later
  "resources/list": ["resources", z.looseObject({ uri: z.string(), ...item })],
  "resources/templates/list": [
    "resourceTemplates",
    z.looseObject({ uriTemplate: z.string(), ...item }),
  ],
  "prompts/list": ["prompts", z.looseObject({ name: z.string() })],
};

const RESULTS: Readonly<
  Record<Exclude<CatalogMethod, ListMethod>, z.ZodType<Record<string, unknown>>>
> = {
  "resources/read": z.looseObject({
    contents: z.array(z.union([
      z.looseObject({ uri: z.string(), text: z.string() }),
      z.looseObject({ uri: z.string(), blob: z.string() }),
    ])),
  }),
  "prompts/get": z.looseObject({
    messages: z.array(
      z.looseObject({ role: z.string(), content: z.looseObject({ type: z.string() }) }),
    ),
  }),
  "completion/complete": z.looseObject({
    completion: z.looseObject({ values: z.array(z.string()) }),
  }),
};

/** Whether a method is a list, which takes no parameters from the caller. */
export function isListMethod(method: CatalogMethod): method is ListMethod {
  return method.endsWith("/list");
}

/** Checks the parameters of a request. */
export function checkCatalogParams(
  method: CatalogMethod,
  params: unknown,
): Record<string, unknown> {
  const parsed = REQUESTS[method].safeParse(params);
  if (parsed.success) return parsed.data;
  throw new TypeError(`Invalid parameters of ${method}: ${problemOf(parsed.error)}`);
}

/** The most pages of a list: a server's list may be endless. */
const MAX_PAGES = 1000;
/** The most memory of a list: each page is a separate message and may be large. */
const MAX_LIST_MIB = 64;
/** Less for tools: their list is fetched again after each change, which blocks everything else. */
const MAX_TOOLS_MIB = 16;
/** The time limit for all pages after the first one, whose wait the caller limits. */
const MAX_PAGING_MS = 60_000;

/** The cost of an entry besides its memory, such as regenerating a tool's module. */
const ENTRY_WEIGHT = 4096;

/** Requests all pages of a list. */
export async function listAll(
  method: ListMethod | "tools/list",
  ask: (params: { cursor?: string }) => Promise<unknown>,
  onWeight: (bytes: number) => void = () => {},
): Promise<unknown[]> {
  const [key, schema] = LISTS[method];
  const page = z.looseObject({ nextCursor: z.string().nullish() });
  const maxMiB = method === "tools/list" ? MAX_TOOLS_MIB : MAX_LIST_MIB;
  const items: unknown[] = [];
  let bytes = 0;
  let cursor: string | undefined;
  let end = Infinity;
  for (let pages = 0; pages < MAX_PAGES && performance.now() < end; pages++) {
    const raw = await ask({ cursor });
    const parsed = page.safeParse(raw).data;
    const listed = z.array(schema).safeParse(parsed?.[key]).data;
    if (parsed === undefined || listed === undefined) malformed(method);
    // Includes the rest of the page, which had to be parsed too.
    const weight = weightOf({ ...parsed, [key]: listed }, maxMiB * 2 ** 20);
    onWeight(weight + listed.length * ENTRY_WEIGHT);
    bytes += weight;
    if (bytes > maxMiB * 2 ** 20) {
      const what = `The server's answer to ${method} needs more than ${maxMiB} MiB of memory`;
      throw new ToolCallError("protocol_error", what);
    }
    for (const item of listed) items.push(item);
    // Some servers end a list with an empty cursor or by repeating the last one.
    const next = parsed.nextCursor ?? "";
    if (next === "" || next === cursor) return items;
    cursor = next;
    if (pages === 0) end = performance.now() + MAX_PAGING_MS;
  }
  throw new ToolCallError("protocol_error", `The server's answer to ${method} has endless pages`);
}

/** Rejects a server's response. */
export function malformed(method: CatalogMethod | "tools/list"): never {
  throw new ToolCallError("protocol_error", `The server sent a malformed answer to ${method}`);
}

/** Validates a response to a method other than a list. */
export function parseCatalogResult(
  method: Exclude<CatalogMethod, ListMethod>,
  raw: unknown,
): Readonly<Record<string, unknown>> | undefined {
  return RESULTS[method].safeParse(raw).data;
}

/** Reading 16 MiB takes some tenths of a second. Typical lists are smaller than 1 MiB. */
const BYTES_PER_SECOND = 2 ** 20;
const BYTES_AT_ONCE = 32 * 2 ** 20;

/** Keyed by parameters, which stay the same when a server restarts. */
const limits = new WeakMap<ServerParams, RateLimit>();

/** Limits what one server may list: one that reports changes without end would block all others. */
export function listingLimit(params: ServerParams): RateLimit {
  return limits.getOrInsertComputed(
    params,
    () => new RateLimit(BYTES_PER_SECOND, BYTES_AT_ONCE),
  );
}
