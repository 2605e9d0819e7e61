import { assert, assertEquals, assertFalse, assertThrows } from "@std/assert";
import fc from "../../tests/support/fast_check.ts";
import { parseExact, sealObject, stringifyExact, toExact, toPlain } from "./exact.ts";

const UNUSUAL =
  '{"one":1.0,"big":12345678901234567890,"zero":-0,"exp":1E+2,"usual":[1,0.5,"x",null,true]}';

Deno.test("parseExact() and stringifyExact() pass numbers on as they were written", () => {
  assertEquals(stringifyExact(parseExact(UNUSUAL)), UNUSUAL);
});

Deno.test("parseExact() keeps the spelling of every number", () => {
  const digits = fc.stringMatching(/^(0|[1-9][0-9]{0,20})$/);
  const fraction = fc.stringMatching(/^(\.[0-9]{1,5})?$/);
  const exponent = fc.stringMatching(/^([eE][+-]?[0-9]{1,2})?$/);
  const number = fc.tuple(fc.constantFrom("", "-"), digits, fraction, exponent);
  fc.assert(fc.property(fc.array(number), (numbers) => {
    const text = `[${numbers.map((parts) => parts.join("")).join(",")}]`;
    assertEquals(stringifyExact(parseExact(text)), text);
  }));
});

Deno.test("what is no JSON is none for parseExact(), whose error quotes the text", () => {
  for (
    const text of ["{1.0:1}", "[01.0]", "[1.]", "[1.0.0]", '[1.0"a"]', "[1.0", '["1.0', "1.0 1.0"]
  ) {
    const { message } = assertThrows(() => JSON.parse(text), SyntaxError);
    assertThrows(() => parseExact(text), SyntaxError, message);
  }
});

Deno.test("toPlain() gives numbers, and bigints where a double would lie", () => {
  assertEquals(toPlain(parseExact(UNUSUAL)), {
    one: 1,
    big: 12345678901234567890n,
    zero: -0,
    exp: 100,
    usual: [1, 0.5, "x", null, true],
  });
});

Deno.test("toPlain() keeps a key named __proto__ a key", () => {
  const plain = toPlain(parseExact('{"__proto__":{"polluted":1},"n":1.0}'));
  assertEquals(Object.keys(Object(plain)), ["__proto__", "n"]);
  assertFalse("polluted" in Object(plain));
});

Deno.test("toExact() takes bigints and refuses what JSON cannot express", () => {
  assertEquals(stringifyExact(toExact({ id: 2n ** 64n })), '{"id":18446744073709551616}');
  assertThrows(() => toExact({ a: NaN }), TypeError, "NaN");
  assertThrows(() => toExact(undefined), TypeError, "undefined");
});

Deno.test("sealObject() refuses what cannot be passed on unchanged", () => {
  assertThrows(() => sealObject(parseExact("[1]")), TypeError, "JSON object");
  assertThrows(() => sealObject(parseExact("1.0")), TypeError, "JSON object");
  assertThrows(() => sealObject(parseExact('{"a":1e400}')), TypeError, "1e400");
  const deep = '{"a":' + "[".repeat(300) + "]".repeat(300) + "}";
  assertThrows(() => sealObject(parseExact(deep)), TypeError, "levels");
});

Deno.test("sealObject() freezes all through", () => {
  const sealed = sealObject(parseExact('{"a":{"b":[1]}}'));
  assertThrows(() => Object.assign(Object(sealed.a), { b: 2 }), TypeError);
});

Deno.test("parseExact() takes strings of many millions of characters or escapes", () => {
  for (const piece of ["a", '\\"', "\\\\"]) {
    const text = `{"long":"${piece.repeat(12e6)}1.0","number":1.0}`;
    assert(stringifyExact(parseExact(text)) === text, piece);
  }
});

Deno.test("parseExact() reads each name, whatever names V8 has met in its place", () => {
  const names = ["\u00e9t\u00e9", '"', "\n", 'a"b', "\u0000", "\ud800", "__proto__"];
  for (const [at, name] of names.entries()) {
    const text = JSON.stringify(name).replace(
      /[^ -~]/g,
      (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
    );
    const met = text.slice(1, 1 + name.length); // what V8 takes the name for
    parseExact(`{"n${at}":1,${JSON.stringify(met)}:2}`);
    const read = parseExact(`{"n${at}":1,${text} : [{}, [], 1.0, "\\u00e9\\"", null]}`);
    assertEquals(
      stringifyExact(read),
      `{"n${at}":1,${JSON.stringify(name)}:[{},[],1.0,"\u00e9\\"",null]}`,
    );
  }
  const doubled = '{"\\u0061":1,"a":2,"b":3,"\\u0062":4,"\\u0031":5,"__proto__":6,"\\u005f":7}';
  assertEquals(stringifyExact(parseExact(doubled)), '{"1":5,"a":2,"b":4,"__proto__":6,"_":7}');
});
