import {
  type AuthorizationServerMetadata,
  checkResourceAllowed,
  createPrivateKeyJwtAuth,
  discoverAuthorizationServerMetadata,
  discoverOAuthProtectedResourceMetadata,
  type FetchLike,
  type OAuthClientProvider,
  type OAuthProtectedResourceMetadata,
  registerClient,
} from "../sdk.ts";
import { isAtOrBelow, OAuthHttpError } from "./http.ts";
import type { OAuthParams } from "./params.ts";
import type { Challenge } from "./session.ts";
import type { Login } from "./store.ts";

/** What ipybox is called at an authorization server. */
type OAuthClient = Pick<
  Login,
  "clientId" | "clientSecret" | "clientAuthMethod" | "clientSecretExpiresAt" | "redirectUri"
>;

/** What a client is chosen from. */
interface ClientSources {
  /** What the user has set. */
  readonly params: OAuthParams;
  /** The login so far, whose client may still be good. */
  readonly before?: Login;
  /** Where the browser comes back to. */
  readonly redirectUri: string;
  /** The scopes of the login. */
  readonly scope?: string;
}

/**
 * Chooses the client of a login: the one that the user has set, a client-ID metadata document, the one
 * that was registered before, or a new one.
 */
export async function chooseClient(
  authority: Authority,
  sources: ClientSources,
  fetchFn: FetchLike,
): Promise<OAuthClient> {
  const { params, before, redirectUri, scope } = sources;
  const { issuer, metadata } = authority;
  const { clientId, clientSecret, clientMetadataUrl } = params;
  if (clientId !== undefined) return { clientId, clientSecret };
  const takesDocuments = metadata?.client_id_metadata_document_supported === true;
  if (clientMetadataUrl !== undefined && takesDocuments) return { clientId: clientMetadataUrl };
  if (before !== undefined && isGood(before, issuer, redirectUri)) return clientOf(before);
  if (metadata !== undefined && metadata.registration_endpoint === undefined) {
    throw new OAuthHttpError(
      "its authorization server does not support dynamic client registration: register a client there with the " +
        `redirect URI http://127.0.0.1/callback, and pass its id with --client-id`,
    );
  }
  const registered = await registerClient(issuer, {
    fetchFn,
    metadata,
    scope,
    clientMetadata: {
      client_name: "ipybox",
      redirect_uris: [redirectUri],
      grant_types: ["authorization_code", "refresh_token"],
      response_types: ["code"],
      application_type: "native",
      token_endpoint_auth_method: authMethod(metadata?.token_endpoint_auth_methods_supported),
    },
  });
  return {
    clientId: registered.client_id,
    clientSecret: registered.client_secret,
    clientAuthMethod: registered.token_endpoint_auth_method,
    clientSecretExpiresAt: registered.client_secret_expires_at,
    redirectUri,
  };
}

/** The client as the SDK takes it. */
export function clientInformation(
  { clientId, clientSecret, clientAuthMethod }: OAuthClient,
): { client_id: string; client_secret?: string; token_endpoint_auth_method?: string } {
  return {
    client_id: clientId,
    client_secret: clientSecret,
    token_endpoint_auth_method: clientAuthMethod,
  };
}

/** How the client proves who it is where it has a key in place of a secret. */
export function keyAuthentication(
  { clientId, privateKey, algorithm = "ES256" }: OAuthParams,
): OAuthClientProvider["addClientAuthentication"] {
  if (clientId === undefined || privateKey === undefined) return undefined;
  const sign = createPrivateKeyJwtAuth({
    issuer: clientId,
    subject: clientId,
    privateKey,
    alg: algorithm,
  });
  return async (...request) => {
    try {
      await sign(...request);
    } catch {
      // What it says may quote the key.
      throw new OAuthHttpError(`the configured private key cannot sign with ${algorithm}`);
    }
  };
}

function clientOf(login: Login): OAuthClient {
  const { clientId, clientSecret, clientAuthMethod, clientSecretExpiresAt, redirectUri } = login;
  return { clientId, clientSecret, clientAuthMethod, clientSecretExpiresAt, redirectUri };
}

/** Many authorization servers take a registered redirect address only with its own port. */
function isGood(before: Login, issuer: string, redirectUri: string): boolean {
  const { clientSecretExpiresAt: expiry = 0 } = before;
  return sameIssuer(before.issuer, issuer) && before.redirectUri === redirectUri &&
    (expiry === 0 || expiry * 1000 > Date.now());
}

/** A program on a person's machine keeps no secret, so it is best without. */
function authMethod(supported: readonly string[] = ["none"]): string {
  const wanted = ["none", "client_secret_basic", "client_secret_post"];
  return wanted.find((method) => supported.includes(method)) ?? "none";
}

/** Who gives the tokens for a server, as the server says. */
export interface Authority {
  /** The authorization server's name, which everything it gave is bound to. */
  readonly issuer: string;
  /** What it has; servers of the oldest kind have no metadata. */
  readonly metadata?: AuthorizationServerMetadata;
  /** What tokens are asked for (RFC 8707), exactly as the server writes it where it does. */
  readonly resource: string;
  /** The scopes that the server has. */
  readonly scopes?: readonly string[];
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
  if (params.issuer === undefined && named.length === 0) requireOwnEndpoints(server, metadata);
  return {
    issuer,
    metadata,
    // Without its query, which may hold a secret.
    resource: resource?.resource ?? server.origin + server.pathname,
    scopes: resource?.scopes_supported,
  };
}

/**
 * Makes sure that a server which names no authorization server is its own: it would get the access that
 * a person allows at the other service whose endpoints it gives as its own.
 */
function requireOwnEndpoints(server: URL, metadata: AuthorizationServerMetadata | undefined): void {
  const { authorization_endpoint, token_endpoint, registration_endpoint } = metadata ?? {};
  for (const endpoint of [authorization_endpoint, token_endpoint, registration_endpoint]) {
    const url = endpoint === undefined ? null : URL.parse(endpoint);
    if (url === null || isAtOrBelow(url, server)) continue;
    throw new OAuthHttpError(
      `it names no authorization server, but endpoints of ${url.host} as its own: if ${server.host} ` +
        `may have your login at that host, specify --issuer ${server.origin}`,
    );
  }
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
  const metadata = await discoverOAuthProtectedResourceMetadata(
    server,
    { resourceMetadataUrl },
    fetchFn,
  )
    .catch((error: unknown) => {
      // The SDK tells a missing document from others only in words. Without one, the server itself
      // gives the tokens, as servers of the oldest kind do.
      if (error instanceof TypeError) throw error;
      return undefined;
    });
  if (metadata === undefined) return undefined;
  const { resource } = metadata;
  if (!checkResourceAllowed({ requestedResource: server, configuredResource: resource })) {
    throw new OAuthHttpError("its metadata belongs to another server");
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
  throw new OAuthHttpError("its authorization server does not advertise PKCE with S256");
}
