/** Small schemas that ask for work, memory or text without end. */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { renderFiles } from "../../src/apigen/generate.ts";
import { toJson } from "../../src/apigen/json.ts";
import { signatureOf } from "../../src/apigen/signature.ts";
import { cpuMs } from "../support/stalls.ts";

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
  object({ ...many(15_000, () => true), [extra]: true }, { additionalProperties: false });
const refersTo = (name: string) => ({ $ref: `#/$defs/${name}` });
const tuple = () => ({
  type: "array",
  items: false,
  minItems: 300,
  prefixItems: Array.from({ length: 300 }, () => refersTo("c")),
});
const required = Array.from({ length: 12 }, (_, at) => `p${at}`);

const HOSTILE: Readonly<Record<string, Schema>> = {
  "merges of wide objects": object(
    many(100, () => ({ allOf: [refersTo("a"), refersTo("b")] }), "q"),
    { $defs: { a: closed("x"), b: closed("y") } },
  ),
  "one description for many fields": object(many(400, () => refersTo("x")), {
    $defs: { x: { type: "string", description: "a ".repeat(100_000) } },
  }),
  "definitions that share a name": nested(
    40,
    object(many(12_000, () => ({ type: "object", not: { type: "null" } }))),
  ),
  "an example of examples": object(many(12, tuple), {
    required,
    $defs: { c: object(many(12, tuple), { required }) },
  }),
  "a list too long to be read": object({ x: { enum: Object.keys(many(200_000, () => 0)) } }),
};

for (const [name, inputSchema] of Object.entries(HOSTILE)) {
  Deno.test(`A schema with ${name} takes any arguments, and costs other tools nothing`, () => {
    const definition = { name: "bad", inputSchema };
    const good = { name: "good", inputSchema: object({ text: { type: "string" } }) };

    const { tools, files } = renderFiles("demo", { tools: [definition, good] });

    assertEquals(tools.map(({ module }) => module), ["bad", "good"]);
    assertMatch(tools[0]?.warnings[0] ?? "", /too large to be read|too much work/);
    assertEquals(tools[1]?.warnings, []);
    assertStringIncludes(files.get("good.py") ?? "", "text: str");
    assertStringIncludes(files.get("bad.py") ?? "", 'invoke(CLIENT, "bad", ');
    const length = [...files.values()].reduce((sum, text) => sum + text.length, 0);
    assert(length < 20_000_000, `${length} characters`);
    const json = toJson(definition);
    if (!(json instanceof Map)) throw new TypeError("The definition is an object");
    const origin = { server: "demo", tool: "bad", module: "bad" };
    assertMatch(signatureOf(origin, json), /^bad\.run\(/);
  });
}

Deno.test("A long $id is not joined with each anchor and reference in it", () => {
  const start = cpuMs();
  const inputSchema = object(
    {
      ...many(5_000, (at) => ({ $anchor: `a${at}` })),
      ...many(5_000, () => ({ $ref: "#s" }), "r"),
    },
    { $id: `http://x/${"a".repeat(1_000_000)}`, $defs: { s: { $anchor: "s", type: "string" } } },
  );

  const { tools, files } = renderFiles("demo", { tools: [{ name: "bad", inputSchema }] });

  assertEquals(tools, [{ tool: "bad", module: "bad", warnings: [] }]);
  assertStringIncludes(files.get("bad.py") ?? "", "r1: str | None");
  assert(cpuMs() - start < 60_000);
});

Deno.test("A property named by many marks takes no more time than it has characters", () => {
  const start = cpuMs();
  const name = `a${"\u0301\u0323".repeat(50_000)}`; // in the wrong order, each with its neighbor
  const inputSchema = object({ [name]: { type: "string" }, [`${name}b`]: { type: "string" } });

  const { tools, files } = renderFiles("demo", { tools: [{ name: "bad", inputSchema }] });

  assertEquals(tools, [{ tool: "bad", module: "bad", warnings: [] }]);
  assertStringIncludes(files.get("bad.py") ?? "", name);
  assert(cpuMs() - start < 2_000, `${cpuMs() - start} ms`);
});

Deno.test("A list of more tools than there is work for leaves the last ones out by name", () => {
  const heavy = object(many(100, () => ({ allOf: [refersTo("a"), refersTo("b")] }), "q"), {
    $defs: { a: closed("x"), b: closed("y") },
  });
  const names = Object.keys(many(6_000, () => 0, "tool"));

  const { tools } = renderFiles("demo", {
    tools: [
      ...Object.keys(many(8, () => 0, "heavy")).map((name) => ({ name, inputSchema: heavy })),
      { name: "x".repeat(100_000), inputSchema: {} },
      ...names.map((name) => ({ name, inputSchema: {} })),
    ],
  });

  const left = tools.filter(({ module }) => module === null);
  assertEquals(left[0]?.tool, "#9");
  assertMatch(left[0]?.warnings[0] ?? "", /name is longer than/);
  assert(left.length > 1_000, `${left.length} are left out`);
  assert(
    left.slice(1).every(({ tool, warnings }) => names.includes(tool) && warnings.length === 1),
  );
});
