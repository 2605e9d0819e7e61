/** Creates a random token. */
export function randomToken(): string {
  return crypto.getRandomValues(new Uint8Array(32)).toHex();
}

/** Compares tokens in a time that depends only on the length of the given one. */
export function sameToken(given: string, token: string): boolean {
  let difference = given.length ^ token.length;
  for (let at = 0; at < given.length; at++) {
    difference |= given.charCodeAt(at) ^ token.charCodeAt(at % token.length);
  }
  return difference === 0;
}

/** The names of this machine's loopback interface, as in a `Host` header. */
export const LOOPBACK_HOSTS: readonly string[] = ["127.0.0.1", "localhost", "[::1]"];
