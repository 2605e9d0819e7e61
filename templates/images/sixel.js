/**
 * Draws one PNG in sixels, in a process of its own like `scale.js`.
 *
 * Reads `{ picture, width, height }` from stdin, where `picture` is base64 and the size is the drawing's,
 * and writes `{ sixels }` to stdout, or fails if the picture is damaged.
 *
 * @see {@link https://vt100.net/docs/vt3xx-gp/chapter14.html}
 */
/** The most colours that terminals keep. */
const COLOURS = 256;
const CHANNELS = ["red", "green", "blue"];

const { picture, ...size } = await new Response(Deno.stdin.readable).json();
const sixels = sixelsOf(await pixelsOf(new Blob([Uint8Array.fromBase64(picture)]), size), size);
await new Blob([JSON.stringify({ sixels })]).stream().pipeTo(Deno.stdout.writable);

/** The scaled picture's colours on white, row by row, each as a number of 15 bits. */
async function pixelsOf(picture, { width, height }) {
  const options = { resizeWidth: width, resizeHeight: height, resizeQuality: "medium" };
  const canvas = new OffscreenCanvas(width, height);
  canvas.getContext("bitmaprenderer").transferFromImageBitmap(
    await createImageBitmap(picture, options),
  );
  const { depth, channels, lines } = await decoded(await canvas.convertToBlob());
  const step = depth / 8 * channels;
  const stride = step * width;
  const pixels = new Uint16Array(width * height);
  let above = new Uint8Array(stride);
  for (let y = 0; y < height; y++) {
    const at = y * (stride + 1);
    const line = lines.subarray(at + 1, at + 1 + stride);
    unfilter(lines[at], line, above, step);
    above = line;
    for (let x = 0; x < width; x++) {
      const sample = (channel) => line[x * step + channel * depth / 8];
      const alpha = channels % 2 === 0 ? sample(channels - 1) / 255 : 1;
      const [red, green, blue] = (channels < 3 ? [0, 0, 0] : [0, 1, 2])
        .map((channel) => Math.round(255 + (sample(channel) - 255) * alpha) >> 3);
      pixels[y * width + x] = red << 10 | green << 5 | blue;
    }
  }
  return pixels;
}

/** Decodes a PNG as written by the encoder of canvases: no palette, nothing interlaced. */
async function decoded(png) {
  const bytes = await png.bytes();
  const view = new DataView(bytes.buffer);
  const parts = [];
  for (let at = 8; at < bytes.length; at += 12 + view.getUint32(at)) {
    const isData = String.fromCharCode(...bytes.subarray(at + 4, at + 8)) === "IDAT";
    if (isData) parts.push(bytes.subarray(at + 8, at + 8 + view.getUint32(at)));
  }
  const inflated = new Blob(parts).stream().pipeThrough(new DecompressionStream("deflate"));
  const channels = { 0: 1, 2: 3, 4: 2, 6: 4 }[bytes[25]];
  return { depth: bytes[24], channels, lines: await new Response(inflated).bytes() };
}

/** Undoes a filter of PNG in place. */
function unfilter(kind, line, above, step) {
  for (let i = 0; i < line.length; i++) {
    const [left, up] = [i < step ? 0 : line[i - step], above[i]];
    if (kind === 1) line[i] += left;
    else if (kind === 2) line[i] += up;
    else if (kind === 3) line[i] += (left + up) >> 1;
    else if (kind === 4) line[i] += nearest(left, up, i < step ? 0 : above[i - step]);
  }
}

/** Paeth's predictor. */
function nearest(left, up, corner) {
  const [a, b, c] = [left, up, corner].map((value) => Math.abs(left + up - corner - value));
  return a <= b && a <= c ? left : b <= c ? up : corner;
}

function sixelsOf(pixels, { width, height }) {
  const counts = new Map();
  for (const colour of pixels) counts.set(colour, (counts.get(colour) ?? 0) + 1);
  const groups = grouped(
    [...counts].map(([colour, count]) => ({ colour, count, ...parts(colour) })),
  );
  const numbers = new Map();
  for (const [number, group] of groups.entries()) {
    for (const { colour } of group) numbers.set(colour, number);
  }
  const drawn = [`"1;1;${width};${height}`];
  for (const [number, group] of groups.entries()) {
    const total = group.reduce((sum, { count }) => sum + count, 0);
    const mean = CHANNELS.map((channel) =>
      group.reduce((sum, one) => sum + one[channel] * one.count, 0) / total
    );
    drawn.push(`#${number};2;${mean.map((part) => Math.round(part / 0.31)).join(";")}`);
  }
  for (let top = 0; top < height; top += 6) {
    const rows = new Map(); // of six pixels by their colours
    for (let y = top; y < Math.min(height, top + 6); y++) {
      for (let x = 0; x < width; x++) {
        const number = numbers.get(pixels[y * width + x]);
        let row = rows.get(number);
        if (row === undefined) rows.set(number, row = new Uint8Array(width));
        row[x] |= 1 << (y - top);
      }
    }
    for (const [number, row] of rows) drawn.push(`#${number}${shortened(row)}$`);
    drawn.push("-");
  }
  return drawn.join("");
}

function parts(colour) {
  return { red: colour >> 10, green: colour >> 5 & 31, blue: colour & 31 };
}

/** Groups similar colours, no more than terminals keep: halves the widest group repeatedly. */
function grouped(colours) {
  const groups = [colours];
  while (groups.length < COLOURS) {
    let [widest, at, by] = [0, 0, ""];
    for (const [index, group] of groups.entries()) {
      for (const channel of CHANNELS) {
        const values = group.map((one) => one[channel]);
        const width = Math.max(...values) - Math.min(...values);
        if (width > widest) [widest, at, by] = [width, index, channel];
      }
    }
    if (widest === 0) break;
    const group = groups[at].sort((one, other) => one[by] - other[by]);
    groups[at] = group.splice(0, middleOf(group, by));
    groups.push(group);
  }
  return groups;
}

/** The index at which to halve a sorted group: colours of one value stay together. */
function middleOf(group, channel) {
  const middle = group[group.length >> 1][channel];
  const first = group.findIndex((one) => one[channel] === middle);
  return first > 0 ? first : group.findIndex((one) => one[channel] > middle);
}

/** Writes a row, six pixels to a character, and longer runs as a length and the character. */
function shortened(row) {
  let text = "";
  for (let at = 0, end = 0; at < row.length; at = end) {
    while (end < row.length && row[end] === row[at]) end++;
    const character = String.fromCharCode(63 + row[at]);
    text += end - at > 3 ? `!${end - at}${character}` : character.repeat(end - at);
  }
  return text;
}
