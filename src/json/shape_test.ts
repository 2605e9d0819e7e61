import { assert, assertEquals } from "@std/assert";
import fc from "../../tests/support/fast_check.ts";
import type { ExactJson } from "./exact.ts";
import {
  isSameShape,
  mergeResults,
  type ObservedResults,
  resultsFromJson,
  resultsToJson,
  shapeOf,
} from "./shape.ts";

/** The shape of results, as in files. */
function learnt(...values: readonly ExactJson[]): unknown {
  return resultsToJson(resultsOf(values)).shape;
}

function resultsOf(values: readonly ExactJson[]): ObservedResults {
  return values.map((value) => ({ calls: 1, shape: shapeOf(value) })).reduce(mergeResults);
}

/** The JSON of a record that was seen once. */
function record(fields: Record<string, unknown>, objects = 1): unknown {
  const counted = Object.entries(fields).map((
    [name, shape],
  ) => [name, { seen: 1, ...shape ?? {} }]);
  return { objects, fields: Object.fromEntries(counted) };
}

const STR = { is: ["str"] };
const INT = { is: ["int"] };

Deno.test("shapeOf() finds names and broad types", () => {
  assertEquals(
    learnt({ id: 7, name: "x", tags: ["a"], ratio: 0.5, ok: true, none: null, at: { x: 1 } }),
    record({
      id: INT,
      name: STR,
      tags: { items: STR },
      ratio: { is: ["float"] },
      ok: { is: ["bool"] },
      none: { is: ["null"] },
      at: record({ x: INT }),
    }),
  );
  assertEquals(learnt([]), { items: {} });
  assertEquals(learnt("text"), STR);
  assertEquals(learnt(JSON.parse("[1, null, 2.5]")), { items: { is: ["null", "int", "float"] } });
});

Deno.test("mergeResults() tells what was always there from what was not", () => {
  assertEquals(learnt({ a: 1, b: "x" }, { a: "x" }), {
    objects: 2,
    fields: { a: { seen: 2, is: ["int", "str"] }, b: { seen: 1, is: ["str"] } },
  });
  assertEquals(learnt([{ a: 1 }, { a: 2 }, {}]), {
    items: { objects: 3, fields: { a: { seen: 2, is: ["int"] } } },
  });
  assertEquals(resultsOf([{ a: 1 }, [1], { a: 1 }]).calls, 3);
});

Deno.test("names that are data make a mapping, and are not kept", () => {
  const ids = [
    "1042",
    "2026-11-22",
    "7f3a1c9e-0b1d-4c55-9e0a-5d1f6a7b8c9d",
    "someone@example.com",
    "user_17",
    "PROJ-123",
    "U024BE7LH",
    "Ada Lovelace",
    "/home/ada",
    "example.com",
    "x".repeat(65),
    "",
    "__proto__",
    "a\u202eb",
    'a"b',
  ];
  for (const id of ids) {
    const value = JSON.parse(`{"kind": "x", ${JSON.stringify(id)}: 1}`);
    assertEquals(learnt(value), { values: { is: ["int", "str"] } }, id);
  }
  const names = [
    "line1",
    "sha256",
    "@type",
    "$ref",
    "_links",
    "Content-Type",
    "größe",
    "名前",
    "x2",
  ];
  for (const name of names) assertEquals(learnt({ [name]: 1 }), record({ [name]: INT }), name);
});

Deno.test("objects that differ in their names from call to call are mappings", () => {
  const people = ["ada", "bob", "cleo", "dan", "eve", "fred"];
  const byName = people.map((name) => ({ [name]: 1 }));
  assertEquals(learnt(...byName), { values: INT });
  // It stays one, whatever comes.
  assertEquals(learnt(...byName, { ada: 1 }, { ada: 1 }, { ada: 1 }), { values: INT });
  const records = people.map((name) => ({ type: "person", [name]: 1 }));
  assertEquals(Object.keys(Object(learnt(...records)).fields).length, 7);
});

Deno.test("objects with many names, or with values that are all alike, are mappings", () => {
  const fields = (count: number, value: ExactJson) =>
    Object.fromEntries(
      Array.from(
        { length: count },
        (
          _,
          at,
        ) => [`k${String.fromCharCode(97 + at / 26)}${String.fromCharCode(97 + at % 26)}`, value],
      ),
    );
  assertEquals(learnt({ other: "x", ...fields(101, 1) }), { values: { is: ["int", "str"] } });
  assertEquals(learnt(fields(26, 1)), { values: INT });
  assertEquals(learnt({ ada: { age: 1 }, bob: { age: 2 }, cleo: { age: 3 } }), {
    values: { objects: 3, fields: { age: { seen: 3, is: ["int"] } } },
  });
  assertEquals(Object.keys(Object(learnt({ ...fields(26, 1), other: "x" })).fields).length, 27);
});

Deno.test("a shape is bounded however deep, long and wide values are", () => {
  const deep = JSON.parse('{"a":'.repeat(3000) + "1" + "}".repeat(3000));
  const tree = (depth: number): ExactJson =>
    depth === 0
      ? 1
      : Object.fromEntries("abcdefghij".split("").map((name, at) => [name, [tree(depth - 1), at]]));
  const values = [deep, tree(4), Array.from({ length: 100_000 }, () => ({ a: [1] }))];
  for (const value of values) assert(JSON.stringify(learnt(value)).length < 20_000);
  assert(JSON.stringify(learnt(...values)).length < 20_000);
});

const json = fc.jsonValue({ maxDepth: 5 }).map((value) => value as ExactJson);

Deno.test("any results have one shape that can be written, read and added to, and has no value", () => {
  fc.assert(fc.property(fc.array(json, { minLength: 1, maxLength: 8 }), (values) => {
    const results = resultsOf(values);
    const text = JSON.stringify(resultsToJson(results));
    assertEquals(resultsFromJson(JSON.parse(text)), results);
    assert(isSameShape(mergeResults(results, results).shape, results.shape));
    assert(text.length < 60_000);
  }));
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.uuid()), fc.array(fc.uuid()), (object, list) => {
      const text = JSON.stringify(resultsToJson(resultsOf([{ object, list }, list])));
      for (const value of [...Object.values(object), ...list]) assert(!text.includes(value));
    }),
  );
});

Deno.test("what is no shape says nothing", () => {
  const bad = [
    undefined,
    null,
    [],
    "x",
    { is: ["import os", 7] },
    { is: "str" },
    { objects: "many", fields: [] },
  ];
  for (const shape of bad) {
    assertEquals(resultsFromJson({ calls: -1, shape }), { calls: 1, shape: { scalars: [] } });
  }
  const hostile = { objects: 1, fields: { 'x": __import__("os")': { seen: 1, is: ["str"] } } };
  assertEquals(resultsToJson(resultsFromJson({ calls: 1e99, shape: hostile })), {
    calls: 1e9,
    shape: { values: {} },
  });
});
