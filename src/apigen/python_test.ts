import fc from "../../tests/support/fast_check.ts";
import { assert, assertEquals } from "@std/assert";
import { toJson } from "./json.ts";
import { docstring, literal } from "./python.ts";

Deno.test("literal() writes JSON values as Python", () => {
  const value = toJson({ a: [null, true, false, 1, -0.5, "x\n"], 'b"': { c: 10n ** 20n } }) ?? null;
  assertEquals(
    literal(value),
    '{"a": [None, True, False, 1, -0.5, "x\\n"], "b\\"": {"c": 100000000000000000000}}',
  );
});

Deno.test("literal() leaves no character in a file that a reader would not see", () => {
  assertEquals(
    literal("\x7f\x85\u2028\u202e\ud800\ufeff"),
    '"\\u007f\\u0085\\u2028\\u202e\\ud800\\ufeff"',
  );
});

Deno.test("docstring() cannot be ended by what is in it", () => {
  const cases: [text: string, doc: string][] = [
    ["plain", '"""plain"""'],
    ['a "quoted" word', '"""a "quoted" word"""'],
    ['ends with "', '"""ends with \\""""'],
    ['"""', '"""""\\""""'],
    ['""""', '"""""\\"\\""""'],
    ["\\", '"""\\\\"""'],
    ['\\"""', '"""\\\\""\\""""'],
    ["a\0b", '"""a\\u0000b"""'],
    ["two\r\nlines", '"""two\n    lines\n    """'],
    ["lone \ud800", '"""lone \ufffd"""'],
    ["", '"""."""'],
  ];
  for (const [text, doc] of cases) assertEquals(docstring(text, 4), doc, text);
});

Deno.test("docstring() keeps every text within its quotes", () => {
  const part = fc.constantFrom('"', "\\", "\n", " ", "a", '"""', "\\\\");
  fc.assert(
    fc.property(fc.array(part, { maxLength: 12 }), (parts) => {
      const doc = docstring(parts.join(""));
      const inner = doc.slice(3, -3);
      // Seen from the left, as Python does: escapes come in pairs, three quotes never in a row.
      assert(
        /^(?:\\[^]|"{1,2}(?!")|[^"\\])*$/.test(inner) && !/(?<!\\)(?:\\\\)*"$/.test(inner),
        doc,
      );
    }),
    { numRuns: 300 },
  );
});

Deno.test("docstring() wraps long lines and hangs lists", () => {
  const doc = docstring(`Intro.\n- ${"longword ".repeat(12)}`, 4);
  assertEquals(doc.split("\n"), [
    '"""Intro.',
    `    - ${"longword ".repeat(10).trim()}`,
    "      longword longword",
    '    """',
  ]);
});
