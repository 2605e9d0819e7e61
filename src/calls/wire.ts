/**
 * The protocol of the kernel's door. The Python half is `templates/runtime/ipybox_runtime`.
 *
 * A call is a line `{"token": …, "call": "run" | "catalog" | "approve", "size": …, "line": …, "id": …}`
 * followed by a JSON body of `size` bytes. The answer is any number of lines `{"progress": …}` and then
 * one with `result`, `response` (of a tool's server), `approved`, `error`, or, if the call was not
 * processed, `refused`.
 *
 * @module
 */
import { z } from "zod";
import type { ApprovalCall } from "../approval/request.ts";
import { ToolCallError, type ToolErrorType } from "../base/errors.ts";
import { type ExactObject, parseExact, sealObject, stringifyExact } from "../json/exact.ts";
import { checkJson, JsonLimitError } from "../json/measure.ts";
import { problemLines } from "../json/problems.ts";
import type { ToolProgress } from "../mcp/hooks.ts";
import { CATALOG_METHODS, checkCatalogParams } from "../mcp/catalog.ts";
import { responseOf, type ToolResult } from "../mcp/results.ts";
import type { CatalogCall, ToolCall } from "./calls.ts";
import { MAX_VALUES, Refused } from "./http_checks.ts";

interface WireError {
  readonly type: ToolErrorType;
  readonly message: string;
  readonly reason?: string;
  readonly code?: number;
  readonly data?: unknown;
  readonly exit_code?: number;
  readonly signal?: string;
}

const callHead = z.strictObject({
  /** The door's token. */
  token: z.string(),
  /** The calls that code in the kernel can make. */
  call: z.enum(["run", "catalog", "approve"]),
  /** The size of the body, in bytes. */
  size: z.int().min(0),
  /** The number of the calling line in the executing code. */
  line: z.number().optional(),
  /** Identifies the call in its session; a repeated call has the same id. */
  id: z.string().regex(/^[0-9a-f]{32}$/).optional(),
});

/** The first line of a call. */
export type CallHead = Readonly<z.infer<typeof callHead>>;

/** Reads the first line of a call. */
export function parseHead(line: Uint8Array): CallHead {
  try {
    return callHead.parse(JSON.parse(decoder.decode(line)));
  } catch (cause) {
    throw new Refused(400, "This is not a tool call", { cause });
  }
}

const runRequest = z.strictObject({
  server: z.string().max(256),
  tool: z.string().max(1024),
  arguments: z.unknown(),
  timeout_ms: z.int().positive().optional(),
  progress: z.boolean().optional(),
});

const catalogRequest = z.strictObject({
  server: z.string().max(256),
  method: z.enum(CATALOG_METHODS),
  params: z.unknown(),
  timeout_ms: z.int().positive().optional(),
});

const approveRequest = z.strictObject({
  kind: z.enum(["shell", "shell_magic"]),
  arguments: z.unknown(),
});

/** The body of a `run` or a `catalog`, with the time limit once the call is approved. */
interface LimitedCall<Call> {
  readonly call: Call;
  readonly timeoutMs: number | undefined;
}

/** Reads the body of a `run`. The caller may want progress ahead of the answer. */
export function parseRunRequest(
  body: Uint8Array,
): LimitedCall<ToolCall> & { readonly progress: boolean } {
  const { server, tool, arguments: args, timeout_ms, progress = false } = parse(runRequest, body);
  const call = { serverName: server, toolName: tool, arguments: sealed(args) };
  return { call, timeoutMs: timeout_ms, progress };
}

/** Reads the body of a `catalog`: a request for a resource, a prompt, a completion or a list. */
export function parseCatalogRequest(body: Uint8Array): LimitedCall<CatalogCall> {
  const { server, method, params, timeout_ms } = parse(catalogRequest, body);
  const call = { serverName: server, method, params: checkCatalogParams(method, params) };
  return { call, timeoutMs: timeout_ms };
}

/** Writes a progress report. */
export function progressLine({ progress, total, message }: ToolProgress): string {
  return JSON.stringify({ progress: { progress, total, message } });
}

/** Reads the body of an `approve`, which is only for shell commands. */
export function parseApproveRequest(body: Uint8Array): ApprovalCall {
  const { kind, arguments: args } = parse(approveRequest, body);
  return { kind, serverName: "ipybox", toolName: kind, arguments: sealed(args) };
}

/** Writes the answer to a successful call, with a tool's result as its server wrote it. */
export function resultText(result: ToolResult | Readonly<Record<string, unknown>>): string {
  const response = responseOf(result);
  return response === undefined
    ? JSON.stringify({ result }) // all of it was parsed from JSON, or exact
    : `{"response":${response}}`;
}

/** Writes the answer to an approved request, with the arguments to use. */
export function approvedText(args: ExactObject): string {
  return JSON.stringify({ approved: true, arguments: args });
}

/** Writes the answer to a failed call. */
export function errorText(error: WireError): string {
  return stringifyExact({ error });
}

/** Writes the answer to a call that was refused without processing it. */
export function refusedText({ message }: Refused): string {
  return JSON.stringify({ refused: message });
}

/** An error as the kernel may see it: details of unexpected errors stay on the host. */
export function wireError(error: unknown): WireError {
  if (!(error instanceof ToolCallError)) {
    return { type: "tool_server_error", message: "The tool server failed; see its log" };
  }
  const { type, message, details } = error;
  const { reason, code, data, exitCode, signal } = details;
  return {
    type,
    message,
    reason,
    code,
    data,
    exit_code: exitCode ?? undefined,
    signal: signal ?? undefined,
  };
}

const decoder = new TextDecoder("utf-8", { fatal: true });

function parse<T>(schema: z.ZodType<T>, body: Uint8Array): T {
  let value: unknown;
  try {
    checkJson(body, MAX_VALUES);
  } catch (error) {
    if (!(error instanceof JsonLimitError)) throw error;
    throw new TypeError(`Cannot accept the body: ${error.message}`, { cause: error });
  }
  try {
    value = parseExact(decoder.decode(body));
  } catch (cause) {
    throw new TypeError("The body is not UTF-8 JSON", { cause });
  }
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw new TypeError(problemLines(parsed.error), { cause: parsed.error });
}

function sealed(args: unknown): ExactObject {
  return sealObject(args as Parameters<typeof sealObject>[0]); // it comes from parseExact()
}
