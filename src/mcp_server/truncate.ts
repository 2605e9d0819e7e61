/** A text within a limit, and what was left out of it. */
export interface Truncated {
  /** The text, or its head and tail around a line that says how much was left out. */
  readonly text: string;
  /** How many characters were left out. */
  readonly omitted: number;
}

/**
 * Cuts a long text in the middle, so that both its beginning and its end are kept.
 *
 * The end is where results and exceptions stand, the beginning says what the text is.
 */
export function truncateMiddle(
  text: string,
  limit: number,
  whole: number = text.length,
): Truncated {
  if (text.length <= limit) return { text, omitted: 0 };
  const head = wholeUntil(text, Math.ceil(limit / 2));
  const tail = wholeFrom(text, text.length - Math.floor(limit / 2));
  const omitted = whole - (head + text.length - tail);
  const note = `[Output truncated: exceeded ${limit} character limit, ` +
    `${omitted} of ${whole} characters left out here]`;
  return { text: `${text.slice(0, head)}\n\n${note}\n\n${text.slice(tail)}`, omitted };
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
