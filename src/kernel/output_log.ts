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

/** Where an entry is: before or after the gap; without a gap, all are in the tail. */
type Part = "head" | "tail";

/** A result or a display. */
export interface DataEntry {
  readonly type: "execute_result" | "display_data";
  readonly displayId: string | undefined;
  shown: Shown & {
    /** The size of its text. */
    bytes: number;
    /** How many entries have that text in the merged text. */
    readonly uses: Record<Part, number>;
  };
  part: Part;
  textLeftOut: boolean;
}

type ErrorEntry = Extract<Output, { type: "error" }>;

type Entry = StreamEntry | DataEntry | ErrorEntry | { readonly type: "gap" };

/** The memory of an entry besides its text, in bytes. */
const ENTRY_BYTES = 64;

/** Entries stay this small, so that text can be cut between them. */
const MAX_STREAM_ENTRY_BYTES = 65_536;

/** The outputs of one execution. Of a long text, half of the limit is kept from either end, in linear time. */
export class OutputLog {
  readonly #half: number;
  readonly #beforeGap: () => void;
  #entries: Entry[] = [];
  #gap: number | undefined; // the index of the gap between head and tail
  readonly #cost: Record<Part, number> = { head: 0, tail: 0 }; // the sizes that count against the limit
  #totalBytes = 0;
  #hasText = false;

  constructor(readonly maxBytes: number, beforeGap: () => void) {
    this.#half = maxBytes / 2;
    this.#beforeGap = beforeGap;
  }

  addStream(name: "stdout" | "stderr", text: string): void {
    this.#hasText = true;
    const bytes = byteLength(text);
    this.#count("tail", bytes);
    const last = this.#entries.at(-1);
    if (
      last?.type === "stream" && last.name === name && last.bytes + bytes <= MAX_STREAM_ENTRY_BYTES
    ) {
      last.text += text;
      last.bytes += bytes;
    } else {
      this.#entries.push({ type: "stream", name, text, bytes });
      this.#cost.tail += ENTRY_BYTES;
    }
    this.#trimIfLarge();
  }

  /** Adds a result or a display and returns its entry, which may be updated later. */
  addData(output: Pick<DataEntry, "type" | "displayId">, shown: Shown): DataEntry {
    const text = shownText(shown);
    if (text !== undefined) this.#hasText = true;
    const bytes = byteLength(text ?? "");
    const entry: DataEntry = {
      ...output,
      shown: { ...shown, bytes, uses: { head: 0, tail: 1 } },
      part: "tail",
      textLeftOut: false,
    };
    this.#count("tail", bytes);
    this.#entries.push(entry);
    this.#trimIfLarge();
    return entry;
  }

  /** Updates displays, which share their content then. The text has a copy for each: check first that all fit. */
  update(first: DataEntry, others: readonly DataEntry[], next: Shown): void {
    const { shown } = first;
    const bytes = byteLength(shownText(next) ?? "");
    const growth = {
      head: shown.uses.head * (bytes - shown.bytes),
      tail: shown.uses.tail * (bytes - shown.bytes),
    };
    for (const { textLeftOut, part, shown: own } of others) {
      if (!textLeftOut) growth[part] += bytes - own.bytes;
    }
    if (this.#cost.tail + growth.tail > this.maxBytes) this.#beforeGap();
    for (const other of others) {
      if (!other.textLeftOut) shown.uses[other.part]++;
      other.shown = shown;
    }
    for (const part of ["head", "tail"] as const) this.#count(part, growth[part]);
    Object.assign(shown, next, { bytes });
    this.#trimHead();
    this.#trimIfLarge();
  }

  addError(error: ErrorEntry): void {
    this.#entries.push(error);
  }

  /** Forgets everything, as for `clear_output()`. */
  clear(): void {
    this.#entries = [];
    this.#gap = undefined;
    this.#cost.head = this.#cost.tail = this.#totalBytes = 0;
    this.#hasText = false;
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
    const gap = this.#gap === undefined ? "\0" : this.#gapNote(note);
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

  #count(part: Part, bytes: number): void {
    this.#totalBytes += bytes;
    this.#cost[part] += bytes;
  }

  #gapNote(note: string): string {
    let kept = 0;
    for (const entry of this.#entries) kept += bytesOf(entry);
    const missing = formatBytes(this.#totalBytes - kept);
    return `[ipybox: ${missing} of ${formatBytes(this.#totalBytes)} of text omitted here; ${note}]`;
  }

  #trimIfLarge(): void {
    // Let the tail grow to twice its size before cutting it, so that each byte is moved only once.
    const limit = this.#gap === undefined
      ? this.maxBytes
      : this.maxBytes + MAX_STREAM_ENTRY_BYTES + ENTRY_BYTES;
    if (this.#cost.tail > limit) this.#trim();
  }

  #trim(): void {
    if (this.#gap === undefined) {
      if (this.#cost.tail <= this.maxBytes) return;
      this.#beforeGap();
      this.#openGap();
    }
    this.#trimTail();
  }

  /** Fixes the head: the entries, and a part of the last one, that fit into half of the limit. */
  #openGap(): void {
    let index = 0;
    let room = this.#half;
    for (; index < this.#entries.length; index++) {
      const entry = this.#entries[index]!;
      const cost = costOf(entry);
      if (cost > room) break;
      room -= cost;
      if ("shown" in entry) moveToHead(entry);
    }
    const border = this.#entries[index];
    const pieces: Entry[] = [{ type: "gap" }];
    if (border?.type === "stream") {
      const text = firstBytes(border.text, Math.max(0, room - ENTRY_BYTES));
      const bytes = byteLength(text);
      pieces.unshift({ ...border, text, bytes });
      border.text = border.text.slice(text.length);
      border.bytes -= bytes;
      room -= bytes + ENTRY_BYTES;
      this.#cost.tail += ENTRY_BYTES; // of the piece that is new
    }
    this.#entries.splice(index, 0, ...pieces);
    this.#gap = index + pieces.length - 1;
    this.#cost.head = this.#half - room;
    this.#cost.tail -= this.#cost.head;
  }

  /** Drops text before the gap, newest first, if an update made it exceed half of the limit. */
  #trimHead(): void {
    if (this.#gap === undefined) return;
    const kept: Entry[] = [];
    let index = this.#gap;
    while (index > 0 && this.#cost.head > this.#half) {
      const entry = this.#entries[--index]!;
      const shorter = this.#shorter(entry, "head");
      if (shorter !== undefined) kept.push(shorter);
    }
    this.#entries.splice(index, this.#gap - index, ...kept.reverse());
    this.#gap = index + kept.length;
  }

  /** Drops text after the gap, oldest first, until the rest fits into half of the limit. */
  #trimTail(): void {
    if (this.#gap === undefined || this.#cost.tail <= this.#half) return;
    const tail = this.#entries.splice(this.#gap + 1);
    for (const [index, entry] of tail.entries()) {
      if (this.#cost.tail <= this.#half) {
        for (const rest of tail.slice(index)) this.#entries.push(rest);
        return;
      }
      // The newest display keeps its text: the caller has cut it to the limit.
      const isLast = index === tail.length - 1 && entry.type !== "stream";
      const shorter = isLast ? entry : this.#shorter(entry, "tail");
      if (shorter !== undefined) this.#entries.push(shorter);
    }
  }

  /** Shortens the text of an entry by the excess of its part; a stream's entry may become empty. */
  #shorter(entry: Entry, part: Part): Entry | undefined {
    if (entry.type === "stream") {
      const limit = entry.bytes - (this.#cost[part] - this.#half);
      const cutTo = part === "head" ? firstBytes : lastBytes;
      const text = limit <= 0 ? "" : cutTo(entry.text, limit);
      const bytes = byteLength(text);
      this.#cost[part] -= entry.bytes - bytes;
      if (text !== "") return { ...entry, text, bytes };
      this.#cost[part] -= ENTRY_BYTES;
      return undefined;
    }
    if ("textLeftOut" in entry && !entry.textLeftOut) {
      this.#cost[part] -= entry.shown.bytes;
      entry.shown.uses[part]--;
      entry.textLeftOut = true;
    }
    return entry;
  }
}

function moveToHead(entry: DataEntry): void {
  entry.part = "head";
  if (entry.textLeftOut) return;
  entry.shown.uses.tail--;
  entry.shown.uses.head++;
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

  /** Text of a stream, with the line break that it needs before it. */
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

  /** Text that belongs on its own lines, with the line break that it needs before it. */
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
