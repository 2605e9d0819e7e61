import { IssuerMismatchError, OAuthError, RegistrationRejectedError } from "../sdk.ts";
import { isOwnError } from "./http.ts";

/** The words of the standards. Anything else could be a token that a server puts there. */
const CODES: readonly string[] = [
  "access_denied",
  "account_selection_required",
  "consent_required",
  "interaction_required",
  "invalid_client",
  "invalid_client_metadata",
  "invalid_grant",
  "invalid_redirect_uri",
  "invalid_request",
  "invalid_scope",
  "invalid_target",
  "login_required",
  "server_error",
  "temporarily_unavailable",
  "unauthorized_client",
  "unsupported_grant_type",
  "unsupported_response_type",
];

/**
 * Says why an authorization server's part failed. Only what is known to hold no token is said: the
 * SDK's own errors carry whole bodies.
 */
export function refusalOf(error: unknown): string {
  if (error instanceof OAuthError) {
    return `its authorization server refuses: ${codeOf(error.code)}`;
  }
  if (error instanceof RegistrationRejectedError) {
    return `its authorization server does not register ipybox: HTTP ${error.status}` +
      codeInBody(error.body);
  }
  if (error instanceof IssuerMismatchError) {
    return error.kind === "metadata"
      ? "its authorization server calls itself by another name"
      : "the answer came from another authorization server than the one that was asked";
  }
  if (isOwnError(error)) return error.message;
  return "its authorization server cannot be understood";
}

/** An error code that a server sent, where it is one of the standards. */
export function codeOf(code: string): string {
  return CODES.includes(code) ? code : "for a reason that no standard knows";
}

function codeInBody(body: string): string {
  try {
    const { error } = Object(JSON.parse(body));
    return typeof error === "string" ? `, ${codeOf(error)}` : "";
  } catch {
    return ""; // not what the standard says, and nobody has checked what it is
  }
}
