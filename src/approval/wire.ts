/**
 * The messages of the approval WebSocket: JSON-RPC 2.0, the application answers.
 *
 * @module
 */
import { z } from "zod";
import { type ExactObject, isExactObject, parseExact, stringifyExact } from "../json/exact.ts";
import type {
  ApprovalKind,
  ApprovalRequest,
  ApprovalResponse,
  CallSource,
  RefusalType,
  Remember,
  RememberScope,
  ToolAnnotations,
} from "./request.ts";

/** The subprotocol of the approval WebSocket. */
export const APPROVAL_PROTOCOL = "ipybox.approval.v1";

/** The message that shows a request to an approver. */
export interface ApproveMessage {
  readonly jsonrpc: "2.0";
  readonly id: string;
  readonly method: "approve";
  readonly params: {
    readonly server_name: string;
    readonly tool_name: string;
    readonly tool_args: ExactObject;
    readonly kind: ApprovalKind;
    readonly annotations?: ToolAnnotations;
    readonly call_id?: string;
    readonly title?: string;
    readonly description?: string;
    readonly server_launch?: string;
    readonly source?: CallSource;
    readonly changes?: readonly string[];
    readonly scopes?: readonly RememberScope[];
  };
}

/** The message that takes a request back. */
export interface WithdrawMessage {
  readonly jsonrpc: "2.0";
  readonly method: "withdraw";
  readonly params: { readonly id: string; readonly type: RefusalType; readonly reason: string };
}

/** What the tool server sends to an approver. */
export type ServerMessage = ApproveMessage | WithdrawMessage;

/**
 * An approver's decision: `true`, `false`, edited arguments, a reason, or how it is remembered. Nothing
 * else approves.
 */
export type Decision =
  | boolean
  | {
    readonly approved: true;
    readonly arguments?: ExactObject;
    readonly remember?: Remember;
  }
  | {
    readonly approved: false;
    readonly reason: string;
    readonly remember?: Remember;
  };

const exactObject = z.custom<ExactObject>(isExactObject);
const scope = z.enum(["cell", "session", "always"]);

/** How a decision is remembered, as approvers write it. */
export const rememberSchema: z.ZodType<Remember> = z.strictObject({
  scope,
  match: z.enum(["tool", "arguments"]),
});

const serverMessage: z.ZodType<ServerMessage> = z.union([
  z.object({
    jsonrpc: z.literal("2.0"),
    id: z.string(),
    method: z.literal("approve"),
    params: z.object({
      server_name: z.string(),
      tool_name: z.string(),
      tool_args: exactObject,
      kind: z.enum(["tool", "shell", "shell_magic", "resource", "elicitation", "change"])
        .default("tool"),
      annotations: z.looseObject({
        title: z.string().optional(),
        readOnlyHint: z.boolean().optional(),
        destructiveHint: z.boolean().optional(),
        idempotentHint: z.boolean().optional(),
        openWorldHint: z.boolean().optional(),
      }).optional(),
      call_id: z.string().optional(),
      title: z.string().optional(),
      description: z.string().optional(),
      server_launch: z.string().optional(),
      source: z.object({ line: z.int().positive(), text: z.string() }).optional(),
      changes: z.array(z.string()).optional(),
      scopes: z.array(scope).optional(),
    }),
  }),
  z.object({
    jsonrpc: z.literal("2.0"),
    method: z.literal("withdraw"),
    params: z.object({
      id: z.string(),
      type: z.enum(["approval_rejected", "approval_timeout", "approval_unavailable", "cancelled"]),
      reason: z.string(),
    }),
  }),
]);

const answerMessage = z.object({
  jsonrpc: z.literal("2.0"),
  id: z.string(),
  result: z.unknown().optional(),
});

const decision: z.ZodType<Decision> = z.union([
  z.boolean(),
  z.strictObject({ approved: z.literal(true), arguments: exactObject }),
  z.strictObject({
    approved: z.literal(true),
    arguments: exactObject.optional(),
    remember: rememberSchema,
  }),
  z.strictObject({
    approved: z.literal(false),
    reason: z.string(),
    remember: rememberSchema.optional(),
  }),
]);

/** What an approver sends. `decision` is `undefined` where its result is none that is known. */
export interface Answer {
  readonly id: string;
  readonly decision: Decision | undefined;
}

/** Reads a message to an approver. */
export function parseServerMessage(text: string): ServerMessage | undefined {
  return serverMessage.safeParse(parseFrame(text)).data;
}

/** Reads an approver's answer. */
export function parseAnswer(text: string): Answer | undefined {
  const message = answerMessage.safeParse(parseFrame(text)).data;
  if (message === undefined) return undefined;
  return { id: message.id, decision: decision.safeParse(message.result).data };
}

/** Writes the message that shows a request to an approver. */
export function approveText(request: ApprovalRequest): string {
  const { id, source, changes, scopes } = request;
  const params = {
    server_name: request.serverName,
    tool_name: request.toolName,
    tool_args: parseExact(request.argumentsJson),
    kind: request.kind,
    annotations: request.annotations,
    call_id: request.callId,
    title: request.title,
    description: request.description,
    server_launch: request.server?.launch,
    source,
    changes,
    scopes: scopes.length === 0 ? undefined : scopes,
  };
  return stringifyExact({ jsonrpc: "2.0", id, method: "approve", params });
}

/** Writes the message that takes a request back. */
export function withdrawText(id: string, refusal: ApprovalResponse & { accepted: false }): string {
  const { type, reason } = refusal;
  return stringifyExact({ jsonrpc: "2.0", method: "withdraw", params: { id, type, reason } });
}

/** Writes the message that answers a request. */
export function answerText(id: string, answer: ApprovalResponse, edited: boolean): string {
  return stringifyExact({ jsonrpc: "2.0", id, result: resultOf(answer, edited) });
}

function resultOf(answer: ApprovalResponse, edited: boolean): Decision {
  const { remember } = answer;
  if (!answer.accepted) return { approved: false, reason: answer.reason, remember };
  if (!edited && remember === undefined) return true;
  return { approved: true, arguments: edited ? answer.arguments : undefined, remember };
}

function parseFrame(text: string): unknown {
  try {
    return parseExact(text);
  } catch {
    return undefined; // no message that anybody knows
  }
}
