import { basename } from "node:path";
import { z } from "zod";
import { joinBytes } from "../base/bytes.ts";
import { ConfigError } from "../base/errors.ts";
import { Mutex } from "../base/mutex.ts";
import { hostEnvs } from "../base/permission.ts";
import { Deadline } from "../base/deadline.ts";
import { readHostileBytes } from "../files/safe.ts";
import { denoProgram } from "../process/program.ts";
import { runProgram } from "../process/run_program.ts";
import { requireOwnDeno } from "../sandbox/workspace.ts";

/** A file that a cell produced: its full output, or an image. */
export interface Artifact {
  /** Its resource URI. */
  readonly uri: string;
  /** The file. */
  readonly path: string;
  /** Its path as shown in texts. */
  readonly shownPath: string;
  readonly mimeType: string;
  /** A description. */
  readonly title: string;
}

/** The content of the file. */
type ArtifactContent = { readonly text: string } | { readonly blob: string };

/** The kind of an artifact, which is part of its URI. */
export type ArtifactKind = "outputs" | "images";

/** The most artifacts to remember; the files of older ones are kept. */
const MAX_ARTIFACTS = 500;
/** The largest file that is sent as a resource. */
const MAX_BYTES = 32 * 2 ** 20;

const MIME_TYPES: Readonly<Record<string, string>> = {
  txt: "text/plain",
  png: "image/png",
  jpg: "image/jpeg",
  svg: "image/svg+xml",
};

/** The files that a session's cells produced, as resources. */
export class Artifacts {
  readonly #artifacts = new Map<string, Artifact>();
  readonly #shownPath: (path: string) => string;

  constructor(shownPath: (path: string) => string = (path) => path) {
    this.#shownPath = shownPath;
  }

  /** The artifacts of a kind, newest first. */
  list(kind: ArtifactKind): Artifact[] {
    return [...this.#artifacts.values()]
      .filter(({ uri }) => uri.startsWith(`ipybox://${kind}/`)).reverse();
  }

  /** Adds a file as a resource. */
  add(kind: ArtifactKind, path: string, title: string): Artifact {
    const name = basename(path);
    const uri = `ipybox://${kind}/${name}`;
    const mimeType = MIME_TYPES[name.split(".").at(-1) ?? ""] ?? "application/octet-stream";
    const artifact = { uri, path, shownPath: this.#shownPath(path), mimeType, title };
    this.#artifacts.set(uri, artifact);
    const [oldest] = this.#artifacts.keys();
    if (this.#artifacts.size > MAX_ARTIFACTS && oldest !== undefined) {
      this.#artifacts.delete(oldest);
    }
    return artifact;
  }

  /** Reads an artifact, whose file executed code may have changed since. */
  async read(
    uri: string,
  ): Promise<{ mimeType: string; content: ArtifactContent } | undefined> {
    const artifact = this.#artifacts.get(uri);
    if (artifact === undefined) return undefined;
    const { path, mimeType } = artifact;
    const bytes = await readHostileBytes(path, MAX_BYTES);
    if (bytes !== undefined) {
      const content = mimeType === "text/plain"
        ? { text: new TextDecoder().decode(bytes) }
        : { blob: bytes.toBase64() };
      return { mimeType, content };
    }
    throw new Error(
      `Cannot send ${path}: it is missing or larger than ${MAX_BYTES / 2 ** 20} MiB; ` +
        "read a part of it in a cell",
    );
  }
}

/** A picture for the client. */
interface InlineImage {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly mimeType: "image/png" | "image/jpeg";
  readonly width: number;
  readonly height: number;
}

/** The longest side that is sent; models see no more. */
const MAX_SIDE = 1568;
/** The most bytes of one picture. */
const MAX_INLINE_BYTES = 2 ** 20;
/** The most pixels that are decoded; each takes four bytes of memory. */
const MAX_PIXELS = 16e6;
/** Pictures that would have to be smaller than this are left out. */
const MIN_SIDE = 200;

/** Scales a large picture down for a client; a PNG that is still too large becomes a JPEG. */
export async function inlineImage(
  bytes: Uint8Array<ArrayBuffer>,
  room: number,
): Promise<InlineImage | undefined> {
  const size = imageSize(bytes);
  if (size === undefined || size.width * size.height > MAX_PIXELS) return undefined;
  const limit = Math.min(room, MAX_INLINE_BYTES);
  const mimeType = bytes[0] === 0xff ? "image/jpeg" : "image/png";
  const pixels = pixelsOf(bytes);
  if (pixels === undefined) return undefined;
  const side = Math.max(size.width, size.height);
  const whole = mimeType === "image/png" ? pixels : bytes;
  if (whole.length <= limit && side <= MAX_SIDE) return { bytes: whole, mimeType, ...size };
  return await scaledDown(pixels, {
    ...size,
    source: mimeType,
    longest: Math.min(side, MAX_SIDE),
    least: MIN_SIDE,
    types: mimeType === "image/png" ? BOTH_TYPES : ["image/jpeg"],
    limit,
  });
}

/** The program's input besides the picture. */
interface Scaling extends ImageSize {
  readonly source: InlineImage["mimeType"];
  /** The initial length of the longest side. */
  readonly longest: number;
  /** The minimum length of the longest side. */
  readonly least: number;
  readonly types: readonly InlineImage["mimeType"][];
  /** The most bytes. */
  readonly limit: number;
}

const BOTH_TYPES = ["image/png", "image/jpeg"] as const;

/** The program's answer. */
const scaledSchema = z.object({
  bytes: z.string().transform((text) => Uint8Array.fromBase64(text)),
  mimeType: z.enum(BOTH_TYPES),
  width: z.number(),
  height: z.number(),
}).nullable();

/** Pictures are decoded one at a time: executed code can make many, and each takes a lot of memory. */
const turns = new Mutex();
/** The variables with which Deno finds its cache. */
const CACHE_VARIABLES = ["DENO_DIR", "XDG_CACHE_HOME", "HOME"];
/** The time limits for scaling a picture, and for its wait for others. */
const TIMEOUT_MS = 30_000;
const MAX_WAIT_MS = 10_000;

/** Scales a picture. */
async function scaledDown(
  pixels: Uint8Array<ArrayBuffer>,
  scaling: Scaling,
): Promise<InlineImage | undefined> {
  const answer = await answerOf("images/scale.js", { picture: pixels.toBase64(), ...scaling });
  return answer === undefined ? undefined : scaledSchema.parse(answer) ?? undefined;
}

const drawnSchema = z.object({ sixels: z.string().regex(/^[!-~]*$/) });

/** Converts a PNG of a given size to sixels for a terminal; `undefined` if it cannot be decoded. */
export async function sixelsOf(
  pixels: Uint8Array<ArrayBuffer>,
  size: ImageSize,
): Promise<string | undefined> {
  const answer = await answerOf("images/sixel.js", { picture: pixels.toBase64(), ...size });
  return answer === undefined ? undefined : drawnSchema.parse(answer).sixels;
}

/**
 * Runs a program that decodes a picture, in another process: decoding a large one would block all
 * sessions for seconds, and one that the decoder cannot cope with would end this process, even from
 * a worker. The program is embedded, so that bundles include it.
 */
async function answerOf(
  name: "images/scale.js" | "images/sixel.js",
  input: Readonly<Record<string, unknown>>,
): Promise<unknown> {
  using wait = new Deadline(MAX_WAIT_MS);
  using turn = await turns.acquire(wait.signal).catch(() => undefined);
  if (turn === undefined) return undefined;
  const { asset } = await import("../assets/mod.ts");
  const program = `data:text/javascript,${encodeURIComponent(asset(name))}`;
  using deadline = new Deadline(TIMEOUT_MS);
  try {
    const deno = await denoProgram();
    await requireOwnDeno(deno);
    const { success, stdout } = await runProgram(deno, {
      args: [
        "run",
        "--quiet",
        "--no-prompt",
        "--no-config",
        "--no-remote",
        "--no-code-cache",
        program,
      ],
      clearEnv: true,
      env: { DENO_NO_UPDATE_CHECK: "1", ...hostEnvs(CACHE_VARIABLES) },
      input: JSON.stringify(input),
      signal: deadline.signal,
    });
    // Executed code made the picture, and it cannot be decoded.
    return success ? JSON.parse(stdout) : undefined;
  } catch (error) {
    const reasons = [Deno.errors.NotCapable, Deno.errors.NotFound, ConfigError];
    const isUnusable = reasons.some((reason) => error instanceof reason);
    if (deadline.passed || isUnusable) return undefined; // it is available in full size
    throw error;
  }
}

/**
 * A PNG's pixels, for a program that decodes them; `undefined` for another picture, and for one that is
 * too large to decode.
 */
export function safePng(
  bytes: Uint8Array<ArrayBuffer>,
): (ImageSize & { readonly bytes: Uint8Array<ArrayBuffer> }) | undefined {
  const size = imageSize(bytes);
  const isPng = size !== undefined && bytes[0] === PNG[0];
  if (!isPng || size.width * size.height > MAX_PIXELS || size.width * size.height === 0) {
    return undefined;
  }
  const pixels = pngPixels(bytes);
  return pixels && { ...size, bytes: pixels };
}

/** The size of a picture in pixels. */
interface ImageSize {
  readonly width: number;
  readonly height: number;
}

/** The start of a PNG: its signature, and the header of its first chunk, an IHDR of 13 bytes. */
const PNG = [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 13, 0x49, 0x48, 0x44, 0x52];
/** The length of the start with the chunk's content and checksum. */
const PNG_HEADER = PNG.length + 13 + 4;

/** Reads a picture's size before anything is decoded: a small file can contain a huge picture. */
export function imageSize(bytes: Uint8Array<ArrayBuffer>): ImageSize | undefined {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (bytes.length >= PNG_HEADER && PNG.every((byte, at) => bytes[at] === byte)) {
    return { width: view.getUint32(16), height: view.getUint32(20) };
  }
  const jpeg = readJpeg(bytes);
  return jpeg && { width: jpeg.width, height: jpeg.height };
}

/** The chunks of a PNG that make its pixels. */
const PIXEL_CHUNKS: ReadonlySet<string> = new Set(["PLTE", "tRNS", "IDAT", "IEND"]);
/**
 * More chunks than any encoder writes into the largest file that is read. Each takes time to parse.
 */
const MAX_CHUNKS = 10_000;

/**
 * The parts of a picture for the decoder, so that it finds the size that was read here and no other;
 * `undefined` if the picture cannot be parsed. Of a PNG, only the pixels: its colour profile and texts
 * are compressed, and a decoder would unpack gigabytes from a few megabytes.
 *
 * @see {@link https://www.w3.org/TR/png-3/#5Chunk-layout}
 */
export function pixelsOf(bytes: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> | undefined {
  if (bytes[0] !== 0xff) return pngPixels(bytes);
  const jpeg = readJpeg(bytes);
  return jpeg && joinBytes(...jpeg.parts);
}

function pngPixels(bytes: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> | undefined {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const parts = [bytes.subarray(0, PNG_HEADER)];
  let chunks = 0;
  for (let at = PNG_HEADER, end = at; at + 12 <= bytes.length; at = end) {
    if (++chunks > MAX_CHUNKS) return undefined;
    end = at + 12 + view.getUint32(at);
    if (end > bytes.length) break;
    const kind = String.fromCharCode(...bytes.subarray(at + 4, at + 8));
    if (PIXEL_CHUNKS.has(kind)) parts.push(bytes.subarray(at, end));
  }
  return joinBytes(...parts);
}

/** A JPEG that was read up to its first scan. */
interface Jpeg extends ImageSize {
  /** Its segments, with the frame header first. */
  readonly parts: readonly Uint8Array<ArrayBuffer>[];
}

/**
 * Markers of frame headers, and of other segments that make the pixels: tables and the kind of
 * colours (JFIF and Adobe). Colour profiles, a language of their own, are left out.
 */
const FRAMES: ReadonlySet<number> = new Set([0xc0, 0xc1, 0xc2]);
const SEGMENTS: ReadonlySet<number> = new Set([0xc4, 0xdb, 0xdd, 0xe0, 0xee]);
const SCAN = 0xda;
const COMMENT = 0xfe;
const APPLICATIONS = 0xe;

/**
 * Reads a JPEG up to its first scan. The frame header is moved to the front: a decoder that parses the
 * segments differently finds a second one there, which it rejects.
 *
 * @see {@link https://www.w3.org/Graphics/JPEG/itu-t81.pdf} B.1.1.3 and B.2.2
 */
function readJpeg(bytes: Uint8Array<ArrayBuffer>): Jpeg | undefined {
  if (bytes[0] !== 0xff || bytes[1] !== 0xd8) return undefined;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let frame: Uint8Array<ArrayBuffer> | undefined;
  const others: Uint8Array<ArrayBuffer>[] = [];
  let segments = 0;
  for (let at = 2, end = at; at + 4 <= bytes.length && ++segments <= MAX_CHUNKS; at = end) {
    const [marker, length] = [view.getUint8(at + 1), view.getUint16(at + 2)];
    end = at + 2 + length;
    if (view.getUint8(at) !== 0xff || length < 2 || end > bytes.length) break;
    const segment = bytes.subarray(at, end);
    if (marker === SCAN) return frame && jpegOf(frame, [...others, bytes.subarray(at)]);
    if (FRAMES.has(marker) && frame === undefined && segment.length >= 10) frame = segment;
    else if (SEGMENTS.has(marker)) others.push(segment);
    else if (marker !== COMMENT && marker >> 4 !== APPLICATIONS) break;
  }
  return undefined;
}

function jpegOf(
  frame: Uint8Array<ArrayBuffer>,
  others: readonly Uint8Array<ArrayBuffer>[],
): Jpeg {
  const view = new DataView(frame.buffer, frame.byteOffset);
  const start = new Uint8Array([0xff, 0xd8]);
  return { width: view.getUint16(7), height: view.getUint16(5), parts: [start, frame, ...others] };
}
