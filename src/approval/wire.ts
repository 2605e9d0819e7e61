/**
 * The JSON of calls and servers' questions for approvers in other processes and for pages, and of
 * their answers. The approval WebSocket uses JSON-RPC 2.0, with the approver answering.
 *
 * @module
 */
import { z } from "zod";
import { messageOf } from "../base/message_of.ts";
import {
  type ExactJson,
  type ExactObject,
  isExactObject,
  parseExact,
  stringifyExact,
  toExact,
  toPlain,
} from "../json/exact.ts";
import { elicitationAnswer, type ElicitationQuestion, parseElicitation } from "../mcp/questions.ts";
import type { Refusal } from "./question_queue.ts";
import { ElicitationRequest, type ElicitationSource, type QuestionEnd } from "./questions.ts";
import type {
  ApprovalCall,
  ApprovalRequest,
  ApprovalResponse,
  Remember,
  RememberScope,
} from "./request.ts";

/** The subprotocol of the approval WebSocket. */
export const APPROVAL_PROTOCOL = "ipybox.approval.v1";
/** Offered in addition by approvers that also answer servers' questions. */
export const QUESTION_PROTOCOL = "ipybox.questions.v1";

/** A request to a person: to decide on a call or to answer a server. */
export type PersonRequest = ApprovalRequest | ElicitationRequest;

/** A message from the tool server to an approver. */
export type ServerMessage =
  | {
    readonly method: "approve";
    readonly id: string;
    readonly call: ApprovalCall;
    readonly scopes: readonly RememberScope[];
    readonly pattern: string | undefined;
  }
  | {
    readonly method: "elicit";
    readonly id: string;
    readonly source: ElicitationSource;
    readonly question: ElicitationQuestion;
  }
  | { readonly method: "withdraw"; readonly id: string; readonly refusal: Refusal };

const exactObject = z.custom<ExactObject>(isExactObject, "must be a JSON object");
const scope = z.enum(["cell", "session", "always"]);

const callSchema = z.object({
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
  source: z.object({
    line: z.int().positive(),
    text: z.string(),
    names: z.array(z.string()).optional(),
    code: z.string().optional(),
  }).optional(),
  changes: z.array(z.string()).optional(),
  asked_at: z.iso.datetime().optional(),
  scopes: z.array(scope).default([]),
  pattern: z.string().optional(),
});

const questionSchema = z.object({
  server_name: z.string(),
  call_id: z.string().optional(),
  // As the server sent it: the fields are parsed from it again.
  question: z.object({
    kind: z.enum(["form", "url"]),
    message: z.string(),
    schema: z.unknown().optional(),
    url: z.string().optional(),
  }),
});

const serverMessage = z.discriminatedUnion("method", [
  z.object({ method: z.literal("approve"), id: z.string(), params: callSchema }),
  z.object({ method: z.literal("elicit"), id: z.string(), params: questionSchema }),
  z.object({
    method: z.literal("withdraw"),
    params: z.object({
      id: z.string(),
      type: z.enum(["approval_rejected", "approval_timeout", "approval_unavailable", "cancelled"]),
      reason: z.string(),
    }),
  }),
]);

const frame = z.looseObject({ jsonrpc: z.literal("2.0") });
const answerMessage = z.object({
  jsonrpc: z.literal("2.0"),
  id: z.string(),
  result: z.unknown().optional(),
});

const remember: z.ZodType<Remember> = z.strictObject({
  scope,
  match: z.enum(["tool", "pattern", "arguments"]),
});

/** A decision on a call. Nothing else counts as approval. */
const decision = z.union([
  z.boolean(),
  z.strictObject({
    approved: z.literal(true),
    arguments: exactObject.optional(),
    /**
     * Used by pages instead of `arguments`: texts as they are, all other arguments as JSON text.
     */
    edited: z.strictObject({ texts: z.record(z.string(), z.string()), json: z.string() })
      .optional(),
    remember: remember.optional(),
  }).refine((given) => Object.values(given).filter((value) => value !== undefined).length > 1),
  z.strictObject({
    approved: z.literal(false),
    reason: z.string(),
    remember: remember.optional(),
  }),
]);

export function callJson<Arguments>(
  request: ApprovalRequest,
  tool_args: Arguments,
): Record<string, unknown> {
  return {
    server_name: request.serverName,
    tool_name: request.toolName,
    tool_args,
    kind: request.kind,
    annotations: request.annotations,
    call_id: request.callId,
    title: request.title,
    description: request.description,
    server_launch: request.server?.launch,
    source: request.source,
    changes: request.changes,
    asked_at: request.askedAt?.toISOString(),
    scopes: request.scopes.length === 0 ? undefined : request.scopes,
    pattern: request.pattern,
  };
}

/** A server's question as JSON. */
export function questionJson(request: ElicitationRequest): Record<string, unknown> {
  const { serverName: server_name, callId: call_id, question } = request;
  return { server_name, call_id, question };
}

/** Creates the message that shows a request to an approver. */
export function requestText(request: PersonRequest): string {
  const message = request instanceof ElicitationRequest
    ? { method: "elicit", params: toExact(JSON.parse(JSON.stringify(questionJson(request)))) }
    : { method: "approve", params: callJson(request, parseExact(request.argumentsJson)) };
  return stringifyExact({ jsonrpc: "2.0", id: request.id, ...message });
}

/** Creates the message that withdraws a request. */
export function withdrawText(id: string, { type, reason }: Refusal): string {
  return stringifyExact({ jsonrpc: "2.0", method: "withdraw", params: { id, type, reason } });
}

/** Creates the message that answers a request. */
export function answerText(id: string, result: unknown): string {
  return stringifyExact({ jsonrpc: "2.0", id, result });
}

/** A decision as approvers write it. */
export function decisionJson(answer: ApprovalResponse, edited: boolean): unknown {
  const { remember } = answer;
  if (!answer.accepted) return { approved: false, reason: answer.reason, remember };
  if (!edited && remember === undefined) return true;
  return { approved: true, arguments: edited ? answer.arguments : undefined, remember };
}

/** Parses a message to an approver. */
export function parseServerMessage(text: string): ServerMessage | undefined {
  const message = serverMessage.safeParse(frame.safeParse(parseFrame(text)).data).data;
  switch (message?.method) {
    case undefined:
      return undefined;
    case "withdraw": {
      const { id, type, reason } = message.params;
      return { method: "withdraw", id, refusal: { accepted: false, type, reason } };
    }
    case "elicit": {
      const { server_name: serverName, call_id: callId, question: asked } = message.params;
      const { kind: mode, schema: requestedSchema, ...others } = asked;
      // A schema's numbers are limits, for which plain numbers suffice.
      const schema = toPlain(requestedSchema as ExactJson); // parsed by parseExact()
      const question = parseElicitation({ mode, requestedSchema: schema, ...others });
      if (typeof question === "string") return undefined;
      return { method: "elicit", id: message.id, source: { serverName, callId }, question };
    }
    case "approve": {
      const { params, id, method } = message;
      const { server_launch: launch, asked_at: askedAt, scopes, pattern } = params;
      const call: ApprovalCall = {
        kind: params.kind,
        serverName: params.server_name,
        toolName: params.tool_name,
        arguments: params.tool_args,
        annotations: params.annotations,
        callId: params.call_id,
        title: params.title,
        description: params.description,
        server: launch === undefined ? undefined : { launch },
        source: params.source,
        changes: params.changes,
        askedAt: askedAt === undefined ? undefined : new Date(askedAt),
      };
      return { method, id, call, scopes, pattern };
    }
  }
}

/** Parses an approver's message. The meaning of its result depends on the request. */
export function parseAnswer(text: string): { id: string; result?: unknown } | undefined {
  return answerMessage.safeParse(parseFrame(text)).data;
}

/** Parses an answer. Calling the result settles the request, or throws a `TypeError` if it cannot be used. */
export function readAnswer(
  request: PersonRequest,
  value: unknown,
  by: QuestionEnd["by"] = "application",
): (() => Promise<boolean>) | undefined {
  if (request instanceof ElicitationRequest) {
    const answer = elicitationAnswer.safeParse(toPlain(value as ExactJson)).data;
    return answer && (() => Promise.try(() => request.answer(answer, by)));
  }
  const decided = decision.safeParse(value).data;
  switch (decided) {
    case undefined:
      return undefined;
    case true:
      return () => request.accept();
    case false:
      return () => request.reject();
  }
  return decided.approved
    ? async () => {
      const { remember, edited, arguments: args = edited && argumentsOf(edited) } = decided;
      return await request.accept({ remember, arguments: args });
    }
    : () => request.reject(decided.reason || undefined, { remember: decided.remember });
}

/** The arguments that a person edited on a page. */
function argumentsOf(
  { texts, json }: { readonly texts: Readonly<Record<string, string>>; readonly json: string },
): ExactObject {
  let others: ExactJson;
  try {
    others = parseExact(json);
  } catch (error) {
    throw new TypeError(`Not valid JSON: ${messageOf(error)}`);
  }
  if (!isExactObject(others)) throw new TypeError("Arguments are a JSON object: {…}");
  const twice = Object.keys(texts).find((name) => Object.hasOwn(others, name));
  if (twice !== undefined) throw new TypeError(`${JSON.stringify(twice)} has a separate field`);
  return { ...others, ...texts };
}

function parseFrame(text: string): unknown {
  try {
    return parseExact(text);
  } catch {
    return undefined; // not a message
  }
}
