import { assert, assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { checkJson, JsonLimitError, JsonMeter, measureJson } from "./measure.ts";

const encoder = new TextEncoder();

/** Counts what a parsed value is made of. */
function counted(value: unknown): { values: number; depth: number } {
  if (typeof value !== "object" || value === null) return { values: 1, depth: 0 };
  const inner = Object.values(value).map(counted);
  const names = Array.isArray(value) ? 0 : inner.length;
  return {
    values: 1 + names + inner.reduce((sum, { values }) => sum + values, 0),
    depth: 1 + Math.max(0, ...inner.map(({ depth }) => depth)),
  };
}

Deno.test("measureJson() counts no fewer values than there are, and few more", () => {
  fc.assert(fc.property(fc.jsonValue(), fc.constantFrom(0, 2), (value, indent) => {
    const { values, depth } = measureJson(encoder.encode(JSON.stringify(value, null, indent)));
    const real = counted(value);
    assert(values >= real.values && values <= 2 * real.values, `${values} for ${real.values}`);
    assertEquals(depth, real.depth);
  }));
});

Deno.test("JsonMeter measures the same however the bytes come", () => {
  const text = fc.oneof(fc.json(), fc.string({ unit: fc.constantFrom(...'[]{},:"\\a') }));
  fc.assert(fc.property(text, fc.array(fc.nat(40)), (text, cuts) => {
    const bytes = encoder.encode(text);
    const meter = new JsonMeter();
    let at = 0;
    for (const cut of cuts) meter.add(bytes.subarray(at, at += cut));
    meter.add(bytes.subarray(at));
    const { values, names, depth, escapes, bare } = measureJson(bytes);
    assertEquals([meter.values, meter.names, meter.depth], [values, names, depth]);
    assertEquals([meter.escapes, meter.bare], [escapes, bare]);
  }));
});

Deno.test("JsonMeter remembers a backslash over a piece without bytes", () => {
  const pieces = ['["a\\', "", '"b", 1]'];
  const meter = new JsonMeter();
  for (const piece of pieces) meter.add(encoder.encode(piece));
  assertEquals(meter.values, measureJson(encoder.encode(pieces.join(""))).values);
});

Deno.test("checkJson() refuses too many values, and too deep ones", () => {
  const bytes = encoder.encode(`[${"[],".repeat(1000)}1]`);
  checkJson(bytes, { maxValues: 2100 });
  assertThrows(() => checkJson(bytes, { maxValues: 1000 }), JsonLimitError, "1000 values");
  const deep = encoder.encode("[".repeat(2001));
  assertThrows(() => checkJson(deep, { maxValues: 1e6 }), JsonLimitError, "levels deep");
});

Deno.test("checkJson() refuses too many escapes, and too much besides strings", () => {
  const bytes = encoder.encode(String.raw`{"a\"": "1\n\u00e9", "b": 0.125}`);
  const { escapes, bare } = measureJson(bytes);
  assertEquals([escapes, bare], [3, "{: , : 0.125}".length]);
  checkJson(bytes, { maxValues: 10, maxEscapes: 3, maxBare: bare });
  const refused = { maxEscapes: 2, maxBare: Infinity };
  assertThrows(() => checkJson(bytes, { maxValues: 10, ...refused }), JsonLimitError, "2 escapes");
  const narrow = { maxValues: 10, maxBare: bare - 1 };
  assertThrows(() => checkJson(bytes, narrow), JsonLimitError, "bytes besides strings");
});
