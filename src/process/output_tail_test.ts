import { assert, assertEquals } from "@std/assert";
import fc from "../../tests/support/fast_check.ts";
import { OutputTail, stripTerminalEscapes } from "./managed_process.ts";

const encoder = new TextEncoder();

function lines(tail: OutputTail, ...chunks: Uint8Array[]): string[] {
  return [...chunks.flatMap((chunk) => [...tail.push(chunk)]), ...tail.end()];
}

Deno.test("OutputTail gives the same lines however the bytes are cut", () => {
  const output = "eins\r\nzwei ü\rdrei\x1b[31m rot\x1b[0m\n\nende";
  const bytes = encoder.encode(output);
  fc.assert(fc.property(fc.array(fc.nat(bytes.length)), (cuts) => {
    const edges = [0, ...cuts.sort((a, b) => a - b), bytes.length];
    const chunks = edges.slice(1).map((edge, i) => bytes.subarray(edges[i], edge));
    assertEquals(lines(new OutputTail(), ...chunks), ["eins", "zwei ü", "drei rot", "", "ende"]);
  }));
});

Deno.test("OutputTail keeps the last lines only, and no line without end", () => {
  const tail = new OutputTail(100);
  for (let i = 0; i < 1000; i++) lines(tail, encoder.encode(`line ${i}\n`));
  assert(tail.text.length <= 100);
  assert(tail.text.endsWith("line 998\nline 999\n"));
  lines(tail, encoder.encode("x".repeat(1_000_000)));
  assert(tail.text.length <= 8 * 1024 + 101);
});

Deno.test("stripTerminalEscapes() leaves no control character but the tab", () => {
  assertEquals(stripTerminalEscapes("\x1b]0;title\x07a\x1b[2Jb\x1bcc\td\x9b31me"), "abc\td31me");
  fc.assert(fc.property(fc.string({ unit: "binary" }), (text) => {
    // deno-lint-ignore no-control-regex -- control characters are what is looked for
    assert(!/[\x00-\x08\x0a-\x1f\x7f-\x9f]/.test(stripTerminalEscapes(text)));
  }));
});
