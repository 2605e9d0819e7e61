import { messageOf } from "../base/message_of.ts";
import type { PartialResult } from "../base/errors.ts";
import { isRecord, weightOf } from "../json/exact.ts";
import type { ArtifactFolder } from "../files/artifact_folder.ts";
import { SpillFile, type TextSource } from "./spill_file.ts";
import { fileIn, type MimeBundle, readBundle, textIn } from "./outputs.ts";
import type { JsonObject, JupyterMessage } from "./jupyter.ts";
import { type DataEntry, LineJoiner, OutputLog, type Shown, shownText } from "./output_log.ts";
import { cut, formatBytes } from "./text.ts";
import { type Raised, raisedIn } from "./traceback.ts";

/** Where the parts of an execution's output go, and their limits. */
export interface CollectorOptions {
  /** The limit on text in memory, in bytes: half of it from the start, half from the end. */
  readonly maxOutputBytes: number;
  /** The folder for files of displays and of longer texts. */
  readonly images: ArtifactFolder;
  /** Returns the name that the text shows for the path of a display's file. */
  readonly shownPath?: ((path: string) => string) | undefined;
  /** Called with each piece of text, and the path of the file that it names. */
  readonly onText: (stream: TextSource, text: string, file?: string) => void;
}

/** The memory limit on displays and errors of one execution, besides the text, in bytes. */
const MAX_KEPT_BYTES = 128 * 1024 ** 2;

/** The limit on displays and errors of one execution. */
const MAX_KEPT = 10_000;

/** The limits on files of displays of one result: writing them blocks all other sessions. */
const MAX_FILES = 1000;
const MAX_FILE_BYTES = 64 * 1024 ** 2;

/** The memory of a display or error besides its content, in bytes. */
const ENTRY_BYTES = 512;

/** The limit on a display's metadata, in bytes: enough for a picture's width. */
const MAX_METADATA_BYTES = 65_536;

const OUTPUT_TYPES: ReadonlySet<string> = new Set([
  "stream",
  "execute_result",
  "display_data",
  "error",
]);

/** Tracebacks are kept whole up to this size, even if the limit on the text is smaller. */
const MIN_ERROR_BYTES = 65_536;

/** Collects the outputs of one execution from its messages, within bounded memory. */
export class OutputCollector implements Disposable {
  readonly #options: CollectorOptions;
  readonly #log: OutputLog;
  readonly #joiner = new LineJoiner();
  readonly #displays = new Map<string, DataEntry[]>();
  #kept = 0;
  #keptBytes = 0;
  #saidFull = false;
  #spill: SpillFile | undefined;
  #clearsNext = false;

  constructor(options: CollectorOptions) {
    this.#options = options;
    this.#log = new OutputLog(options.maxOutputBytes, () => this.#startSpilling());
  }

  /** Takes a message of the iopub channel; ignores those that are not output. */
  add(message: JupyterMessage): void {
    const { type, content } = message;
    if (type === "clear_output") {
      if (content.wait === true) this.#clearsNext = true;
      else this.#clear();
      return;
    }
    if (this.#clearsNext && OUTPUT_TYPES.has(type)) this.#clear();
    if (type === "stream") this.#addStream(content);
    else if (type === "execute_result" || type === "display_data") this.#addData(type, content);
    else if (type === "update_display_data") this.#update(content);
    else if (type === "error") this.#addError(content);
  }

  /** Takes text for a pager, as from `print?`. Other payloads need a next cell or an editor. */
  addPayload(payload: unknown): void {
    if (!Array.isArray(payload)) return;
    for (const part of payload) {
      if (!isRecord(part) || part.source !== "page" || !isRecord(part.data)) continue;
      this.#addData("display_data", { data: part.data });
    }
  }

  /** Reads an exception from a message, within its limits. */
  raisedIn(content: JsonObject): Raised {
    return raisedIn(content, Math.max(this.#options.maxOutputBytes, MIN_ERROR_BYTES));
  }

  /** The output so far. Displays become files only now: those replaced or cleared cost no disk access. */
  partial(): PartialResult {
    this.#saveFiles(this.#log.unsaved());
    const note = this.#spill?.note ?? "";
    const wholeText = this.#spill?.text;
    return {
      text: this.#log.text(note),
      images: this.#log.images(),
      html: this.#log.html(),
      outputs: this.#log.outputs(note),
      ...(wholeText === undefined ? {} : { wholeText }),
    };
  }

  /** Closes the file of the whole text, and saves the files that its chunks have named. */
  [Symbol.dispose](): void {
    this.#saveFiles(this.#log.unsaved().filter(({ named }) => named !== undefined));
    this.#spill?.[Symbol.dispose]();
  }

  /** Clears the output; chunks and the file of the whole text keep it. */
  #clear(): void {
    this.#clearsNext = false;
    const files = this.#log.files();
    this.#log.clear();
    this.#displays.clear();
    this.#kept = this.#keptBytes = 0;
    this.#saidFull = false;
    for (const file of files) this.#removeFile(file);
  }

  #addStream(content: JsonObject): void {
    if (typeof content.text !== "string") return;
    this.#addText(content.name === "stderr" ? "stderr" : "stdout", content.text);
  }

  #addText(name: "stdout" | "stderr", text: string): void {
    this.#publish(name, this.#joiner.join(text, name));
    this.#log.addStream(name, text);
  }

  #addData(type: DataEntry["type"], content: JsonObject): void {
    const displayId = displayIdOf(content);
    const { shown: whole, text } = this.#read(content);
    const shown = this.#fit(whole, { entries: 1, bytes: ENTRY_BYTES + weightOf(displayId) });
    const published = shown?.named === undefined ? text : shownText(shown);
    const line = published === undefined ? undefined : this.#joiner.joinLine(published);
    if (line !== undefined) {
      this.#publish(type === "execute_result" ? "result" : "stdout", line, shown?.named?.path);
    }
    if (shown === undefined) {
      // Keep its text, which has its own limit.
      if (line !== undefined) this.#log.addStream("stdout", `${line}\n`);
      return;
    }
    const entry = this.#log.addData({ type, displayId }, shown);
    if (displayId === undefined) return;
    const same = this.#displays.get(displayId);
    if (same === undefined) this.#displays.set(displayId, [entry]);
    else same.push(entry);
  }

  #update(content: JsonObject): void {
    const entries = this.#displays.get(displayIdOf(content) ?? "") ?? [];
    const [first] = entries;
    // A display of an earlier execution, whose result was already returned: treat it as a new one.
    if (first === undefined) return this.#addData("display_data", content);
    const before = shownText(first.shown);
    // Those that were updated together share one, and are the oldest.
    const olds = entries.filter(({ shown }, at) => shown !== entries[at - 1]?.shown)
      .map(({ shown }) => shown);
    const { shown: whole, text } = this.#read(content, first.shown.named);
    for (const { data, metadata } of olds) this.#keptBytes -= weightOf(data) + weightOf(metadata);
    const shown = this.#fit(whole, { entries: 0, bytes: 0 }) ?? this.#nothing();
    this.#log.update(entries, { named: undefined, ...shown, file: undefined });
    // After the log, which may have written the preceding texts to a file.
    const published = shown.named === undefined ? text : shownText(shown);
    if (published !== undefined && published !== before) {
      this.#publish("stdout", this.#joiner.joinLine(published), shown.named?.path);
    }
    for (const { file } of olds) if (typeof file === "string") this.#removeFile(file);
  }

  #addError(content: JsonObject): void {
    const raised = this.raisedIn(content);
    if (this.#take({ entries: 1, bytes: ENTRY_BYTES + weightOf({ ...raised }) })) {
      this.#log.addError({ type: "error", ...raised });
    }
  }

  /**
   * The display of a message, with its text cut to the limit; and its whole text, without its
   * file's name.
   */
  #read(
    content: JsonObject,
    before?: Shown["named"],
  ): { shown: Omit<Shown, "file">; text: string | undefined } {
    const data = isRecord(content.data) ? readBundle(content.data) : {};
    const metadata = isRecord(content.metadata) ? content.metadata : {};
    const text = textIn(data);
    const shortened = text === undefined ? undefined : cut(text, this.#options.maxOutputBytes / 2);
    // The log gets the cut text, so it may not notice that text is missing.
    if (shortened !== text) this.#startSpilling();
    return {
      shown: {
        data: shortened === text ? data : { ...data, "text/plain": shortened },
        metadata: weightOf(metadata) <= MAX_METADATA_BYTES ? metadata : {},
        ...this.#named(data, before),
      },
      text,
    };
  }

  /** How the text names a display's file; an update keeps its path, and so the text. */
  #named(data: MimeBundle, before: Shown["named"]): Pick<Shown, "named"> {
    const { images, shownPath = (path) => path } = this.#options;
    const { kind, extension } = fileIn(data) ?? {};
    if (kind === undefined || extension === undefined) return {};
    const isSame = before?.path.endsWith(`.${extension}`) ?? false;
    const path = isSame && before !== undefined ? before.path : images.newPath(extension);
    return { named: { kind, path, shownPath: shownPath(path) } };
  }

  /** Takes memory for a display: for all of it, or at least for its text. */
  #fit(
    shown: Omit<Shown, "file">,
    besides: { readonly entries: number; readonly bytes: number },
  ): Omit<Shown, "file"> | undefined {
    const { "text/plain": text } = shown.data;
    const textOnly = { data: text === undefined ? {} : { "text/plain": text }, metadata: {} };
    return [shown, textOnly].find(({ data, metadata }) =>
      this.#take({ ...besides, bytes: besides.bytes + weightOf(data) + weightOf(metadata) })
    );
  }

  /**
   * A display without content. It counts even without room, because the next update gives it back.
   */
  #nothing(): Shown {
    const nothing = { data: {}, metadata: {} };
    this.#keptBytes += weightOf(nothing.data) + weightOf(nothing.metadata);
    return nothing;
  }

  /** Takes memory from the budget if it has enough; otherwise says so once in the text. */
  #take({ entries, bytes }: { readonly entries: number; readonly bytes: number }): boolean {
    if (this.#kept + entries <= MAX_KEPT && this.#keptBytes + bytes <= MAX_KEPT_BYTES) {
      this.#kept += entries;
      this.#keptBytes += bytes;
      return true;
    }
    this.#sayFull();
    return false;
  }

  #sayFull(): void {
    if (this.#saidFull) return;
    this.#saidFull = true;
    this.#say(
      "Some displays and errors were omitted: together they exceed " +
        `${formatBytes(MAX_KEPT_BYTES)}, or number more than ${MAX_KEPT}`,
    );
  }

  #saveFiles(all: readonly Shown[]): void {
    let left = MAX_FILES - this.#log.files().length;
    let room = MAX_FILE_BYTES;
    let missing = 0;
    for (const shown of all) {
      shown.file = null;
      const found = fileIn(shown.data);
      if (found === undefined) continue;
      if (left <= 0 || found.size > room) {
        missing++;
        continue;
      }
      left--;
      try {
        const bytes = found.decode();
        room -= bytes.length; // even if it does not fit: decoding has taken time
        if (room < 0) missing++;
        else shown.file = this.#save(found.extension, bytes, shown.named?.path);
      } catch (error) {
        // One lost file must not lose the result: the text reports the failure.
        this.#say(`${found.kind ?? "An image"} could not be saved: ${messageOf(error)}`);
      }
    }
    if (missing > 0) {
      this.#say(
        `${missing} files of displays were not saved: there are more than ${MAX_FILES}, or more than ` +
          `${formatBytes(MAX_FILE_BYTES)} of them`,
      );
    }
  }

  #save(extension: string, bytes: Uint8Array, path: string | undefined): string {
    const { images } = this.#options;
    if (path === undefined) return images.write(extension, bytes);
    images.writeAt(path, bytes);
    return path;
  }

  #removeFile(path: string): void {
    try {
      this.#options.images.remove(path);
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return; // code may remove files of its workspace
      this.#say(`A file could not be removed: ${messageOf(error)}`);
    }
  }

  #say(message: string): void {
    this.#addText("stderr", `[ipybox: ${message}]\n`);
  }

  #publish(stream: TextSource, text: string, file?: string): void {
    this.#options.onText(stream, text, file);
    this.#spill?.append(text);
  }

  #startSpilling(): void {
    if (this.#spill !== undefined) return;
    this.#spill = new SpillFile(this.#options.images);
    this.#spill.append(this.#log.rawText() ?? "");
  }
}

function displayIdOf(content: JsonObject): string | undefined {
  const { transient } = content;
  return isRecord(transient) && typeof transient.display_id === "string"
    ? transient.display_id
    : undefined;
}
