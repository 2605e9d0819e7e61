import { assertEquals, assertRejects, assertStrictEquals, assertThrows } from "@std/assert";
import { GatewayStartError } from "./errors.ts";
import { Mutex, Semaphore } from "./mutex.ts";
import { AsyncQueue } from "./queue.ts";
import { abortable, settledWithin } from "./signals.ts";

Deno.test("Mutex gives turns in the order in which they were asked for", async () => {
  const mutex = new Mutex();
  const order: number[] = [];
  await Promise.all([1, 2, 3].map(async (turn) => {
    using _lock = await mutex.acquire();
    order.push(turn);
    await Promise.resolve();
    order.push(turn);
  }));
  assertEquals(order, [1, 1, 2, 2, 3, 3]);
});

Deno.test("AsyncQueue delivers everything before its end", async () => {
  const queue = new AsyncQueue<number>();
  queue.push(1);
  queue.push(2);
  queue.end();
  queue.push(3);
  assertEquals(await queue.next(), { value: 1, done: false });
  assertEquals(await queue.next(), { value: 2, done: false });
  assertEquals((await queue.next()).done, true);
});

Deno.test("AsyncQueue wakes a waiting consumer at its end", async () => {
  const queue = new AsyncQueue<number>();
  const next = queue.next();
  queue.end();
  assertEquals((await next).done, true);
});

Deno.test("abortable() rejects with the signal's own reason", async () => {
  const reason = new Error("why");
  const never = new Promise<void>(() => {});
  const controller = new AbortController();
  const waiting = abortable(never, controller.signal).catch((error: unknown) => error);
  controller.abort(reason);
  assertStrictEquals(await waiting, reason);
  assertStrictEquals(await abortable(never, controller.signal).catch((e: unknown) => e), reason);
});

Deno.test("settledWithin() says whether a promise settled in time", async () => {
  assertEquals(await settledWithin(Promise.reject(new Error("no")), 1000), true);
  assertEquals(await settledWithin(new Promise(() => {}), 1), false);
});

Deno.test("Semaphore lends no more than it has, in the order in which it was asked", async () => {
  const semaphore = new Semaphore(10);
  const first = await semaphore.acquire(undefined, 6);
  const order: string[] = [];
  const large = semaphore.acquire(undefined, 8).then((share) => (order.push("large"), share));
  const small = semaphore.acquire(undefined, 2).then((share) => (order.push("small"), share));
  assertStrictEquals(semaphore.tryAcquire(1), undefined, "others wait");
  first[Symbol.dispose]();
  first[Symbol.dispose](); // gives nothing back twice
  const shares = await Promise.all([large, small]);
  assertEquals(order, ["large", "small"]);
  assertStrictEquals(semaphore.tryAcquire(1), undefined);
  for (const share of shares) share[Symbol.dispose]();
  using all = semaphore.tryAcquire(1_000_000); // all that there is
  assertEquals(all !== undefined, true);
  assertStrictEquals(semaphore.tryAcquire(1), undefined);
});

Deno.test("Semaphore lends no number of shares that is none", async () => {
  const semaphore = new Semaphore(1);
  for (const count of [NaN, -1]) {
    assertThrows(() => semaphore.tryAcquire(count), RangeError);
    await assertRejects(() => semaphore.acquire(undefined, count), RangeError);
  }
  using _one = semaphore.tryAcquire();
  assertEquals(semaphore.tryAcquire(), undefined);
});

Deno.test("Semaphore lets the next one in when a waiter gives up", async () => {
  const semaphore = new Semaphore(2);
  const held = await semaphore.acquire();
  const controller = new AbortController();
  const gaveUp = assertRejects(() => semaphore.acquire(controller.signal, 2), Error, "no more");
  const small = semaphore.acquire();
  controller.abort(new Error("no more"));
  await gaveUp;
  using _small = await small;
  held[Symbol.dispose]();
});

Deno.test("the last words of a process are not the frames of JavaScript's stack", () => {
  const frames = Array.from({ length: 20 }, (_, at) => `    at load (node:internal:${at})\n`).join(
    "",
  );
  const said = `Error: Cannot find package "x"\nat least one is missing\n`;
  const stderrTail = `${said}${frames}\n  code: 'ERR_MODULE_NOT_FOUND'\n`;
  const { message } = new GatewayStartError("It ended", { exitCode: 1, signal: null, stderrTail });
  assertEquals(
    message,
    'It ended\nLast lines of its stderr:\n  Error: Cannot find package "x"\n' +
      "  at least one is missing\n    code: 'ERR_MODULE_NOT_FOUND'",
  );
});
