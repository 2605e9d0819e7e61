import { extractWWWAuthenticateParams } from "../sdk.ts";

/** What a server said when it wanted a login. */
export interface Challenge {
  /** Whether a login is missing, or its scopes do not suffice. */
  readonly kind: "login" | "scope";
  /** The scopes that it asks for. */
  readonly scope?: string | undefined;
  /** Where its metadata is, when it says so. */
  readonly resourceMetadataUrl?: URL | undefined;
}

/** Reads what a server answered to a request. */
export function readChallenge(response: Response): Challenge | undefined {
  const { scope, error, resourceMetadataUrl } = extractWWWAuthenticateParams(response);
  if (response.status === 401) return { kind: "login", scope, resourceMetadataUrl };
  if (response.status !== 403 || error !== "insufficient_scope") return undefined;
  return { kind: "scope", scope, resourceMetadataUrl };
}
