import { assert, assertEquals, assertThrows } from "@std/assert";
import { MessageBudget, UnusableMessageError } from "./message.ts";

Deno.test("MessageBudget drops the largest message of the owner that uses most", () => {
  const budget = new MessageBudget(1000);
  const [greedy, modest] = [{}, {}];
  const [small, large] = [budget.begin(greedy), budget.begin(greedy)];
  small.add(350);
  large.add(400);
  using mine = budget.begin(modest);
  mine.add(250);
  assert(!large.dropped.aborted, "all of them fit");
  mine.add(100);
  assert(large.dropped.aborted);
  assertThrows(() => large.add(1), UnusableMessageError, "exceed 1000 bytes in total");
  assertEquals([small.bytes, large.bytes, mine.bytes], [350, 0, 350]);
  mine.add(300);
  small.add(0);
  assertThrows(() => mine.add(1), UnusableMessageError, "the largest"); // now it takes most
});

Deno.test("MessageBudget releases memory when messages end", () => {
  const budget = new MessageBudget(1000);
  const stream = budget.begin({});
  for (let n = 0; n < 10; n++) {
    stream.add(900);
    stream.end();
  }
  for (let n = 0; n < 10; n++) {
    using message = budget.begin({});
    message.add(1000);
  }
  assertThrows(() => stream.add(1001), UnusableMessageError);
});
