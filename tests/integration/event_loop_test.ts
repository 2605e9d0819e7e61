/** Code of a cell that runs event loops of its own. */
import {
  assert,
  assertEquals,
  assertInstanceOf,
  assertMatch,
  assertStrictEquals,
} from "@std/assert";
import { CodeExecutionError } from "../../src/base/errors.ts";
import { TestKernel, untilText } from "../support/kernel.ts";
import { rejection } from "../support/wait.ts";

const MAIN = `
import asyncio, contextvars
place = contextvars.ContextVar("place")
async def main():
    await asyncio.sleep(0.001)
    return 5
`;

/** Ways to run a coroutine in a cell, as scripts have them. */
const WAYS: readonly { name: string; code: string; text: string }[] = [
  { name: "asyncio.run()", code: "asyncio.run(main())", text: "5" },
  { name: "beside a top-level await", code: "await main() + asyncio.run(main())", text: "10" },
  {
    name: "a runner",
    code: "runner = getattr(asyncio, 'Runner', None)\n" +
      "if runner is None: print(5)\nelse:\n  with runner() as r: print(r.run(main()))",
    text: "5",
  },
  {
    name: "a loop of its own",
    code: "loop = asyncio.new_event_loop()\nprint(loop.run_until_complete(main()))\nloop.close()",
    text: "5",
  },
  {
    name: "the kernel's loop, which keeps what is bound to it",
    code: "async def later():\n" +
      "  future = asyncio.get_running_loop().create_future()\n" +
      "  asyncio.get_running_loop().call_later(0.01, future.set_result, 5)\n" +
      "  return future\n" +
      "async def wait(future): return await future\n" +
      "loop = asyncio.get_event_loop()\n" +
      "loop.run_until_complete(wait(loop.run_until_complete(later())))",
    text: "5",
  },
  { name: "anyio.run()", code: "import anyio; anyio.run(main)", text: "5" },
  {
    name: "the cell's context",
    code: "place.set('cell')\nasync def where(): print(place.get())\nasyncio.run(where())",
    text: "cell",
  },
  {
    name: "a child process",
    code:
      "async def child():\n  await (await asyncio.create_subprocess_exec('echo', 'a')).wait()\n" +
      "asyncio.run(child())",
    text: "a",
  },
];

Deno.test("A cell can run event loops of its own", async (t) => {
  await using kernel = await TestKernel.start({ interruptGraceMs: 10_000 });
  const { client } = kernel;
  await client.execute(MAIN).result;

  for (const { name, code, text } of WAYS) {
    await t.step(name, async () => {
      assertEquals(await kernel.text(code), text);
      assertEquals(
        await kernel.text("await main(); asyncio.get_running_loop().is_running()"),
        "True",
      );
    });
  }

  await t.step("an exception is the coroutine's", async () => {
    const error = await rejection(
      client.execute("async def fail(): raise ValueError('mine')\nasyncio.run(fail())").result,
    );
    assertInstanceOf(error, CodeExecutionError);
    assertEquals(error.ename, "ValueError");
    assert(!error.traceback.includes("ipybox_runtime"), error.traceback);
  });

  for (const before of ["", "await asyncio.sleep(0)\n"]) {
    await t.step(`a cancel ends it${before && ", also in a cell that awaits"}`, async () => {
      const controller = new AbortController();
      const code = `${before}async def wait():
  try:
    print("running", flush=True)
    await asyncio.sleep(60)
  finally:
    print("cleaned")
asyncio.run(wait())`;
      const execution = client.execute(code, { signal: controller.signal });
      await untilText(execution, "running");
      const reason = new Error("enough");
      controller.abort(reason);
      assertStrictEquals(await rejection(execution.result), reason);
      assertEquals(await execution.state, "kept");
      assertMatch(execution.partial().text ?? "", /cleaned/);
      assertEquals(await kernel.text("await main()"), "5");
    });
  }

  await t.step("what cannot run is told to await", async () => {
    const code = "asyncio.get_event_loop().run_until_complete(asyncio.gather(main(), main()))";
    const error = await rejection(client.execute(code).result);
    assertMatch(String(error), /\[ipybox\] A loop already runs here, so await/);
  });
});
