import { type Cell, Screen } from "./screen.ts";

/** What a person does at the terminal of a recording. */
export interface Scene {
  /** What is waited for. */
  readonly until: string;
  /** How many seconds a viewer needs to read what came until then. */
  readonly reading: number;
  /** What is typed then; what is pasted appears row by row. */
  readonly typed: string;
}

/** A part of a row that appears at a time. */
export interface Span {
  readonly row: number;
  readonly column: number;
  readonly cells: readonly Cell[];
  /** In seconds. */
  readonly at: number;
  /** How many seconds its typing takes; what a program prints takes none. */
  readonly typing: number;
}

/** Where the cursor waits, from when until when. */
export interface CursorStop {
  readonly row: number;
  readonly column: number;
  readonly from: number;
  readonly until: number;
}

/** A session at a terminal as a viewer sees it. */
export interface Recording {
  readonly spans: readonly Span[];
  readonly cursor: readonly CursorStop[];
  readonly seconds: number;
}

const SECONDS_A_KEY = 0.035;
const SECONDS_A_PASTED_KEY = 0.008;
/** From Enter to the first row, and from each row to the next. */
const SECONDS_AFTER_ENTER = 0.5;
const SECONDS_A_ROW = 0.03;

/**
 * Gives what was printed the times in which it is typed and read, so that a slow machine makes the same
 * recording as a fast one.
 *
 * @param scenes What the person did.
 * @param parts What was printed until each scene, from the one before.
 * @returns The recording.
 */
export function recordingOf(scenes: readonly Scene[], parts: readonly string[]): Recording {
  const screen = new Screen();
  const shots = parts.map((part) => {
    screen.write(withoutWaits(part));
    return { texts: screen.rows.map((_, row) => screen.textOf(row)), cursor: screen.cursor };
  });
  const finals = screen.rows.map((_, row) => screen.textOf(row));
  const spans: Span[] = [];
  const cursor: CursorStop[] = [];
  const shown = finals.map(() => 0);
  let now = 0;
  for (const [i, { texts, cursor: stop }] of shots.entries()) {
    const typedIn = shots[i - 1]?.cursor.row;
    const isPasted = isPaste(scenes[i - 1]);
    let printed = false;
    for (const [row, final] of finals.entries()) {
      const text = texts[row] ?? "";
      const from = shown[row] ?? 0;
      // A row that is still redrawn appears once it stays.
      if (!final.startsWith(text) || text.length <= from) continue;
      const isTyped = row === typedIn || isPasted;
      if (!isTyped) now += printed ? SECONDS_A_ROW : SECONDS_AFTER_ENTER;
      printed = !isTyped;
      const cells = screen.rows[row]?.slice(from, text.length) ?? [];
      const seconds = isPasted ? SECONDS_A_PASTED_KEY : SECONDS_A_KEY;
      const typing = isTyped ? cells.length * seconds : 0;
      spans.push({ row, column: from, cells, at: now, typing });
      now += typing;
      shown[row] = text.length;
    }
    const read = now + (scenes[i]?.reading ?? 0);
    cursor.push({ ...stop, from: now, until: read });
    now = read;
  }
  return { spans, cursor, seconds: now };
}

function isPaste(scene: Scene | undefined): boolean {
  return scene?.typed.startsWith(PASTE_START) ?? false;
}

/** Text as a terminal sends it when it is pasted. */
export function pasted(text: string): string {
  return `${PASTE_START}${text}\x1b[201~`;
}

const PASTE_START = "\x1b[200~";

/** Leaves out what only a slow machine prints. */
function withoutWaits(part: string): string {
  return WAITS.reduce((text, wait) => text.replace(wait, ""), part);
}

const WAITS = [
  /The kernel is starting…\n/,
  /The kernel has not answered yet\. .*\n/,
  /^ipybox: MCP server "\w+" is (?:still )?starting.*\n(?: {2}[^ |].*\n)*/m, // with its command line
];
