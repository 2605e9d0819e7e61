/**
 * The terminal's size, and text for it.
 *
 * @module
 */

/** The size of the terminal, or 80 × 24 if it is unknown. */
export function terminalSize(): { readonly columns: number; readonly rows: number } {
  try {
    const { columns, rows } = Deno.consoleSize();
    return { columns: columns || 80, rows: rows || 24 };
  } catch {
    return { columns: 80, rows: 24 }; // not a terminal
  }
}

/** A text without characters that are invisible, move the cursor or change the direction. */
export function visibleLine(text: string): string {
  return text.replace(/[\p{C}\p{Zl}\p{Zp}]+/gu, " ").trim();
}

/** Wraps text into rows, between words if possible. */
export function wordRows(text: string, width: number): string[] {
  const rows: string[] = [];
  for (let rest = text; rest !== "" || rows.length === 0;) {
    // The text may be megabytes: look only at what fits a row.
    const [row = ""] = wrapped(rest.slice(0, 2 * Math.max(width, 2)), width);
    const space = row.length < rest.length ? row.lastIndexOf(" ") : -1;
    const end = space > row.length / 2 ? space + 1 : Math.max(row.length, 1);
    rows.push(rest.slice(0, end).trimEnd());
    rest = rest.slice(end);
  }
  return rows;
}

/** Wraps text into rows of a width, anywhere. */
export function wrapped(text: string, width: number): string[] {
  const rows = [""];
  let used = 0;
  for (const character of text) {
    const wide = widthOf(character);
    if (used + wide > Math.max(width, 2)) {
      rows.push("");
      used = 0;
    }
    rows[rows.length - 1] += character;
    used += wide;
  }
  return rows;
}

/** The most columns that a text can take: terminals differ in the width of many characters. */
export function widthOf(text: string): number {
  let width = 0;
  for (const character of text) width += (character.codePointAt(0) ?? 0) < 0x1100 ? 1 : 2;
  return width;
}
