/**
 * The output of an execution, as data.
 *
 * @module
 */
import { weightOf } from "../json/exact.ts";
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

/** A picture that code showed. */
export interface OutputImage {
  /** The path of its file, which code can change and remove. */
  readonly path: string;
  /** Its format: `"image/png"`, `"image/jpeg"` or `"image/svg+xml"`. */
  readonly mimeType: string;
  /**
   * Returns the picture as the code showed it, whatever happened to its file since.
   *
   * @returns The bytes that were written to the file.
   *
   * @example
   * ```ts
   * import { CodeExecutor } from "@ipybox/ipybox";
   *
   * await using executor = await CodeExecutor.start();
   * const code = `from IPython.display import SVG\nSVG('<svg xmlns="http://www.w3.org/2000/svg"/>')`;
   * const { images } = await executor.execute(code);
   * for (const image of images) console.error(image.mimeType, image.bytes().toBase64());
   * ```
   */
  bytes(): Uint8Array<ArrayBuffer>;
}

/** The output of an execution. */
export interface ExecutionResult {
  /**
   * The text of stdout, stderr, results and displays in order, without blank lines around it. Each
   * result and display is on its own lines, and progress bars are in their last state. A display without
   * text or picture has a line that names its file, such as `[plotly figure: /ws/images/7f3a2b1c.html]`.
   * `null` if the code produced none.
   */
  readonly text: string | null;
  /**
   * The images, in order: one for each output with a PNG, JPEG or SVG. Files of displays are limited to
   * 1000, and to 64 MiB together.
   */
  readonly images: readonly OutputImage[];
  /**
   * The HTML of all results and displays that have some, in order, such as tables, figures and maps: whole
   * pages or parts of one. Its scripts come from the code.
   */
  readonly html: readonly string[];
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

/** A file that a bundle becomes. */
interface FoundFile {
  readonly extension: string;
  /** Its name in the text; pictures are listed beside the text. */
  readonly kind?: string;
  /** A rough lower bound of its size, in bytes. */
  readonly size: number;
  /** @throws {SyntaxError} It is not base64. */
  decode(): Uint8Array<ArrayBuffer>;
}

/** The image of a bundle, with its file at a path. */
export function imageIn(data: MimeBundle, path: string): OutputImage | undefined {
  const picture = pictureIn(data);
  return picture && { path, mimeType: picture.mime, bytes: picture.decode };
}

/** The HTML of a bundle. */
export function htmlIn(data: MimeBundle): string | undefined {
  return textOf(data["text/html"]);
}

/** The file that a bundle becomes: its picture, or its page or data if its text says nothing. */
export function fileIn(data: MimeBundle): FoundFile | undefined {
  return pictureIn(data) ?? (isInformative(textIn(data)) ? undefined : documentIn(data));
}

/** The text of a bundle; not the `repr` of a displayed image, Markdown, LaTeX or JSON object. */
export function textIn(data: MimeBundle): string | undefined {
  const text = textOf(data["text/plain"]);
  if (isInformative(text) && !isLike(BARE_REPR, text)) return text;
  if (pictureIn(data) !== undefined) return undefined;
  const markdown = textOf(data["text/markdown"]);
  if (markdown !== undefined || isInformative(text)) return markdown ?? text;
  const json = data["application/json"];
  const isText = json !== undefined && weightOf(json, MAX_JSON_TEXT) <= MAX_JSON_TEXT;
  return textOf(data["text/latex"]) ?? (isText ? JSON.stringify(json) : text);
}

/** The largest JSON that is shown as text, in bytes of memory; larger ones become files. */
const MAX_JSON_TEXT = 2 ** 20;

/** Formats of pictures, in order of preference. */
const PICTURES: readonly {
  mime: string;
  extension: string;
  decode: (value: string) => Uint8Array<ArrayBuffer>;
}[] = [
  { mime: "image/png", extension: "png", decode: (value) => Uint8Array.fromBase64(value) },
  { mime: "image/jpeg", extension: "jpg", decode: (value) => Uint8Array.fromBase64(value) },
  { mime: "image/svg+xml", extension: "svg", decode: (value) => encoder.encode(value) },
];

function pictureIn(data: MimeBundle): FoundFile & { readonly mime: string } | undefined {
  for (const { mime, extension, decode } of PICTURES) {
    const value = textOf(data[mime]);
    if (value === undefined) continue;
    return { mime, extension, size: value.length * 3 / 4, decode: () => decode(value) };
  }
  return undefined;
}

/** JSON that describes charts, maps or anything. */
const DESCRIPTIONS: readonly { readonly mime: RegExp; readonly kind: string }[] = [
  { mime: /^application\/vnd\.plotly\.v\d+\+json$/, kind: "plotly figure" },
  { mime: /^application\/vnd\.vegalite\.v\d+[+.]json$/, kind: "Vega-Lite chart" },
  { mime: /^application\/vnd\.vega\.v\d+[+.]json$/, kind: "Vega chart" },
  { mime: /^application\/geo\+json$/, kind: "GeoJSON" },
  { mime: /^application\/json$/, kind: "JSON" },
];

function documentIn(data: MimeBundle): FoundFile | undefined {
  const html = htmlIn(data);
  const description = descriptionIn(data);
  if (html !== undefined && html.trim() !== "") {
    const kind = description?.kind ?? kindOf(textOf(data["text/plain"]) ?? "") ?? "HTML";
    const decode = () => encoder.encode(pageOf(html));
    return { extension: "html", kind, size: html.length, decode };
  }
  if (description === undefined) return undefined;
  const { kind, json } = description;
  return { extension: "json", kind, size: 0, decode: () => encoder.encode(JSON.stringify(json)) };
}

function descriptionIn(
  data: MimeBundle,
): { readonly kind: string; readonly json: unknown } | undefined {
  for (const [name, json] of Object.entries(data)) {
    const kind = DESCRIPTIONS.find(({ mime }) => mime.test(name))?.kind;
    if (kind !== undefined) return { kind, json };
  }
  return undefined;
}

/** A page, or a part that becomes one, so that browsers read it as UTF-8. */
function pageOf(html: string): string {
  const isPage = /^\s*<(?:!doctype|html\b)/i.test(html);
  return isPage ? html : `<!doctype html>\n<meta charset="utf-8">\n${html}`;
}

/** Whether a text says more than the class of its object. */
function isInformative(text: string | undefined): text is string {
  return text !== undefined && text.trim() !== "" &&
    !CLASS_REPRS.some((repr) => isLike(repr, text));
}

/**
 * A `repr` such as `<IPython.core.display.Image object>` or `<Figure size 640x480 with 1 Axes>`.
 */
const BARE_REPR = /^<[^<>\n]+>$/;

/** A class that a text names, with its module. */
const CLASS = "(?:[\\p{ID_Continue}.]|<locals>)+";

/** Texts that only name a class, as those of IPython's displays, folium and Altair. */
const CLASS_REPRS: readonly RegExp[] = [
  new RegExp(`^<${CLASS}(?: object)?(?: at 0x[0-9a-f]+)?>$`, "iu"),
  new RegExp(`^${CLASS}\\(\\.\\.\\.\\)$`, "u"),
  /^<Vega(?:Lite)? \d+ object>\n\nIf you see this message, it means the renderer has not been/,
];

const MAX_BARE_REPR = 400;

function isLike(repr: RegExp, text: string): boolean {
  return text.length <= MAX_BARE_REPR && repr.test(text);
}

/** The kind of object that a text names, if it names only a class, such as `folium Map`. */
function kindOf(repr: string): string | undefined {
  const parts = new RegExp(`^<?(${CLASS})`, "u").exec(repr)?.[1]?.split(".") ?? [];
  const [library, name] = [parts.at(0), parts.at(-1)];
  const isOwn = parts.length < 2 || library === "__main__" || library === "IPython";
  return isOwn ? name || undefined : `${library} ${name}`;
}

function textOf(value: unknown): string | undefined {
  return isString(value) ? value : undefined;
}
