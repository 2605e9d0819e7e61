import { assertEquals } from "@std/assert";
import fc from "../../tests/support/fast_check.ts";
import { truncateMiddle } from "./cell_report.ts";

Deno.test("truncateMiddle() keeps a text within the limit as it is", () => {
  assertEquals(truncateMiddle("abc", 3).text, "abc");
});

Deno.test("truncateMiddle() keeps head and tail and counts what it left out", () => {
  assertEquals(
    truncateMiddle("a".repeat(10) + "b".repeat(10), 5).text,
    "aaa\n\n[Output truncated: exceeded 5 character limit, 15 of 20 characters omitted here]\n\nbb",
  );
});

Deno.test("truncateMiddle() splits no surrogate pair", () => {
  fc.assert(fc.property(fc.string({ unit: "binary" }), fc.nat(20), (text, limit) => {
    assertEquals(truncateMiddle(text, limit).text.isWellFormed(), text.isWellFormed());
  }));
});
