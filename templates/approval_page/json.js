/**
 * JSON as it is written: numbers keep their spelling, and errors say where they are.
 *
 * @module
 */
import { escapeHidden } from "./visible.js";

/** A place where a text is not JSON. */
export class JsonError extends Error {
  constructor(text, at, message) {
    const before = text.slice(0, at).split("\n");
    super(`Line ${before.length}, column ${before.at(-1).length + 1}: ${message}`);
  }
}

/** How deep arguments may nest; the tool server says the same. */
const MAX_DEPTH = 200;

/**
 * Parses a text.
 *
 * @param text The text.
 * @returns A node: `{ kind, entries | items | value | raw }`.
 * @throws {JsonError} It is not JSON, or names a key of an object twice.
 */
export function parseJson(text) {
  const reader = new Reader(text);
  const node = reader.value(0);
  reader.end();
  return node;
}

/**
 * Writes a node for people to edit: one entry a line, and nothing invisible.
 *
 * @param node The node.
 * @param indent What stands before each line.
 * @returns The JSON text.
 */
export function formatJson(node, indent = "") {
  const inner = `${indent}  `;
  switch (node.kind) {
    case "object":
      return block(
        "{",
        "}",
        node.entries.map(([key, value]) => `${quoted(key)}: ${formatJson(value, inner)}`),
        indent,
      );
    case "array":
      return block("[", "]", node.items.map((item) => formatJson(item, inner)), indent);
    case "string":
      return quoted(node.value);
    case "raw":
      return node.raw;
  }
}

function block(open, close, lines, indent) {
  if (lines.length === 0) return open + close;
  return `${open}\n${lines.map((line) => `${indent}  ${line}`).join(",\n")}\n${indent}${close}`;
}

function quoted(text) {
  return escapeHidden(JSON.stringify(text));
}

class Reader {
  #text;
  #at = 0;

  constructor(text) {
    this.#text = text;
  }

  value(depth) {
    if (depth > MAX_DEPTH) this.#fail(`nests deeper than ${MAX_DEPTH}`);
    const next = this.#peek();
    if (next === "{") return this.#object(depth);
    if (next === "[") return this.#array(depth);
    if (next === '"') return { kind: "string", value: this.#string() };
    return this.#raw();
  }

  end() {
    if (this.#peek() !== "") this.#fail("expected the end");
  }

  #object(depth) {
    const entries = [];
    const keys = new Set();
    this.#at++;
    if (this.#peek() === "}") return this.#close({ kind: "object", entries });
    for (;;) {
      if (this.#peek() !== '"') this.#fail("expected a name in double quotes");
      const start = this.#at;
      const key = this.#string();
      if (keys.has(key)) this.#fail(`${quoted(key)} appears twice`, start);
      keys.add(key);
      if (this.#peek() !== ":") this.#fail("expected a colon");
      this.#at++;
      entries.push([key, this.value(depth + 1)]);
      if (this.#peek() === "}") return this.#close({ kind: "object", entries });
      this.#comma("}");
    }
  }

  #array(depth) {
    const items = [];
    this.#at++;
    if (this.#peek() === "]") return this.#close({ kind: "array", items });
    for (;;) {
      items.push(this.value(depth + 1));
      if (this.#peek() === "]") return this.#close({ kind: "array", items });
      this.#comma("]");
    }
  }

  #close(node) {
    this.#at++;
    return node;
  }

  #comma(close) {
    if (this.#peek() !== ",") this.#fail(`expected a comma or ${close}`);
    this.#at++;
  }

  #string() {
    const start = this.#at;
    for (let at = start + 1;;) {
      // By searching, not by one pattern for the whole: strings may be millions of characters long.
      const found = this.#find(/["\\]/g, at);
      if (found === -1) this.#fail("this string has no end", start);
      if (this.#text[found] === "\\") at = found + 2;
      else {
        this.#at = found + 1;
        break;
      }
    }
    try {
      return JSON.parse(this.#text.slice(start, this.#at));
    } catch {
      this.#fail("this string contains a line break or an unknown escape", start);
    }
  }

  #raw() {
    const pattern = /true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
    pattern.lastIndex = this.#at;
    const [raw] = pattern.exec(this.#text) ?? this.#fail("expected a value");
    if (/^-?\d/.test(raw) && !Number.isFinite(Number(raw))) this.#fail("this number is too large");
    this.#at += raw.length;
    return { kind: "raw", raw };
  }

  /** The next character that is no white space. */
  #peek() {
    const found = this.#find(/[^ \t\r\n]/g, this.#at);
    this.#at = found === -1 ? this.#text.length : found;
    return this.#text[this.#at] ?? "";
  }

  #find(pattern, from) {
    pattern.lastIndex = from;
    return pattern.exec(this.#text)?.index ?? -1;
  }

  #fail(message, at = this.#at) {
    throw new JsonError(this.#text, at, message);
  }
}
