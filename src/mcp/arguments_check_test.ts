import { assert, assertEquals } from "@std/assert";
import { parseExact, sealObject } from "../json/exact.ts";
import { cpuMs } from "../../tests/support/stalls.ts";
import { checkArguments } from "./arguments_check.ts";

const tool = {
  type: "object",
  properties: {
    path: { type: "string", pattern: "^(a+)+$" },
    size: { type: "integer", maximum: 9 },
    tree: { $ref: "#/$defs/tree" },
    pattern: { enum: ["x"] },
  },
  required: ["path"],
  additionalProperties: false,
  $defs: { tree: { type: "object", properties: { child: { $ref: "#/$defs/tree" } } } },
};

/** Arguments, and a part of what is wrong with them. */
const CASES:
  readonly (readonly [schema: Record<string, unknown>, args: string, problem?: string])[] = [
    [tool, '{"path":"a"}'],
    [tool, '{"path":"a","size":9,"pattern":"x"}'],
    [tool, '{"path":"a","tree":{"child":{"child":{}}}}'],
    [tool, "{}", "path"],
    [tool, '{"path":1}', "string"],
    [tool, '{"path":"a","size":10}', "9"],
    [tool, '{"path":"a","size":1.5}', "integer"],
    [tool, '{"path":"a","size":12345678901234567890}', "9"],
    [tool, '{"path":"a","tree":{"child":1}}', "object"],
    [tool, '{"path":"a","pattern":"y"}', "pattern"],
    [tool, '{"path":"a","pth":1}', "pth"],
    [tool, `{"path":"${"a".repeat(40)}!"}`], // would take for ever
    [{ patternProperties: { "^x": {} }, additionalProperties: false }, '{"xy":1}'],
    [{ type: "object", $schema: "urn:unknown" }, "{}"],
    [{ $ref: "#/nowhere" }, "{}"],
    [{ type: 5 }, "{}", "5"],
    [{ properties: { a: { not: { pattern: "^x" } } } }, '{"a":"y"}'],
    [{ properties: { a: { not: { type: "string" } } } }, '{"a":"y"}', "not"],
    [{ properties: { a: { uniqueItems: true } } }, '{"a":[1,1]}'],
    [{ properties: { a: { not: { uniqueItems: true } } } }, '{"a":[1,1]}'],
    [{ properties: JSON.parse('{"__proto__":{"type":"string"}}') }, '{"__proto__":1}', "string"],
  ];

for (const [index, [schema, args, problem]] of CASES.entries()) {
  Deno.test(`checkArguments() case ${index + 1}: ${args.slice(0, 60)}`, () => {
    const found = checkArguments(schema, sealObject(parseExact(args)));
    assertEquals(found?.includes(problem ?? ""), problem === undefined ? undefined : true, found);
  });
}

Deno.test("checkArguments() gives up on a schema whose references have no end", () => {
  for (const [keyword, type] of [["anyOf", "string"], ["allOf", "number"]] as const) {
    const $defs: Record<string, unknown> = { s60: { type } };
    for (let n = 0; n < 60; n++) {
      const next = { $ref: `#/$defs/s${n + 1}` };
      $defs[`s${n}`] = { [keyword]: [next, next] }; // twice as much to do at each level
    }
    const schema = { properties: { a: { $ref: "#/$defs/s0" } }, $defs };
    assertEquals(checkArguments(schema, sealObject(parseExact('{"a":1}'))), undefined);
  }
  const endless = { $ref: "#/$defs/a", $defs: { a: { $ref: "#/$defs/a" } } };
  assertEquals(checkArguments(endless, {}), undefined);
});

Deno.test("checkArguments() gives up on values that take long to compare with a schema", () => {
  const before = cpuMs();
  const options = Array.from({ length: 3000 }, () => ({ type: "string" }));
  const schema = { properties: { a: { items: { anyOf: [...options, {}] } } } };
  const args = sealObject({ a: Array.from({ length: 6000 }, () => 1) });
  assertEquals(checkArguments(schema, args), undefined);
  const took = cpuMs() - before;
  assert(took < 2000, `${took}`);
});

Deno.test("checkArguments() gives up on schemas that are deep in others", () => {
  const before = cpuMs();
  let schema: object = { description: "x".repeat(1_500_000) };
  for (let depth = 0; depth < 1900; depth++) schema = { not: schema };
  assertEquals(checkArguments({ properties: { a: schema } }, sealObject({ a: 1 })), undefined);
  const took = cpuMs() - before;
  assert(took < 2000, `${took}`);
});
