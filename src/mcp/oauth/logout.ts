import { type AuthorizationServerMetadata, discoverAuthorizationServerMetadata } from "../sdk.ts";
import {
  fillVariables,
  type HttpServerParams,
  type VariableLookup,
  variableLookup,
} from "../params.ts";
import { keyAuthentication } from "./client.ts";
import type { OAuthParams } from "./params.ts";
import { oauthFetch } from "./http.ts";
import { type Login, LoginStore } from "./store.ts";

/** What became of a login that was to end. */
export type LogoutEnd = "none" | "revoked" | "deleted" | "refused";

/** Options of {@linkcode forgetLogin} and {@linkcode hasLogin}. */
export interface LogoutOptions {
  /** The folder where executed code writes; its `.env` fills `${VAR}`. */
  readonly workspace?: string;
  /** Where `${VAR}` comes from, instead of the environment and the `.env`. */
  readonly variables?: VariableLookup;
  /** The folder of all logins, where it is not the usual one. */
  readonly loginsFolder?: string;
  /** Cancels it. */
  readonly signal?: AbortSignal;
}

/**
 * Ends a login: revokes its tokens where the authorization server offers it (RFC 7009), and deletes
 * them in any case.
 */
export async function forgetLogin(
  serverName: string,
  params: HttpServerParams,
  options: LogoutOptions = {},
): Promise<LogoutEnd> {
  const { signal } = options;
  const { store, server, lookup, oauth } = await findLogin(serverName, params, options);
  const { clientSecret, privateKey } = ownOf(params);
  using _lock = await store?.lock(signal);
  const login = await store?.read();
  if (store === undefined || login === undefined) return "none";
  await store.remove(); // first: whatever comes, it is gone from here
  try {
    const own = { url: params.url, oauth: { clientSecret, privateKey } };
    const secrets = fillVariables(serverName, own, lookup);
    const client = { ...oauth, ...secrets.oauth };
    return await revoke(login, { server, params: client, signal }) ? "revoked" : "deleted";
  } catch {
    signal?.throwIfAborted();
    return "refused"; // what went wrong at an authorization server may quote the token
  }
}

/** Whether a server's login is stored here. Only the server knows whether it is still valid. */
export async function hasLogin(
  serverName: string,
  params: HttpServerParams,
  options: LogoutOptions = {},
): Promise<boolean> {
  const login = await (await findLogin(serverName, params, options)).store?.read();
  return login?.accessToken !== undefined || login?.refreshToken !== undefined;
}

/** Finds the place of a server's login, and what it takes to end it, without its secrets. */
async function findLogin(
  serverName: string,
  params: HttpServerParams,
  { workspace, loginsFolder: folder, variables }: LogoutOptions,
) {
  const lookup = variables ?? await variableLookup(workspace);
  // A secret that is not set any more must not keep the login from being deleted.
  const { clientSecret: _secret, privateKey: _key, ...known } = ownOf(params);
  const { url, oauth } = fillVariables(serverName, { url: params.url, oauth: known }, lookup);
  const server = new URL(url);
  const store = await LoginStore.find(server, { clientId: oauth.clientId, workspace, folder });
  return { store, server, lookup, oauth };
}

/** What the user has set of the login. */
function ownOf({ oauth }: HttpServerParams): OAuthParams {
  return oauth === false || oauth === undefined ? {} : oauth;
}

interface RevocationContext {
  readonly server: URL;
  readonly params: OAuthParams;
  readonly signal: AbortSignal | undefined;
}

/** Revokes both tokens: some authorization servers revoke only the one they receive. */
async function revoke(login: Login, context: RevocationContext): Promise<boolean> {
  const fetchFn = oauthFetch(context.server, context.signal);
  const metadata = await discoverAuthorizationServerMetadata(login.issuer, { fetchFn });
  const { revocation_endpoint: endpoint } = Object(metadata); // OpenID has no word on it
  if (typeof endpoint !== "string") return false;
  const { refreshToken, accessToken } = login;
  for (
    const [hint, token] of Object.entries({
      refresh_token: refreshToken,
      access_token: accessToken,
    })
  ) {
    if (token === undefined) continue;
    const body = new URLSearchParams({ token, token_type_hint: hint });
    const headers = new Headers();
    await authenticate(login, context.params, { headers, body, endpoint, metadata });
    const { ok, status } = await fetchFn(endpoint, { method: "POST", headers, body });
    if (!ok) throw new Error(`HTTP ${status}`);
  }
  return true;
}

interface RevocationRequest {
  readonly headers: Headers;
  readonly body: URLSearchParams;
  readonly endpoint: string;
  readonly metadata: AuthorizationServerMetadata | undefined;
}

/** Proves who asks, as for tokens; the SDK has this for them alone. */
async function authenticate(
  login: Login,
  params: OAuthParams,
  { headers, body, endpoint, metadata }: RevocationRequest,
): Promise<void> {
  const sign = keyAuthentication(params);
  if (sign !== undefined) return await sign(headers, body, endpoint, metadata);
  const { clientId, clientAuthMethod } = login;
  const secret = params.clientSecret ?? login.clientSecret;
  if (secret === undefined || clientAuthMethod === "none") return body.set("client_id", clientId);
  if (clientAuthMethod === "client_secret_post") {
    body.set("client_id", clientId);
    return body.set("client_secret", secret);
  }
  headers.set("authorization", `Basic ${btoa(`${clientId}:${secret}`)}`);
}
