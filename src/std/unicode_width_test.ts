import { assertEquals } from "@std/assert";
import { unicodeWidth } from "@std/cli";

Deno.test("unicodeWidth() counts columns and not characters", () => {
  assertEquals(["abc", "é", "e\u0301", "日本", "ａ", "🙂", "한", "\u200b"].map(unicodeWidth), [
    3,
    1,
    1,
    4,
    2,
    2,
    2,
    0,
  ]);
});
