import { assert, assertEquals } from "@std/assert";
import { translatePattern } from "./pattern.ts";

Deno.test("translatePattern() says in the linear engine's dialect what ECMA-262 means", () => {
  const cases: [source: string, translated: string][] = [
    ["^[a-z]+$", "^[a-z]+$"],
    ["\\d\\D\\w\\W", "[0-9][^0-9][A-Za-z0-9_][^A-Za-z0-9_]"],
    ["[\\d\\w-]", "[0-9A-Za-z0-9_\\-]"],
    ["\\/a\\-b", "/a-b"],
    ["a{2,3}b{4}c{5,}", "a{2,3}b{4}c{5,}"],
    ["{x}", "\\{x\\}"],
    ["(?<year>\\d{4})", "(?P<year>[0-9]{4})"],
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
    assertEquals(translatePattern(source)?.longest, undefined, source);
  }
});

Deno.test("translatePattern() gives look-around and back-references to Python's re, with a bound", () => {
  const ahead = translatePattern("^(?!.*--)[a-z]+$");
  assertEquals(ahead?.source, "^(?!.*--)[a-z]+\\Z");
  assert(ahead?.longest !== undefined && ahead.longest > 100);
  assertEquals(translatePattern("(a)\\1")?.source, "(a)(?:\\1)");
  assertEquals(translatePattern("(?<x>a)\\k<x>")?.source, "(?P<x>a)(?P=x)");
  const loops = translatePattern("(?=.*a)(.*)(.*)(.*)(.*)(.*)(.*)x$");
  assert(loops?.longest !== undefined && loops.longest < 20);
});

Deno.test("translatePattern() leaves out what would hang re, and what no engine knows", () => {
  const hopeless = [
    "(?=a)(a+)+$",
    "(?!b)(a|a)*$",
    "(?=a)(a?){50}",
    "(",
    ")",
    "[",
    "*a",
    "a{2,1}",
    "\\",
  ];
  for (
    const source of [...hopeless, "\\1", "\\k<x>", "[z-a]", "\\ud800", "(?>a)", "\\A", "\ud800"]
  ) {
    assertEquals(translatePattern(source), undefined, source);
  }
});

Deno.test("translatePattern() is certain only of patterns that the linear engine surely compiles", () => {
  assertEquals(translatePattern("^[a-z]{1,64}$")?.certain, true);
  assertEquals(translatePattern("\\w{1000}")?.certain, false);
  assertEquals(translatePattern("((a{99}){99}){99}")?.certain, false);
  assertEquals(translatePattern("\\p{Foo}")?.certain, false);
});
