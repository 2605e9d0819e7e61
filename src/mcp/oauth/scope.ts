import { computeScopeUnion } from "../sdk.ts";

/** Scopes as RFC 6749 has them. Others could be anything. */
const SCOPES = /^[\x21\x23-\x5b\x5d-\x7e]+( [\x21\x23-\x5b\x5d-\x7e]+)*$/;
const MAX_LENGTH = 4096;

/** Checks scopes that a server named. */
export function checkedScope(text: string | undefined): string | undefined {
  const scope = text?.trim();
  return scope !== undefined && scope.length <= MAX_LENGTH && SCOPES.test(scope)
    ? scope
    : undefined;
}

/** What a login's scopes are chosen from. */
export interface ScopeSources {
  /** What the user set. */
  readonly configured?: string | undefined;
  /** What the server asked for when it wanted a login. */
  readonly challenged?: string | undefined;
  /** What the server asked for when the present login did not suffice. */
  readonly lacking?: string | undefined;
  /** What the server has. */
  readonly supported?: readonly string[] | undefined;
  /** What the login so far was for, or was found to lack. */
  readonly before?: string | undefined;
  /** What the authorization server has. */
  readonly offered?: readonly string[] | undefined;
}

/** Chooses the scopes of a login: no more than the server asks for, and no less than before. */
export function chooseScope(sources: ScopeSources): string | undefined {
  const { configured, challenged, lacking, supported, before, offered } = sources;
  const asked = checkedScope(challenged) ?? checkedScope(supported?.join(" "));
  const scope = computeScopeUnion(before, configured ?? asked, checkedScope(lacking));
  // Without it some authorization servers give no refresh token, and the login soon ends.
  const lasting = scope !== undefined && offered?.includes("offline_access");
  return lasting ? computeScopeUnion(scope, "offline_access") : scope;
}
