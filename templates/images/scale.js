/**
 * Scales one picture down, in a process of its own without any permission: executed code made the
 * picture, and a malformed one can end the process that decodes it.
 *
 * Reads `{ picture, source, width, height, longest, least, types, limit }` from stdin, where
 * `picture` is base64 of the type `source`, and writes `{ bytes, mimeType, width, height }` to
 * stdout, or `null` if the picture is damaged or cannot be made to fit.
 */
const { picture, source, ...scaling } = await new Response(Deno.stdin.readable).json();
const decoded = new Blob([Uint8Array.fromBase64(picture)], { type: source });
const answer = await scaled(decoded, scaling).catch(() => null);
await new Blob([JSON.stringify(answer)]).stream().pipeTo(Deno.stdout.writable);

async function scaled(picture, { width, height, longest, least, types, limit }) {
  const side = Math.max(width, height);
  for (const _attempt of [1, 2]) {
    const size = {
      width: Math.max(1, Math.round(width * longest / side)),
      height: Math.max(1, Math.round(height * longest / side)),
    };
    const canvas = await draw(picture, size);
    let smallest = Infinity;
    for (const type of types) {
      const blob = await canvas.convertToBlob({ type, quality: 0.85 });
      if (blob.size <= limit) {
        return { bytes: (await blob.bytes()).toBase64(), mimeType: type, ...size };
      }
      smallest = Math.min(smallest, blob.size);
    }
    longest *= Math.sqrt(limit / smallest) * 0.8; // bytes grow with the area; with a margin
    if (longest < least) return null;
  }
  return null;
}

/** Draws the picture at a size. Throws if it is damaged. */
async function draw(picture, { width, height }) {
  const options = { resizeWidth: width, resizeHeight: height, resizeQuality: "medium" };
  const bitmap = await createImageBitmap(picture, options);
  const canvas = new OffscreenCanvas(width, height);
  canvas.getContext("bitmaprenderer").transferFromImageBitmap(bitmap);
  return canvas;
}
