import type { PartialResult } from "../errors.ts";
import type { ArtifactFolder } from "./artifact_folder.ts";
import type { OutputChunk } from "./chunk_queue.ts";
import { shownText, textOf, writeImage } from "./image_file.ts";
import { isObject, type JsonObject, type JupyterMessage } from "./jupyter.ts";
import { type DataEntry, LineJoiner, OutputLog } from "./output_log.ts";
import type { MimeBundle } from "./outputs.ts";
import { messageOf, SpillFile } from "./spill_file.ts";
import { cut, formatBytes } from "./text.ts";
import { cleanTraceback } from "./traceback.ts";

/** Where the parts of an execution's output go, and how much of it is kept. */
export interface CollectorOptions {
  /** The most text that is kept in memory: half of it from the start, half from the end. */
  readonly maxOutputBytes: number;
  /** Where the whole text goes when it is longer. */
  readonly spill: ArtifactFolder;
  /** Where image files go. */
  readonly images: ArtifactFolder;
  /** Called with each piece of text. */
  readonly onText: (stream: OutputChunk["stream"], text: string) => void;
}

/** The most that the displays of one execution may hold in memory, besides their text. */
const MAX_DISPLAY_BYTES = 128 * 1024 ** 2;

const OUTPUT_TYPES: ReadonlySet<string> = new Set([
  "stream",
  "execute_result",
  "display_data",
  "error",
]);

/** The most displays, and the most errors, of one execution. */
const MAX_DISPLAYS = 10_000;

/** Tracebacks are kept whole up to this size, however small the limit of the text. */
const MIN_ERROR_BYTES = 65_536;

/** Collects the outputs of one execution from its messages, within bounded memory. */
export class OutputCollector implements Disposable {
  readonly #options: CollectorOptions;
  readonly #log: OutputLog;
  readonly #joiner = new LineJoiner();
  readonly #displays = new Map<string, DataEntry[]>();
  #displayCount = 0;
  #displayBytes = 0;
  #spill: SpillFile | undefined;
  #clearsNext = false;

  constructor(options: CollectorOptions) {
    this.#options = options;
    this.#log = new OutputLog(options.maxOutputBytes, (rawText) => this.#startSpilling(rawText));
  }

  /** Takes one message of the iopub channel; kinds that are no output are ignored. */
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

  /**
   * Takes the payload of the reply, in which IPython has what it shows in a pager, such as the help
   * of `print?`. The text for the next cell (`set_next_input`, of `%load` and `%recall`) is left out:
   * there is no cell to put it in, and who wrote the code can get it as a value. So are requests to
   * open an editor or to end the frontend.
   */
  addPayload(payload: unknown): void {
    if (!Array.isArray(payload)) return;
    for (const part of payload) {
      if (!isObject(part) || part.source !== "page" || !isObject(part.data)) continue;
      this.#addData("display_data", { data: part.data });
    }
  }

  /** What was produced so far. */
  partial(): PartialResult {
    const note = this.#spill?.note ?? "";
    const wholeText = this.#spill?.text;
    return {
      text: this.#log.text(note),
      images: this.#log.images(),
      outputs: this.#log.outputs(note),
      ...(wholeText === undefined ? {} : { wholeText }),
    };
  }

  /** Closes the file of the whole text. */
  [Symbol.dispose](): void {
    this.#spill?.[Symbol.dispose]();
  }

  /** Leaves out all that was produced; chunks and the file of the whole text keep it. */
  #clear(): void {
    this.#clearsNext = false;
    for (const image of this.#log.images()) this.#options.images.remove(image);
    this.#log.clear();
    this.#displays.clear();
    this.#displayCount = this.#displayBytes = 0;
  }

  #addStream(content: JsonObject): void {
    if (typeof content.text !== "string") return;
    this.#addText(content.name === "stderr" ? "stderr" : "stdout", content.text);
  }

  #addText(name: "stdout" | "stderr", text: string): void {
    this.#publish(name, this.#joiner.join(text));
    this.#log.addStream(name, text);
  }

  #addData(type: DataEntry["type"], content: JsonObject): void {
    const whole = bundleOf(content.data);
    const text = shownText(whole);
    const data = this.#bounded(whole);
    if (text !== undefined) this.#publish("result", this.#joiner.joinLine(text));
    const entry = this.#log.addData({
      type,
      data,
      metadata: bundleOf(content.metadata),
      displayId: displayIdOf(content),
      image: this.#saveImage(data),
    });
    if (entry.displayId === undefined) return;
    const same = this.#displays.get(entry.displayId);
    if (same === undefined) this.#displays.set(entry.displayId, [entry]);
    else same.push(entry);
  }

  #update(content: JsonObject): void {
    const entries = this.#displays.get(displayIdOf(content) ?? "");
    // A display of an earlier execution, whose result is already out: here it is a new one.
    if (entries === undefined) return this.#addData("display_data", content);
    const whole = bundleOf(content.data);
    const before = shownText(entries[0]!.data);
    const data = this.#bounded(whole, sizeOf(entries[0]!.data));
    const text = shownText(whole);
    if (text !== undefined && text !== before) {
      this.#publish("result", this.#joiner.joinLine(text));
    }
    const metadata = bundleOf(content.metadata);
    const image = this.#saveImage(data);
    for (const old of new Set(entries.map((entry) => entry.image))) {
      if (old !== undefined) this.#options.images.remove(old);
    }
    for (const entry of entries) this.#log.updateData(entry, { data, metadata, image });
  }

  #addError(content: JsonObject): void {
    if (++this.#displayCount > MAX_DISPLAYS) return;
    const limit = Math.max(this.#options.maxOutputBytes, MIN_ERROR_BYTES);
    const traceback = cleanTraceback(
      Array.isArray(content.traceback) ? content.traceback.map(String) : [],
    );
    const whole = cut(traceback.join("\n"), limit);
    this.#log.addError({
      type: "error",
      ename: cut(String(content.ename), limit),
      evalue: cut(String(content.evalue), limit),
      traceback: whole === traceback.join("\n") ? traceback : [whole],
    });
  }

  /** A bundle within the limits of memory; what has no room is left out, which is said. */
  #bounded(data: MimeBundle, replaced?: number): MimeBundle {
    const text = textOf(data["text/plain"]);
    const limit = this.#options.maxOutputBytes / 2;
    const shortened = text === undefined ? undefined : cut(text, limit);
    if (shortened !== text) {
      // The log would otherwise be the first to know that text is left out.
      this.#startSpilling(this.#log.rawText() ?? "");
      data = { ...data, "text/plain": shortened };
    }
    const size = sizeOf(data);
    const total = this.#displayBytes + size - (replaced ?? 0);
    if (replaced === undefined) this.#displayCount++;
    if (this.#displayCount <= MAX_DISPLAYS && total <= MAX_DISPLAY_BYTES) {
      this.#displayBytes = total;
      return data;
    }
    if (this.#displayCount <= MAX_DISPLAYS) {
      this.#say(
        `A display of ${formatBytes(size)} was left out: all take more than ` +
          `${formatBytes(MAX_DISPLAY_BYTES)}`,
      );
    }
    return shortened === undefined ? {} : { "text/plain": shortened };
  }

  #saveImage(data: MimeBundle): string | undefined {
    try {
      return writeImage(data, this.#options.images);
    } catch (error) {
      // The result is worth more than one of its files, so the failure is told in the text.
      this.#say(`An image could not be saved: ${messageOf(error)}`);
      return undefined;
    }
  }

  #say(message: string): void {
    this.#addText("stderr", `[ipybox: ${message}]\n`);
  }

  #publish(stream: OutputChunk["stream"], text: string): void {
    this.#options.onText(stream, text);
    this.#spill?.append(text);
  }

  #startSpilling(rawText: string): void {
    if (this.#spill !== undefined) return;
    this.#spill = new SpillFile(this.#options.spill);
    this.#spill.append(rawText);
  }
}

function bundleOf(value: unknown): MimeBundle {
  return isObject(value) ? value : {};
}

function displayIdOf(content: JsonObject): string | undefined {
  const { transient } = content;
  return isObject(transient) && typeof transient.display_id === "string"
    ? transient.display_id
    : undefined;
}

/** About how much memory a bundle takes. */
function sizeOf(data: MimeBundle): number {
  let size = 0;
  for (const value of Object.values(data)) {
    size += typeof value === "string" ? value.length : JSON.stringify(value)?.length ?? 0;
  }
  return size;
}
