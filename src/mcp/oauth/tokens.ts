import {
  type FetchLike,
  fetchToken,
  type OAuthClientProvider,
  type OAuthTokens,
  refreshAuthorization,
} from "../sdk.ts";
import { clientInformation, keyAuthentication } from "./client.ts";
import type { Authority } from "./discovery.ts";
import { OAuthHttpError } from "./http.ts";
import { type Login, TOKEN } from "./login_store.ts";
import type { OAuthParams } from "./params.ts";

/** What of an answer with tokens is kept. */
export type Tokens = Pick<Login, "accessToken" | "refreshToken">;

/** Checks an answer with tokens. */
export function checkTokens(tokens: OAuthTokens): Tokens {
  const { access_token: accessToken, refresh_token: refreshToken, token_type } = tokens;
  const isBearer = token_type.toLowerCase() === "bearer";
  const areTokens = [accessToken, refreshToken].every((text) =>
    text === undefined || TOKEN.test(text)
  );
  if (isBearer && areTokens) return { accessToken, refreshToken };
  throw new OAuthHttpError("its authorization server gives no bearer token");
}

/** Gets new tokens for old ones. */
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
    ...(metadata === undefined ? {} : { metadata }),
    ...(resource === undefined ? {} : { resource }),
    ...(addClientAuthentication === undefined ? {} : { addClientAuthentication }),
  });
  return { ...login, ...checkTokens(tokens) };
}

/** Gets a token for the client itself, with its secret or key. */
export async function fetchClientToken(
  authority: Authority,
  params: OAuthParams,
  scope: string | undefined,
  fetchFn: FetchLike,
): Promise<string | undefined> {
  const { issuer, metadata, resource } = authority;
  const { clientId = "", clientSecret } = params;
  const unused = (): never => {
    throw new Error("No person takes part in this login");
  };
  const addClientAuthentication = keyAuthentication(params);
  const provider: OAuthClientProvider = {
    redirectUrl: undefined,
    clientMetadata: { redirect_uris: [] },
    clientInformation: () => ({ ...clientInformation({ clientId, clientSecret }), issuer }),
    prepareTokenRequest: (wanted) =>
      new URLSearchParams({
        grant_type: "client_credentials",
        ...(wanted === undefined ? {} : { scope: wanted }),
      }),
    tokens: unused,
    saveTokens: unused,
    redirectToAuthorization: unused,
    saveCodeVerifier: unused,
    codeVerifier: unused,
    ...(addClientAuthentication === undefined ? {} : { addClientAuthentication }),
  };
  const tokens = await fetchToken(provider, issuer, {
    fetchFn,
    ...(metadata === undefined ? {} : { metadata }),
    ...(resource === undefined ? {} : { resource }),
    ...(scope === undefined ? {} : { scope }),
  });
  return checkTokens(tokens).accessToken;
}
