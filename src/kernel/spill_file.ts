import { type ArtifactFolder, writeAll } from "./artifact_folder.ts";
import type { WholeText } from "./outputs.ts";
import { formatBytes } from "./text.ts";

/** The most of one execution that is written to disk, as executed code decides how much it prints. */
const MAX_SPILL_BYTES = 1024 ** 3;

const encoder = new TextEncoder();

/**
 * The file of a text that is too long to be kept in memory. A failure to write it does not throw,
 * as the result is worth more than its file, but is told in {@linkcode note}.
 */
export class SpillFile implements Disposable {
  #file: Deno.FsFile | undefined;
  #bytes = 0;
  #characters = 0;
  #path: string | undefined;
  #note: string;

  /** Creates the file. */
  constructor(folder: ArtifactFolder) {
    try {
      const { path, file } = folder.create("txt");
      this.#file = file;
      this.#path = path;
      this.#note = `the whole is in ${path}`;
    } catch (error) {
      this.#note = `the whole could not be saved: ${messageOf(error)}`;
    }
  }

  /** Where the whole text is, or why it is not. */
  get note(): string {
    return this.#note;
  }

  /** The file and its length, or `undefined` where it could not be made. */
  get text(): WholeText | undefined {
    return this.#path === undefined
      ? undefined
      : { path: this.#path, characters: this.#characters };
  }

  /** Adds text at the end. */
  append(text: string): void {
    if (this.#file === undefined) return;
    const bytes = encoder.encode(text);
    if (this.#bytes + bytes.length > MAX_SPILL_BYTES) {
      this.#stop(`${this.#note}, up to a limit of ${formatBytes(this.#bytes)}`);
      return;
    }
    try {
      writeAll(this.#file, bytes);
      this.#bytes += bytes.length;
      this.#characters += text.length;
    } catch (error) {
      this.#stop(`${this.#note}, up to a failure: ${messageOf(error)}`);
    }
  }

  /** Closes the file, which stays. */
  [Symbol.dispose](): void {
    this.#file?.close();
    this.#file = undefined;
  }

  #stop(note: string): void {
    this[Symbol.dispose]();
    this.#note = note;
  }
}

/** What an error says, of whatever kind it is. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
