import { assert, assertEquals, assertFalse } from "@std/assert";
import { FakeTime } from "../../tests/support/fake_time.ts";
import { Deadline, WaitCount } from "./deadline.ts";

Deno.test("Deadline aborts when its time is up", () => {
  using time = new FakeTime();
  using deadline = new Deadline(100);
  time.advance(99);
  assertFalse(deadline.passed);
  time.advance(1);
  assert(deadline.passed);
  assertEquals(deadline.signal?.reason.name, "TimeoutError");
});

Deno.test("Deadline leaves out the time of its pauses", () => {
  using time = new FakeTime();
  const turns: boolean[] = [];
  using deadline = new Deadline(100, { onTurn: () => turns.push(deadline.runs) });
  time.advance(50);
  const first = deadline.pause();
  const second = deadline.pause();
  time.advance(1000);
  first[Symbol.dispose]();
  first[Symbol.dispose](); // ends no pause twice
  time.advance(1000);
  assertEquals(deadline.leftMs, 50);
  second[Symbol.dispose]();
  time.advance(49);
  assertFalse(deadline.passed);
  time.advance(1);
  assert(deadline.passed);
  assertEquals(turns, [false, true]);
});

Deno.test("Deadline does not pass in a pause that begins when its time is up", () => {
  using time = new FakeTime();
  const pauses = new DisposableStack();
  setTimeout(() => pauses.use(deadline.pause()), 100);
  using deadline = new Deadline(100);
  time.advance(1000);
  assertFalse(deadline.passed);
  pauses[Symbol.dispose]();
  time.advance(0);
  assert(deadline.passed);
});

Deno.test("Deadline pauses while anything is pending, until it need not look any more", () => {
  using time = new FakeTime();
  const [person, server] = [new WaitCount(), new WaitCount()];
  person.count(1);
  using deadline = new Deadline(100);
  const watch = deadline.pauseWhilePending([person, server]);
  time.advance(1000);
  server.count(1);
  person.count(-1);
  time.advance(1000);
  server.count(-1);
  time.advance(99);
  assertFalse(deadline.passed);
  watch[Symbol.dispose]();
  person.count(1);
  time.advance(1);
  assert(deadline.passed);
});

Deno.test("Deadline without a limit, or one of years, never aborts", () => {
  using time = new FakeTime();
  for (const limit of [undefined, Infinity, 2 ** 40]) {
    using deadline = new Deadline(limit, { onPassed: () => assert(false, `${limit} ms passed`) });
    time.advance(2 ** 41);
    assertFalse(deadline.passed);
    assertEquals(deadline.signal, undefined);
  }
});

Deno.test("Deadline that is disposed during a pause stays quiet afterwards", () => {
  using time = new FakeTime();
  const deadline = new Deadline(100);
  const pause = deadline.pause();
  time.advance(1000);
  deadline[Symbol.dispose]();
  pause[Symbol.dispose]();
  deadline.restart();
  time.advance(1000);
  assertFalse(deadline.passed);
});

Deno.test("Deadline gives all of its time again after the last use, and after it has passed", () => {
  using time = new FakeTime();
  let passed = 0;
  using deadline = new Deadline(100, { leftMs: 60, onPassed: () => passed++ });
  time.advance(59);
  const uses = [deadline.use(), deadline.use()];
  time.advance(1000);
  for (const use of uses) use[Symbol.dispose]();
  time.advance(99);
  assertEquals(passed, 0);
  deadline.restart();
  time.advance(99);
  assertEquals(passed, 0);
  time.advance(1);
  assertEquals(passed, 1);
  deadline.use()[Symbol.dispose]();
  assertFalse(deadline.passed);
  time.advance(100);
  assertEquals([passed, deadline.passed], [2, true]);
});

for (const keepsAlive of [true, false]) {
  Deno.test(`Deadline ${keepsAlive ? "keeps a program" : "keeps no program"} from ending`, async () => {
    const { code, stdout } = await new Deno.Command(Deno.execPath(), {
      args: [
        "eval",
        `import { Deadline } from ${JSON.stringify(new URL("deadline.ts", import.meta.url).href)};
         new Deadline(50, { keepsAlive: ${keepsAlive}, onPassed: () => console.log("passed") });`,
      ],
    }).output();
    assertEquals([code, new TextDecoder().decode(stdout)], [0, keepsAlive ? "passed\n" : ""]);
  });
}
