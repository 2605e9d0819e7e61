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
/** The most pixels that are decoded: this process stands still for half a second meanwhile. */
const MAX_PIXELS = 16e6;
/** The least that a picture is scaled down to, before it is left out. */
const MIN_SIDE = 200;

/**
 * Makes a picture fit for a client: one that is large is scaled down, and becomes a JPEG where a PNG
 * would still be too large.
 *
 * @param bytes A PNG or a JPEG that executed code has made.
 * @param room The most bytes that there is room for.
 * @returns The picture, or `undefined` where it cannot be made to fit or is none.
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
  const picture = new Blob([bytes], { type: mimeType });
  let longest = Math.min(side, MAX_SIDE);
  for (const _attempt of [1, 2]) {
    const scaled = scaledTo(size, longest / side);
    const canvas = await draw(picture, scaled);
    if (canvas === undefined) return undefined;
    let least = Infinity;
    for (const type of mimeType === "image/png" ? BOTH_TYPES : ["image/jpeg"] as const) {
      const blob = await canvas.convertToBlob({ type, quality: 0.85 });
      if (blob.size <= limit) {
        return { bytes: new Uint8Array(await blob.arrayBuffer()), mimeType: type, ...scaled };
      }
      least = Math.min(least, blob.size);
    }
    longest *= Math.sqrt(limit / least) * 0.8; // as bytes go by area; some more to be sure
    if (longest < MIN_SIDE) return undefined;
  }
  return undefined;
}

const BOTH_TYPES = ["image/png", "image/jpeg"] as const;

function scaledTo({ width, height }: ImageSize, scale: number): ImageSize {
  return {
    width: Math.max(1, Math.round(width * scale)),
    height: Math.max(1, Math.round(height * scale)),
  };
}

/** Draws a picture in a size; `undefined` where it is damaged. */
async function draw(
  picture: Blob,
  { width, height }: ImageSize,
): Promise<OffscreenCanvas | undefined> {
  const options = { resizeWidth: width, resizeHeight: height, resizeQuality: "medium" } as const;
  // Executed code made it: whatever the decoder says, it is a picture that cannot be shown.
  const bitmap = await createImageBitmap(picture, options).catch(() => undefined);
  if (bitmap === undefined) return undefined;
  const canvas = new OffscreenCanvas(width, height);
  canvas.getContext("bitmaprenderer")?.transferFromImageBitmap(bitmap);
  return canvas;
}
