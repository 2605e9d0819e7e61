import type { ArtifactFolder } from "./artifact_folder.ts";
import type { MimeBundle } from "./outputs.ts";

const encoder = new TextEncoder();

/** The image formats that become files; of a bundle with several, the first. */
const FORMATS: readonly {
  mime: string;
  extension: string;
  decode: (value: string) => Uint8Array;
}[] = [
  { mime: "image/png", extension: "png", decode: (value) => Uint8Array.fromBase64(value) },
  { mime: "image/jpeg", extension: "jpg", decode: (value) => Uint8Array.fromBase64(value) },
  { mime: "image/svg+xml", extension: "svg", decode: (value) => encoder.encode(value) },
];

/** Writes the image of a MIME bundle to a file. */
export function writeImage(data: MimeBundle, folder: ArtifactFolder): string | undefined {
  for (const { mime, extension, decode } of FORMATS) {
    const value = textOf(data[mime]);
    if (value !== undefined) return folder.write(extension, decode(value));
  }
  return undefined;
}

/** The text that a bundle shows: all but the `repr` of an image that is shown. */
export function shownText(data: MimeBundle): string | undefined {
  const text = textOf(data["text/plain"]);
  if (text === undefined || text.length > MAX_BARE_REPR || !BARE_REPR.test(text)) return text;
  return hasImage(data) ? undefined : text;
}

/** Whether a bundle has an image that can become a file. */
export function hasImage(data: MimeBundle): boolean {
  return FORMATS.some(({ mime }) => textOf(data[mime]) !== undefined);
}

/** Such as `<IPython.core.display.Image object>` or `<Figure size 640x480 with 1 Axes>`. */
const BARE_REPR = /^<[^<>\n]+>$/;
const MAX_BARE_REPR = 200;

/** A text value of a bundle; Jupyter allows a list of lines too. */
export function textOf(value: unknown): string | undefined {
  if (typeof value === "string") return value;
  if (!Array.isArray(value)) return undefined;
  return value.every((line) => typeof line === "string") ? value.join("") : undefined;
}
