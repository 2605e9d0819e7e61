import { z } from "zod";
import { ToolCallError } from "../base/errors.ts";
import { messageOf } from "./results.ts";
import { callFailure, ForgottenSessionError } from "./start_errors.ts";
import { ProtocolError, ProtocolErrorCode, SdkError, SdkErrorCode, SdkHttpError } from "./sdk.ts";
import type { StdioTransport } from "./stdio.ts";

/** How a failed call ended on our side, which the SDK's errors do not say. */
interface CallEnd {
  /** The caller cancelled it. */
  readonly cancelled: boolean;
  /** The call reached its time limit. */
  readonly timedOut: boolean;
}

/** Explains an error that leaves the connection usable; `undefined` for others. */
export function explainAnswer(
  serverName: string,
  error: unknown,
  { cancelled, timedOut }: CallEnd,
): ToolCallError | undefined {
  if (error instanceof ToolCallError) return error;
  const cause = { cause: error };
  if (cancelled) return new ToolCallError("cancelled", "The call was cancelled", {}, cause);
  if (timedOut) return new ToolCallError("tool_timeout", "The call took too long", {}, cause);
  if (error instanceof ProtocolError) {
    const { code, message, data } = error;
    const type = code === ProtocolErrorCode.InvalidParams ? "invalid_arguments" : "protocol_error";
    const text = `answered with an error: ${message}`;
    return callFailure(serverName, type, text, { cause: error, code, data });
  }
  if (error instanceof SdkError && BROKEN_RULES.includes(error.code)) {
    const text = `broke the protocol: ${messageOf(error)}`;
    return callFailure(serverName, "protocol_error", text, cause);
  }
  return undefined;
}

/** Explains the failure of a connection to a server's process. */
export async function explainDeath(
  serverName: string,
  transport: StdioTransport,
  cause: unknown,
  warn: (message: string) => void,
): Promise<ToolCallError> {
  if (transport.failure !== undefined) {
    const how = `was stopped: ${transport.failure.message}`;
    return callFailure(serverName, "server_died", how, { cause });
  }
  const evidence = await transport.evidence();
  if (evidence === undefined) {
    return callFailure(serverName, "server_died", "closed the connection", { cause });
  }
  const { exitCode, signal, stderrTail } = evidence;
  warn(`MCP server "${serverName}" died. Last lines of its stderr:\n${stderrTail}`);
  const how = signal === null ? `exited with code ${exitCode}` : `was killed by ${signal}`;
  return callFailure(serverName, "server_died", how, { cause, exitCode, signal });
}

/** Explains the failure of an HTTP connection. */
export function explainUnreachable(serverName: string, cause: unknown): ToolCallError {
  if (!(cause instanceof SdkHttpError)) {
    return callFailure(serverName, "server_unreachable", "cannot be reached", { cause });
  }
  const mayHaveRun = cause.status >= 500 ? "; the call may have run all the same" : "";
  const problem = `answered with HTTP ${cause.status}${mayHaveRun}`;
  return callFailure(serverName, "server_unreachable", problem, { cause });
}

/**
 * Explains that the server of a session no longer knows it; `undefined` for any other error.
 *
 * @param started Whether an earlier request has started the tool.
 */
export function explainForgotten(
  serverName: string,
  error: unknown,
  started: boolean,
): ForgottenSessionError | undefined {
  if (!(error instanceof SdkHttpError)) return undefined;
  const { status, data } = error;
  const text = String(data.text);
  const isSaid = (status === 404 || status === 400) && saysForgotten(text);
  if (status !== 404 && !isSaid) return undefined;
  return new ForgottenSessionError(serverName, isSaid && !started && isUnread(text), error);
}

/** More than any server needs to say it: a page of HTML may say anything. */
const MAX_WORDS = 2000;

/** The words of the known servers, such as "Session not found" and "No valid session ID provided". */
function saysForgotten(words: string): boolean {
  if (words.length > MAX_WORDS) return false;
  return /\bsession\b.{0,60}\b(not found|expired|terminated|closed|unknown|invalid|not exist)/i
    .test(words) ||
    /\b(no|no valid|invalid|unknown|expired) (mcp )?session\b/i.test(words) ||
    /\bserver not initialized\b/i.test(words);
}

/** A transport's answer if it has not read the request; otherwise it would have the request's id. */
const refusalSchema = z.object({
  id: z.union([z.null(), z.literal("server-error")]).optional(), // the latter is the Python SDK's
  error: z.object({ code: z.number() }),
});

function isUnread(text: string): boolean {
  try {
    return refusalSchema.safeParse(JSON.parse(text)).success;
  } catch {
    return false;
  }
}

/** The errors with which the SDK reports a violation of the protocol. */
const BROKEN_RULES: readonly string[] = [
  SdkErrorCode.InvalidResult,
  SdkErrorCode.UnsupportedResultType,
  SdkErrorCode.InputRequiredRoundsExceeded,
  SdkErrorCode.ListPaginationExceeded,
  SdkErrorCode.MethodNotSupportedByProtocolVersion,
  SdkErrorCode.CapabilityNotSupported,
];
