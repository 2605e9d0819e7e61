import { z } from "zod";

/** How to log in to a remote server that asks for it. Most servers tell all of it themselves. */
export interface OAuthParams {
  /** The id of a client that was registered at the authorization server by hand. */
  clientId?: string | undefined;
  /** The secret of that client. Write it as `${VAR}`. */
  clientSecret?: string | undefined;
  /** The private key of that client, as PKCS #8 in PEM, in place of a secret. Write it as `${VAR}`. */
  privateKey?: string | undefined;
  /**
   * The algorithm that the private key signs with.
   *
   * @default {"ES256"}
   */
  algorithm?: string | undefined;
  /**
   * The authorization server that the client is registered at. No other one is talked to. It is
   * needed with a secret or a key, which another one must not get.
   */
  issuer?: string | undefined;
  /** The scopes to ask for, separated by blanks, in place of those that the server names. */
  scope?: string | undefined;
  /** The address of a client-ID metadata document, for authorization servers that take one. */
  clientMetadataUrl?: string | undefined;
  /** The port that the browser comes back to, for clients registered with a fixed one. */
  callbackPort?: number | undefined;
  /**
   * Whether a person logs in, or the client itself with its secret or key.
   *
   * @default {"authorization_code"}
   */
  grant?: "authorization_code" | "client_credentials" | undefined;
}

/** Asymmetric ones only: the key is PEM. */
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

/** Reads {@linkcode OAuthParams}. */
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
    complain('give either "clientSecret" or "privateKey"');
  }
  if (secret !== undefined && (clientId === undefined || issuer === undefined)) {
    complain('"clientSecret" and "privateKey" need "clientId", and "issuer": who may get them');
  }
  if (grant === "client_credentials" && secret === undefined) {
    complain('the grant "client_credentials" needs "clientSecret" or "privateKey"');
  }
});
