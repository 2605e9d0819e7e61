import {
  ConfigError,
  EnvironmentNotReadyError,
  McpConnectionError,
  McpLoginRequiredError,
  ToolCallError,
  type ToolCallErrorDetails,
  type ToolErrorType,
} from "../base/errors.ts";
import { LoginFileError } from "./oauth/store.ts";
import { messageOf } from "./results.ts";
import { mayQuoteSecrets, type ServerParams } from "./params.ts";
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
    return fail(serverName, invalid ? "invalid_arguments" : "protocol_error", what, error, {
      code,
      data,
    });
  }
  if (error instanceof SdkError && BROKEN_RULES.includes(error.code)) {
    return fail(serverName, "protocol_error", `broke the protocol: ${messageOf(error)}`, error);
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
    return fail(serverName, "server_died", `was stopped: ${transport.failure.message}`, error);
  }
  const evidence = await transport.evidence();
  if (evidence === undefined) {
    return fail(serverName, "server_died", "closed the connection", error);
  }
  const { exitCode, signal, stderrTail } = evidence;
  warn(`MCP server "${serverName}" died. Last lines of its stderr:\n${stderrTail}`);
  const how = signal === null ? `exited with code ${exitCode}` : `was killed by ${signal}`;
  return fail(serverName, "server_died", how, error, { exitCode, signal });
}

/** Explains the failure of an HTTP connection. */
export function explainUnreachable(serverName: string, error: unknown): ToolCallError {
  const what = isForgottenSession(error)
    ? "no longer knows the session (HTTP 404); the next call starts a new one"
    : error instanceof SdkHttpError
    ? `answered with HTTP ${error.status}`
    : "cannot be reached";
  return fail(serverName, "server_unreachable", what, error);
}

/** Explains that a server cannot be used without a login. */
export function explainLogin(failure: McpConnectionError): ToolCallError {
  const { serverName, message } = failure;
  if (!(failure instanceof McpLoginRequiredError)) {
    return fail(serverName, "server_unreachable", "cannot be reached", failure);
  }
  return new ToolCallError("login_required", message, {}, { cause: failure });
}

/**
 * Describes a failure to start or reach a server, in a message that executed code may read: URLs,
 * values of variables and stderr output may contain secrets.
 */
export function startFailure(serverName: string, params: ServerParams, error: Error): string {
  const isConnection = error instanceof McpConnectionError;
  if (isConnection && !("command" in params)) return `MCP server "${serverName}" cannot be reached`;
  if (!isForCode(error) || mayQuoteSecrets(params, error)) {
    return `MCP server "${serverName}" cannot be started. ipybox gives the reason only in its log ` +
      "(its stderr), because it may contain secrets";
  }
  return isConnection ? error.message.split("\n", 1)[0] ?? "" : error.message;
}

/** Whether an error's message is ours and names no host file, as system errors do. */
function isForCode(error: Error): boolean {
  const isOurs = error instanceof McpConnectionError || error instanceof ConfigError ||
    error instanceof EnvironmentNotReadyError;
  return isOurs && !(error instanceof LoginFileError);
}

/**
 * Whether the server no longer knows the session. Proxies may send the same status for a request
 * that the server has processed.
 */
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

function fail(
  serverName: string,
  type: ToolErrorType,
  what: string,
  cause: unknown,
  details: ToolCallErrorDetails = {},
): ToolCallError {
  return new ToolCallError(type, `MCP server "${serverName}" ${what}`, details, { cause });
}
