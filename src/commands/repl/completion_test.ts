import { assert, assertEquals } from "@std/assert";
import { unicodeWidth } from "@std/cli";
import { choiceRows, completed } from "./line_editor.ts";

Deno.test("code is completed as far as that is clear", () => {
  const of = (matches: string[]) => completed("x = os.ge;", { matches, start: 4, end: 9 });
  assertEquals(of(["os.getcwd"]), { text: "x = os.getcwd;", cursor: 13, choices: [] });
  assertEquals(of(["os.getcwd", "os.getcwdb"]), {
    text: "x = os.getcwd;",
    cursor: 13,
    choices: [],
  });
  assertEquals(of(["os.gea", "os.geb"]), {
    text: "x = os.ge;",
    cursor: 9,
    choices: ["os.gea", "os.geb"],
  });
  assertEquals(of([]), { text: "x = os.ge;", cursor: 9, choices: [] });
});

Deno.test("magics complete what begins with % or is empty, and nothing else", () => {
  const matches = ["%page", "%%time"];
  const of = (code: string, start: number, more: string[] = []) =>
    completed(code, { matches: [...matches, ...more], start, end: code.length });
  assertEquals(of("f(pa", 2, ["path="]).text, "f(path=");
  assertEquals(of("x = 1\npa", 6), { text: "x = 1\npa", cursor: 8, choices: [] });
  for (const code of ["%", "x = 1\n%", "x = %", "%%"]) {
    assertEquals(of(code, code.indexOf("%")).choices, matches, code);
  }
  for (const code of ["", "x = 1\n"]) {
    assertEquals(of(code, code.length, ["abs"]).choices, [...matches, "abs"], code);
  }
});

Deno.test("names that would not be seen as they are complete nothing", () => {
  const matches = ["a\nimport evil", "a\x1b[2J", "a\u202eb", "a\u200b", "abc"];
  assertEquals(completed("a", { matches, start: 0, end: 1 }).text, "abc");
});

Deno.test("characters beyond 16 bits are not cut in half", () => {
  assertEquals(completed("x", { matches: ["x😀", "x😁"], start: 0, end: 1 }).text, "x");
});

Deno.test("choices are shown in columns, without what they have in common before a dot", () => {
  assertEquals(choiceRows(["a.bc", "a.bd", "a.é"], 80), "bc  bd  é\n");
  const many = Array.from({ length: 150 }, (_, n) => `日本${n}`);
  const rows = choiceRows(many, 40).split("\n");
  for (const row of rows) assert(unicodeWidth(row) < 40, row);
  assertEquals(rows.at(-2), "… 50 more");
});
