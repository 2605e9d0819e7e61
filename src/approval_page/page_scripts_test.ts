/** The parts of the page's scripts that need no browser. */
import { assertEquals, assertThrows } from "@std/assert";
import fc from "../../tests/support/fast_check.ts";
import { parseExact, stringifyExact } from "../json/exact.ts";
import { formatJson, parseJson } from "../../templates/approval_page/json.js";

Deno.test("what is edited on the page is what was shown, to the byte", () => {
  fc.assert(fc.property(fc.jsonValue(), (value) => {
    const text = stringifyExact(value);
    assertEquals(stringifyExact(parseExact(formatJson(parseJson(text)))), text);
  }));
  const exact = '{"a":1.0,"b":-0,"c":123456789012345678901234567890,"d":[1E2]}';
  assertEquals(formatJson(parseJson(exact)).replaceAll(/\s/g, ""), exact);
  const hidden = formatJson(parseJson('{"a":"\\u202e\u200b\ud83d\ude00\u00ad"}'));
  assertEquals(hidden, '{\n  "a": "\\u202e\\u200b😀\\u00ad"\n}');
});

Deno.test("what is no JSON is said with its place", () => {
  const cases: [string, string][] = [
    ["", "Line 1, column 1: expected a value"],
    ['{\n  "a": 1,\n}', "Line 3, column 1: expected a name in double quotes"],
    ['{"a": 1 "b": 2}', "Line 1, column 9: expected a comma or }"],
    ["[1 2]", "Line 1, column 4: expected a comma or ]"],
    ['{"a" 1}', "Line 1, column 6: expected a colon"],
    ['{"a": 1, "a": 2}', 'Line 1, column 10: "a" appears twice'],
    ['{"a": tru}', "Line 1, column 7: expected a value"],
    ['{"a": 01}', "Line 1, column 8: expected a comma or }"],
    ['{"a": 1e999}', "Line 1, column 7: this number is too large"],
    ['{"a": "b', "Line 1, column 7: this string has no end"],
    ['{"a": "\n"}', "Line 1, column 7: this string contains a line break or an unknown escape"],
    ["{} {}", "Line 1, column 4: expected the end"],
    ["[".repeat(300), "Line 1, column 202: nests deeper than 200"],
  ];
  for (const [text, message] of cases) {
    assertThrows(() => parseJson(text), Error, message);
    assertThrows(() => JSON.parse(text === '{"a": 1, "a": 2}' || /999/.test(text) ? "" : text));
  }
});

Deno.test("a text of millions of characters is read", () => {
  const text = JSON.stringify({ a: 'x\\"\u202e'.repeat(1_000_000) });
  const { entries } = parseJson(text);
  assertEquals(entries[0][1].value.length, 4_000_000);
});
