import {
  type AuthorizationServerMetadata,
  checkResourceAllowed,
  discoverAuthorizationServerMetadata,
  discoverOAuthProtectedResourceMetadata,
  type FetchLike,
  type OAuthProtectedResourceMetadata,
} from "../sdk.ts";
import type { Challenge } from "./challenge.ts";
import { OAuthHttpError } from "./http.ts";
import type { OAuthParams } from "./params.ts";

/** Who gives the tokens for a server, as the server says. */
export interface Authority {
  /** The authorization server's name, which everything it gave is bound to. */
  readonly issuer: string;
  /** What it has; servers of the oldest kind have no metadata. */
  readonly metadata?: AuthorizationServerMetadata | undefined;
  /** What tokens are asked for, exactly as the server writes it. */
  readonly resource?: string | undefined;
  /** The scopes that the server has. */
  readonly scopes?: readonly string[] | undefined;
}

/**
 * Finds out who gives the tokens for a server: by its metadata (RFC 9728), then by that of the
 * authorization server (RFC 8414, OpenID Connect Discovery).
 */
export async function discoverAuthority(
  server: URL,
  challenge: Challenge,
  params: OAuthParams,
  fetchFn: FetchLike,
): Promise<Authority> {
  const resource = await protectedResource(server, challenge, fetchFn);
  const named = resource?.authorization_servers ?? [];
  const url = chooseServer(named, params.issuer) ?? new URL("/", server).href;
  const metadata = await discoverAuthorizationServerMetadata(url, { fetchFn });
  if (metadata === undefined && named.length > 0) {
    throw new OAuthHttpError("its authorization server has no metadata");
  }
  if (metadata !== undefined) requirePkce(metadata);
  const issuer = metadata?.issuer ?? url;
  if (params.issuer !== undefined && !sameIssuer(params.issuer, issuer)) wrongIssuer(issuer);
  return { issuer, metadata, resource: resource?.resource, scopes: resource?.scopes_supported };
}

/** Whether two names are of the same authorization server. */
export function sameIssuer(one: string, other: string): boolean {
  return one.replace(/\/$/, "") === other.replace(/\/$/, "");
}

async function protectedResource(
  server: URL,
  { resourceMetadataUrl }: Challenge,
  fetchFn: FetchLike,
): Promise<OAuthProtectedResourceMetadata | undefined> {
  const options = resourceMetadataUrl === undefined ? {} : { resourceMetadataUrl };
  const metadata = await discoverOAuthProtectedResourceMetadata(server, options, fetchFn)
    .catch((error: unknown) => {
      // The SDK tells a missing document from others only in words. Without one, the server itself
      // gives the tokens, as servers of the oldest kind do.
      if (error instanceof TypeError) throw error;
      return undefined;
    });
  if (metadata === undefined) return undefined;
  const { resource } = metadata;
  if (!checkResourceAllowed({ requestedResource: server, configuredResource: resource })) {
    throw new OAuthHttpError("its metadata is that of another server");
  }
  return metadata;
}

function chooseServer(
  named: readonly string[],
  wanted: string | undefined,
): string | undefined {
  if (wanted === undefined || named.length === 0) return named[0];
  return named.find((url) => sameIssuer(url, wanted)) ?? wrongIssuer(named[0] ?? "");
}

function wrongIssuer(named: string): never {
  const host = URL.parse(named)?.host ?? "another one";
  throw new OAuthHttpError(`it names ${host}, which is not the configured authorization server`);
}

/** Without it a stolen code would be worth a token, so the standard wants us to stop. */
function requirePkce({ code_challenge_methods_supported: methods }: AuthorizationServerMetadata) {
  if (methods?.includes("S256")) return;
  throw new OAuthHttpError("its authorization server does not say that it supports PKCE with S256");
}
