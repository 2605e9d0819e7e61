/** Makes a random token. */
export function randomToken(): string {
  return crypto.getRandomValues(new Uint8Array(32)).toHex();
}
