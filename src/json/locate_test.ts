import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { locateJsonError } from "./locate.ts";

const CASES: Record<string, [line: number, column: number, found: string]> = {
  "": [1, 1, "the text ends too early"],
  '{"a": nothing}': [1, 7, 'unexpected "n"'],
  '{\n  "a": 1,\n}': [3, 1, 'unexpected "}"'],
  '{"a": [1, 2,]}': [1, 13, 'unexpected "]"'],
  "{'a': 1}": [1, 2, `unexpected "'"`],
  '{"a" 1}': [1, 6, 'unexpected "1"'],
  '{"a": 1 "b": 2}': [1, 9, 'unexpected "\\""'],
  '{"a": 1]': [1, 8, 'unexpected "]"'],
  '{"a": 1}\n// done': [2, 1, 'unexpected "/"'],
  '["a\nb"]': [1, 4, 'unexpected "\\n"'],
  '["\\x"]': [1, 3, 'unexpected "\\\\"'],
  "[01]": [1, 3, 'unexpected "1"'],
  '{"a": {"b": [': [1, 14, "the text ends too early"],
  "😀": [1, 1, 'unexpected "😀"'],
};

for (const [text, [line, column, found]] of Object.entries(CASES)) {
  Deno.test(`locateJsonError() finds the mistake in ${JSON.stringify(text)}`, () => {
    assertEquals(locateJsonError(text), { line, column, found });
  });
}

Deno.test("locateJsonError() reads all of a text up to what was broken in it", () => {
  fc.assert(fc.property(fc.json(), fc.nat(), (json, seed) => {
    const at = seed % (json.length + 1);
    const broken = `${json.slice(0, at)}\x01${json.slice(at)}`;
    const { line, column } = locateJsonError(broken);
    const before = broken.split("\n").slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
    const found = before + column - 1;
    // Not behind it, and not before the number, the word or the escape sequence that it broke.
    const between = broken.slice(found, at);
    assert(found <= at && /^([\w.+-]*|\\[\da-fu]*)$/i.test(between), `${found} ${at} ${broken}`);
  }));
});

Deno.test("locateJsonError() finds mistakes at any depth", () => {
  const depth = 200_000;
  for (const [open, width] of [["[", 1], ['{"a":', 5]] as const) {
    assertEquals(locateJsonError(`${open.repeat(depth)}x`), {
      line: 1,
      column: depth * width + 1,
      found: 'unexpected "x"',
    });
  }
});
