/** Pure functions on the text of outputs. */

/** Shows text as a terminal would after carriage returns and backspaces: progress bars in their last state. */
export function collapseCarriageReturns(text: string): string {
  if (!/[\r\b]/.test(text)) return text;
  return text.replaceAll("\r\n", "\n").split("\n").map(lastState).join("\n");
}

function lastState(line: string): string {
  if (!/[\r\b]/.test(line)) return line;
  // A buffer of characters, as repeated slicing would be quadratic in hostile text.
  const shown: string[] = [];
  let column = 0;
  for (const character of line) {
    if (character === "\r") column = 0;
    else if (character === "\b") column = Math.max(0, column - 1);
    else shown[column++] = character;
  }
  return shown.join("");
}

/** A size for people: `"812 bytes"`, `"19.1 MiB"`. */
export function formatBytes(bytes: number): string {
  if (bytes < 1024) return `${bytes} bytes`;
  const power = Math.min(UNITS.length, Math.floor(Math.log2(bytes) / 10));
  return `${(bytes / 1024 ** power).toFixed(1)} ${UNITS[power - 1]}`;
}

const UNITS = ["KiB", "MiB", "GiB"] as const;

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** The size of text as UTF-8. */
export function byteLength(text: string): number {
  return encoder.encode(text).length;
}

/** The longest start of `text` within a number of bytes as UTF-8, whole characters only. */
export function firstBytes(text: string, limit: number): string {
  // No character takes less than a byte, so the rest of a long text need not be looked at.
  const bytes = encoder.encode(text.slice(0, Math.floor(limit) + 1));
  if (bytes.length <= limit) return text;
  let end = Math.floor(limit);
  while (end > 0 && isContinuation(bytes[end])) end--;
  return decoder.decode(bytes.subarray(0, end));
}

/** The longest end of `text` within a number of bytes as UTF-8, whole characters only. */
export function lastBytes(text: string, limit: number): string {
  const bytes = encoder.encode(text.slice(-Math.floor(limit) - 1));
  if (bytes.length <= limit) return text;
  let start = bytes.length - Math.floor(limit);
  while (start < bytes.length && isContinuation(bytes[start])) start++;
  return decoder.decode(bytes.subarray(start));
}

function isContinuation(byte: number | undefined): boolean {
  return byte !== undefined && (byte & 0xc0) === 0x80;
}

/** Text cut in its middle so that its start and its end take at most `limit` bytes together. */
export function cut(text: string, limit: number): string {
  if (3 * text.length <= limit) return text;
  const bytes = byteLength(text);
  if (bytes <= limit) return text;
  const missing = formatBytes(bytes - limit);
  return `${firstBytes(text, limit / 2)}\n[ipybox: ${missing} omitted here]\n${
    lastBytes(text, limit / 2)
  }`;
}

/** Whether a text would be cut within a surrogate pair at an index. */
export function isLowSurrogate(text: string, index: number): boolean {
  return (text.charCodeAt(index) & 0xfc00) === 0xdc00;
}
