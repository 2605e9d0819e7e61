/**
 * Messages about failures to start or reach a server. Sessions that use no server need nothing more of
 * the MCP client, which `connect.ts` loads.
 *
 * @module
 */
import {
  ConfigError,
  EnvironmentNotReadyError,
  McpConnectionError,
  McpLoginRequiredError,
  ToolCallError,
  type ToolCallErrorDetails,
  type ToolErrorType,
} from "../base/errors.ts";
import { mayQuoteSecrets, type ServerParams } from "./params.ts";

/** A login file cannot be used. The message names the file, so executed code must not see it. */
export class LoginFileError extends ConfigError {}

/** The fix for a server that takes too long. */
export const LONGER_HINT =
  ". If this machine is slow or busy, try again; if the server needs longer, register it with " +
  "--connect-timeout SECONDS";

/**
 * The server no longer knows the session, so the next request starts a new one.
 *
 * It is `certain` if the server itself gave this answer: then it did not look at the content of the
 * request, and sending it again cannot run it twice. Any other 404 may come from a proxy that answers
 * after the server has run the request.
 */
export class ForgottenSessionError extends ToolCallError {
  /** Created for a request that was answered like this. */
  constructor(serverName: string, readonly certain: boolean, cause: unknown) {
    const message = `MCP server "${serverName}" no longer knows the session; ` +
      `${certain ? "" : "this call may have run all the same, and "}the next call starts a new one`;
    super("server_unreachable", message, {}, { cause });
  }
}

/** Explains that a server cannot be used without a login. */
export function explainLogin(failure: McpConnectionError): ToolCallError {
  const { serverName, message } = failure;
  if (!(failure instanceof McpLoginRequiredError)) {
    return callFailure(serverName, "server_unreachable", "cannot be reached", { cause: failure });
  }
  return new ToolCallError("login_required", message, {}, { cause: failure });
}

/** Describes a failed start for executed code: URLs, variables and stderr may contain secrets. */
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

/** A failed call of a server. */
export function callFailure(
  serverName: string,
  type: ToolErrorType,
  problem: string,
  { cause, ...details }: { readonly cause: unknown } & ToolCallErrorDetails,
): ToolCallError {
  return new ToolCallError(type, `MCP server "${serverName}" ${problem}`, details, { cause });
}
