import { assertEquals } from "@std/assert";
import { closingLine, summarize, total } from "./test_summary.ts";

const JUNIT = `<testsuite name="./a_test.ts">
  <testcase name="works" classname="./a_test.ts" time="0.001"></testcase>
  <testcase name="needs &lt;x&gt; [skipped: there is no x]" classname="./a_test.ts">
    <skipped/>
  </testcase>
</testsuite>`;

Deno.test("summarize() counts what deno counts and names what was left out", () => {
  const output =
    "works ... ok\n\x1b[32mok\x1b[0m | 1 passed (2 steps) | 0 failed | 1 ignored (1ms)\n";
  const summary = summarize(output, JUNIT, true);
  assertEquals(summary, {
    passed: 1,
    failed: 0,
    skipped: [{ name: "needs <x>", reason: "there is no x" }],
  });
  assertEquals(closingLine(summary), "1 passed, 0 failed, 1 skipped");
});

Deno.test("summarize() takes the last summary line, not what a test printed", () => {
  const output = "ok | 9 passed | 0 failed (1ms)\nFAILED | 1 passed | 3 failed (1 step) (1ms)\n";
  assertEquals(summarize(output, "", false), { passed: 1, failed: 3, skipped: [] });
});

Deno.test("summarize() counts a run that ended without a word as failed", () => {
  assertEquals(summarize("", "", false).failed, 1);
  assertEquals(summarize("ok | 2 passed | 0 failed (1ms)\n", "", false).failed, 1);
});

Deno.test("summarize() counts a test that is left out without a reason as failed", () => {
  const junit = `<testcase name="quietly left out" classname="a"><skipped/></testcase>`;
  assertEquals(summarize("ok | 2 passed | 0 failed | 1 ignored (1ms)\n", junit, true).failed, 1);
});

Deno.test("summarize() does not take what a filter left out for skipped", () => {
  const junit = `<testcase name="another test" classname="a"><skipped/></testcase>`;
  const output = "ok | 2 passed | 0 failed | 1 filtered out (1ms)\n";
  assertEquals(summarize(output, junit, true), { passed: 2, failed: 0, skipped: [] });
});

Deno.test("total() adds up several runs", () => {
  const skipped = { name: "needs x", reason: "there is no x" };
  assertEquals(
    total([
      { passed: 1, failed: 2, skipped: [] },
      { passed: 3, failed: 0, skipped: [skipped] },
    ]),
    { passed: 4, failed: 2, skipped: [skipped] },
  );
});
