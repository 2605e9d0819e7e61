import { asset } from "../assets/mod.ts";
import { Mutex } from "../async/mutex.ts";
import { type ImageSize, imageSize } from "./image_size.ts";

/** A picture as it is sent to the client. */
export interface InlineImage {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly mimeType: "image/png" | "image/jpeg";
  readonly width: number;
  readonly height: number;
}

/** The longest side that is sent: models see no more than this. */
const MAX_SIDE = 1568;
/** The most bytes of one picture. */
const MAX_BYTES = 2 ** 20;
/** The most pixels that are decoded, which takes four bytes of memory for each. */
const MAX_PIXELS = 16e6;
/** The least that a picture is scaled down to, before it is left out. */
const MIN_SIDE = 200;

/**
 * Makes a picture fit for a client: one that is large is scaled down, and becomes a JPEG where a PNG
 * would still be too large.
 */
export async function inlineImage(
  bytes: Uint8Array<ArrayBuffer>,
  room: number,
): Promise<InlineImage | undefined> {
  const size = imageSize(bytes);
  if (size === undefined || size.width * size.height > MAX_PIXELS) return undefined;
  const limit = Math.min(room, MAX_BYTES);
  const mimeType = bytes[0] === 0xff ? "image/jpeg" : "image/png";
  const side = Math.max(size.width, size.height);
  if (bytes.length <= limit && side <= MAX_SIDE) return { bytes, mimeType, ...size };
  return await scaledDown(new Blob([bytes], { type: mimeType }), {
    ...size,
    longest: Math.min(side, MAX_SIDE),
    least: MIN_SIDE,
    types: mimeType === "image/png" ? BOTH_TYPES : ["image/jpeg"],
    limit,
  });
}

/** What the worker needs besides the picture. */
interface Scaling extends ImageSize {
  /** The longest side at first. */
  readonly longest: number;
  /** The shortest that the longest side may get. */
  readonly least: number;
  readonly types: readonly InlineImage["mimeType"][];
  /** The most bytes. */
  readonly limit: number;
}

const BOTH_TYPES = ["image/png", "image/jpeg"] as const;

/** One picture is decoded at a time: executed code can make many, and each takes much memory. */
const turns = new Mutex();
/** How long a picture may take. */
const TIMEOUT_MS = 30_000;

/** Has a worker scale a picture: this process has other sessions to answer. */
async function scaledDown(picture: Blob, scaling: Scaling): Promise<InlineImage | undefined> {
  using _turn = await turns.acquire();
  // Its module comes with this one, also where all is one file.
  const code = `data:text/javascript,${encodeURIComponent(asset("images/scale.js"))}`;
  const worker = new Worker(code, { type: "module" });
  const { promise, resolve } = Promise.withResolvers<InlineImage | undefined>();
  const timer = setTimeout(() => resolve(undefined), TIMEOUT_MS);
  worker.onmessage = ({ data }: MessageEvent<InlineImage | null>) => resolve(data ?? undefined);
  worker.onerror = (event) => {
    event.preventDefault(); // executed code made the picture: it is one that cannot be shown
    resolve(undefined);
  };
  worker.postMessage({ picture, ...scaling });
  try {
    return await promise;
  } finally {
    clearTimeout(timer);
    worker.terminate();
  }
}
