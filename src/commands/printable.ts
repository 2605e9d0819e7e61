/**
 * A text from code, a server or a file, made safe for a terminal.
 *
 * Control characters, and the invisible ones that reorder text, are shown as escapes.
 */
export function printable(text: string): string {
  return text.replace(
    // deno-lint-ignore no-control-regex -- control characters are what this is about
    /[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/**
 * Output of executed code, made safe for a terminal: it can write and, as progress bars do, rewrite
 * its own line, but not move to other lines, hide text or change the terminal's settings.
 */
export function printableOutput(text: string): string {
  return text.split("\r").map(printable).join("\r");
}
