import { assertEquals } from "@std/assert";
import { parseArgs, unicodeWidth } from "@std/cli";

Deno.test("parseArgs() reads options of the kinds that it is told of", () => {
  const args = parseArgs(["--name", "x", "-v", "rest"], { string: ["name"], boolean: ["v"] });
  assertEquals(args, { _: ["rest"], name: "x", v: true });
});

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
