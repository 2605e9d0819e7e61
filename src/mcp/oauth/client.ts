import {
  type AuthorizationServerMetadata,
  checkResourceAllowed,
  ClientCredentialsProvider,
  createPrivateKeyJwtAuth,
  discoverAuthorizationServerMetadata,
  discoverOAuthProtectedResourceMetadata,
  type FetchLike,
  fetchToken,
  type OAuthClientProvider,
  type OAuthProtectedResourceMetadata,
  type OAuthTokens,
  refreshAuthorization,
  registerClient,
} from "../sdk.ts";
import { isAtOrBelow, OAuthHttpError } from "./http.ts";
import type { OAuthParams } from "./params.ts";
import { type Login, TOKEN } from "./store.ts";

/** The client's registration with an authorization server. */
type OAuthClient = Pick<
  Login,
  "clientId" | "clientSecret" | "clientAuthMethod" | "clientSecretExpiresAt" | "redirectUri"
>;

interface ClientSources {
  /** The user's parameters. */
  readonly params: OAuthParams;
  /** The previous login, whose client may still be valid. */
  readonly before?: Login;
  /** Where the browser is redirected to. */
  readonly redirectUri: string;
  readonly scope?: string;
}

/** Chooses the client: the user's own, a metadata document, the one registered before, or a new one. */
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

/** The client in the form that the SDK expects. */
export function clientInformation(
  { clientId, clientSecret, clientAuthMethod }: OAuthClient,
): { client_id: string; client_secret?: string; token_endpoint_auth_method?: string } {
  return {
    client_id: clientId,
    client_secret: clientSecret,
    token_endpoint_auth_method: clientAuthMethod,
  };
}

/** The authentication of a client with a key instead of a secret. */
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
      // The original error may quote the key.
      throw new OAuthHttpError(`the configured private key cannot sign with ${algorithm}`);
    }
  };
}

function clientOf(login: Login): OAuthClient {
  const { clientId, clientSecret, clientAuthMethod, clientSecretExpiresAt, redirectUri } = login;
  return { clientId, clientSecret, clientAuthMethod, clientSecretExpiresAt, redirectUri };
}

/** Many authorization servers accept a registered redirect URI only with the same port. */
function isGood(before: Login, issuer: string, redirectUri: string): boolean {
  const { clientSecretExpiresAt: expiry = 0 } = before;
  return sameIssuer(before.issuer, issuer) && before.redirectUri === redirectUri &&
    (expiry === 0 || expiry * 1000 > Date.now());
}

/** A program on a person's machine cannot keep a secret, so it prefers none. */
function authMethod(supported: readonly string[] = ["none"]): string {
  const wanted = ["none", "client_secret_basic", "client_secret_post"];
  return wanted.find((method) => supported.includes(method)) ?? "none";
}

/** The source of tokens for a server, as the server announces it. */
export interface Authority {
  /** The authorization server's identifier, which everything from it is bound to. */
  readonly issuer: string;
  /** Its metadata; servers of the oldest kind have none. */
  readonly metadata?: AuthorizationServerMetadata;
  /** The resource that tokens are requested for (RFC 8707), in the server's spelling if it names one. */
  readonly resource: string;
  /** The scopes that the server supports. */
  readonly scopes?: readonly string[];
}

/** Discovers the authorization server from the MCP server's metadata (RFC 9728) and its own (RFC 8414). */
export async function discoverAuthority(
  server: URL,
  { resourceMetadataUrl }: { readonly resourceMetadataUrl?: URL },
  params: OAuthParams,
  fetchFn: FetchLike,
): Promise<Authority> {
  const resource = await protectedResource(server, resourceMetadataUrl, fetchFn);
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
    // Omits the query, which may contain a secret.
    resource: resource?.resource ?? server.origin + server.pathname,
    scopes: resource?.scopes_supported,
  };
}

/** Refuses foreign endpoints if a server names no authorization server: the server would get that access. */
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

/** Whether two identifiers name the same authorization server. */
export function sameIssuer(one: string, other: string): boolean {
  return one.replace(/\/$/, "") === other.replace(/\/$/, "");
}

async function protectedResource(
  server: URL,
  resourceMetadataUrl: URL | undefined,
  fetchFn: FetchLike,
): Promise<OAuthProtectedResourceMetadata | undefined> {
  const metadata = await discoverOAuthProtectedResourceMetadata(
    server,
    { resourceMetadataUrl },
    fetchFn,
  )
    .catch((error: unknown) => {
      // Only its message distinguishes the SDK's error for a missing document from others. Without a
      // document, the server itself issues the tokens, as servers of the oldest kind do.
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

/** Without PKCE, a stolen code could be exchanged for a token, so the standard requires stopping here. */
function requirePkce({ code_challenge_methods_supported: methods }: AuthorizationServerMetadata) {
  if (methods?.includes("S256")) return;
  throw new OAuthHttpError("its authorization server does not advertise PKCE with S256");
}

// Tokens.

/** The part of a token response that is kept. */
type Tokens = Pick<Login, "accessToken" | "refreshToken">;

/** Validates a token response. */
export function checkTokens(tokens: OAuthTokens): Tokens {
  const { access_token: accessToken, refresh_token: refreshToken, token_type } = tokens;
  const isBearer = token_type.toLowerCase() === "bearer";
  const areTokens = [accessToken, refreshToken].every((text) =>
    text === undefined || TOKEN.test(text)
  );
  if (isBearer && areTokens) return { accessToken, refreshToken };
  throw new OAuthHttpError("its authorization server did not return a bearer token");
}

/** Exchanges a refresh token for new tokens. */
export async function refreshLogin(
  login: Login & { readonly refreshToken: string },
  authority: Authority,
  params: OAuthParams,
  fetchFn: FetchLike,
): Promise<Login> {
  const { issuer, metadata, resource } = authority;
  const addClientAuthentication = keyAuthentication(params);
  const tokens = await refreshAuthorization(issuer, {
    clientInformation: clientInformation({
      ...login,
      clientSecret: params.clientSecret ?? login.clientSecret,
    }),
    refreshToken: login.refreshToken,
    fetchFn,
    metadata,
    resource,
    addClientAuthentication,
  });
  return { ...login, ...checkTokens(tokens) };
}

/** Requests a token for the client itself, with its secret or key. */
export async function fetchClientToken(
  authority: Authority,
  params: OAuthParams,
  scope: string | undefined,
  fetchFn: FetchLike,
): Promise<string | undefined> {
  const { issuer, metadata, resource } = authority;
  const { clientId = "", clientSecret = "" } = params;
  const provider: OAuthClientProvider = new ClientCredentialsProvider({
    clientId,
    clientSecret,
    expectedIssuer: issuer,
  });
  provider.addClientAuthentication = keyAuthentication(params);
  const tokens = await fetchToken(provider, issuer, { metadata, resource, scope, fetchFn });
  return checkTokens(tokens).accessToken;
}
