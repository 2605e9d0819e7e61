/**
 * Tool definitions, taken from servers one by one: one malformed definition must not cost the
 * others. Therefore, the SDK, which rejects a list as a whole, never sees them.
 *
 * @module
 */
import { z } from "zod";
import { ToolCallError } from "../base/errors.ts";
import { canonicalJson, sha256 } from "../json/digest.ts";
import { isRecord, toExact } from "../json/exact.ts";
import { wrapQuestion } from "./questions.ts";
import type { Client, JSONRPCMessage, RequestOptions, Transport } from "./sdk.ts";

/** A tool from a server's list, with each known property checked for its type. */
export interface Tool {
  /** Its name in the protocol. */
  readonly name: string;
  /** Its display name. */
  readonly title?: string;
  readonly description?: string;
  /** The schema of its arguments; an empty one if the server's is not an object. */
  readonly inputSchema: Readonly<Record<string, unknown>>;
  /** The schema of its structured results, if it is an object. */
  readonly outputSchema?: Readonly<Record<string, unknown>>;
  /** Hints about its effects. */
  readonly annotations?: ToolAnnotations;
  /** Other properties that the server sent. */
  readonly [name: string]: unknown;
}

/** A server's hints about a tool's behavior, which nobody has checked. */
export interface ToolAnnotations {
  /** Its display name. */
  readonly title?: string;
  /** It modifies nothing. */
  readonly readOnlyHint?: boolean;
  /** It may delete or overwrite something. */
  readonly destructiveHint?: boolean;
  /** Repeating a call with the same arguments changes nothing more. */
  readonly idempotentHint?: boolean;
  /** It interacts with systems other than the server's own. */
  readonly openWorldHint?: boolean;
}

/** Reads an entry of a server's list; `undefined` if it is not a tool. */
export function readTool(entry: unknown): Tool | undefined {
  if (!isRecord(entry) || typeof entry.name !== "string") return undefined;
  const { name, title, description, inputSchema, outputSchema, annotations, ...rest } = entry;
  return {
    ...rest,
    name,
    ...(typeof title === "string" ? { title } : {}),
    ...(typeof description === "string" ? { description } : {}),
    inputSchema: isRecord(inputSchema) ? inputSchema : {},
    ...(isRecord(outputSchema) ? { outputSchema } : {}),
    ...(isRecord(annotations) ? { annotations: readAnnotations(annotations) } : {}),
  };
}

/** Keyed by definition, which stays the same object between calls. */
const hashes = new WeakMap<Tool, string>();

/** The SHA-256 of a tool's definition, with the names in its objects sorted. */
export function toolHash(tool: Tool): string {
  return hashes.getOrInsertComputed(tool, () => sha256(canonicalJson(toExact(tool))));
}

/** Keywords through which a schema can accept names that it does not list. */
const OPEN: readonly string[] = [
  ..."$ref $dynamicRef allOf anyOf oneOf if then else dependentSchemas dependencies".split(" "),
  ..."patternProperties unevaluatedProperties".split(" "),
];

/** The names of the arguments that a schema takes; `undefined` if there may be others. */
export function parametersOf(
  schema: Iterable<readonly [keyword: string, value: unknown]>,
): ReadonlySet<string> | undefined {
  const keywords = new Map(schema);
  const properties = keywords.get("properties");
  const isClosed = (keywords.get("additionalProperties") ?? false) === false; // servers ignore others
  if (!isClosed || OPEN.some((keyword) => keywords.has(keyword))) return undefined;
  if (properties instanceof Map) return new Set(properties.keys());
  if (isRecord(properties)) return new Set(Object.keys(properties));
  return properties === undefined && keywords.get("type") === "object" ? new Set() : undefined;
}

function readAnnotations(annotations: Readonly<Record<string, unknown>>): ToolAnnotations {
  return Object.fromEntries(
    Object.entries(annotations).filter(([name, value]) =>
      name === "title" ? typeof value === "string" : typeof value === "boolean"
    ),
  );
}

/** A valid tool that carries a server's entry through the SDK unseen. */
export class OpaqueEntry {
  readonly name = "sealed";
  readonly inputSchema = { type: "object" } as const;
  readonly #entry: unknown;

  constructor(entry: unknown) {
    this.#entry = entry;
  }

  /** Returns the original entry of a list. */
  static open(value: unknown): unknown {
    return typeof value === "object" && value !== null && #entry in value ? value.#entry : value;
  }
}

/** Passes tool lists and questions through the SDK. */
export function hideFromSdk(transport: Transport): void {
  const { onmessage } = transport;
  if (onmessage === undefined) return;
  transport.onmessage = (message, extra) => onmessage(wrapped(message), extra);
}

function wrapped<Message extends JSONRPCMessage>(message: Message): Message {
  if (!("result" in message)) return wrapQuestion(message);
  const { tools, inputRequests } = message.result;
  const replaced = {
    ...(Array.isArray(tools) ? { tools: tools.map((entry) => new OpaqueEntry(entry)) } : {}),
    ...(isRecord(inputRequests) ? { inputRequests: wrapQuestions(inputRequests) } : {}),
  };
  return { ...message, result: { ...message.result, ...replaced } };
}

/** The questions that a server asks before it returns a result. */
function wrapQuestions(requests: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const entries = Object.entries(requests);
  return Object.fromEntries(entries.map(([key, request]) => [key, wrapQuestion(request)]));
}

// Tools that run as tasks (protocol version 2025-11-25): the call returns a handle, and a second
// request waits for the result.

/** The server capability for tool calls as tasks. */
const capability = z.object({
  tasks: z.object({ requests: z.object({ tools: z.object({ call: z.looseObject({}) }) }) }),
});
const execution = z.object({ taskSupport: z.literal("required") });
const created = z.object({ task: z.object({ taskId: z.string() }) });

const AS_IT_CAME = z.unknown();
/** The time limit for cancelling a task. */
const CANCEL_MS = 5000;

/** Whether a server can run tools as tasks. The newer era has no such request. */
export function offersTasks(client: Client): boolean {
  return client.getProtocolEra() !== "modern" &&
    capability.safeParse(client.getServerCapabilities()).success;
}

/** Whether a tool can only be called as a task. */
export function requiresTask(tool: Tool | undefined): boolean {
  return execution.safeParse(tool?.execution).success;
}

/** Options of {@linkcode runTask}. */
interface TaskOptions extends RequestOptions {
  /** Called when the server has started the task. */
  readonly onStarted: () => void;
  /** Receives why a task could not be cancelled. */
  readonly unable: (error: unknown) => void;
}

/** Runs a tool as a task and waits for its result. */
export async function runTask(
  client: Client,
  params: Readonly<Record<string, unknown>>,
  options: TaskOptions,
): Promise<unknown> {
  const { onStarted, unable, ...request } = options;
  const start = { method: "tools/call", params: { ...params, task: {} } };
  const { data } = created.safeParse(await client.request(start, AS_IT_CAME, request));
  if (data === undefined) {
    throw new ToolCallError("protocol_error", "The server did not run the tool as a task");
  }
  onStarted();
  const { taskId } = data.task;
  try {
    // The server responds when the task has ended, and may ask questions before.
    return await client.request(
      { method: "tasks/result", params: { taskId } },
      AS_IT_CAME,
      request,
    );
  } catch (error) {
    if (request.signal?.aborted) {
      const timeout = { timeout: CANCEL_MS };
      client.request({ method: "tasks/cancel", params: { taskId } }, AS_IT_CAME, timeout)
        .catch(unable);
    }
    throw error;
  }
}

// Arguments that a server of the newer era wants repeated in HTTP headers. Clients must drop a tool
// whose declaration of them is invalid.

const KEYWORD = "x-mcp-header";
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const TYPES: readonly unknown[] = ["string", "integer", "boolean"];

/** Keywords whose schemas apply to only some arguments or to several. */
const NESTED = [
  ..."items prefixItems contains additionalProperties unevaluatedProperties".split(" "),
  ..."unevaluatedItems propertyNames oneOf anyOf allOf not if then else".split(" "),
];
/** The same, for keywords that map names to schemas. */
const NESTED_MAPS = ["patternProperties", "dependentSchemas", "$defs", "definitions"];

/** Finds an error in a tool's header declarations. */
export function headerProblem(inputSchema: unknown): string | undefined {
  const headers = new Set<string>();
  const waiting = [{ schema: inputSchema, isArgument: false, isFixed: true }];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const { schema, isArgument, isFixed } = next;
    if (typeof schema !== "object" || schema === null) continue;
    const parts = new Map<string, unknown>(Object.entries(schema));
    if (parts.has(KEYWORD)) {
      const header = parts.get(KEYWORD);
      const shown = JSON.stringify(header).slice(0, 100);
      if (!isArgument) return `${KEYWORD} ${shown} is not at a property of the arguments`;
      if (typeof header !== "string" || !TOKEN.test(header)) {
        return `${KEYWORD} ${shown} is not the name of a header`;
      }
      if (!TYPES.includes(parts.get("type"))) {
        return `${KEYWORD} ${shown} is at a property that is not a string, integer or boolean`;
      }
      if (headers.has(header.toLowerCase())) return `${KEYWORD} ${shown} is declared twice`;
      headers.add(header.toLowerCase());
    }
    for (const part of valuesOf(parts.get("properties"))) {
      waiting.push({ schema: part, isArgument: isFixed, isFixed });
    }
    const others = [
      ...NESTED.flatMap((keyword) => {
        const part = parts.get(keyword);
        return Array.isArray(part) ? part : [part];
      }),
      ...NESTED_MAPS.flatMap((keyword) => valuesOf(parts.get(keyword))),
    ];
    for (const part of others) waiting.push({ schema: part, isArgument: false, isFixed: false });
  }
  return undefined;
}

function valuesOf(value: unknown): unknown[] {
  return typeof value === "object" && value !== null ? Object.values(value) : [];
}
