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

/** How a failed call ended on our side, which the SDK's errors do not tell. */
export interface CallEnd {
  /** The caller gave up. */
  readonly cancelled: boolean;
  /** The time limit of the call was reached. */
  readonly timedOut: boolean;
}

/** Explains an error that says nothing about the connection: it continues. */
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

/** Explains the failure of a connection by HTTP. */
export function explainUnreachable(serverName: string, error: unknown): ToolCallError {
  const what = isForgottenSession(error)
    ? "no longer knows the session (HTTP 404); the next call starts a new one"
    : error instanceof SdkHttpError
    ? `answered with HTTP ${error.status}`
    : "cannot be reached";
  return fail(serverName, "server_unreachable", what, error);
}

/** Explains that a server cannot be used for want of a login. */
export function explainLogin(failure: McpConnectionError): ToolCallError {
  const { serverName, message } = failure;
  if (!(failure instanceof McpLoginRequiredError)) {
    return fail(serverName, "server_unreachable", "cannot be reached", failure);
  }
  return new ToolCallError("login_required", message, {}, { cause: failure });
}

/**
 * Says that a server cannot be started or reached, in words that executed code may read: addresses, what
 * was filled in for variables, and last words may hold secrets.
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

/** Whether an error is in our words and names no file of the host, as the system's errors do. */
function isForCode(error: Error): boolean {
  const isOurs = error instanceof McpConnectionError || error instanceof ConfigError ||
    error instanceof EnvironmentNotReadyError;
  return isOurs && !(error instanceof LoginFileError);
}

/**
 * Whether the server says that it no longer knows the session. Others between may answer so for a
 * request that it has processed.
 */
export function isForgottenSession(error: unknown): boolean {
  return error instanceof SdkHttpError && error.status === 404;
}

/** The SDK's own judgements about what the server sent. */
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
