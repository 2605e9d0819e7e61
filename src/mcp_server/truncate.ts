/**
 * Cuts a long text in the middle, so that both its beginning and its end are kept.
 *
 * The end is where results and exceptions stand, the beginning says what the text is.
 *
 * @param text The text.
 * @param limit The number of characters that are kept.
 * @returns The text, or its head and tail around a line that says how much was left out.
 */
export function truncateMiddle(text: string, limit: number): string {
  if (text.length <= limit) return text;
  const head = wholeUntil(text, Math.ceil(limit / 2));
  const tail = wholeFrom(text, text.length - Math.floor(limit / 2));
  const cut = tail - head;
  return `${text.slice(0, head)}\n\n` +
    `[Output truncated: exceeded ${limit} character limit, ${cut} of ${text.length} characters left out here]` +
    `\n\n${text.slice(tail)}`;
}

/** The last cut at or before `index` that splits no surrogate pair. */
function wholeUntil(text: string, index: number): number {
  return isLowSurrogate(text, index) ? index - 1 : index;
}

/** The first cut at or after `index` that splits no surrogate pair. */
function wholeFrom(text: string, index: number): number {
  return isLowSurrogate(text, index) ? index + 1 : index;
}

function isLowSurrogate(text: string, index: number): boolean {
  const code = text.charCodeAt(index);
  return code >= 0xdc00 && code <= 0xdfff;
}
