import { assert, assertEquals, assertFalse, assertThrows } from "@std/assert";
import { FakeTime } from "../../tests/support/fake_time.ts";
import { TimeBudget } from "./time_budget.ts";

Deno.test("TimeBudget aborts when its time is used up", () => {
  using time = new FakeTime();
  using budget = new TimeBudget(100);
  time.advance(99);
  assertFalse(budget.expired);
  time.advance(1);
  assert(budget.expired);
  assertEquals(budget.signal.reason.name, "TimeoutError");
});

Deno.test("TimeBudget leaves out the time of overlapping pauses", async () => {
  using time = new FakeTime();
  using budget = new TimeBudget(100);
  const first = Promise.withResolvers<void>();
  const second = Promise.withResolvers<void>();
  time.advance(50);
  budget.pauseUntil(first.promise);
  budget.pauseUntil(second.promise);
  time.advance(1000);
  first.resolve();
  await settle();
  time.advance(1000);
  second.reject(new Error("expired"));
  await settle();
  time.advance(49);
  assertFalse(budget.expired);
  time.advance(1);
  assert(budget.expired);
});

Deno.test("TimeBudget without a limit never aborts", () => {
  using time = new FakeTime();
  using budget = new TimeBudget();
  time.advance(2 ** 40);
  assertFalse(budget.expired);
});

Deno.test("TimeBudget that is disposed during a pause stays quiet afterwards", async () => {
  using time = new FakeTime();
  const pause = Promise.withResolvers<void>();
  const budget = new TimeBudget(100);
  budget.pauseUntil(pause.promise);
  budget[Symbol.dispose]();
  pause.resolve();
  await settle();
  time.advance(1000);
  assertFalse(budget.expired);
});

Deno.test("TimeBudget refuses limits that are no time", () => {
  for (const limit of [0, -1, NaN]) assertThrows(() => new TimeBudget(limit), RangeError);
});

/** Lets promise reactions run. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 5; turn++) await Promise.resolve();
}
