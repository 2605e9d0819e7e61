/**
 * Requests to servers for anything but tools: resources, prompts and completions of their arguments.
 *
 * @module
 */
import { z } from "zod";
import { ToolCallError } from "../base/errors.ts";
import { weightOf } from "../json/exact.ts";
import { problemOf } from "./results.ts";
import { OpaqueEntry } from "./tools.ts";

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
  "tools/list": ["tools", z.unknown().transform(OpaqueEntry.open)], // checked one by one later
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
/** The time limit for all pages after the first one, whose wait the caller limits. */
const MAX_PAGING_MS = 60_000;

/** Requests all pages of a list. */
export async function listAll(
  method: ListMethod | "tools/list",
  ask: (params: { cursor?: string }) => Promise<unknown>,
): Promise<unknown[]> {
  const [key, schema] = LISTS[method];
  const page = z.looseObject({ nextCursor: z.string().nullish() });
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
    bytes += weightOf({ ...parsed, [key]: listed }, MAX_LIST_MIB * 2 ** 20);
    if (bytes > MAX_LIST_MIB * 2 ** 20) {
      const text = `The server's answer to ${method} needs more than ${MAX_LIST_MIB} MiB of memory`;
      throw new ToolCallError("protocol_error", text);
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
