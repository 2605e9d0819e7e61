import { assert, assertEquals } from "@std/assert";
import { Cell } from "./observed_call.ts";
import { cpuMs } from "../../tests/support/stalls.ts";

Deno.test("A cell gives the lines of its code while that runs, and no others", () => {
  const code = `a\n\n${"b".repeat(600)}\n`;
  const cell = new Cell(code);
  const { codeHash } = new Cell(code);
  assertEquals(cell.sourceAt(1), { line: 1, text: "a", code });
  assertEquals(cell.sourceAt(2), { line: 2, text: "", code });
  const text = `${"b".repeat(500)}… (600 characters)`;
  assertEquals(cell.sourceAt(3), { line: 3, text, code });
  assertEquals(cell.sourceAt(4), { line: 4, text: "", code });
  for (const none of [5, 0, -1, 0.5, NaN, Infinity]) assertEquals(cell.sourceAt(none), undefined);
  cell[Symbol.dispose]();
  assertEquals(cell.sourceAt(1), undefined);
  assertEquals(cell.codeHash, codeHash, "threads that it leaves go on calling");
});

Deno.test("A cell finds lines in code of millions of lines in no time", () => {
  const cell = new Cell("\n".repeat(7_400_000));
  const start = cpuMs();
  for (let i = 0; i < 100; i++) cell.sourceAt(7_000_000);
  const ms = cpuMs() - start;
  assert(ms < 2000, `It took ${ms} ms`); // splitting it each time takes 100 times as long as once
  const { text, code } = cell.sourceAt(100_000) ?? {};
  assertEquals([text, code?.length], ["", 20_000 + "… (7400000 characters)".length]);
});
