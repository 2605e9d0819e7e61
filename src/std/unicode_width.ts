/** `@std/cli` by its bare name: its `unicodeWidth`, whose table npm's copy lacks. */

/** Characters without a column: combining marks, format characters, controls, vowels of Hangul syllables. */
const ZERO = /[\p{Mn}\p{Me}\p{Cf}\p{Cc}\u1160-\u11ff]/u;

/** Characters with two columns: East Asian wide and fullwidth characters, and emoji shown as pictures. */
const WIDE =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\u4dbf\u4e00-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6\u{17000}-\u{18cff}\u{1b000}-\u{1b2ff}\u{20000}-\u{3fffd}\p{Emoji_Presentation}]/u;

/** The number of terminal columns that `text` takes. */
export function unicodeWidth(text: string): number {
  let width = 0;
  for (const character of text) {
    if (character >= " " && character <= "~") width++;
    else if (!ZERO.test(character)) width += WIDE.test(character) ? 2 : 1;
  }
  return width;
}
