import { assertEquals } from "@std/assert";
import { LineBuffer } from "./line_buffer.ts";

/** A text with `|` for the cursor, an action, and the text after it. */
const CASES: readonly (readonly [string, (buffer: LineBuffer) => unknown, string])[] = [
  ["a|c", (buffer) => buffer.insert("b"), "ab|c"],
  ["👩‍👩‍👧é|", (buffer) => buffer.backspace(), "👩‍👩‍👧|"],
  ["👩‍👩‍👧|b", (buffer) => buffer.backspace(), "|b"],
  ["a|👩‍👩‍👧b", (buffer) => buffer.delete(), "a|b"],
  ["|", (buffer) => buffer.backspace(), "|"],
  ["a|", (buffer) => buffer.delete(), "a|"],
  ["x\n        |y", (buffer) => buffer.backspace(), "x\n    |y"],
  ["x\n      |y", (buffer) => buffer.backspace(), "x\n    |y"],
  ["x\n|y", (buffer) => buffer.backspace(), "x|y"],
  ["if x:\n  a|b", (buffer) => buffer.insertLine(), "if x:\n  a\n  |b"],
  ["a🎉|b", (buffer) => buffer.move("left"), "a|🎉b"],
  ["a|🎉b", (buffer) => buffer.move("right"), "a🎉|b"],
  ["ab\nc|d", (buffer) => buffer.move("lineStart"), "ab\n|cd"],
  ["a|b\ncd", (buffer) => buffer.move("lineEnd"), "ab|\ncd"],
  ["foo.bär(|", (buffer) => buffer.move("wordStart"), "foo.|bär("],
  ["foo|.bär(", (buffer) => buffer.move("wordEnd"), "foo.bär|("],
  ["a b.c|d", (buffer) => buffer.kill("spaceBefore"), "a |d"],
  ["a b.c|d", (buffer) => buffer.kill("wordStart"), "a b.|d"],
  ["a b| cd e", (buffer) => buffer.kill("wordEnd"), "a b| e"],
  ["ab\nc|d", (buffer) => buffer.kill("lineStart"), "ab\n|d"],
  ["a|b\ncd", (buffer) => buffer.kill("lineEnd"), "a|\ncd"],
  ["ab|\ncd", (buffer) => buffer.kill("lineEnd"), "ab|cd"],
  ["ab|", (buffer) => buffer.kill("lineEnd"), "ab|"],
  ["a b|", (buffer) => (buffer.kill("spaceBefore"), buffer.yank(), buffer.yank()), "a bb|"],
  ["👩‍👩‍👧bc|\nxyz\nd", (buffer) => (buffer.down(), buffer.down()), "👩‍👩‍👧bc\nxyz\nd|"],
  ["👩‍👩‍👧b\nxyz|", (buffer) => buffer.up(), "👩‍👩‍👧b|\nxyz"],
  ["\n|", (buffer) => buffer.up(), "|\n"],
];

for (const [before, act, after] of CASES) {
  Deno.test(`LineBuffer makes ${JSON.stringify(after)} of ${JSON.stringify(before)}`, () => {
    const buffer = new LineBuffer();
    buffer.set(before.replace("|", ""), before.indexOf("|"));

    act(buffer);

    const { text, cursor } = buffer;
    assertEquals(`${text.slice(0, cursor)}|${text.slice(cursor)}`, after);
  });
}

Deno.test("LineBuffer says where there is no line above or below", () => {
  const buffer = new LineBuffer();
  buffer.set("a\nb");

  assertEquals([buffer.down(), buffer.up(), buffer.up(), buffer.cursor], [false, true, false, 1]);
});
