/** The size of a JSON text once it is parsed. */
export interface JsonMeasure {
  /** The number of values and names, or slightly more. */
  readonly values: number;
  /** How many of these are names. */
  readonly names: number;
  /** The nesting depth. */
  readonly depth: number;
  /** The number of backslashes in strings that escape something. */
  readonly escapes: number;
  /** The number of bytes outside of strings. */
  readonly bare: number;
}

/** The limits of a JSON text to parse. */
export interface JsonLimits {
  /** The most values and names. */
  readonly maxValues: number;
  /** The most names, which take longer than other values; by default `maxValues`. */
  readonly maxNames?: number;
  /** The deepest nesting, for later steps that are recursive; 2000 by default. */
  readonly maxDepth?: number;
  /** The most escapes, each of which takes as long as ten other characters; any number by default. */
  readonly maxEscapes?: number;
  /** The most bytes outside of strings, where numbers of many digits are slow; any number by default. */
  readonly maxBare?: number;
}

/** A JSON text would take too much time and memory to parse. */
export class JsonLimitError extends Error {
  override readonly name: string = "JsonLimitError";
}

const MAX_DEPTH = 2000;

/** The meaning of a byte. */
const OTHER = 0, SEPARATOR = 1, OPEN = 2, CLOSE = 3, QUOTE = 4, BACKSLASH = 5, COLON = 6;

const MEANINGS = new Uint8Array(256);
for (const byte of [0x5b, 0x7b]) MEANINGS[byte] = OPEN; // [ {
for (const byte of [0x5d, 0x7d]) MEANINGS[byte] = CLOSE; // ] }
MEANINGS[0x2c] = SEPARATOR;
MEANINGS[0x3a] = COLON;
MEANINGS[0x22] = QUOTE;
MEANINGS[0x5c] = BACKSLASH;

/**
 * Measures JSON before it is parsed, incrementally and in linear time: three bytes such as `[],` become
 * dozens of bytes of memory, and parsing blocks everything else.
 *
 * It must receive exactly the text that is parsed. If that is not valid JSON, the parser stops at the
 * error, and everything before it was measured. Surrounding text, such as other lines of an event
 * stream, could open a string that hides everything.
 */
export class JsonMeter implements JsonMeasure {
  #values = 1;
  #names = 0;
  #depth = 0;
  #escapes = 0;
  #bare = 0;
  #open = 0;
  #inString = false;
  #escaped = false;

  get values(): number {
    return this.#values;
  }

  get names(): number {
    return this.#names;
  }

  get depth(): number {
    return this.#depth;
  }

  get escapes(): number {
    return this.#escapes;
  }

  get bare(): number {
    return this.#bare;
  }

  /** Measures the next bytes. */
  add(bytes: Uint8Array): void {
    let [values, names, open, inString] = [
      this.#values,
      this.#names,
      this.#open,
      this.#inString,
    ];
    let [escapes, bare, from] = [this.#escapes, this.#bare, 0];
    let at = this.#escaped ? 1 : 0;
    for (; at < bytes.length; at++) {
      const meaning = MEANINGS[bytes[at]!];
      if (meaning === OTHER) continue;
      if (inString) {
        if (meaning === BACKSLASH) {
          at++;
          escapes++;
        } else if (meaning === QUOTE) {
          inString = false;
          from = at + 1;
        }
      } else if (meaning === QUOTE) {
        inString = true;
        bare += at - from;
      } else if (meaning === SEPARATOR) values++;
      else if (meaning === COLON) {
        values++;
        names++;
      } else if (meaning === OPEN) {
        values++;
        if (++open > this.#depth) this.#depth = open;
      } else if (meaning === CLOSE) open--;
    }
    this.#escaped = at > bytes.length; // a backslash was the last byte, perhaps before no bytes at all
    if (!inString) bare += bytes.length - from;
    [this.#names, this.#escapes, this.#bare] = [names, escapes, bare];
    [this.#values, this.#open, this.#inString] = [values, open, inString];
  }
}

/** Measures a whole JSON text. */
export function measureJson(json: Uint8Array): JsonMeasure {
  const meter = new JsonMeter();
  meter.add(json);
  return meter;
}

/** Checks a JSON text before it is parsed. */
export function checkJson(json: Uint8Array | JsonMeasure, limits: JsonLimits): void {
  const { maxValues, maxNames = maxValues, maxDepth = MAX_DEPTH } = limits;
  const { maxEscapes = Infinity, maxBare = Infinity } = limits;
  const measure = json instanceof Uint8Array ? measureJson(json) : json;
  const { values, names, depth, escapes, bare } = measure;
  if (values > maxValues) throw new JsonLimitError(`it has more than ${maxValues} values`);
  if (names > maxNames) throw new JsonLimitError(`it has more than ${maxNames} names`);
  if (depth > maxDepth) throw new JsonLimitError(`it nests more than ${maxDepth} levels deep`);
  if (escapes > maxEscapes) throw new JsonLimitError(`it has more than ${maxEscapes} escapes`);
  if (bare > maxBare) throw new JsonLimitError(`it has more than ${maxBare} bytes besides strings`);
}
