import { assertEquals } from "@std/assert";
import { parametersOf } from "./tools.ts";

const properties = { a: {} };

for (
  const [what, schema, expected] of [
    ["properties", { type: "object", properties }, ["a"]],
    ["a closed object", { properties, additionalProperties: false }, ["a"]],
    ["an object without properties", { type: "object" }, []],
    ["an open object", { properties, additionalProperties: true }, undefined],
    ["others of a type", { properties, additionalProperties: { type: "string" } }, undefined],
    ["patterns", { properties, patternProperties: { "^x": {} } }, undefined],
    ["alternatives", { properties, anyOf: [{}] }, undefined],
    ["a reference", { $ref: "#/$defs/x" }, undefined],
    ["nothing", {}, undefined],
    ["something else", { type: "object", properties: 1 }, undefined],
  ] as const
) {
  Deno.test(`The parameters of a tool whose schema has ${what}`, () => {
    const found = parametersOf(Object.entries<unknown>({ ...schema }));

    assertEquals(found, expected && new Set<string>(expected));
  });
}

Deno.test("The parameters of a tool in a generated package", () => {
  assertEquals(parametersOf(new Map([["properties", new Map([["a", 1]])]])), new Set(["a"]));
});
