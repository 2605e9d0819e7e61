import { assert, assertEquals } from "@std/assert";
import { ApprovalChannel } from "../approval/channel.ts";
import { approvalPolicy } from "../approval/policy.ts";
import { silentLogger } from "../base/log.ts";
import { Approvals } from "./approvals.ts";

function makeApprovals(): Approvals {
  return new Approvals({
    policy: approvalPolicy("ask"),
    channel: new ApprovalChannel(),
    consentFile: undefined,
    log: silentLogger,
  });
}

Deno.test("Approvals give the lines of the code that runs, and of no other", () => {
  const approvals = makeApprovals();
  assertEquals(approvals.sourceAt(1), undefined);
  {
    using _cell = approvals.enterCell(`a\n\n${"b".repeat(600)}\n`);
    assertEquals(approvals.sourceAt(1), { line: 1, text: "a" });
    assertEquals(approvals.sourceAt(2), { line: 2, text: "" });
    const text = `${"b".repeat(500)}… (600 characters)`;
    assertEquals(approvals.sourceAt(3), { line: 3, text });
    assertEquals(approvals.sourceAt(4), { line: 4, text: "" });
    for (const none of [5, 0, -1, 0.5, NaN, Infinity]) {
      assertEquals(approvals.sourceAt(none), undefined);
    }
  }
  assertEquals(approvals.sourceAt(1), undefined);
  using _next = approvals.enterCell("c");
  assertEquals(approvals.sourceAt(1), { line: 1, text: "c" });
});

Deno.test("Approvals find lines in code of millions of lines in no time", () => {
  const approvals = makeApprovals();
  using _cell = approvals.enterCell("\n".repeat(7_400_000));
  const start = performance.now();
  for (let i = 0; i < 100; i++) approvals.sourceAt(7_000_000);
  const ms = performance.now() - start;
  assert(ms < 2000, `It took ${ms} ms`); // splitting it each time takes 100 times as long as once
  assertEquals(approvals.sourceAt(100_000), { line: 100_000, text: "" });
});
