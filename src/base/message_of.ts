/** The message of anything that was thrown. */
export function messageOf(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  return message.includes("UnknownIssuer") ? `${message}. ${OTHER_STORE}` : message;
}

const OTHER_STORE = "If this machine trusts its certificate, as with a company's proxy, set " +
  "DENO_TLS_CA_STORE=system,mozilla, or DENO_CERT to the file of the certificate";

/** The system's code of an error from a Node API, such as `ENOENT`. */
export function codeOf(error: unknown): unknown {
  return error instanceof Error && "code" in error ? error.code : undefined;
}
