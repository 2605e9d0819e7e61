/** Compares two tokens in a time that only depends on the length of the one that was given. */
export function sameToken(given: string, token: string): boolean {
  let difference = given.length ^ token.length;
  for (let at = 0; at < given.length; at++) {
    difference |= given.charCodeAt(at) ^ token.charCodeAt(at % token.length);
  }
  return difference === 0;
}
