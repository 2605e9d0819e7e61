/**
 * Resolves `$ref` within one document. Nothing is ever fetched.
 *
 * @module
 */
import { namesIn } from "../json/document.ts";
import { isArray, isObject, type Json, type JsonObject } from "./json.ts";
import { PART_LISTS, PART_MAPS, PARTS } from "./schema.ts";

/** The draft of a schema. 8 stands for 2019-09 and later, and for schemas without a `$schema`. */
export type DraftNumber = 4 | 6 | 7 | 8;

/** The longest URI or reference. Each one is joined with its base, and no legitimate one is longer. */
const MAX_URI = 2_048;

/** The base URI of documents without one. */
const DEFAULT_BASE = "ipybox:///schema";

const IN_MAP = new Set<string>([
  ...PART_MAPS,
  "patternProperties",
  "$defs",
  "definitions",
  "dependencies",
]);
const IN_PLACE = new Set<string>([...PARTS, ...PART_LISTS, "additionalItems"]);

/** Indexes the places in a document that references can name. */
export class References {
  readonly #root: Json;
  readonly #draft: DraftNumber;
  readonly #rootBase: string;
  readonly #bases = new Map<JsonObject, string>();
  readonly #resources = new Map<string, Json>();
  readonly #anchors = new Map<string, Map<string, Json>>();
  readonly #dynamicAnchors = new Map<string, number>();
  #recursiveAnchors = 0;

  constructor(root: Json, draft: DraftNumber) {
    this.#root = root;
    this.#draft = draft;
    this.#rootBase = this.#baseOf(root, DEFAULT_BASE);
    this.#resources.set(DEFAULT_BASE, root);
    this.#index(root, DEFAULT_BASE);
  }

  /** Finds the target of a reference. */
  resolve(reference: string, from: JsonObject): Json | undefined {
    const base = this.#bases.get(from) ?? this.#rootBase;
    const hash = reference.indexOf("#");
    const uri = hash < 0 ? reference : reference.slice(0, hash);
    const fragment = hash < 0 ? "" : decode(reference.slice(hash + 1));
    const place = uri === "" ? base : join(uri, base);
    const resource = place === undefined ? undefined : this.#resources.get(place);
    if (place === undefined || resource === undefined) return undefined;
    if (fragment === "") return resource;
    return fragment.startsWith("/")
      ? follow(resource, fragment)
      : this.#anchors.get(place)?.get(fragment);
  }

  /** Whether a dynamic reference has several possible targets. */
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
    // Before draft 2019-09, siblings of $ref are ignored, and an id may be an anchor.
    if (typeof id !== "string" || id.startsWith("#")) return outer;
    if (this.#draft < 8 && schema.has("$ref")) return outer;
    return join(id, outer) ?? outer;
  }

  #indexAnchors(schema: JsonObject, base: string): void {
    const set = (anchor: Json | undefined) => {
      if (typeof anchor !== "string") return;
      const anchors = this.#anchors.get(base) ?? new Map<string, Json>();
      this.#anchors.set(base, anchors);
      if (!anchors.has(anchor)) anchors.set(anchor, schema);
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

/** The URI of a resource, without a fragment. */
function join(reference: string, base: string): string | undefined {
  if (reference.length > MAX_URI) return undefined;
  const url = URL.parse(reference, base);
  if (url === null) return undefined;
  url.hash = "";
  return url.href.length > MAX_URI ? undefined : url.href;
}

/** Follows a JSON pointer. */
function follow(from: Json, pointer: string): Json | undefined {
  let place: Json | undefined = from;
  for (const name of namesIn(pointer)) {
    if (isArray(place)) place = /^\d{1,9}$/.test(name) ? place[Number(name)] : undefined;
    else place = isObject(place) ? place.get(name) : undefined;
  }
  return typeof place === "boolean" || isObject(place) ? place : undefined;
}

function decode(fragment: string): string {
  try {
    return decodeURIComponent(fragment);
  } catch {
    return fragment; // keep a stray percent sign
  }
}
