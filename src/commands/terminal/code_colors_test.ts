import { assertEquals, assertMatch } from "@std/assert";
import { CodeColors } from "./code_colors.ts";

const E = "\x1b";
/** A row in which each color ends. */
// deno-lint-ignore no-control-regex -- control characters are what is looked for
const WITHIN_ROW = /^(?:[^\x1b]|\x1b\[[\d;]+m[^\x1b]+\x1b\[0m)*$/;

/** Chunks of output, and what a terminal gets of them and of the end. */
const CASES: readonly (readonly [what: string, chunks: readonly string[], shown: string])[] = [
  ["text", ["a\n", "b"], "a\nb"],
  ["a color", [`${E}[31mred${E}[0m normal`], `${E}[31mred${E}[0m normal`],
  [
    "one for several rows",
    [`${E}[31ma\n\nb\r`, "c\n"],
    [
      `${E}[31ma${E}[0m\n\n`,
      `${E}[31mb${E}[0m\r`,
      `${E}[31mc${E}[0m\n`,
    ].join(""),
  ],
  [
    "several at once",
    [`${E}[3;4;38;5;208;48;2;1;2;3mx${E}[39;49;24my${E}[mz`],
    [
      `${E}[3;4;38;5;208;48;2;1;2;3mx${E}[0m`,
      `${E}[3my${E}[0m`,
      "z",
    ].join(""),
  ],
  ["the last of many", [`${E}[31m${E}[32m${E}[91mx`], `${E}[91mx${E}[0m`],
  ["a sequence in several chunks", [`a${E}`, "[3", "1", "mb"], `a${E}[31mb${E}[0m`],
  ["one without an end", [`a${E}[3`], "a\\u001b[3"],
  ["bold, blinking and hidden text", [`${E}[1;5;6;8mAllow?${E}[21;22m`], "Allow?"],
  [
    "parameters of no meaning",
    [`${E}[38;5mx${E}[4:3m${E}[38:5:1m${E}[999;31my`],
    `x${E}[31my${E}[0m`,
  ],
  [
    "other sequences",
    [`${E}[31m${E}[2K${E}[1A${E}]0;t\x07${E}[?31m`],
    [
      `${E}[31m\\u001b[2K\\u001b[1A\\u001b]0;t\\u0007\\u001b[?31m${E}[0m`,
    ].join(""),
  ],
  ["too long a one", [`${E}[${"0;".repeat(40)}31mx`], `\\u001b[${"0;".repeat(40)}31mx`],
];

for (const [what, chunks, shown] of CASES) {
  Deno.test(`CodeColors passes colors and nothing else: ${what}`, () => {
    const colors = new CodeColors();
    const all = chunks.map((chunk) => colors.show(chunk)).join("") + colors.end();
    assertEquals(all, shown);
    for (const row of all.split(/[\r\n]/)) {
      assertMatch(row, WITHIN_ROW);
    }
  });
}
