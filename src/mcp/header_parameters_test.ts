import { assertEquals, assertMatch } from "@std/assert";
import { headerProblem } from "./tools.ts";

const region = { type: "string", "x-mcp-header": "Region" };

Deno.test("headerProblem() takes headers of properties, at any depth, and schemas without any", () => {
  const inner = { type: "object", properties: { region } };
  const fine: unknown[] = [
    undefined,
    null,
    {},
    { properties: null },
    { properties: { region } },
    { properties: { "x-mcp-header": { type: "object" }, inner } },
    { properties: { inner }, default: { "x-mcp-header": "a b" } },
  ];
  for (const schema of fine) assertEquals(headerProblem(schema), undefined, JSON.stringify(schema));
});

Deno.test("headerProblem() says why a header cannot be sent", () => {
  const cases: [schema: unknown, problem: RegExp][] = [
    [region, /not at a property/],
    [{ properties: { list: { items: region } } }, /not at a property/],
    [{ anyOf: [{ properties: { region } }] }, /not at a property/],
    [{ $defs: { region } }, /not at a property/],
    [{ properties: { a: { ...region, "x-mcp-header": "a b" } } }, /not the name of a header/],
    [{ properties: { a: { ...region, "x-mcp-header": 1 } } }, /not the name of a header/],
    [{ properties: { a: { ...region, type: "number" } } }, /not a string, integer or boolean/],
    [{ properties: { a: region, b: { ...region, "x-mcp-header": "REGION" } } }, /declared twice/],
  ];
  for (const [schema, problem] of cases) assertMatch(headerProblem(schema) ?? "", problem);
  let deep: unknown = region;
  for (let level = 0; level < 100_000; level++) deep = { items: deep };
  assertMatch(headerProblem(deep) ?? "", /not at a property/);
});
