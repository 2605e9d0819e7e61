import { assert, assertEquals, assertThrows } from "@std/assert";
import { MessageRoom, UnusableMessageError } from "./message.ts";

Deno.test("MessageRoom drops the largest message of who takes most", () => {
  const room = new MessageRoom(1000);
  const [greedy, modest] = [{}, {}];
  const [small, large] = [room.begin(greedy), room.begin(greedy)];
  small.add(350);
  large.add(400);
  using mine = room.begin(modest);
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

Deno.test("MessageRoom has room again when messages end", () => {
  const room = new MessageRoom(1000);
  const stream = room.begin({});
  for (let n = 0; n < 10; n++) {
    stream.add(900);
    stream.end();
  }
  for (let n = 0; n < 10; n++) {
    using message = room.begin({});
    message.add(1000);
  }
  assertThrows(() => stream.add(1001), UnusableMessageError);
});
