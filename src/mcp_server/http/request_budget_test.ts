import { assertEquals, assertMatch, assertRejects } from "@std/assert";
import { Refused } from "../../calls/door.ts";
import { FakeTime } from "../../../tests/support/fake_time.ts";
import { RequestBudget } from "./request_budget.ts";

const MIB = 2 ** 20;
/** As many as leave each one the least share, which is 64 MiB. */
const OWNERS = 1000;

/** A small request of Alice's. */
const SMALL = { owner: "alice", message: {}, length: 100, signal: new AbortController().signal };

/** An answer in parts of so many MiB, all of which are there immediately. */
function answerOf(...parts: number[]): Response {
  const body = new ReadableStream({
    start(controller) {
      for (const part of parts) controller.enqueue(new Uint8Array(part * MIB));
      controller.close();
    },
  });
  return new Response(body);
}

/** Lets everything run that waits for nothing. */
async function turn(): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve));
}

Deno.test("RequestBudget.answer() ends an answer of which too much is unread, and no other owner's", async () => {
  const budget = new RequestBudget(OWNERS);
  const answer = async (owner: string, ...parts: number[]) =>
    await budget.answer({ ...SMALL, owner }, () => Promise.resolve(answerOf(...parts)));

  const unread = await answer("alice", 20, 20);
  const tooMuch = await answer("alice", 20, 20);
  const others = await answer("bob", 60);
  await turn();

  await assertRejects(() => tooMuch.bytes(), Refused, "too much memory");
  assertEquals((await others.bytes()).length, 60 * MIB);
  assertEquals((await unread.bytes()).length, 40 * MIB);
  await (await answer("alice", 60)).body?.cancel();
  assertEquals((await (await answer("alice", 60)).bytes()).length, 60 * MIB);
});

Deno.test("RequestBudget.answer() has an owner's resources read one after the other, while they fit", async () => {
  const budget = new RequestBudget(OWNERS);
  let underWay = 0;
  const read = async () =>
    await budget.answer({ ...SMALL, message: { method: "resources/read" } }, async () => {
      assertEquals(++underWay, 1);
      await turn();
      underWay--;
      return answerOf(30);
    });

  const answers = [read(), read()];
  await assertRejects(read, Refused, "too much memory");

  for (const answer of answers) assertEquals((await (await answer).bytes()).length, 30 * MIB);

  const many = await Promise.allSettled(Array.from({ length: 65 }, read));
  const last = many.at(-1);
  assertEquals(many.filter(({ status }) => status === "fulfilled").length, 2);
  assertMatch(last?.status === "rejected" ? String(last.reason) : "", /64 of your requests/);
});

Deno.test("RequestBudget.forRequest() has an owner wait whose requests have many values, and no other", async () => {
  using time = new FakeTime();
  const budget = new RequestBudget(OWNERS);
  const { signal } = new AbortController();
  const body = new TextEncoder().encode(`[${"1,".repeat(19_998)}1]`); // 20,000 values with the list
  for (let at = 0; at < 2; at++) (await budget.forRequest("a", body, signal))[Symbol.dispose]();
  let isDone = false;
  const third = budget.forRequest("a", body, signal).then((use) => {
    use[Symbol.dispose]();
    isDone = true;
  });
  (await budget.forRequest("b", body, signal))[Symbol.dispose]();
  time.advance(1043); // 50,000 free, and 16 for the length of each body
  await Promise.resolve();
  assertEquals(isDone, false);
  time.advance(10);
  await third;
  const leaving = new AbortController();
  const fourth = budget.forRequest("a", body, leaving.signal);
  leaving.abort(new Error("gone"));
  await assertRejects(() => fourth, Error, "gone");
});

Deno.test("RequestBudget.answer() handles 16 small requests of an owner at a time, or one large one", async () => {
  using time = new FakeTime();
  const budget = new RequestBudget(OWNERS);
  const underWay: string[] = [];
  const ask = (owner: string, length = 100) => {
    const answer = Promise.withResolvers<Response>();
    budget.answer({ ...SMALL, owner, length }, () => {
      underWay.push(owner);
      return answer.promise;
    });
    return answer;
  };
  const settle = () => new Promise((resolve) => setImmediate(resolve));

  const first = ask("alice");
  for (let at = 0; at < 19; at++) ask("alice");
  ask("bob", 15 * MIB);
  ask("bob");
  await settle();
  assertEquals(countOf(underWay), { alice: 16, bob: 1 });

  first.resolve(new Response("done"));
  await settle();
  assertEquals(countOf(underWay), { alice: 17, bob: 1 });
  time.advance(100); // what takes so long is a cell
  await settle();
  assertEquals(countOf(underWay), { alice: 20, bob: 2 });
});

Deno.test("RequestBudget.answer() has an owner wait who sends many requests, however small", async () => {
  using time = new FakeTime();
  const budget = new RequestBudget(OWNERS);
  const ask = (owner: string) =>
    budget.answer({ ...SMALL, owner }, () => Promise.resolve(new Response(null)));
  for (let at = 0; at < 250; at++) await ask("alice");
  let isDone = false;
  const next = ask("alice").then(() => isDone = true);
  await ask("bob");
  assertEquals(isDone, false);
  time.advance(20);
  await next;
});

Deno.test("RequestBudget.answer() has an owner wait whose answers are long, and no other", async () => {
  using time = new FakeTime();
  const budget = new RequestBudget(OWNERS);
  const ask = async (owner: string, ...parts: number[]) => {
    const answer = await budget.answer(
      { ...SMALL, owner },
      () => Promise.resolve(answerOf(...parts)),
    );
    await answer.bytes();
  };
  await ask("alice", 60); // 25,165 values
  await ask("alice", 60);
  let isDone = false;
  const next = ask("alice").then(() => isDone = true);
  await ask("bob");
  assertEquals(isDone, false);
  time.advance(93); // 50,000 free, and 200 for each request
  await Promise.resolve();
  assertEquals(isDone, false);
  time.advance(2);
  await next;
});

function countOf(names: readonly string[]): Record<string, number> {
  return Object.fromEntries(
    Map.groupBy(names, (name) => name).entries().map(([name, { length }]) => [name, length]),
  );
}
