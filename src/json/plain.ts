/** A JSON value with numbers of a type. */
type JsonOf<N> =
  | null
  | boolean
  | N
  | string
  | readonly JsonOf<N>[]
  | { readonly [name: string]: JsonOf<N> };

/** A JSON value whose numbers are doubles. */
type ParsedJson = JsonOf<number>;

/**
 * Parses JSON whose numbers need not keep their spelling.
 *
 * V8 can mistake a name with an escape for the name that any earlier text, even of another session, had in
 * its place: after `{"a":1,"\\":2}`, the name in `{"a":1,"\u00e9":2}` is a backslash. Python escapes all
 * letters beyond ASCII. Therefore, such texts are read again, name by name.
 *
 * @see {@link https://issues.chromium.org/issues/521080746}
 */
export function parseJson(text: string): ParsedJson {
  const value = JSON.parse(text);
  return ESCAPED_NAME.test(text) ? readJson(text, Number) : value;
}

/** Parses JSON whose numbers need not keep their spelling; `undefined` for any other text. */
export function parsedJson(text: string): ParsedJson | undefined {
  try {
    return parseJson(text);
  } catch {
    return undefined;
  }
}

/** Matches every JSON text with an escape in a name. */
const ESCAPED_NAME = /\\.[^"\\]*"[ \t\n\r]*:/;
const END_OF_SCALAR = /[\s,\]}]|$/g;

/** A list or an object while it is read. An object has as many names as values, or one more. */
interface Open<N> {
  readonly names: string[] | undefined;
  readonly values: JsonOf<N>[];
}

/** Reads JSON text. The caller converts each number. */
export function readJson<N>(text: string, toNumber: (source: string) => N): JsonOf<N> {
  const whole: Open<N> = { names: undefined, values: [] };
  const open = [whole];
  for (let at = 0; at < text.length; at++) {
    const { names, values } = open.at(-1) ?? whole;
    switch (text[at]) {
      case "{":
        open.push({ names: [], values: [] });
        break;
      case "[":
        open.push({ names: undefined, values: [] });
        break;
      case "}":
      case "]": {
        open.pop();
        const pairs = names?.map((name, at) => [name, values[at] ?? null] as const);
        open.at(-1)?.values.push(pairs === undefined ? values : Object.fromEntries(pairs));
        break;
      }
      case '"': {
        const start = at;
        at = endOfString(text, start);
        const inner = text.slice(start + 1, at);
        const string: string = inner.includes("\\") ? JSON.parse(`"${inner}"`) : inner;
        if (names?.length === values.length) names.push(string);
        else values.push(string);
        break;
      }
      case ",":
      case ":":
      case " ":
      case "\t":
      case "\n":
      case "\r":
        break;
      default: {
        END_OF_SCALAR.lastIndex = at;
        const end = END_OF_SCALAR.exec(text)?.index ?? text.length;
        const scalar = text.slice(at, end);
        values.push(/^[a-z]/.test(scalar) ? JSON.parse(scalar) : toNumber(scalar));
        at = end - 1;
      }
    }
  }
  return whole.values[0] ?? null;
}

/** The position of the quote that ends a string. */
export function endOfString(text: string, start: number): number {
  let at = start + 1;
  for (; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) break;
    if (code === BACKSLASH) at++;
  }
  return at;
}

const QUOTE = 34;
const BACKSLASH = 92;

/** Removes properties without a value, which validators reject and which would make equal objects differ. */
export function defined<T extends object>(value: T): T {
  for (const [name, inner] of Object.entries(value)) {
    if (inner === undefined) Reflect.deleteProperty(value, name);
  }
  return value;
}
