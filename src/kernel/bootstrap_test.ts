import { assertEquals } from "@std/assert";
import { inspectionCode } from "./bootstrap.ts";

Deno.test("the code to look at is one literal of Python, also with characters beyond 16 bits", () => {
  const literal = /\.look\((".*")\)$/.exec(inspectionCode("x = 'é😀'\u2028"))?.[1];
  assertEquals(literal, String.raw`"x = '\u00e9\U0001f600'\u2028"`);
  assertEquals(valueOf(literal), "x = 'é😀'\u2028");
});

/** The value of a Python string literal. */
function valueOf(literal = ""): string {
  const halves = literal.replaceAll(
    /\\U([0-9a-f]{8})/g,
    (_, digits: string) => String.fromCodePoint(parseInt(digits, 16)),
  );
  return JSON.parse(halves);
}
