import { assertEquals } from "@std/assert";
import { wrap } from "./command.ts";

Deno.test("wrap() breaks lines between words and keeps their indentation", () => {
  assertEquals(wrap("one two three four five six seven eight", 30), [
    "one two three four five six",
    "seven eight",
  ]);
  assertEquals(wrap("    print('a long line of code', end='')", 30), [
    "    print('a long line of",
    "    code', end='')",
  ]);
  assertEquals(wrap("  two  spaces", 30), ["  two  spaces"]);
  assertEquals(wrap("", 30), [""]);
});
