import { assertEquals, assertThrows } from "@std/assert";
import fc from "../../tests/support/fast_check.ts";
import { JsonPlaceError, parseDocument } from "./document.ts";

const BROKEN: Record<string, [line: number, column: number, message: string]> = {
  "": [1, 1, "Expected a value"],
  '{"a": nothing}': [1, 7, "Expected a value"],
  '{\n  "a": 1,\n}': [3, 1, "Expected a name in double quotes"],
  '{"a": [1, 2,]}': [1, 13, "Expected a value"],
  "{'a': 1}": [1, 2, "Expected a name in double quotes"],
  '{"a" 1}': [1, 6, "Expected a colon"],
  '{"a": 1 "b": 2}': [1, 9, "Expected a comma or }"],
  '{"a": 1]': [1, 8, "Expected a comma or }"],
  '{"a": 1}\n// done': [2, 1, "Expected the end of the document"],
  '["a\nb"]': [1, 2, "Expected a value"],
  "[01]": [1, 3, "Expected a comma or ]"],
  '{"a": 1, "a": 2}': [1, 10, "Duplicate name"],
  '{"a": {"b": [': [1, 14, "Expected a value"],
};

for (const [text, [line, column, message]] of Object.entries(BROKEN)) {
  Deno.test(`parseDocument() says where ${JSON.stringify(text)} is broken`, () => {
    const error = assertThrows(() => parseDocument(text), JsonPlaceError);
    assertEquals([error.place, error.message], [{ line, column }, message]);
  });
}

Deno.test("parseDocument() reads JSON as JSON.parse() does, and knows where each value is", () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.constantFrom(0, 2), fc.boolean(), (value, indent, comments) => {
      const text = JSON.stringify(value, null, indent);
      assertEquals(parseDocument(text, { comments }).value, JSON.parse(text));
    }),
  );
  assertEquals(parseDocument('\ufeff{"a": 1}\r\n').value, { a: 1 });
  const { placeOf } = parseDocument('{\n  "a": [1,\n  2]\n}');
  assertEquals(["/a", "/a/1", "/a/1/none", "/b"].map(placeOf), [
    { line: 2, column: 3 },
    { line: 3, column: 3 },
    { line: 3, column: 3 },
    { line: 1, column: 1 },
  ]);
});

Deno.test("parseDocument() takes comments and trailing commas where they are allowed", () => {
  const text = '// of mine\n{ "a": [1, 2, /* three, */ ], // ]\n "b": "//,]", "c": {}, }\n/**/';
  assertEquals(parseDocument(text, { comments: true }).value, { a: [1, 2], b: "//,]", c: {} });
  for (const broken of ["[,]", "[1,,]", "{,}", "[1 /* ]", "1 2", "/", '{"a":,}']) {
    assertThrows(() => parseDocument(broken, { comments: true }), JsonPlaceError);
  }
});
