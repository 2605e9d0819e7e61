import type { OAuthParams } from "../mcp/oauth/client.ts";
import { type OptionSpec, type ParsedArgs, UsageError } from "./command.ts";

/** How to log in to a remote server, where it does not tell all of it itself. */
export const OAUTH_OPTIONS: Readonly<Record<string, OptionSpec>> = {
  "client-id": { value: "ID", help: "The id of a client registered at its authorization server" },
  "client-secret": { value: "'${VAR}'", help: "The secret of that client" },
  "private-key": { value: "'${VAR}'", help: "Its private key instead, as PKCS #8 in PEM" },
  issuer: { value: "URL", help: "The authorization server that may get the secret or the key" },
  scope: { value: "SCOPES", help: "The scopes to ask for, in place of those the server names" },
  "callback-port": {
    value: "PORT",
    help: "The port that the browser comes back to (default: any)",
  },
  "client-metadata": { value: "URL", help: "A client-ID metadata document to be known by" },
  "client-credentials": { help: "Log in as the client itself, without a person" },
};

/** A secret on the command line would be in the shell's history and in the registry. */
const VARIABLE = /^\$\{[A-Za-z0-9_]+\}$/;

/** What the command line says of logging in. */
export function oauthOf(parsed: ParsedArgs): OAuthParams | undefined {
  for (const option of ["client-secret", "private-key"]) {
    const value = parsed.value(option);
    if (value === undefined || VARIABLE.test(value)) continue;
    throw new UsageError(`Option --${option} takes a variable, as in --${option} '\${SECRET}'`);
  }
  const given = {
    clientId: parsed.value("client-id"),
    clientSecret: parsed.value("client-secret"),
    privateKey: parsed.value("private-key"),
    issuer: parsed.value("issuer"),
    scope: parsed.value("scope"),
    clientMetadataUrl: parsed.value("client-metadata"),
    callbackPort: parsed.positiveNumber("callback-port"),
    grant: parsed.has("client-credentials") ? "client_credentials" as const : undefined,
  };
  return Object.values(given).some((value) => value !== undefined) ? given : undefined;
}
