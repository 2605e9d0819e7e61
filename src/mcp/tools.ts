/**
 * What servers list as tools, taken as it comes: one odd definition must not cost the others. So the
 * SDK, which refuses a list as a whole, gets to see none of it.
 *
 * @module
 */
import { z } from "zod";
import { ToolCallError } from "../base/errors.ts";
import { canonicalJson, sha256 } from "../json/digest.ts";
import { toExact } from "../json/exact.ts";
import { sealQuestion } from "./questions.ts";
import type { Client, JSONRPCMessage, RequestOptions, Transport } from "./sdk.ts";

/** A tool of a server's list, with what it says in the types that it should have. */
export interface Tool {
  /** Its name on the wire. */
  readonly name: string;
  /** Its name for people. */
  readonly title?: string;
  /** What it does. */
  readonly description?: string;
  /** The schema of its arguments; one that allows everything where the server's is not an object. */
  readonly inputSchema: Readonly<Record<string, unknown>>;
  /** The schema of its structured results, if that is an object. */
  readonly outputSchema?: Readonly<Record<string, unknown>>;
  /** What the server says of its effects. */
  readonly annotations?: ToolAnnotations;
  /** What else the server says. */
  readonly [name: string]: unknown;
}

/** What a server says of a tool's effects. */
interface ToolAnnotations {
  /** Its name for people. */
  readonly title?: string;
  /** It changes nothing. */
  readonly readOnlyHint?: boolean;
  /** It may destroy something. */
  readonly destructiveHint?: boolean;
  /** A second call with the same arguments changes nothing more. */
  readonly idempotentHint?: boolean;
  /** It deals with more than the server's own things. */
  readonly openWorldHint?: boolean;
}

type JsonObject = Readonly<Record<string, unknown>>;

/** Reads an entry of a server's list. */
export function readTool(entry: unknown): Tool | undefined {
  if (!isObject(entry) || typeof entry.name !== "string") return undefined;
  const { name, title, description, inputSchema, outputSchema, annotations, ...rest } = entry;
  return {
    ...rest,
    name,
    ...(typeof title === "string" ? { title } : {}),
    ...(typeof description === "string" ? { description } : {}),
    inputSchema: isObject(inputSchema) ? inputSchema : {},
    ...(isObject(outputSchema) ? { outputSchema } : {}),
    ...(isObject(annotations) ? { annotations: readAnnotations(annotations) } : {}),
  };
}

/** By the definitions, which stay the same from call to call. */
const hashes = new WeakMap<Tool, string>();

/** The SHA-256 of a tool's definition, with the names in its objects sorted. */
export function toolHash(tool: Tool): string {
  const hash = hashes.get(tool) ?? sha256(canonicalJson(toExact(tool)));
  hashes.set(tool, hash);
  return hash;
}

function readAnnotations(annotations: JsonObject): ToolAnnotations {
  return Object.fromEntries(
    Object.entries(annotations).filter(([name, value]) =>
      name === "title" ? typeof value === "string" : typeof value === "boolean"
    ),
  );
}

function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** What stands for an entry on its way through the SDK: a tool that nothing is wrong with. */
class SealedEntry {
  readonly name = "sealed";
  readonly inputSchema = { type: "object" } as const;
  readonly #entry: unknown;

  constructor(entry: unknown) {
    this.#entry = entry;
  }

  static open(value: unknown): unknown {
    return typeof value === "object" && value !== null && #entry in value ? value.#entry : value;
  }
}

/** Lets lists of tools and questions that come by a transport pass the SDK as they are. */
export function sealMessages(transport: Transport): void {
  const { onmessage } = transport;
  if (onmessage === undefined) return;
  transport.onmessage = (message, extra) => onmessage(sealed(message), extra);
}

function sealed<Message extends JSONRPCMessage>(message: Message): Message {
  if (!("result" in message)) return sealQuestion(message);
  const { tools, inputRequests } = message.result;
  const seals = {
    ...(Array.isArray(tools) ? { tools: tools.map((entry) => new SealedEntry(entry)) } : {}),
    ...(isObject(inputRequests) ? { inputRequests: sealedQuestions(inputRequests) } : {}),
  };
  return { ...message, result: { ...message.result, ...seals } };
}

/** What a server asks for before it gives a result. */
function sealedQuestions(requests: JsonObject): JsonObject {
  const entries = Object.entries(requests).slice(0, MAX_QUESTIONS);
  return Object.fromEntries(entries.map(([key, request]) => [key, sealQuestion(request)]));
}

/** More than anybody answers for one result; the server gets no answers to the rest. */
const MAX_QUESTIONS = 100;

/** The entry of a list as the server sent it. */
export function openEntry(value: unknown): unknown {
  return SealedEntry.open(value);
}

// Tools that run as tasks, as protocol version 2025-11-25 has them: the call gives a handle, and a
// second request waits for the result.

/** What the server said of tasks in the handshake. */
const capability = z.object({
  tasks: z.object({ requests: z.object({ tools: z.object({ call: z.looseObject({}) }) }) }),
});
const execution = z.object({ taskSupport: z.literal("required") });
const created = z.object({ task: z.object({ taskId: z.string() }) });

const AS_IT_CAME = z.unknown();
/** How long a server may take to take note that a task is cancelled. */
const CANCEL_MS = 5000;

/** Whether a server can be asked to run tools as tasks; the newer era has no such request. */
export function offersTasks(client: Client): boolean {
  return client.getProtocolEra() !== "modern" &&
    capability.safeParse(client.getServerCapabilities()).success;
}

/** Whether a tool refuses calls that are not tasks. */
export function requiresTask(tool: Tool | undefined): boolean {
  return execution.safeParse(tool?.execution).success;
}

/** Runs a tool as a task and waits for its result. */
export async function runTask(
  client: Client,
  params: Readonly<Record<string, unknown>>,
  options: RequestOptions & { readonly unable: (error: unknown) => void },
): Promise<unknown> {
  const { unable, ...request } = options;
  const start = { method: "tools/call", params: { ...params, task: {} } };
  const { data } = created.safeParse(await client.request(start, AS_IT_CAME, request));
  if (data === undefined) {
    throw new ToolCallError("protocol_error", "The server did not run the tool as a task");
  }
  const { taskId } = data.task;
  try {
    // The server answers when the task has ended, and asks its questions until then.
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

// Parameters that a server of the newer era wants in HTTP headers, too. The protocol leaves out a tool
// that declares them in a way that cannot be followed.

const KEYWORD = "x-mcp-header";
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const TYPES: readonly unknown[] = ["string", "integer", "boolean"];

/** Keywords with schemas that hold for only some arguments, or for more than one. */
const NESTED = [
  ..."items prefixItems contains additionalProperties unevaluatedProperties".split(" "),
  ..."unevaluatedItems propertyNames oneOf anyOf allOf not if then else".split(" "),
];
/** Keywords with schemas of that kind by name. */
const NESTED_MAPS = ["patternProperties", "dependentSchemas", "$defs", "definitions"];

/** Finds what is wrong with the headers that a tool asks for. */
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
