/**
 * Finds what a `$ref` means inside one document. Nothing is ever fetched.
 *
 * @module
 */
import { isArray, isObject, type Json, type JsonObject } from "./json.ts";

/** The dialect of a schema, as far as it matters here. */
export interface Dialect {
  /** 4, 6, 7, or 8 for drafts 2019-09 and later, which is also what is taken without a `$schema`. */
  readonly draft: 4 | 6 | 7 | 8;
}

/** Any base will do for documents that name none; this one is nobody's. */
const DEFAULT_BASE = "ipybox:///schema";

const IN_MAP = new Set([
  "properties",
  "patternProperties",
  "$defs",
  "definitions",
  "dependentSchemas",
  "dependencies",
]);

const IN_PLACE = new Set([
  "allOf",
  "anyOf",
  "oneOf",
  "not",
  "if",
  "then",
  "else",
  "items",
  "prefixItems",
  "additionalItems",
  "unevaluatedItems",
  "contains",
  "additionalProperties",
  "unevaluatedProperties",
  "propertyNames",
]);

/** The places in a document that references can name. */
export class References {
  readonly #root: Json;
  readonly #draft: number;
  readonly #rootBase: string;
  readonly #bases = new Map<JsonObject, string>();
  readonly #resources = new Map<string, Json>();
  readonly #anchors = new Map<string, Json>();
  readonly #dynamicAnchors = new Map<string, number>();
  #recursiveAnchors = 0;

  /**
   * @param root The document.
   * @param dialect Which draft it follows.
   */
  constructor(root: Json, dialect: Dialect) {
    this.#root = root;
    this.#draft = dialect.draft;
    this.#rootBase = this.#baseOf(root, DEFAULT_BASE);
    this.#resources.set(DEFAULT_BASE, root);
    this.#index(root, DEFAULT_BASE);
  }

  /**
   * Finds the target of a reference.
   *
   * @param reference The reference as it is written.
   * @param from The schema that has it.
   * @returns The target, or `undefined` if the document has none.
   */
  resolve(reference: string, from: JsonObject): Json | undefined {
    const base = this.#bases.get(from) ?? this.#rootBase;
    const url = join(reference, base);
    if (url === undefined) return undefined;
    const hash = url.indexOf("#");
    const resource = this.#resources.get(hash < 0 ? url : url.slice(0, hash));
    const fragment = hash < 0 ? "" : url.slice(hash + 1);
    if (resource === undefined) return undefined;
    if (fragment === "") return resource;
    if (!fragment.startsWith("/")) return this.#anchors.get(url);
    return follow(resource, fragment);
  }

  /**
   * Whether a dynamic reference may mean several places, depending on where evaluation comes from.
   *
   * @param reference A `$dynamicRef`, or the `#` of a `$recursiveRef`.
   * @returns Whether it may.
   */
  isAmbiguous(reference: string): boolean {
    const anchor = reference.slice(reference.indexOf("#") + 1);
    return anchor === "" ? this.#recursiveAnchors > 0 : (this.#dynamicAnchors.get(anchor) ?? 0) > 1;
  }

  #index(schema: Json, outer: string): void {
    if (isArray(schema)) {
      for (const inner of schema) this.#index(inner, outer);
      return;
    }
    if (!isObject(schema)) return;
    const base = this.#baseOf(schema, outer);
    if (base !== this.#rootBase) this.#bases.set(schema, base);
    if (base !== outer && !this.#resources.has(base)) this.#resources.set(base, schema);
    this.#indexAnchors(schema, base);
    for (const [keyword, value] of schema) {
      if (IN_MAP.has(keyword) && isObject(value)) {
        for (const inner of value.values()) this.#index(inner, base);
      } else if (IN_PLACE.has(keyword)) {
        this.#index(value, base);
      }
    }
  }

  #baseOf(schema: Json, outer: string): string {
    if (!isObject(schema)) return outer;
    const id = schema.get(this.#draft === 4 ? "id" : "$id");
    // In drafts before 2019-09 nothing beside $ref counts, and an id may be an anchor.
    if (typeof id !== "string" || id.startsWith("#")) return outer;
    if (this.#draft < 8 && schema.has("$ref")) return outer;
    return join(id, outer)?.replace(/#.*$/s, "") ?? outer;
  }

  #indexAnchors(schema: JsonObject, base: string): void {
    const set = (anchor: Json | undefined) => {
      if (typeof anchor !== "string") return;
      const url = join(`#${anchor}`, base);
      if (url !== undefined && !this.#anchors.has(url)) this.#anchors.set(url, schema);
    };
    if (this.#draft < 8) {
      const id = schema.get(this.#draft === 4 ? "id" : "$id");
      if (typeof id === "string" && id.includes("#")) set(id.slice(id.indexOf("#") + 1));
      return;
    }
    if (schema.get("$recursiveAnchor") === true) this.#recursiveAnchors++;
    set(schema.get("$anchor"));
    const dynamic = schema.get("$dynamicAnchor");
    set(dynamic);
    if (typeof dynamic === "string") {
      this.#dynamicAnchors.set(dynamic, (this.#dynamicAnchors.get(dynamic) ?? 0) + 1);
    }
  }
}

function join(reference: string, base: string): string | undefined {
  return URL.parse(reference, base)?.href.replace(/#$/, "");
}

/** Follows a JSON pointer. */
function follow(from: Json, pointer: string): Json | undefined {
  let place: Json | undefined = from;
  for (const part of decode(pointer).split("/").slice(1)) {
    const name = part.replaceAll("~1", "/").replaceAll("~0", "~");
    if (isArray(place)) place = /^\d{1,9}$/.test(name) ? place[Number(name)] : undefined;
    else place = isObject(place) ? place.get(name) : undefined;
  }
  return typeof place === "boolean" || isObject(place) ? place : undefined;
}

function decode(fragment: string): string {
  try {
    return decodeURIComponent(fragment);
  } catch {
    return fragment; // a stray percent sign is taken as it is
  }
}
