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

Deno.test("TimeBudget leaves out the time in which any decision is pending", () => {
  using time = new FakeTime();
  using budget = new TimeBudget(100);
  time.advance(50);
  budget.setPending(1);
  budget.setPending(2);
  time.advance(1000);
  budget.setPending(1);
  time.advance(1000);
  budget.setPending(0);
  budget.setPending(0);
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

Deno.test("TimeBudget that is disposed during a pause stays quiet afterwards", () => {
  using time = new FakeTime();
  const budget = new TimeBudget(100);
  budget.setPending(1);
  budget[Symbol.dispose]();
  budget.setPending(0);
  time.advance(1000);
  assertFalse(budget.expired);
});

Deno.test("TimeBudget refuses limits that are no time", () => {
  for (const limit of [0, -1, NaN]) assertThrows(() => new TimeBudget(limit), RangeError);
});
