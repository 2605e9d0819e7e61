/**
 * JSON in files that people write, with the position of each value for errors.
 *
 * @module
 */
import { ConfigError } from "../base/errors.ts";

/** A position in a text, counted from 1. */
interface Place {
  readonly line: number;
  readonly column: number;
}

/** Parsed JSON and the positions of its values. */
interface JsonDocument {
  readonly value: unknown;
  /** The position of the value at a JSON pointer, or of the nearest value around it. */
  placeOf(pointer: string): Place;
}

/** A text is not the expected JSON. */
export class JsonPlaceError extends SyntaxError {
  override readonly name: string = "JsonPlaceError";

  constructor(message: string, readonly place: Place) {
    super(message);
  }
}

/** Options of {@linkcode parseDocument}. */
interface ParseDocumentOptions {
  /** Allows comments and trailing commas. Only for files that ipybox never writes. */
  readonly comments?: boolean;
}

/** Parses JSON strictly: duplicate names in an object are errors, too. */
export function parseDocument(text: string, options: ParseDocumentOptions = {}): JsonDocument {
  const scanner = new Scanner(text, options.comments ?? false);
  scanner.document();
  const value: unknown = JSON.parse(scanner.plainText());
  return {
    value,
    placeOf: (pointer) => {
      for (let at = pointer;; at = at.slice(0, at.lastIndexOf("/"))) {
        const offset = scanner.offsets.get(at);
        if (offset !== undefined) return placeAt(text, offset);
        if (at === "") return placeAt(text, 0);
      }
    },
  };
}

/** Parses the text of a file; a `ConfigError` names the file, the line and the column. */
export function parseFile(
  path: string,
  text: string,
  options: ParseDocumentOptions = {},
): JsonDocument {
  try {
    return parseDocument(text, options);
  } catch (cause) {
    if (!(cause instanceof JsonPlaceError)) throw cause;
    const { message, place: { line, column } } = cause;
    throw new ConfigError(`Invalid JSON in ${path}:${line}:${column}: ${message}`, { cause });
  }
}

/** A JSON pointer for a path of names and indices. */
export function pointerOf(path: readonly PropertyKey[]): string {
  return path.map((key) => `/${String(key).replaceAll("~", "~0").replaceAll("/", "~1")}`).join("");
}

/** The names in a JSON pointer. */
export function namesIn(pointer: string): string[] {
  return pointer.split("/").slice(1)
    .map((token) => token.replaceAll("~1", "/").replaceAll("~0", "~"));
}

function placeAt(text: string, offset: number): Place {
  const before = text.slice(0, offset).split("\n");
  return { line: before.length, column: (before.at(-1)?.length ?? 0) + 1 };
}

// deno-lint-ignore no-control-regex -- JSON forbids them in strings
const STRING = /"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
const LITERAL = /true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const SPACE = /[ \t\n\r]*/y;
const COMMENT = /\/\/[^\n\r]*|\/\*[^]*?\*\//y;
/** The deepest nesting, far beyond that of files that people write. */
const MAX_DEPTH = 100;

/** Scans JSON for the positions of values. `JSON.parse()` does not report where it fails. */
class Scanner {
  readonly offsets = new Map<string, number>();
  readonly #text: string;
  readonly #comments: boolean;
  /** The parts that are not JSON but were accepted. */
  readonly #extras: [start: number, end: number][] = [];
  #at = 0;
  /** The last comma. */
  #comma = 0;

  constructor(text: string, comments: boolean) {
    this.#text = text;
    this.#comments = comments;
  }

  /** The text with blanks instead of the parts that are not JSON. */
  plainText(): string {
    let [plain, at] = ["", 0];
    for (const [start, end] of this.#extras.sort(([a], [b]) => a - b)) {
      plain += this.#text.slice(at, start) + " ".repeat(end - start);
      at = end;
    }
    return plain + this.#text.slice(at);
  }

  document(): void {
    if (this.#take("\ufeff")) this.#extras.push([0, 1]); // Windows' editors write it
    this.#value("", 0);
    this.#skip();
    if (this.#at < this.#text.length) this.#fail("Expected the end of the document");
  }

  #value(pointer: string, depth: number): void {
    if (depth > MAX_DEPTH) this.#fail("Too deeply nested");
    this.#skip();
    this.offsets.set(pointer, this.#at);
    if (this.#take("{")) this.#members(pointer, depth + 1);
    else if (this.#take("[")) this.#items(pointer, depth + 1);
    else if ((this.#read(STRING) ?? this.#read(LITERAL)) === undefined) {
      this.#fail("Expected a value");
    }
  }

  #members(pointer: string, depth: number): void {
    if (this.#take("}")) return;
    do {
      this.#skip();
      if (this.#isLast("}")) return;
      const start = this.#at;
      const name = this.#read(STRING) ?? this.#fail("Expected a name in double quotes");
      const inner = pointer + pointerOf([String(JSON.parse(name))]);
      if (this.offsets.has(inner)) this.#fail("Duplicate name", start);
      if (!this.#take(":")) this.#fail("Expected a colon");
      this.#value(inner, depth);
      this.offsets.set(inner, start); // people look for the name
    } while (this.#take(","));
    if (!this.#take("}")) this.#fail("Expected a comma or }");
  }

  #items(pointer: string, depth: number): void {
    if (this.#take("]")) return;
    let index = 0;
    do {
      this.#skip();
      if (this.#isLast("]")) return;
      this.#value(`${pointer}/${index++}`, depth);
    } while (this.#take(","));
    if (!this.#take("]")) this.#fail("Expected a comma or ]");
  }

  /** Whether a list ends after a trailing comma that is allowed. */
  #isLast(closing: string): boolean {
    if (!this.#comments || !this.#take(closing)) return false;
    this.#extras.push([this.#comma, this.#comma + 1]);
    return true;
  }

  /** Skips blanks, and comments if they are allowed. */
  #skip(): void {
    for (;;) {
      this.#read(SPACE);
      const start = this.#at;
      if (!this.#comments || this.#read(COMMENT) === undefined) return;
      this.#extras.push([start, this.#at]);
    }
  }

  #take(character: string): boolean {
    this.#skip();
    if (this.#text.charAt(this.#at) !== character) return false;
    if (character === ",") this.#comma = this.#at;
    this.#at++;
    return true;
  }

  #read(token: RegExp): string | undefined {
    token.lastIndex = this.#at;
    const found = token.exec(this.#text)?.[0];
    this.#at += found?.length ?? 0;
    return found;
  }

  #fail(message: string, at = this.#at): never {
    throw new JsonPlaceError(message, placeAt(this.#text, at));
  }
}
