import { assert, assertEquals, assertRejects } from "@std/assert";
import { until } from "../../tests/support/wait.ts";
import { silentLogger } from "./log.ts";
import { ReadyPool, type ReadyPoolOptions } from "./ready_pool.ts";

/** Something that is kept ready in these tests. */
class Item implements AsyncDisposable {
  isFit = true;
  isEnded = false;

  constructor(readonly number: number) {}

  [Symbol.asyncDispose](): Promise<void> {
    this.isEnded = true;
    return Promise.resolve();
  }
}

/** A pool that keeps what it started. */
function poolOf(options: Partial<ReadyPoolOptions<Item>> & { readonly size: number }) {
  const started: Item[] = [];
  const pool = new ReadyPool<Item>({
    start: () => {
      const item = new Item(started.length);
      started.push(item);
      return Promise.resolve(item);
    },
    isFit: ({ isFit }) => Promise.resolve(isFit),
    log: silentLogger,
    ...options,
  });
  return { pool, started, take: () => pool.take({ waits: false }) };
}

Deno.test("ReadyPool hands each out once, and starts another one for each", async () => {
  const { pool, started, take } = poolOf({ size: 2 });
  await using _ = pool;
  await pool.fill();
  pool.keep();

  const taken = await Promise.all([take(), take(), take()]);

  assertEquals(taken, [started[0], started[1], undefined]);
  await until("there are others", () => started.length === 4);
  assertEquals([await take(), await take()], [started[2], started[3]]);
  await pool[Symbol.asyncDispose]();
  assert(!started.slice(0, 4).some(({ isEnded }) => isEnded));
});

Deno.test("ReadyPool replaces those that nobody should get any more", async () => {
  const { pool, started, take } = poolOf({ size: 2 });
  await using _ = pool;
  await pool.fill();
  started[0]!.isFit = false;

  assertEquals(await take(), started[1]);

  assert(started[0]!.isEnded);
  pool.keep();
  await until("there are others", () => started.length === 4);
  started[2]!.isFit = false;
  const isFit = () => Promise.reject(new Error("Cannot tell"));
  const doubtful = poolOf({ size: 1, isFit });
  await doubtful.pool.fill();
  assertEquals(await doubtful.take(), undefined);
  await doubtful.pool[Symbol.asyncDispose]();
  assert(doubtful.started[0]!.isEnded);
});

Deno.test("ReadyPool tries a start that failed again when somebody asks", async () => {
  let starts = 0;
  const start = () =>
    starts++ === 0 ? Promise.reject(new Error("no")) : Promise.resolve(new Item(9));
  const warnings: string[] = [];
  const log = { ...silentLogger, warn: (text: string) => void warnings.push(text) };
  const { pool, take } = poolOf({ size: 1, start, log });
  await using _ = pool;
  pool.keep();
  await until("it has failed", () => warnings.length > 0);
  assertEquals(warnings, ["Nothing is kept ready: no"]);

  assertEquals(await take(), undefined);

  await until("there is one", () => starts === 2);
  assertEquals((await pool.take({ waits: true }))?.number, 9);
});

Deno.test("Disposing ReadyPool ends the one that is being started, for its waiter, too", async () => {
  const starting = Promise.withResolvers<void>();
  const start = (signal: AbortSignal) =>
    new Promise<Item>((_, reject) => {
      starting.resolve();
      signal.addEventListener("abort", () => reject(signal.reason), { once: true });
    });
  const { pool } = poolOf({ size: 1, start });
  pool.keep();
  await starting.promise;
  const waiter = pool.take({ waits: true });

  await pool[Symbol.asyncDispose]();

  assertEquals(await waiter, undefined);
  await assertRejects(() => pool.fill(), DOMException, "closed");
});
