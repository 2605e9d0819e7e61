/**
 * Shows what is invisible in a text that a person decides upon, or that turns the direction of what
 * is read. Line ends stay.
 *
 * @param text The text.
 * @returns It, with escapes such as `\u{202e}`.
 */
export function visible(text: string): string {
  return text.replace(
    /[\p{Cf}\p{Cc}\p{Zl}\p{Zp}]/gu,
    (character) =>
      character === "\n" ? character : `\\u{${character.codePointAt(0)?.toString(16)}}`,
  );
}
