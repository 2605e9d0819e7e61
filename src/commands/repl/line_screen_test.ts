import { unicodeWidth } from "@std/cli";
import { assert, assertEquals } from "@std/assert";
import { layout, LineScreen, type LineView } from "./line_buffer.ts";

function view(text: string, cursor: number = text.length): LineView {
  return { prompt: "In [1]: ", continuation: "   ...: ", text, cursor };
}

Deno.test("code is laid out on rows that leave the last column empty", () => {
  assertEquals(layout(view("a\nbc"), 80), {
    rows: ["In [1]: a", "   ...: bc"],
    row: 1,
    column: 10,
  });
  assertEquals(layout(view("abcdef", 2), 12), { rows: ["In [1]: abc", "def"], row: 0, column: 10 });
  assertEquals(layout(view("日本語", 1), 12), { rows: ["In [1]: 日", "本語"], row: 1, column: 0 });
  assertEquals(layout(view("a\tb", 2), 80).column, 13);
});

Deno.test("no row of any text is as wide as the terminal, and its escapes are shown", () => {
  const text = "\x1b[2J日本\u202e\n" + "👩‍👩‍👧é".repeat(40) + "\x07\u200b".repeat(20);
  for (const columns of [2, 8, 9, 10, 40, 41, 80]) {
    const { rows, row, column } = layout(view(text, 30), columns);
    for (const line of rows) {
      assert(unicodeWidth(line) <= Math.max(columns - 1, 2), JSON.stringify([columns, line]));
      // deno-lint-ignore no-control-regex -- control characters are what this is about
      assert(!/[\x00-\x1f\x7f\u202e]/.test(line), line);
    }
    assert(row < rows.length && column <= unicodeWidth(rows[row] ?? ""));
  }
});

Deno.test("colors begin and end in each row, and move nothing", () => {
  const text = "日本\nx = '''a\nb''' + 1";
  const parts = [{ start: 7, end: 15, color: "32" }, { start: 18, end: 19, color: "33" }];
  const plain = view(text, 12);
  const colored = { ...plain, colors: { prompt: "1;32", text: parts } };
  // deno-lint-ignore no-control-regex -- what begins and ends colors
  const sgr = /\x1b\[([\d;]+)m/g;
  for (const columns of [2, 9, 10, 12, 80]) {
    const { rows, ...place } = layout(colored, columns);
    assertEquals(
      { rows: rows.map((row) => row.replace(sgr, "")), ...place },
      layout(plain, columns),
    );
    for (const row of rows) {
      const codes = Array.from(row.matchAll(sgr), ([, code]) => code);
      for (const [at, code] of codes.entries()) assertEquals(code === "0", at % 2 === 1, row);
      assertEquals(codes.length % 2, 0, row);
    }
  }
  assertEquals(layout(colored, 80).rows[1], "\x1b[1;32m   ...: \x1b[0mx = \x1b[32m'''a\x1b[0m");
});

Deno.test("a screen draws over what it has drawn, and of much only what is around the cursor", () => {
  let written = "";
  const screen = new LineScreen((text) => written += text, () => ({ columns: 80, rows: 4 }));
  screen.draw(view("a\nb", 0));
  assertEquals(written, "\r\x1b[JIn [1]: a\r\n   ...: b\x1b[1A\r\x1b[8C");

  written = "";
  screen.draw(view("a\nb", 3));
  assertEquals(written, "\r\x1b[JIn [1]: a\r\n   ...: b\r\x1b[9C");

  written = "";
  screen.draw(view(Array.from({ length: 10 }, (_, n) => n).join("\n"), 10));
  assertEquals(
    written,
    "\x1b[1A\r\x1b[J   ...: 3\r\n   ...: 4\r\n   ...: 5\r\n   ...: 6\x1b[1A\r\x1b[8C",
  );
});
