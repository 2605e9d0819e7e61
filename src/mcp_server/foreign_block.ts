import { visible } from "../approval/call_text.ts";

/**
 * Shows what code or a server wrote within a text for a person, so that it cannot pass for ours, and
 * with nothing in it hidden.
 *
 * Each line begins with four spaces and a mark. Markdown takes that for a block of code, shown as it
 * is: comments, links and quotes in it mean nothing, and nothing in it can end the block.
 */
export function foreignBlock(lines: readonly string[]): string {
  return lines.map((line) => `    | ${visible(line)}`).join("\n");
}
