import { assert, assertEquals } from "@std/assert";
import {
  byteLength,
  cut,
  firstBytes,
  formatBytes,
  lastBytes,
  shownOnScreen,
  withoutEscapes,
} from "./text.ts";

Deno.test("shownOnScreen() shows each line in its last state", () => {
  const cases: readonly (readonly [string, string])[] = [
    ["plain\ntext", "plain\ntext"],
    ["10%\r20%\r100%\n", "100%\n"],
    ["100%\r99", "99 %".replace(" ", "0")],
    ["a\r\nb\r\n", "a\nb\n"],
    ["done\r", "done"],
    ["\rx", "x"],
    ["abc\b\bX", "aXc"],
    ["\b\bx", "x"],
    ["x\r日本\n", "日本\n"],
    ["\x1b[1;31mred\x1b[0m \x1b]8;;http://a\x07link\x1b]8;;\x1b\\", "red link"],
    ["outer 1\n\rinner 1\x1b[A\router 2\n\rinner 2\n", "outer 2\ninner 2\n"],
    ["bar\n\rinner\x1b[A\n\r     \r\x1b[A\rbar 2\ndone", "bar 2\ndone"],
    ["a\nb\nc\x1b[2K\x1b[1A\x1b[2K\x1b[1A\x1b[2K\rnew\nlines", "new\nlines\n"],
    ["a\nb\nc\x1b[2A\r\x1b[Jnew", "new"],
    ["50% done\x1b[1G100%\x1b[K", "100%"],
    ["a\x1b[99A\x1b[99B\x1b[99999999Gb\x1b[1;?Ac\x1b[0G", "cb"],
    ["kept  \n\r", "kept  \n"],
    ["\x1b]no end, \x1b[12", "no end, 12"],
  ];
  for (const [text, expected] of cases) assertEquals(shownOnScreen(text), expected);
});

Deno.test("shownOnScreen() is linear in hostile text", () => {
  const text = "x".repeat(500_000) + "\ry".repeat(500_000);
  assertEquals(shownOnScreen(text).length, 500_000);
  assertEquals(shownOnScreen("x".repeat(500_000) + "\x1b[2Ky".repeat(100_000)), "y");
  assertEquals(shownOnScreen("\x1b]".repeat(500_000)), "");
  assertEquals(withoutEscapes("\x1b[" + "1".repeat(500_000)).length, 500_000);
});

Deno.test("firstBytes() and lastBytes() keep whole characters", () => {
  assertEquals(firstBytes("aé日🎉", 3), "aé");
  assertEquals(firstBytes("aé日🎉", 5), "aé");
  assertEquals(lastBytes("aé日🎉", 6), "🎉");
  assertEquals(lastBytes("aé日🎉", 7), "日🎉");
  assertEquals(firstBytes("short", 100), "short");
  assertEquals(lastBytes("日", 1), "");
});

Deno.test("cut() says how much is missing", () => {
  assertEquals(cut("short", 10), "short");
  const text = cut("a".repeat(3000) + "b".repeat(3000), 1000);
  assert(text.startsWith("aaa") && text.endsWith("bbb"));
  assertEquals(text.match(/\[.*\]/)?.[0], "[ipybox: 4.9 KiB omitted here]");
  assertEquals(byteLength("é"), 2);
  assertEquals(
    [812, 1024, 20_000_000, 8 * 1024 ** 3].map(formatBytes),
    ["812 bytes", "1.0 KiB", "19.1 MiB", "8.0 GiB"],
  );
});
