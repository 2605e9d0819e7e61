/**
 * Makes a random token.
 *
 * @returns 32 random bytes in hexadecimal.
 */
export function randomToken(): string {
  return crypto.getRandomValues(new Uint8Array(32)).toHex();
}
