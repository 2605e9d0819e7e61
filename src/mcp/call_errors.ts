import { ToolCallError } from "../base/errors.ts";
import { messageOf } from "./results.ts";
import { callFailure } from "./start_errors.ts";
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
    const invalid = code === ProtocolErrorCode.InvalidParams;
    const what = `answered with an error: ${message}`;
    return callFailure(serverName, invalid ? "invalid_arguments" : "protocol_error", what, error, {
      code,
      data,
    });
  }
  if (error instanceof SdkError && BROKEN_RULES.includes(error.code)) {
    return callFailure(
      serverName,
      "protocol_error",
      `broke the protocol: ${messageOf(error)}`,
      error,
    );
  }
  return undefined;
}

/** Explains the failure of a connection to a server's process. */
export async function explainDeath(
  serverName: string,
  transport: StdioTransport,
  error: unknown,
  warn: (message: string) => void,
): Promise<ToolCallError> {
  if (transport.failure !== undefined) {
    return callFailure(
      serverName,
      "server_died",
      `was stopped: ${transport.failure.message}`,
      error,
    );
  }
  const evidence = await transport.evidence();
  if (evidence === undefined) {
    return callFailure(serverName, "server_died", "closed the connection", error);
  }
  const { exitCode, signal, stderrTail } = evidence;
  warn(`MCP server "${serverName}" died. Last lines of its stderr:\n${stderrTail}`);
  const how = signal === null ? `exited with code ${exitCode}` : `was killed by ${signal}`;
  return callFailure(serverName, "server_died", how, error, { exitCode, signal });
}

/** Explains the failure of an HTTP connection. */
export function explainUnreachable(serverName: string, error: unknown): ToolCallError {
  const what = isForgottenSession(error)
    ? "no longer knows the session (HTTP 404); the next call starts a new one"
    : error instanceof SdkHttpError
    ? `answered with HTTP ${error.status}`
    : "cannot be reached";
  return callFailure(serverName, "server_unreachable", what, error);
}

/** Whether the server no longer knows the session, or a proxy says so of a request that was processed. */
export function isForgottenSession(error: unknown): boolean {
  return error instanceof SdkHttpError && error.status === 404;
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
