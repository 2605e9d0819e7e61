/**
 * What servers list as tools, taken as it comes: one odd definition must not cost the others. So the
 * SDK, which refuses a list as a whole, gets to see none of it.
 *
 * @module
 */
import type { JSONRPCMessage, Transport } from "./sdk.ts";

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
export interface ToolAnnotations {
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

/** Lets the entries of lists that come by a transport pass the SDK as they are. */
export function sealToolLists(transport: Transport): void {
  const { onmessage } = transport;
  if (onmessage === undefined) return;
  transport.onmessage = (message, extra) => onmessage(sealed(message), extra);
}

function sealed<Message extends JSONRPCMessage>(message: Message): Message {
  if (!("result" in message) || !Array.isArray(message.result.tools)) return message;
  const tools = message.result.tools.map((entry: unknown) => new SealedEntry(entry));
  return { ...message, result: { ...message.result, tools } };
}

/** The entry of a list as the server sent it. */
export function openEntry(value: unknown): unknown {
  return SealedEntry.open(value);
}
