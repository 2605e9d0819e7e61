import { assertEquals } from "@std/assert";
import { TerminalFilter } from "./output_printer.ts";

Deno.test("colours, progress bars and text stay as they are", () => {
  const text = "\r 50% \x1b[1;31mred\x1b[0m\x1b[K\x1b[A\b\x07\ttab \u4e16\u754c\n";

  assertEquals(new TerminalFilter().filter(text), text);
});

Deno.test("other control sequences are shown as escapes", () => {
  const text = "\x1b]52;c;eA==\x07\x1b[6n\x1b[?1049h\x1bc\x9b6n\x05";

  const shown = "\\x1b]52;c;eA==\x07\\x1b[6n\\x1b[?1049h\\x1bc\\x9b6n\\x05";
  assertEquals(new TerminalFilter().filter(text), shown);
});

Deno.test("a sequence may come in pieces", () => {
  const filter = new TerminalFilter();

  const shown = ["a\x1b", "[3", "1mred\x1b", "]0;x"].map((text) => filter.filter(text));

  assertEquals(shown, ["a", "", "\x1b[31mred", "\\x1b]0;x"]);
});
