/** Small schemas that ask for work, memory or text without end. */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { renderFiles } from "../../src/apigen/generate.ts";
import { toJson } from "../../src/apigen/json.ts";
import { signatureOf } from "../../src/apigen/signature.ts";

type Schema = Readonly<Record<string, unknown>>;

function many<T>(count: number, make: (index: number) => T, prefix = "p"): Record<string, T> {
  return Object.fromEntries(Array.from({ length: count }, (_, at) => [`${prefix}${at}`, make(at)]));
}

function object(properties: Schema, more: Schema = {}): Schema {
  return { type: "object", properties, ...more };
}

function nested(levels: number, inner: Schema): Schema {
  return levels === 0 ? inner : object({ x: nested(levels - 1, inner) });
}

const closed = (extra: string) =>
  object({ ...many(3_000, () => true), [extra]: true }, { additionalProperties: false });
const refersTo = (name: string) => ({ $ref: `#/$defs/${name}` });
const refersToMany = (count: number) => Array.from({ length: count }, () => refersTo("x"));
const tuple = (name: string) => ({
  type: "array",
  items: false,
  minItems: 300,
  prefixItems: Array.from({ length: 300 }, () => refersTo(name)),
});
const demands = (properties: Schema) => object(properties, { required: Object.keys(properties) });

/** Each has less than 256 KiB, and would take hours or gigabytes without a limit. */
const HOSTILE: Readonly<Record<string, Schema>> = {
  "merges of wide objects": object(
    many(1_500, () => ({ allOf: [refersTo("a"), refersTo("b")] }), "q"),
    { $defs: { a: closed("x"), b: closed("y") } },
  ),
  "one description for many fields": object(many(3_000, () => refersTo("x")), {
    $defs: { x: { type: "string", description: "a ".repeat(60_000) } },
  }),
  "one default for many fields": object(many(3_000, () => refersTo("x")), {
    $defs: { x: { type: "string", default: "a ".repeat(60_000) } },
  }),
  "definitions that share a name": nested(
    10,
    object(many(4_000, () => ({ type: "object", not: { type: "null" } }))),
  ),
  "an example of examples": {
    ...demands(many(12, () => tuple("x"))),
    $defs: { x: demands(many(12, () => tuple("y"))), y: demands(many(12, () => ({}))) },
  },
  "many pairs of wide branches": object(many(40, () => ({ oneOf: refersToMany(200) })), {
    $defs: { x: demands(many(4_000, () => true)) },
  }),
  "a union of many wide objects": object({}, {
    anyOf: refersToMany(6_000),
    $defs: { x: demands(many(4_000, () => true)) },
  }),
  "a chain of references behind many fields": object(many(2_000, () => refersTo("n0")), {
    $defs: many(5_000, (at) => refersTo(`n${at + 1}`), "n"),
  }),
  "a list too long to be read": object({ x: { enum: Object.keys(many(200_000, () => 0)) } }),
  "levels without end": nested(500, {}),
};
for (const [name, inputSchema] of Object.entries(HOSTILE)) {
  Deno.test(`A schema with ${name} has a module of limited size, and costs other tools nothing`, () => {
    const definition = { name: "bad", inputSchema };
    const good = { name: "good", inputSchema: object({ text: { type: "string" } }) };

    const { tools, files } = renderFiles("demo", { tools: [definition, good] });

    assertEquals(tools.map(({ module }) => module), ["bad", "good"]);
    assertEquals(tools[1]?.warnings, []);
    assertStringIncludes(files.get("good.py") ?? "", "text: str");
    assertStringIncludes(files.get("bad.py") ?? "", 'invoke(CLIENT, "bad", ');
    const length = [...files.values()].reduce((sum, text) => sum + text.length, 0);
    assert(length < 20_000_000, `${length} characters`);
    const json = JSON.parse(files.get("schema.json") ?? "").tools[0];
    const read = toJson(json);
    if (!(read instanceof Map)) throw new TypeError("The definition is an object");
    const origin = { server: "demo", tool: "bad", module: "bad" };
    assertMatch(signatureOf(origin, read), /^bad\.run\(/);
  });
}

Deno.test("A definition of more than 256 KiB or 64 levels takes any arguments", () => {
  const large = { type: "string", description: "x".repeat(257 * 1024) };
  const tools = [
    { name: "large", inputSchema: object({ x: large }) },
    { name: "deep", inputSchema: nested(64, {}) },
  ];

  const { tools: made } = renderFiles("demo", { tools });

  assertEquals(made.map(({ module }) => module), ["large", "deep"]);
  assertMatch(made[0]?.warnings[0] ?? "", /too large to be read \(it has more than 256 KiB\)/);
  assertMatch(made[1]?.warnings[0] ?? "", /too large to be read \(it nests more than 64 levels/);
});
