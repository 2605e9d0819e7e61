import { z } from "zod";
import { ToolCallError } from "../base/errors.ts";
import { type ExactJson, type ExactObject, parseExact } from "../json/exact.ts";
import { parsedJson, parseJson } from "../json/plain.ts";

/** A block of a tool's result, as the server sent it. Blocks of unknown types are passed on. */
export interface ContentBlock {
  /** The kind of block, such as `"text"`. */
  readonly type: string;
  /** The properties of its kind, in the protocol's own names. */
  readonly [name: string]: unknown;
}

/** A checked tool result, as the server sent it. */
export interface ToolResult {
  /** The blocks, in order. */
  readonly content: readonly ContentBlock[];
  /** Any JSON value; absent if the server sent none. */
  readonly structuredContent?: ExactJson;
  /** Whether the tool reports a failure. */
  readonly isError?: boolean;
  /** The server's metadata about the result. */
  readonly _meta?: Readonly<Record<string, unknown>>;
}

const media = { data: z.string(), mimeType: z.string() } as const;

const KNOWN_BLOCKS: ReadonlyMap<string, z.ZodType> = new Map(Object.entries({
  text: z.looseObject({ text: z.string() }),
  image: z.looseObject(media),
  audio: z.looseObject(media),
  resource_link: z.looseObject({ uri: z.string(), name: z.string().optional() }),
  resource: z.looseObject({
    resource: z.union([
      z.looseObject({ uri: z.string(), text: z.string() }),
      z.looseObject({ uri: z.string(), blob: z.string() }),
    ]),
  }),
}));

const rawResult = z.looseObject({
  content: z.array(z.looseObject({ type: z.string() })).default([]),
  isError: z.boolean().optional(),
  _meta: z.record(z.string(), z.unknown()).optional(),
});

/** The response that each result came in, on one line. */
const responses = new WeakMap<object, string>();

/** Reads a response with a tool's result, which comes from a server and is untrusted. */
export function parseToolResult(response: string): ToolResult {
  const parsed = rawResult.safeParse(resultIn(parseJson(response)));
  if (!parsed.success) throw malformed(problemOf(parsed.error));
  const { content, isError, _meta, structuredContent } = parsed.data;
  for (const block of content) {
    const problem = KNOWN_BLOCKS.get(block.type)?.safeParse(block).error;
    if (problem !== undefined) throw malformed(`${block.type}: ${problemOf(problem)}`);
  }
  const result: ToolResult = {
    content,
    ...(isError === undefined ? {} : { isError }),
    ...(_meta === undefined ? {} : { _meta }),
  };
  let exact: ExactObject | undefined;
  const whole: ToolResult = structuredContent === undefined ? result : {
    ...result,
    // Parsed only on access: the kernel parses the response itself.
    get structuredContent() {
      return (exact ??= resultIn(parseExact(response))).structuredContent!;
    },
  };
  responses.set(whole, response.replaceAll("\n", " "));
  return whole;
}

/** The response that a result came in, unless the result was made here. */
export function responseOf(result: object): string | undefined {
  return responses.get(result);
}

function resultIn(response: ExactJson): ExactObject {
  return Object(response).result;
}

function malformed(problem: string): ToolCallError {
  return new ToolCallError("protocol_error", `The server sent a malformed tool result: ${problem}`);
}

/** The most characters of a server's text to repeat. */
const LONGEST = 300;
/** The most characters to look at: the SDK's own messages are shorter, and a server's may be endless. */
const MAX_MESSAGE = 64 * 1024;

/** The first problem that a validation found. */
export function problemOf(error: z.ZodError): string {
  return described(error.issues);
}

/** An error's message in one line. The SDK embeds Zod's issues in its messages as JSON. */
export function messageOf(error: unknown): string {
  const whole = error instanceof Error ? error.message : String(error);
  const message = whole.slice(0, MAX_MESSAGE);
  const start = message.search(/\[\s*\{/);
  if (start >= 0) {
    const issues = parsed(message.slice(start));
    if (issues !== undefined) return shortened(message.slice(0, start) + described(issues));
  }
  return shortened(message);
}

interface Issue {
  readonly path?: readonly PropertyKey[];
  readonly message?: string;
}

function parsed(text: string): readonly Issue[] | undefined {
  const value: unknown = parsedJson(text);
  const isIssues = Array.isArray(value) && value.length > 0 &&
    value.every((issue) => typeof issue?.message === "string" && Array.isArray(issue.path));
  return isIssues ? value : undefined;
}

function described(issues: readonly Issue[]): string {
  const [{ path = [], message = "" } = {}] = issues;
  const others = issues.length > 1 ? ` (and ${issues.length - 1} more)` : "";
  const where = path.map(String).join("/");
  return shortened(`${where === "" ? "" : `${where}: `}${message}`) + others;
}

function shortened(text: string): string {
  const line = text.replaceAll(/\s+/g, " ").trim();
  return line.length > LONGEST ? `${line.slice(0, LONGEST)}…` : line;
}
