import { assert, assertEquals, assertThrows } from "@std/assert";
import fc from "../../tests/support/fast_check.ts";
import { checkJson, JsonLimitError, measureJson } from "./measure.ts";

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

Deno.test("checkJson() refuses too many values, and too deep ones", () => {
  const bytes = encoder.encode(`[${"[],".repeat(1000)}1]`);
  checkJson(bytes, 2100);
  assertThrows(() => checkJson(bytes, 1000), JsonLimitError, "1000 values");
  const deep = encoder.encode("[".repeat(2001));
  assertThrows(() => checkJson(deep, 1e6), JsonLimitError, "levels deep");
});
