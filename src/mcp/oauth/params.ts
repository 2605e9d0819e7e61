import { z } from "zod";

/** How to log in to a remote server that requires it. Most servers announce all of this themselves. */
export interface OAuthParams {
  /** The id of a client that you registered with the authorization server. */
  clientId?: string;
  /** The secret of that client. Write it as `${VAR}`. */
  clientSecret?: string;
  /** The client's private key instead of a secret, as PKCS #8 in PEM. Write it as `${VAR}`. */
  privateKey?: string;
  /**
   * The algorithm that the private key signs with.
   *
   * @default {"ES256"}
   */
  algorithm?: string;
  /**
   * The authorization server that the client is registered with; no other one is contacted.
   * Required with a secret or a key, so that no other server receives them.
   */
  issuer?: string;
  /** The scopes to request, separated by spaces, instead of those that the server names. */
  scope?: string;
  /** The URL of a client ID metadata document, for authorization servers that support them. */
  clientMetadataUrl?: string;
  /** The port for the redirect of the browser, for clients registered with a fixed one. */
  callbackPort?: number;
  /**
   * Whether a person logs in, or the client itself with its secret or key.
   *
   * @default {"authorization_code"}
   */
  grant?: "authorization_code" | "client_credentials";
}

/** Asymmetric algorithms only, because the key is in PEM format. */
const ALGORITHMS = [
  "ES256",
  "ES384",
  "ES512",
  "RS256",
  "RS384",
  "RS512",
  "PS256",
  "PS384",
  "PS512",
];

/** Validates {@linkcode OAuthParams}. */
export const oauthParams: z.ZodType<OAuthParams> = z.strictObject({
  clientId: z.string().min(1).optional(),
  clientSecret: z.string().min(1).optional(),
  privateKey: z.string().min(1).optional(),
  algorithm: z.enum(ALGORITHMS).optional(),
  issuer: z.url().optional(),
  scope: z.string().min(1).optional(),
  clientMetadataUrl: z.url({ protocol: /^https$/ }).optional(),
  callbackPort: z.int().min(1).max(65_535).optional(),
  grant: z.enum(["authorization_code", "client_credentials"]).optional(),
}).superRefine((params, context) => {
  const { clientId, clientSecret, privateKey, issuer, grant } = params;
  const complain = (message: string) => context.addIssue({ code: "custom", message });
  const secret = clientSecret ?? privateKey;
  if (clientSecret !== undefined && privateKey !== undefined) {
    complain('specify either "clientSecret" or "privateKey"');
  }
  if (secret !== undefined && (clientId === undefined || issuer === undefined)) {
    complain('"clientSecret" and "privateKey" need "clientId" and "issuer"');
  }
  if (grant === "client_credentials" && secret === undefined) {
    complain('the grant "client_credentials" needs "clientSecret" or "privateKey"');
  }
});
