/**
 * The output of an execution, as data.
 *
 * @module
 */
import type { JsonObject } from "./jupyter.ts";

/** A bundle of one value in several MIME types, as in Jupyter's `display_data`. */
export type MimeBundle = Readonly<Record<string, unknown>>;

/** One output of an execution, named after Jupyter's message types. */
export type Output =
  | { readonly type: "stream"; readonly name: "stdout" | "stderr"; readonly text: string }
  | { readonly type: "execute_result"; readonly data: MimeBundle; readonly metadata: MimeBundle }
  | {
    readonly type: "display_data";
    readonly data: MimeBundle;
    readonly metadata: MimeBundle;
    readonly displayId?: string;
  }
  | {
    readonly type: "error";
    readonly ename: string;
    readonly evalue: string;
    readonly traceback: readonly string[];
  };

/** A file with the whole text of an execution, if only its beginning and its end are in memory. */
export interface WholeText {
  /** Its path. */
  readonly path: string;
  /** Its length in characters. */
  readonly characters: number;
}

/** The output of an execution. */
export interface ExecutionResult {
  /**
   * The text of stdout, stderr, results and displays in order, without blank lines around it. Each
   * result and display is on its own lines, and progress bars are in their last state. `null` if there
   * was none.
   */
  readonly text: string | null;
  /**
   * Paths of the image files, in order: one for each of the first 1000 outputs with a PNG, JPEG or SVG, up
   * to 64 MiB together.
   */
  readonly images: readonly string[];
  /** All outputs in order, displays in their last state. */
  readonly outputs: readonly Output[];
  /** The file with the full text, if `text` is cut. */
  readonly wholeText?: WholeText;
}

/** Reads a bundle, and joins texts that are lists of lines: it is read as often as it is displayed. */
export function readBundle(value: JsonObject): MimeBundle {
  return Object.fromEntries(
    Object.entries(value).map(([mime, content]) => [
      mime,
      Array.isArray(content) && !mime.endsWith("json") && content.every(isString)
        ? content.join("")
        : content,
    ]),
  );
}

function isString(value: unknown): value is string {
  return typeof value === "string";
}

const encoder = new TextEncoder();

/** The image formats that become files, in order of preference. */
const FORMATS: readonly {
  mime: string;
  extension: string;
  decode: (value: string) => Uint8Array;
}[] = [
  { mime: "image/png", extension: "png", decode: (value) => Uint8Array.fromBase64(value) },
  { mime: "image/jpeg", extension: "jpg", decode: (value) => Uint8Array.fromBase64(value) },
  { mime: "image/svg+xml", extension: "svg", decode: (value) => encoder.encode(value) },
];

/** An image that can become a file. */
export interface FoundImage {
  readonly extension: string;
  /** About how large its file is, in bytes: an SVG can be larger. */
  readonly size: number;
  /** @throws {SyntaxError} It is no base64. */
  decode(): Uint8Array;
}

/** The image of a bundle that becomes a file, if it has one. */
export function imageIn(data: MimeBundle): FoundImage | undefined {
  for (const { mime, extension, decode } of FORMATS) {
    const value = textOf(data[mime]);
    if (value === undefined) continue;
    return { extension, size: value.length * 3 / 4, decode: () => decode(value) };
  }
  return undefined;
}

/** The text of a bundle; not the `repr` of a displayed image or Markdown object. */
export function shownText(data: MimeBundle): string | undefined {
  const text = textOf(data["text/plain"]);
  if (text === undefined || text.length > MAX_BARE_REPR || !BARE_REPR.test(text)) return text;
  return imageIn(data) !== undefined ? undefined : textOf(data["text/markdown"]) ?? text;
}

/** Such as `<IPython.core.display.Image object>` or `<Figure size 640x480 with 1 Axes>`. */
const BARE_REPR = /^<[^<>\n]+>$/;
const MAX_BARE_REPR = 200;

function textOf(value: unknown): string | undefined {
  return isString(value) ? value : undefined;
}
