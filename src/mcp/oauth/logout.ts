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

/** The result of logging out. */
type LogoutEnd = "none" | "revoked" | "deleted" | "refused";

/** Options of {@linkcode forgetLogin} and {@linkcode hasLogin}. */
interface LogoutOptions {
  /** The folder where executed code writes; its `.env` fills `${VAR}`. */
  readonly workspace?: string;
  /** Provides values of `${VAR}`, instead of the environment and the `.env`. */
  readonly variables?: VariableLookup;
  /** The folder of all logins, if it is not the default one. */
  readonly loginsFolder?: string;
  readonly signal?: AbortSignal;
}

/** Deletes a login's tokens, and revokes them if the authorization server supports that (RFC 7009). */
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
  await store.remove(); // first, so that it is gone from here even if the rest fails
  try {
    const own = { url: params.url, oauth: { clientSecret, privateKey } };
    const secrets = fillVariables(serverName, own, lookup);
    const client = { ...oauth, ...secrets.oauth };
    return await revoke(login, { server, params: client, signal }) ? "revoked" : "deleted";
  } catch {
    signal?.throwIfAborted();
    return "refused"; // the error from the authorization server may quote the token
  }
}

/** Whether a login to a server is stored here. Only the server knows whether it is still valid. */
export async function hasLogin(
  serverName: string,
  params: HttpServerParams,
  options: LogoutOptions = {},
): Promise<boolean> {
  const login = await (await findLogin(serverName, params, options)).store?.read();
  return login?.accessToken !== undefined || login?.refreshToken !== undefined;
}

/** Finds where a server's login is stored, and its parameters without secrets. */
async function findLogin(
  serverName: string,
  params: HttpServerParams,
  { workspace, loginsFolder: folder, variables }: LogoutOptions,
) {
  const lookup = variables ?? await variableLookup(workspace);
  // An unset variable for a secret must not prevent deleting the login.
  const { clientSecret: _secret, privateKey: _key, ...known } = ownOf(params);
  const { url, oauth } = fillVariables(serverName, { url: params.url, oauth: known }, lookup);
  const server = new URL(url);
  const store = LoginStore.find(server, { clientId: oauth.clientId, workspace, folder });
  return { store, server, lookup, oauth };
}

/** The user's OAuth parameters. */
function ownOf({ oauth }: HttpServerParams): OAuthParams {
  return oauth === false || oauth === undefined ? {} : oauth;
}

interface RevocationContext {
  readonly server: URL;
  readonly params: OAuthParams;
  readonly signal: AbortSignal | undefined;
}

/** Revokes both tokens, because some authorization servers revoke only the one they receive. */
async function revoke(login: Login, context: RevocationContext): Promise<boolean> {
  const fetchFn = oauthFetch(context.server, context.signal);
  const metadata = await discoverAuthorizationServerMetadata(login.issuer, { fetchFn });
  const { revocation_endpoint: endpoint } = Object(metadata); // not part of OpenID's metadata type
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

/** Authenticates the client as for token requests, for which the SDK does it. */
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
