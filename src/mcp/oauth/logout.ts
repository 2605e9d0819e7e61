import { type AuthorizationServerMetadata, discoverAuthorizationServerMetadata } from "../sdk.ts";
import {
  fillVariables,
  type HttpServerParams,
  type VariableLookup,
  variableLookup,
} from "../params.ts";
import { keyAuthentication, type OAuthParams } from "./client.ts";
import { oauthFetch } from "./http.ts";
import { type Login, LoginStore } from "./store.ts";

/** What became of a login that was to end. */
export type LogoutEnd = "none" | "revoked" | "deleted" | "refused";

/** Options of {@linkcode forgetLogin}. */
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
  const { workspace, loginsFolder, signal } = options;
  const lookup = options.variables ?? await variableLookup(workspace);
  const { url, oauth } = params;
  const own = oauth === false || oauth === undefined ? {} : oauth;
  const { clientSecret, privateKey, ...known } = own;
  // A secret that is not set any more must not keep the login from being deleted.
  const filled = fillVariables(serverName, { url, oauth: known }, lookup);
  const server = new URL(filled.url);
  const { clientId } = filled.oauth;
  const store = await LoginStore.find(server, { clientId, workspace, folder: loginsFolder });
  using _lock = await store?.lock(signal);
  const login = await store?.read();
  if (store === undefined || login === undefined) return "none";
  await store.remove(); // first: whatever comes, it is gone from here
  try {
    const secrets = fillVariables(serverName, { url, oauth: { clientSecret, privateKey } }, lookup);
    const client = { ...filled.oauth, ...secrets.oauth };
    return await revoke(login, { server, params: client, signal }) ? "revoked" : "deleted";
  } catch {
    signal?.throwIfAborted();
    return "refused"; // what went wrong at an authorization server may quote the token
  }
}

interface RevocationContext {
  readonly server: URL;
  readonly params: OAuthParams;
  readonly signal: AbortSignal | undefined;
}

/** Revokes both tokens: some authorization servers end only the one that they are told. */
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
