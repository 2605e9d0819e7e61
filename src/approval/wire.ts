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
  RefusalType,
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
    readonly annotations?: ToolAnnotations | undefined;
    readonly call_id?: string | undefined;
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

/** An approver's decision: `true`, `false`, edited arguments, or a reason. Nothing else approves. */
export type Decision =
  | boolean
  | { readonly approved: true; readonly arguments: ExactObject }
  | { readonly approved: false; readonly reason: string };

const exactObject = z.custom<ExactObject>(isExactObject);

const serverMessage: z.ZodType<ServerMessage> = z.union([
  z.object({
    jsonrpc: z.literal("2.0"),
    id: z.string(),
    method: z.literal("approve"),
    params: z.object({
      server_name: z.string(),
      tool_name: z.string(),
      tool_args: exactObject,
      kind: z.enum(["tool", "shell", "shell_magic", "resource"]).default("tool"),
      annotations: z.looseObject({
        title: z.string().optional(),
        readOnlyHint: z.boolean().optional(),
        destructiveHint: z.boolean().optional(),
        idempotentHint: z.boolean().optional(),
        openWorldHint: z.boolean().optional(),
      }).optional(),
      call_id: z.string().optional(),
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
  z.strictObject({ approved: z.literal(false), reason: z.string() }),
]);

/** What an approver sends. `decision` is `undefined` where its result is none that is known. */
export interface Answer {
  readonly id: string;
  readonly decision: Decision | undefined;
}

/**
 * Reads a message to an approver.
 *
 * @param text The frame.
 * @returns The message, or `undefined` for one that is not known.
 */
export function parseServerMessage(text: string): ServerMessage | undefined {
  return serverMessage.safeParse(parseFrame(text)).data;
}

/**
 * Reads an approver's answer.
 *
 * @param text The frame.
 * @returns The answer, or `undefined` where it is not even known what is answered.
 */
export function parseAnswer(text: string): Answer | undefined {
  const message = answerMessage.safeParse(parseFrame(text)).data;
  if (message === undefined) return undefined;
  return { id: message.id, decision: decision.safeParse(message.result).data };
}

/** Writes the message that shows a request to an approver. */
export function approveText(request: ApprovalRequest): string {
  const { id, kind, serverName, toolName, argumentsJson, annotations, callId } = request;
  const params = {
    server_name: serverName,
    tool_name: toolName,
    tool_args: parseExact(argumentsJson),
    kind,
    annotations,
    call_id: callId,
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
  if (!answer.accepted) return { approved: false, reason: answer.reason };
  return edited ? { approved: true, arguments: answer.arguments } : true;
}

function parseFrame(text: string): unknown {
  try {
    return parseExact(text);
  } catch {
    return undefined; // no message that anybody knows
  }
}
