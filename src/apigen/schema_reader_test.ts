import { assertEquals } from "@std/assert";
import { toJson } from "./json.ts";
import type { Schema, SchemaNode } from "./schema.ts";
import { SchemaReader } from "./schema_reader.ts";

function read(schema: unknown): { root: SchemaNode; warnings: string[] } {
  const reader = new SchemaReader(toJson(schema) ?? null);
  const root = reader.read(reader.root);
  return { root: typeof root === "boolean" ? {} : root, warnings: [...reader.warnings] };
}

/** What the property `x` of a document refers to. */
function target(document: Record<string, unknown>): Schema | undefined {
  const x = read(document).root.properties?.get("x");
  return typeof x === "object" ? x.ref?.target() : undefined;
}

const DRAFT_04 = "http://json-schema.org/draft-04/schema#";
const DRAFT_07 = "http://json-schema.org/draft-07/schema#";

Deno.test("SchemaReader drops keywords whose values no draft allows, and says so", () => {
  const malformed = {
    type: "any",
    enum: null,
    required: true,
    properties: null,
    items: 5,
    anyOf: [],
    minimum: "0",
    minLength: -1,
    pattern: 5,
    additionalProperties: "no",
  };
  const { root, warnings } = read(malformed);
  assertEquals(root, {});
  assertEquals(warnings.length, Object.keys(malformed).length);
});

Deno.test("SchemaReader brings old spellings into the new form", () => {
  const { root } = read({
    $schema: DRAFT_04,
    minimum: 1,
    exclusiveMinimum: true,
    maximum: 5,
    exclusiveMaximum: false,
    items: [true],
    additionalItems: false,
    dependencies: { a: ["b"], c: { required: ["d"] } },
  });
  assertEquals(root.minimum, undefined);
  assertEquals([root.exclusiveMinimum?.source, root.maximum?.source], ["1", "5"]);
  assertEquals([root.prefixItems, root.items], [[true], false]);
  assertEquals(root.dependentRequired?.get("a"), ["b"]);
  assertEquals(root.dependentSchemas?.get("c"), { required: ["d"] });
});

Deno.test("SchemaReader ignores what stands beside a reference up to draft 7", () => {
  const schema = { properties: { x: { $ref: "#/definitions/s", minLength: 3, description: "d" } } };
  const old = read({ $schema: DRAFT_07, ...schema }).root.properties?.get("x") as SchemaNode;
  const recent = read(schema).root.properties?.get("x") as SchemaNode;
  assertEquals([old.minLength, old.description], [undefined, "d"]);
  assertEquals([recent.minLength, recent.description], [3, "d"]);
});

Deno.test("SchemaReader ignores keywords that the dialect does not have", () => {
  const schema = { prefixItems: [true], dependentRequired: { a: ["b"] }, unevaluatedItems: false };
  assertEquals(read({ $schema: DRAFT_07, ...schema }).root, {});
  assertEquals(Object.keys(read(schema).root).length, 3);
  assertEquals(read({ $schema: DRAFT_04, const: 1, if: {}, then: false, contains: {} }).root, {});
});

Deno.test("SchemaReader resolves references to any place in the document", () => {
  const x = (reference: string, rest: Record<string, unknown> = {}) =>
    target({
      properties: { x: { $ref: reference }, y: { items: [{ title: "deep" }] } },
      $defs: { "a/b~c%": { title: "def" }, anchored: { $anchor: "here", title: "anchor" } },
      ...rest,
    });
  assertEquals(x("#/$defs/a~1b~0c%25"), { title: "def" });
  assertEquals(x("#/properties/y/items/0"), { title: "deep" });
  assertEquals(x("#here"), { title: "anchor" });
  assertEquals(x("https://example.com/s#/$defs/anchored", { $id: "https://example.com/s" }), {
    title: "anchor",
  });
  assertEquals(x("#/$defs/anchored", { $id: "https://example.com/s" }), { title: "anchor" });
  assertEquals(x("inner.json", { $defs: { i: { $id: "inner.json", title: "inner" } } }), {
    title: "inner",
  });
  assertEquals(x("#/definitions/z", { definitions: { z: false } }), false);
});

Deno.test("SchemaReader finds nothing for references that lead out, and fetches nothing", () => {
  for (
    const reference of ["#/nowhere", "#nowhere", "https://example.com/x", "other.json", "#/%zz", ""]
  ) {
    const { root } = read({ properties: { x: { $ref: reference, $comment: "x" } } });
    const x = root.properties?.get("x");
    const found = typeof x === "object" ? x.ref?.target() : undefined;
    assertEquals(found === undefined, reference !== "", reference);
  }
});

Deno.test("SchemaReader drops values that may have been rounded", () => {
  const { root, warnings } = read({ const: 2 ** 60, multipleOf: 2 ** 60 });
  assertEquals(root, {});
  assertEquals(warnings.length, 2);
});

Deno.test("SchemaReader takes limits that may have been rounded for the widest they can have been", () => {
  const { root } = read({ minimum: -(2 ** 60), maximum: 18446744073709551615 });
  assertEquals(root.minimum?.source, String(-(2n ** 60n) - 256n));
  assertEquals(root.maximum?.source, String(2n ** 64n + 4096n));
});
