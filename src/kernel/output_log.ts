import {
  htmlIn,
  imageIn,
  type MimeBundle,
  type Output,
  type OutputImage,
  textIn,
} from "./outputs.ts";
import { byteLength, firstBytes, formatBytes, lastBytes, shownOnScreen } from "./text.ts";
import { memoryNote } from "./traceback.ts";

/** A stream's text, or a part of it. */
interface StreamEntry {
  readonly type: "stream";
  readonly name: "stdout" | "stderr";
  text: string;
  bytes: number;
}

/** The current content of a display. Displays of one id share it once they are updated. */
export interface Shown {
  data: MimeBundle;
  metadata: MimeBundle;
  /** Its content and place, if the text names its file. */
  readonly named?: { readonly kind: string; readonly path: string; readonly shownPath: string };
  /** The path of its file; `null` if it has none, `undefined` until that is known. */
  file?: string | null;
}

/** The text of a display. */
export function shownText({ data, named, file }: Shown): string | undefined {
  if (named === undefined) return textIn(data);
  return `[${named.kind}: ${file === null ? "not saved" : named.shownPath}]`; // not longer than before
}

/** A result or a display. */
export interface DataEntry {
  readonly type: "execute_result" | "display_data";
  readonly displayId: string | undefined;
  /** With the size of its text. */
  shown: Shown & { readonly bytes: number };
  textLeftOut: boolean;
}

type ErrorEntry = Extract<Output, { type: "error" }>;

type Entry = StreamEntry | DataEntry | ErrorEntry | { readonly type: "gap" };

/** The memory of an entry besides its text, in bytes. */
const ENTRY_BYTES = 64;

/** Entries stay this small, so that text can be cut between them. */
const MAX_STREAM_ENTRY_BYTES = 65_536;

/**
 * The outputs of one execution. It keeps half of the limit from either end of a long text, in
 * linear time.
 */
export class OutputLog {
  readonly #beforeGap: () => void;
  #entries: Entry[] = [];
  #hasGap = false;
  #cost = 0; // the size of all entries, which the limit bounds
  #totalBytes = 0;
  #hasText = false;

  constructor(readonly maxBytes: number, beforeGap: () => void) {
    this.#beforeGap = beforeGap;
  }

  addStream(name: "stdout" | "stderr", text: string): void {
    this.#hasText = true;
    const bytes = byteLength(text);
    const last = this.#entries.at(-1);
    if (
      last?.type === "stream" && last.name === name && last.bytes + bytes <= MAX_STREAM_ENTRY_BYTES
    ) {
      last.text += text;
      last.bytes += bytes;
    } else {
      this.#entries.push({ type: "stream", name, text, bytes });
      this.#cost += ENTRY_BYTES;
    }
    this.#count(bytes);
  }

  /** Adds a result or a display and returns its entry, which may be updated later. */
  addData(output: Pick<DataEntry, "type" | "displayId">, shown: Shown): DataEntry {
    const text = shownText(shown);
    if (text !== undefined) this.#hasText = true;
    const bytes = byteLength(text ?? "");
    const entry: DataEntry = { ...output, shown: { ...shown, bytes }, textLeftOut: false };
    this.#entries.push(entry);
    this.#count(bytes);
    return entry;
  }

  /**
   * Updates displays, which then share their content. The text has a copy for each: check first
   * that all fit.
   */
  update(entries: readonly DataEntry[], next: Shown): void {
    const shown = { ...next, bytes: byteLength(shownText(next) ?? "") };
    let growth = 0;
    for (const { textLeftOut, shown: { bytes } } of entries) {
      if (!textLeftOut) growth += shown.bytes - bytes;
    }
    if (this.#cost + growth > this.maxBytes) this.#beforeGap();
    for (const entry of entries) entry.shown = shown;
    this.#count(growth);
  }

  addError(error: ErrorEntry): void {
    this.#entries.push(error);
  }

  /** Forgets everything, as for `clear_output()`. */
  clear(): void {
    this.#entries = [];
    this.#cost = this.#totalBytes = 0;
    this.#hasGap = this.#hasText = false;
  }

  /** The merged text of streams, results and displays, as it was produced; `null` for none. */
  rawText(note = ""): string | null {
    if (!this.#hasText) return null;
    const joiner = new LineJoiner();
    const parts: string[] = [];
    for (const entry of this.#entries) {
      if (entry.type === "stream") parts.push(joiner.join(entry.text, entry.name));
      else if (entry.type === "gap") parts.push(joiner.joinLine(this.#gapNote(note)));
      else if (entry.type !== "error" && !entry.textLeftOut) {
        const text = shownText(entry.shown);
        if (text !== undefined) parts.push(joiner.joinLine(text));
      }
    }
    return parts.join("");
  }

  /** The merged text for people and models: progress bars in their last state, no blank edges. */
  text(note: string): string | null {
    this.#trim();
    const text = this.rawText(note);
    if (text === null) return null;
    // Text after the gap must not overwrite its note.
    const gap = this.#hasGap ? this.#gapNote(note) : "\0";
    const shown = withoutBlankEdges(text.split(gap).map(shownOnScreen).join(gap));
    const hint = memoryNote(shown);
    return hint === undefined ? shown : `${shown}\n${hint}`;
  }

  /** The paths of all files that were saved. */
  files(): string[] {
    return this.#shown().flatMap(({ file }) => file ?? []);
  }

  /** The images that were saved: the text names other files. */
  images(): OutputImage[] {
    return this.#shown().flatMap(({ data, named, file }) =>
      named === undefined && typeof file === "string" ? imageIn(data, file) ?? [] : []
    );
  }

  /** The HTML of results and displays. */
  html(): string[] {
    return this.#shown().flatMap(({ data }) => htmlIn(data) ?? []);
  }

  /** The displays whose files were not saved yet. */
  unsaved(): Shown[] {
    return this.#shown().filter(({ file }) => file === undefined);
  }

  /** The contents of results and displays, each once. */
  #shown(): Shown[] {
    const shown = new Set<Shown>();
    for (const entry of this.#entries) if ("shown" in entry) shown.add(entry.shown);
    return [...shown];
  }

  /** All outputs; neighbouring texts of one stream are one output. */
  outputs(note: string): Output[] {
    this.#trim();
    const outputs: Output[] = [];
    let run: { name: "stdout" | "stderr"; texts: string[] } | undefined;
    const endRun = () => {
      if (run !== undefined) {
        outputs.push({ type: "stream", name: run.name, text: run.texts.join("") });
      }
      run = undefined;
    };
    for (const entry of this.#entries) {
      if (entry.type === "stream" || entry.type === "gap") {
        const name = entry.type === "stream" ? entry.name : run?.name ?? "stdout";
        if (run?.name !== name) endRun();
        run ??= { name, texts: [] };
        run.texts.push(entry.type === "stream" ? entry.text : `\n${this.#gapNote(note)}\n`);
      } else {
        endRun();
        outputs.push(outputOf(entry));
      }
    }
    endRun();
    return outputs;
  }

  #count(bytes: number): void {
    this.#totalBytes += bytes;
    this.#cost += bytes;
    // Once something is cut, the text may grow by half, so that each byte is moved only once.
    if (this.#cost > this.maxBytes * (this.#hasGap ? 1.5 : 1)) this.#trim();
  }

  #gapNote(note: string): string {
    let kept = 0;
    for (const entry of this.#entries) kept += bytesOf(entry);
    const missing = formatBytes(this.#totalBytes - kept);
    return `[ipybox: ${missing} of ${formatBytes(this.#totalBytes)} of text omitted here; ${note}]`;
  }

  /**
   * Keeps the entries at either end that fit into half of the limit, and drops the text of the
   * others.
   */
  #trim(): void {
    if (this.#cost <= this.maxBytes) return;
    this.#beforeGap();
    const entries = this.#entries;
    const half = this.maxBytes / 2;
    const head = fitting(entries, half);
    const tail = fitting(entries.toReversed(), half);
    const newest = entries.at(-1);
    // The newest display keeps its text: the caller has cut it to the limit.
    if (tail.count === 0 && newest !== undefined && "shown" in newest) tail.count = 1;
    const end = entries.length - tail.count;
    const between = entries.slice(head.count, end);
    const others = between.filter(({ type }) => type !== "stream" && type !== "gap");
    for (const other of others) if ("shown" in other) other.textLeftOut = true;
    this.#entries = [
      ...entries.slice(0, head.count),
      ...shortened(between.at(0), head.room, firstBytes),
      { type: "gap" },
      ...others,
      ...shortened(between.at(-1), tail.room, lastBytes),
      ...entries.slice(end),
    ];
    this.#hasGap = true;
    this.#cost = this.#entries.reduce((sum, entry) => sum + costOf(entry), 0);
  }
}

/** How many entries before the gap fit into a limit together, and the rest of the limit. */
function fitting(entries: readonly Entry[], limit: number): { count: number; room: number } {
  let [count, room] = [0, limit];
  for (const entry of entries) {
    if (entry.type === "gap" || costOf(entry) > room) break;
    room -= costOf(entry);
    count++;
  }
  return { count, room };
}

/** The part of a stream's entry that fits. */
function shortened(
  entry: Entry | undefined,
  room: number,
  cutTo: (text: string, limit: number) => string,
): StreamEntry[] {
  if (entry?.type !== "stream") return [];
  const text = cutTo(entry.text, Math.max(0, room - ENTRY_BYTES));
  return text === "" ? [] : [{ ...entry, text, bytes: byteLength(text) }];
}

/** The text of an entry that counts against the limit. */
function bytesOf(entry: Entry): number {
  if (entry.type === "stream") return entry.bytes;
  return "shown" in entry && !entry.textLeftOut ? entry.shown.bytes : 0;
}

function costOf(entry: Entry): number {
  return entry.type === "stream" ? entry.bytes + ENTRY_BYTES : bytesOf(entry);
}

function outputOf(entry: DataEntry | ErrorEntry): Output {
  if (entry.type === "error") return entry;
  const { type, displayId, shown: { data, metadata } } = entry;
  return type === "execute_result" || displayId === undefined
    ? { type, data, metadata }
    : { type, data, metadata, displayId };
}

type StreamName = StreamEntry["name"];

/**
 * The line breaks between texts, so that each result and each display is on its own lines, and text of one
 * stream does not continue a progress bar of the other: the line break that ends it may come later.
 */
export class LineJoiner {
  #atLineStart = true;
  #afterLine = false;
  /** The stream whose progress bar is the current line. */
  #bar: StreamName | undefined;
  /** The stream whose progress bar was ended here. */
  #ended: StreamName | undefined;

  /** Text of a stream, after a line break if it needs one. */
  join(text: string, name: StreamName): string {
    const endsBar = this.#bar !== undefined && this.#bar !== name && !this.#atLineStart;
    const isEnd = this.#ended === name && this.#atLineStart && text.startsWith("\n");
    if (endsBar) this.#ended = this.#bar;
    else if (this.#ended === name) this.#ended = undefined;
    const needsBreak = endsBar || (this.#afterLine && !this.#atLineStart);
    const joined = needsBreak ? `\n${text}` : isEnd ? text.slice(1) : text;
    const line = joined.slice(joined.lastIndexOf("\n") + 1);
    if (line.includes("\r")) this.#bar = name;
    else if (joined.includes("\n")) this.#bar = undefined;
    return this.#next(joined, false);
  }

  /** Text that belongs on its own lines, after a line break if it needs one. */
  joinLine(text: string): string {
    this.#bar = undefined;
    return this.#next(this.#atLineStart ? text : "\n" + text, true);
  }

  #next(text: string, isLine: boolean): string {
    if (text !== "") this.#atLineStart = text.endsWith("\n");
    this.#afterLine = isLine;
    return text;
  }
}

/** Removes blank lines around a text. The first line stays indented: it may be the head of a table. */
function withoutBlankEdges(text: string): string {
  return text.trimEnd().replace(/^(?:[^\S\n]*\n)+/, "");
}
