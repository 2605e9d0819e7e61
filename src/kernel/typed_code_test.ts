import { assertEquals, assertThrows } from "@std/assert";
import { codeCompletions, codeStatus, toCodePoints } from "./typed_code.ts";

Deno.test("positions are counted in code points on the wire, and in UTF-16 here", () => {
  const code = "😀é = 𝔸.up"; // two characters beyond 16 bits
  const points = [...code].length;

  assertEquals(toCodePoints(code, code.length), points);
  assertEquals(toCodePoints(code, 2), 1);
  assertEquals(
    codeCompletions(
      { status: "ok", matches: ["upper"], cursor_start: points - 2, cursor_end: points },
      code,
    ),
    { matches: ["upper"], start: code.length - 2, end: code.length },
  );
  assertEquals(toCodePoints("\udc00a", 1), 1); // half a character alone is one code point
});

Deno.test("a position that is none in the code is refused", () => {
  for (const index of [-1, 3, 0.5, NaN, Infinity]) {
    assertThrows(() => toCodePoints("ab", index), RangeError, `not at ${index}`);
  }
  assertThrows(() => toCodePoints("😀", 1), RangeError, "between two characters");
});

Deno.test("completions that make no sense are none", () => {
  const none = { matches: [], start: 2, end: 2 };
  const good = { status: "ok", matches: ["abc"], cursor_start: 0, cursor_end: 2 };
  assertEquals(codeCompletions(good, "ab"), { matches: ["abc"], start: 0, end: 2 });
  for (
    const bad of [
      { status: "error" },
      { matches: "abc" },
      { cursor_start: -1 },
      { cursor_start: 2, cursor_end: 1 },
      { cursor_end: 3 },
      { cursor_end: 1.5 },
      { cursor_end: "2" },
      { cursor_start: undefined },
    ]
  ) {
    assertEquals(codeCompletions({ ...good, ...bad }, "ab"), none);
  }
  assertEquals(
    codeCompletions({ ...good, matches: [1, "abc", null, "abc", "x".repeat(2000)] }, "ab").matches,
    ["abc"],
  );
  assertEquals(
    codeCompletions({ ...good, matches: Array.from({ length: 20_000 }, (_, n) => `${n}`) }, "ab")
      .matches.length,
    10_000,
  );
});

Deno.test("a status that makes no sense is unknown, and an indent is white space", () => {
  assertEquals(codeStatus({ status: "incomplete", indent: "    " }), {
    status: "incomplete",
    indent: "    ",
  });
  assertEquals(codeStatus({ status: "incomplete", indent: "\x1b[2J" }).indent, "");
  assertEquals(codeStatus({ status: "incomplete", indent: " ".repeat(2000) }).indent, "");
  assertEquals(codeStatus({ status: "complete", indent: "  " }), {
    status: "complete",
    indent: "",
  });
  assertEquals(codeStatus({ status: "ok" }), { status: "unknown", indent: "" });
  assertEquals(codeStatus({}), { status: "unknown", indent: "" });
});
