/**
 * What pages are told, and what they answer.
 *
 * @module
 */
import { messageOf } from "../../base/message_of.ts";
import { z } from "zod";
import type {
  ApprovalRequest,
  ApprovalResponse,
  CallSource,
  RefusalType,
  Remember,
  RememberScope,
  ToolAnnotations,
} from "../request.ts";
import { DECIDED } from "../channel.ts";
import { rememberSchema } from "../wire.ts";
import { type ExactObject, isExactObject, parseExact, stringifyExact } from "../../json/exact.ts";

/** What a person decided on a page. */
export type PageDecision =
  | {
    readonly decision: "allow";
    readonly arguments?: ExactObject;
    readonly remember?: Remember;
  }
  | {
    readonly decision: "deny";
    readonly reason?: string;
    readonly remember?: Remember;
  };

/** A request as pages show it. All of it is text of others but the id and the kind. */
export interface RequestView {
  readonly id: string;
  readonly kind: string;
  readonly server: string;
  readonly tool: string;
  readonly title?: string;
  readonly description?: string;
  /** How the server is started or reached. */
  readonly launch?: string;
  /** The arguments as the JSON text that is sent. */
  readonly arguments: string;
  readonly annotations?: ToolAnnotations;
  /** The line of code that called. */
  readonly source?: CallSource;
  /** What changed since the consent that lapsed. */
  readonly changes?: readonly string[];
  /** How long a decision can be remembered. */
  readonly scopes: readonly RememberScope[];
  /** When it was asked, in milliseconds since 1970. */
  readonly askedAt: number;
}

/** How a request ended. */
export interface Outcome {
  readonly id: string;
  readonly result:
    | "allowed"
    | "edited"
    | "denied"
    /** An answer to another request decided it, which the person wants to have remembered. */
    | "settled"
    | Exclude<RefusalType, "approval_rejected">;
  /** Whether it was decided on a page. */
  readonly byPage: boolean;
  /** Why it was refused. */
  readonly reason?: string;
  /** The edited arguments, as the JSON text that is sent. */
  readonly arguments?: string;
  readonly remember?: Remember;
  /** When it ended, in milliseconds since 1970. */
  readonly endedAt: number;
}

const decision: z.ZodType<PageDecision> = z.discriminatedUnion("decision", [
  z.strictObject({
    decision: z.literal("allow"),
    arguments: z.custom<ExactObject>(isExactObject, "Arguments must be a JSON object").optional(),
    remember: rememberSchema.optional(),
  }),
  z.strictObject({
    decision: z.literal("deny"),
    reason: z.string().max(10_000).optional(),
    remember: rememberSchema.optional(),
  }),
]);

/** Reads a decision. */
export function parseDecision(text: string): PageDecision {
  const parsed = decision.safeParse(parseBody(text));
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw new TypeError(`Not a decision: ${issue?.path.join(".")}: ${issue?.message}`);
}

function parseBody(text: string): unknown {
  try {
    return parseExact(text);
  } catch (error) {
    throw new TypeError(`Not JSON: ${messageOf(error)}`);
  }
}

/** Describes a request for pages. */
export function viewOf(request: ApprovalRequest): RequestView {
  const { id, kind, serverName, toolName, argumentsJson, annotations, scopes } = request;
  const { title, description, server, source, changes } = request;
  return {
    id,
    kind,
    server: serverName,
    tool: toolName,
    title: title ?? annotations?.title,
    description,
    launch: server?.launch,
    arguments: argumentsJson,
    annotations,
    source,
    changes,
    scopes,
    askedAt: Date.now(),
  };
}

/** Describes how a request ended, for pages. */
export function outcomeOf(
  request: ApprovalRequest,
  response: ApprovalResponse,
  byPage: boolean,
): Outcome {
  const common = {
    id: request.id,
    byPage,
    remember: response.remember,
    endedAt: Date.now(),
  };
  if (response === DECIDED) return { ...common, result: "settled" };
  if (!response.accepted) {
    const { type, reason } = response;
    return { ...common, result: type === "approval_rejected" ? "denied" : type, reason };
  }
  const sent = stringifyExact(response.arguments);
  return sent === request.argumentsJson
    ? { ...common, result: "allowed" }
    : { ...common, result: "edited", arguments: sent };
}
