/** What the owner of a kernel's life tells, and to whom, when the kernel is lost, replaced or free. */
import { assertEquals, assertInstanceOf } from "@std/assert";
import { KernelDiedError } from "../../src/base/errors.ts";
import { KernelClient } from "../../src/kernel/client.ts";
import { TestExecutor } from "../support/executor.ts";
import { TestGateway, TestKernel } from "../support/kernel.ts";
import { rejection, until } from "../support/wait.ts";

const PID = "import os; os.getpid()";
/** Jedi takes seconds to load. */
const WITHOUT_JEDI = "get_ipython().Completer.use_jedi = False";

Deno.test("A loss is told once: to the next execution, unless a reset mends it before", async () => {
  await using kernel = await TestKernel.start({ spareKernel: true });
  const { client } = kernel;
  const pid = Number(await kernel.text(PID));
  await new Promise((resolve) => setTimeout(resolve, 1500)); // one that lives shorter is not replaced
  Deno.kill(pid, "SIGKILL");
  await until(async () => {
    const asked = await client.isComplete("for x in y:").catch(() => undefined); // while it dies
    return asked?.status === "incomplete" && !await isThere(pid);
  });
  const told = await rejection(client.execute("1").result);
  assertInstanceOf(told, KernelDiedError);
  assertEquals(await kernel.text("1 + 1"), "2");

  const last = client.execute("import os; os._exit(1)"); // soon after the start
  const next = client.execute("2 + 2");
  assertInstanceOf(await rejection(last.result), KernelDiedError);
  assertEquals([await last.state, await next.state], ["lost", "kept"]);
  assertEquals((await next.result).text, "4");

  const mended = Number(await kernel.text(PID));
  Deno.kill(mended, "SIGKILL");
  await until(async () => !await isThere(mended));
  await client.reset();
  assertEquals(await kernel.text("1 + 1"), "2");
});

Deno.test("Who has the result can use the executor before leaving the loop", async () => {
  await using test = await TestExecutor.start({ sandbox: false });
  const { executor } = test;
  const bound = { signal: AbortSignal.timeout(60_000) };
  const texts: (string | null)[] = [];
  await executor.execute(WITHOUT_JEDI);
  for await (const event of executor.stream("a = 20; a + 1", { events: ["chunk"], ...bound })) {
    if (event.type !== "result") continue;
    assertEquals(executor.state, "kept");
    texts.push(event.result.text, (await executor.execute("a * 2", bound)).text);
    const { matches } = await executor.complete("impo", 4, { timeoutMs: 60_000 });
    assertEquals(matches, ["import"]);
  }
  assertEquals(texts, ["21", "40"]);
});

Deno.test("Kernels that come and go leave nothing behind at their gateway's end", async () => {
  await using own = await TestGateway.start();
  const { url, token, exited } = own.gateway;
  const counted = new CountedPromise(exited);
  const options = { imagesDir: `${own.workspace}/images`, spareKernel: false };
  const gateway = { url, token, exited: counted };
  await using client = await KernelClient.start({ gateway, ...options });
  const before = counted.reactions;
  for (let round = 0; round < 2; round++) await client.reset();
  assertEquals(counted.reactions, before);
});

/** A promise that counts who waits for it. */
class CountedPromise<T> implements Promise<T> {
  readonly [Symbol.toStringTag] = "CountedPromise";
  reactions = 0;

  constructor(readonly promise: Promise<T>) {}

  then<A = T, B = never>(
    onFulfilled?: ((value: T) => A | PromiseLike<A>) | null,
    onRejected?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    this.reactions++;
    return this.promise.then(onFulfilled, onRejected);
  }

  catch<B = never>(onRejected?: ((reason: unknown) => B | PromiseLike<B>) | null): Promise<T | B> {
    return this.then(null, onRejected);
  }

  finally(onFinally?: (() => void) | null): Promise<T> {
    return this.promise.finally(onFinally);
  }
}

async function isThere(pid: number): Promise<boolean> {
  return await Deno.stat(`/proc/${pid}`).then(() => true, () => false);
}
