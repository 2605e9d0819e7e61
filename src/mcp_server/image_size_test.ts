import { assert, assertEquals } from "@std/assert";
import fc from "../../tests/support/fast_check.ts";
import { joinBytes } from "../base/bytes.ts";
import { imageSize, inlineImage, pixelsOf } from "./images.ts";
import { Stalls } from "../../tests/support/stalls.ts";

/** Draws an empty picture. */
async function picture(width: number, height: number, type: string) {
  const canvas = new OffscreenCanvas(width, height);
  canvas.getContext("bitmaprenderer");
  const blob = await canvas.convertToBlob({ type });
  return new Uint8Array(await blob.arrayBuffer());
}

for (const type of ["image/png", "image/jpeg"]) {
  Deno.test(`imageSize() reads the size of an ${type}`, async () => {
    const size = { width: 300, height: 20 };
    assertEquals(imageSize(await picture(300, 20, type)), size);
  });

  Deno.test(`inlineImage() leaves a small ${type} as it is and scales a large one`, async () => {
    const small = await picture(300, 20, type);
    assertEquals(await inlineImage(small, 1e6), {
      bytes: small,
      mimeType: type === "image/png" ? "image/png" : "image/jpeg",
      width: 300,
      height: 20,
    });
    const scaled = await inlineImage(await picture(4000, 1, type), 1e6);
    assertEquals([scaled?.width, scaled?.height], [1568, 1]);
    assertEquals(imageSize(scaled?.bytes ?? new Uint8Array()), { width: 1568, height: 1 });
  });
}

Deno.test("inlineImage() decodes no picture that would fill the memory", async () => {
  const bytes = await picture(10, 10, "image/png");
  new DataView(bytes.buffer).setUint32(16, 100_000);
  new DataView(bytes.buffer).setUint32(20, 100_000);
  assertEquals(await inlineImage(bytes, 1e6), undefined);
});

Deno.test("pixelsOf() leaves out of a PNG what is not its pixels", async () => {
  const bytes = await picture(300, 20, "image/png");
  const header = bytes.subarray(0, 33);
  const profile = chunk("iCCP", new Uint8Array(1000));
  const text = chunk("zTXt", new Uint8Array(1000));
  const larger = new Uint8Array([...header.subarray(8)]);
  const hostile = joinBytes(header, profile, larger, text, bytes.subarray(33));
  assertEquals(pixelsOf(hostile), pixelsOf(bytes));
  const pixels = pixelsOf(hostile) ?? new Uint8Array();
  assertEquals(imageSize(pixels), { width: 300, height: 20 });
  assertEquals(pixelsOf(bytes.subarray(0, 40)), header); // a chunk that is not whole
  assertEquals((await inlineImage(hostile, 1e6))?.bytes, pixelsOf(bytes));
  await createImageBitmap(new Blob([pixels], { type: "image/png" }));
});

Deno.test("pixelsOf() gives a decoder a JPEG with the size that was read, or none", async () => {
  const bytes = await picture(2000, 10, "image/jpeg");
  const view = new DataView(bytes.buffer);
  let at = 2;
  while ((bytes[at + 1] ?? 0) >> 4 !== 0xc || bytes[at + 1] === 0xc4) {
    at += 2 + view.getUint16(at + 2);
  }
  const end = at + 2 + view.getUint16(at + 2);
  const huge = bytes.slice(at, end);
  new DataView(huge.buffer).setUint16(5, 14_000);
  const [before, frame, after] = [
    bytes.subarray(0, at),
    bytes.subarray(at, end),
    bytes.subarray(end),
  ];

  const bitmap = await createImageBitmap(new Blob([pixelsOf(bytes) ?? ""], { type: "image/jpeg" }));
  assertEquals([bitmap.width, bitmap.height], [2000, 10]);
  // To some decoders, what follows FF 00 is a marker; to others, the length of a segment.
  const stuffed = joinBytes(before, new Uint8Array([0xff, 0]), huge, frame, after);
  const twice = joinBytes(before, frame, huge, after);
  const late = joinBytes(before, after.subarray(0, -2), frame, after.subarray(-2));
  for (const hostile of [stuffed, twice, late]) {
    assertEquals([imageSize(hostile), pixelsOf(hostile)], [undefined, undefined]);
  }
  // The decoder takes the length of a table from what is in it.
  const table = new Uint8Array([0xff, 0xc4, 0, 2 + huge.length, ...huge]);
  const hidden = new Blob([pixelsOf(joinBytes(before, table, frame, after)) ?? ""]);
  const shown = await createImageBitmap(hidden).catch(() => undefined);
  assertEquals(shown === undefined || shown.height === 10, true);
});

Deno.test("pixelsOf() takes no PNG of countless chunks, which would hold up other sessions", async () => {
  const bytes = await picture(300, 20, "image/png");
  const empty = joinBytes(...Array(20_000).fill(chunk("IDAT", new Uint8Array())));
  assertEquals(pixelsOf(joinBytes(bytes.subarray(0, 33), empty, bytes.subarray(33))), undefined);
});

Deno.test("inlineImage() takes no PNG whose header a decoder would read otherwise", async () => {
  const bytes = await picture(300, 20, "image/png");
  const size = bytes.subarray(16, 29);
  const signature = bytes.subarray(0, 8);
  const rest = bytes.subarray(33);
  // What follows 13 bytes looks like a chunk that holds the rest of the file.
  const claim = joinBytes(
    new Uint8Array([0, 0, 0, 0, 0, 0, 2, 0]),
    new TextEncoder().encode("IDAT"),
  );
  const long = joinBytes(signature, chunk("IHDR", joinBytes(size, claim)), rest);
  const other = joinBytes(signature, chunk("iCCP", size), chunk("IHDR", size), rest);
  for (const hostile of [long, other]) assertEquals(await inlineImage(hostile, 1e6), undefined);
});

function chunk(kind: string, data: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  const length = new Uint8Array(4);
  new DataView(length.buffer).setUint32(0, data.length);
  return joinBytes(length, new TextEncoder().encode(kind), data, new Uint8Array(4));
}

Deno.test("inlineImage() leaves out what is damaged or does not fit", async () => {
  const bytes = await picture(600, 600, "image/png");
  assertEquals(await inlineImage(bytes.subarray(0, 40), 10), undefined);
  assertEquals(await inlineImage(bytes, 10), undefined);
});

Deno.test("a picture that ends its decoder does not end this process, as it would in a worker", async () => {
  const bytes = await noisy(2000, 16);
  assertEquals((await inlineImage(bytes, 1e6))?.width, 1568);
  let at = 2;
  const view = new DataView(bytes.buffer);
  while (view.getUint8(at + 1) !== 0xc0) at += 2 + view.getUint16(at + 2);
  // Four colours, of which the second has twice the height and width of the first.
  const colours = [1, 0x11, 0, 2, 0x22, 0, 3, 0x11, 0, 4, 0x11, 0];
  const frame = new Uint8Array([
    ...[0xff, 0xc0, 0, 8 + colours.length, 8],
    ...[...bytes.subarray(at + 5, at + 9), 4, ...colours],
  ]);
  const tables = bytes.subarray(at + 2 + view.getUint16(at + 2));
  let scan = 0;
  const parts = new DataView(tables.buffer, tables.byteOffset);
  while (parts.getUint8(scan + 1) !== 0xda) scan += 2 + parts.getUint16(scan + 2);
  const order = [4, 1, 0, 2, 0, 3, 0, 4, 0, 0, 63, 0];
  const start = new Uint8Array([0xff, 0xda, 0, 2 + order.length, ...order]);
  const data = tables.subarray(scan + 2 + parts.getUint16(scan + 2));
  const hostile = joinBytes(
    bytes.subarray(0, at),
    frame,
    tables.subarray(0, scan),
    start,
    data,
    data,
    data,
    data,
  );

  assertEquals(imageSize(hostile), { width: 2000, height: 16 });
  assertEquals(await inlineImage(hostile, 1e6), undefined);
});

Deno.test("pixelsOf() leaves out of a JPEG what is not its pixels, such as a colour profile", async () => {
  const bytes = await picture(300, 20, "image/jpeg");
  const profile = new Uint8Array([0xff, 0xe2, 0, 6, 1, 2, 3, 4]);
  const hostile = joinBytes(bytes.subarray(0, 2), profile, bytes.subarray(2));
  assertEquals(pixelsOf(hostile), pixelsOf(bytes));
});

Deno.test("imageSize() parses no JPEG of more segments than an encoder writes", () => {
  const comment = new Uint8Array([0xff, 0xfe, 0, 2]);
  const frame = new Uint8Array([0xff, 0xc0, 0, 8, 8, 0, 20, 1, 44, 0]);
  const scan = new Uint8Array([0xff, 0xda, 0, 2]);
  const withComments = (count: number) =>
    joinBytes(new Uint8Array([0xff, 0xd8]), ...Array(count).fill(comment), frame, scan);
  assertEquals(imageSize(withComments(100)), { width: 300, height: 20 });
  assertEquals(imageSize(withComments(20_000)), undefined);
});

/** A JPEG whose pixels differ. */
async function noisy(width: number, height: number): Promise<Uint8Array<ArrayBuffer>> {
  const pixels = new Uint8ClampedArray(width * height * 4).map((_, at) =>
    at % 4 === 3 ? 255 : at * 7919
  );
  const bitmap = await createImageBitmap(new ImageData(pixels, width, height));
  const canvas = new OffscreenCanvas(width, height);
  canvas.getContext("bitmaprenderer")?.transferFromImageBitmap(bitmap);
  return await (await canvas.convertToBlob({ type: "image/jpeg" })).bytes();
}

Deno.test("imageSize() reads any bytes", () => {
  const start = fc.constantFrom([], [0xff, 0xd8], [0xff, 0xd8, 0xff, 0xc0]);
  fc.assert(fc.property(start, fc.uint8Array({ maxLength: 200 }), (start, rest) => {
    imageSize(new Uint8Array([...start, ...rest]));
  }));
});

Deno.test("inlineImage() scales a large picture while this thread does something else", async () => {
  const bytes = await picture(4000, 4000, "image/png");
  using stalls = new Stalls();
  const scaled = await inlineImage(bytes, 1e6);
  assertEquals(scaled?.width, 1568);
  assert(stalls.longestMs < 500, `${stalls.longestMs} ms`);
});
