import { assertEquals } from "@std/assert";
import { translatePattern } from "./pattern.ts";

Deno.test("translatePattern() says in the linear engine's dialect what ECMA-262 means", () => {
  const cases: [source: string, translated: string][] = [
    ["^[a-z]+$", "^[a-z]+$"],
    ["\\d\\D\\w\\W", "[0-9][^0-9][A-Za-z0-9_][^A-Za-z0-9_]"],
    ["[\\d\\w-]", "[0-9A-Za-z0-9_\\-]"],
    ["\\/a\\-b", "/a-b"],
    ["a{2,3}b{4}c{5,}", "a{2,3}b{4}c{5,}"],
    ["{x}", "\\{x\\}"],
    ["(?<year>\\d{4})", "([0-9]{4})"],
    ["\\u0041\\x42\\cA\\0", "AB\\x01\\x00"],
    ["\\ud83d\\ude00", "😀"],
    ["\\u{1F600}", "😀"],
    ["\\bx", "(?-u:\\b)x"],
    ["[[a]", "[\\[a]"],
    ["[a&&b~~c]", "[a\\&\\&b\\~\\~c]"],
    ["[^]", "[\\s\\S]"],
    ["[]", "[^\\s\\S]"],
    ["\\p{Letter}\\p{Script=Greek}", "\\p{Letter}\\p{Greek}"],
  ];
  for (const [source, translated] of cases) {
    assertEquals(translatePattern(source)?.source, translated, source);
  }
});

Deno.test("translatePattern() leaves out what has no translation", () => {
  const broken = [
    "(",
    ")",
    "[",
    "*a",
    "a{2,1}",
    "\\",
    "\\k<x>",
    "[z-a]",
    "(?>a)",
    "(?<a>x)|(?<a>y)",
  ];
  const unknown = [
    "\\1",
    "\\012",
    "\\A",
    "\\p{L}\\-",
    "\\ud800",
    "\ud800",
    "\\1(a)",
    "\\p{Foo}",
  ];
  const large = ["a".repeat(5_001), "(".repeat(101) + ")".repeat(101)];
  const backtracking = ["(?=a)b", "(?!a)b", "(?<=a)b", "(?<!a)b", "(a)\\1", "(?<x>a)\\k<x>"];
  for (const source of [...backtracking, ...broken, ...unknown, ...large]) {
    assertEquals(translatePattern(source), undefined, source);
  }
});

Deno.test("translatePattern() is certain only of patterns that the linear engine surely compiles", () => {
  assertEquals(translatePattern("^[a-z]{1,64}$")?.certain, true);
  assertEquals(translatePattern("\\w{1000}")?.certain, false);
  assertEquals(translatePattern(`^(?:${"\\S".repeat(2400)}){250}$`)?.certain, false);
  assertEquals(translatePattern("((a{99}){99}){99}")?.certain, false);
  assertEquals(translatePattern("\\p{Letter}")?.certain, false);
});
