import { assert, assertEquals } from "@std/assert";
import {
  byteLength,
  collapseCarriageReturns,
  cut,
  firstBytes,
  formatBytes,
  lastBytes,
} from "./text.ts";

Deno.test("collapseCarriageReturns() shows each line in its last state", () => {
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
  ];
  for (const [text, expected] of cases) assertEquals(collapseCarriageReturns(text), expected);
});

Deno.test("collapseCarriageReturns() is linear in hostile text", () => {
  const text = "x".repeat(500_000) + "\ry".repeat(500_000);
  assertEquals(collapseCarriageReturns(text).length, 500_000);
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
