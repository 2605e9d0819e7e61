/** The size of a JSON text once it is parsed. */
interface JsonMeasure {
  /** The number of values and names, or slightly more. */
  readonly values: number;
  /** The nesting depth. */
  readonly depth: number;
}

/** A JSON text would take too much time and memory to parse. */
export class JsonLimitError extends Error {
  override readonly name: string = "JsonLimitError";
}

/** The deepest nesting: later steps are recursive, also in the kernel, where Python goes 1000 levels deep. */
const MAX_DEPTH = 500;

/** The meaning of a byte. */
const OTHER = 0, SEPARATOR = 1, OPEN = 2, CLOSE = 3, QUOTE = 4, BACKSLASH = 5;

const MEANINGS = new Uint8Array(256);
for (const byte of [0x5b, 0x7b]) MEANINGS[byte] = OPEN; // [ {
for (const byte of [0x5d, 0x7d]) MEANINGS[byte] = CLOSE; // ] }
for (const byte of [0x2c, 0x3a]) MEANINGS[byte] = SEPARATOR; // , :
MEANINGS[0x22] = QUOTE;
MEANINGS[0x5c] = BACKSLASH;

/**
 * Measures JSON before it is parsed, in linear time: three bytes such as `[],` become dozens of bytes of
 * memory, and parsing blocks everything else.
 *
 * It must receive exactly the text that is parsed. If that is not valid JSON, the parser stops at the
 * error, and everything before it was measured.
 */
export function measureJson(json: Uint8Array): JsonMeasure {
  let [values, depth, open, inString] = [1, 0, 0, false];
  for (let at = 0; at < json.length; at++) {
    const meaning = MEANINGS[json[at]!];
    if (meaning === OTHER) continue;
    if (inString) {
      if (meaning === BACKSLASH) at++;
      else if (meaning === QUOTE) inString = false;
    } else if (meaning === QUOTE) inString = true;
    else if (meaning === SEPARATOR) values++;
    else if (meaning === OPEN) {
      values++;
      if (++open > depth) depth = open;
    } else if (meaning === CLOSE) open--;
  }
  return { values, depth };
}

/** Checks a JSON text before it is parsed: the number of its values and names, and its depth. */
export function checkJson(json: Uint8Array, maxValues: number): void {
  const { values, depth } = measureJson(json);
  if (values > maxValues) throw new JsonLimitError(`it has more than ${maxValues} values`);
  if (depth > MAX_DEPTH) throw new JsonLimitError(`it nests more than ${MAX_DEPTH} levels deep`);
}
