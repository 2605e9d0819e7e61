import {
  createPrivateKeyJwtAuth,
  type FetchLike,
  type OAuthClientProvider,
  registerClient,
} from "../sdk.ts";
import { type Authority, sameIssuer } from "./discovery.ts";
import { OAuthHttpError } from "./http.ts";
import type { Login } from "./login_store.ts";
import type { OAuthParams } from "./params.ts";

/** What ipybox is called at an authorization server. */
export type OAuthClient = Pick<
  Login,
  "clientId" | "clientSecret" | "clientAuthMethod" | "clientSecretExpiresAt" | "redirectUri"
>;

/** What a client is chosen from. */
export interface ClientSources {
  /** What the user has set. */
  readonly params: OAuthParams;
  /** The login so far, whose client may still be good. */
  readonly before?: Login | undefined;
  /** Where the browser comes back to. */
  readonly redirectUri: string;
  /** The scopes of the login. */
  readonly scope?: string | undefined;
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
      "its authorization server registers no clients by itself: register one there by hand, with the " +
        `redirect address http://127.0.0.1/callback, and give its id with --client-id`,
    );
  }
  const registered = await registerClient(issuer, {
    fetchFn,
    ...(metadata === undefined ? {} : { metadata }),
    ...(scope === undefined ? {} : { scope }),
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
    ...(clientSecret === undefined ? {} : { client_secret: clientSecret }),
    ...(clientAuthMethod === undefined ? {} : { token_endpoint_auth_method: clientAuthMethod }),
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
