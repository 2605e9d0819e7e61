import { escapeHidden } from "../approval/call_text.ts";

/**
 * Shows what is invisible in a text that a person decides upon, or that turns the direction of what
 * is read. Line ends stay.
 *
 * @param text The text.
 * @returns It, with escapes such as `\u{202e}`.
 */
export function visibleLines(text: string): string {
  const lines = text.split("\n");
  return lines.map((line) => escapeHidden(line, escapeCharacter)).join("\n");
}

function escapeCharacter(character: string): string {
  return `\\u{${character.codePointAt(0)?.toString(16)}}`;
}
