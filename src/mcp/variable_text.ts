/** Gives what stands instead of a variable, or `undefined` where its text stays. */
export type VariableText = (body: string) => string | undefined;

/**
 * Replaces what stands between `${` and the next `}` in a text. A pattern for the whole would take time
 * in proportion to the square of a hostile text.
 */
export function replaceVariables(text: string, replace: VariableText): string {
  let replaced = "";
  let done = 0;
  let close = -1;
  for (let open = text.indexOf("${"); open !== -1;) {
    if (close < open) close = text.indexOf("}", open); // searched once for all that open before it
    if (close === -1) break;
    const value = replace(text.slice(open + 2, close));
    if (value !== undefined) {
      replaced += text.slice(done, open) + value;
      done = close + 1;
    }
    open = text.indexOf("${", value === undefined ? open + 2 : done);
  }
  return replaced + text.slice(done);
}
