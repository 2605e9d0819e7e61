import { assert, assertEquals } from "@std/assert";
import { compareNumbers, isObject, JsonNumber, keyOf, toJson, writeJson } from "./json.ts";

const { rawJSON } = JSON as typeof JSON & { rawJSON(text: string): unknown };

Deno.test("toJson() keeps numbers as they are spelled, and knows which may have been rounded", () => {
  const value = toJson([1, 0.1, 10n ** 20n, rawJSON("9007199254740993"), rawJSON("1.0"), 2 ** 60]);
  assertEquals(
    writeJson(value ?? null),
    "[1,0.1,100000000000000000000,9007199254740993,1.0,1152921504606847000]",
  );
  assert(Array.isArray(value));
  assertEquals(value.map((number) => (number as JsonNumber).exact), [
    true,
    true,
    true,
    true,
    true,
    false,
  ]);
});

Deno.test("toJson() takes __proto__ for a name like any other", () => {
  const value = toJson(JSON.parse('{"__proto__": {"x": 1}, "constructor": 2}'));
  assert(isObject(value));
  assertEquals([...value.keys()], ["__proto__", "constructor"]);
  assertEquals(writeJson(value), '{"__proto__":{"x":1},"constructor":2}');
});

Deno.test("toJson() drops what JSON cannot say", () => {
  const value = toJson({
    a: undefined,
    b: NaN,
    c: Infinity,
    d: () => 1,
    e: rawJSON("1e999"),
    f: 1,
  });
  assertEquals(writeJson(value ?? null), '{"f":1}');
});

Deno.test("keyOf() is the same for equal values only", () => {
  const keys = (...values: unknown[]) =>
    new Set(values.map((value) => keyOf(toJson(value) ?? null)));
  assertEquals(keys(1, rawJSON("1.0"), rawJSON("1e0"), 1n).size, 1);
  assertEquals(keys({ a: 1, b: 2 }, { b: 2, a: 1 }).size, 1);
  assertEquals(keys(1, "1", true, [1], null, { 1: 1 }).size, 6);
});

Deno.test("compareNumbers() is exact for integers of any size", () => {
  const number = (source: string) => new JsonNumber(source);
  assert(compareNumbers(number("9007199254740993"), number("9007199254740992")) > 0);
  assert(compareNumbers(number("0.5"), number("1")) < 0);
  assertEquals(compareNumbers(number("1.0"), number("1")), 0);
});

Deno.test("writeJson() indents, but not what is so deep that it would be mostly indentation", () => {
  assertEquals(writeJson(toJson({ a: [1] }) ?? null, 2), '{\n  "a": [\n    1\n  ]\n}');
  let deep: unknown = 1;
  for (let level = 0; level < 60; level++) deep = [deep];
  assert(writeJson(toJson(deep) ?? null, 2).length < 1_000);
});
