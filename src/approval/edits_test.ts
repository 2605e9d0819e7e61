import { assertEquals } from "@std/assert";
import fc from "../../tests/support/fast_check.ts";
import { parseExact, sealObject } from "../json/exact.ts";
import { argumentRows, hasEdits, lineDiff, withEdits } from "./edits.ts";

const text = fc.array(fc.constantFrom("a", "b", "\n", "\n\n", "x\ny\n", "\r\n"), { maxLength: 30 })
  .map((parts) => parts.join(""));

Deno.test("lineDiff() loses nothing of both texts", () => {
  fc.assert(fc.property(text, text, (before, after) => {
    const lines = lineDiff(before, after);
    const without = (change: string) =>
      lines.filter((line) => line.change !== change).map((line) => line.text).join("");
    assertEquals(without("+"), before);
    assertEquals(without("-"), after);
  }));
});

Deno.test("lineDiff() keeps the lines that both texts have, of texts that can be compared", () => {
  const shown = (before: string, after: string) =>
    lineDiff(before, after).map(({ change, text }) => change + text).join("");
  assertEquals(shown("a\nb\nc\nd\n", "a\nc\nx\nd\n"), " a\n-b\n c\n+x\n d\n");
  assertEquals(shown("a", "a\n"), "-a+a\n");
  assertEquals(shown("", "a"), "+a");
  assertEquals(shown("a\n", "a\n"), " a\n");
  const long = "x\n".repeat(600);
  const changed = lineDiff(`1\n${long}2`, `3\n${long}4`);
  assertEquals(changed.filter(({ change }) => change === " ").length, 0, "too many to compare");
});

Deno.test("argumentRows() shows old and new texts as their differences, wherever they are", () => {
  const rowsOf = (args: unknown) =>
    argumentRows(sealObject(parseExact(JSON.stringify(args)))).map(({ text }) => text);
  assertEquals(rowsOf({ path: "p", old_str: "a\nb", new_str: "a\nc\u202e", n: 1 }), [
    "  path='p'",
    "  old_str → new_str:",
    "    'a\\n'",
    "  - 'b'",
    "  + 'c\\u202e'",
    "  n=1",
  ]);
  assertEquals(rowsOf({ edits: [{ "it's": 2, newText: "b", oldText: "a" }, 3], more: [] }), [
    "  edits=[",
    "    {",
    "      'it\\'s': 2",
    "      oldText → newText:",
    "      - 'a'",
    "      + 'b'",
    "    }",
    "    3",
    "  ]",
    "  more=[]",
  ]);
});

Deno.test("only texts with names that belong together are compared, and all others are shown", () => {
  const others = [
    { oldText: "a", new_text: "b" },
    { oldText: "a", newText: 1 },
    { oldText: ["a"], newText: "b" },
    { newText: "b" },
    { oLdText: "a", text: "b", Text: "c" },
    { old_path: "a", new_path: "b" },
  ];
  for (const args of others) {
    assertEquals(hasEdits(sealObject(parseExact(JSON.stringify(args)))), false);
  }
  const both = sealObject({ "old-Text": "a", "new-Text": "b" });
  assertEquals(withEdits(both), [{ before: ["old-Text", "a"], after: ["new-Text", "b"] }]);
});
