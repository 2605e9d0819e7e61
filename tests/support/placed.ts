/**
 * What holds wherever kernels run: the same steps for each placement.
 *
 * @module
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import {
  CodeExecutionError,
  ExecutionTimeoutError,
  KernelDiedError,
} from "../../src/base/errors.ts";
import type { CodeExecutor } from "../../src/executor/code_executor.ts";
import { follow } from "./executor.ts";
import { rawServer } from "./mcp.ts";
import { rejection, until } from "./wait.ts";

/** Uses a session: output, a server that is registered in its middle, approvals, interrupts, deaths. */
export async function useSession(executor: CodeExecutor): Promise<void> {
  assertEquals((await executor.execute("a = 40\na + 2")).text, "42");
  const long = await executor.execute("print('x' * 3_000_000)\nprint('end')");
  assertStringIncludes(long.text ?? "", "end");
  assertEquals(long.wholeText?.characters, 3_000_005);

  const before = await rejection(executor.execute("import mcptools.raw"));
  assert(before instanceof CodeExecutionError);
  await executor.registerServer("raw", rawServer());
  const call = "from mcptools.raw import echo\nprint(echo.run(echo.Params(text='hi')))";
  const refused = await rejection(follow(executor, call, (request) => request.reject("no")));
  assert(refused instanceof CodeExecutionError);
  assertStringIncludes(refused.message, "no");
  const { events } = await follow(executor, call, (request) => request.accept());
  assertEquals(events.filter((event) => event.startsWith("approval")).length, 1);
  assertStringIncludes(events.at(-1) ?? "", "hi");
  let found: string[] = [];
  await until("the checker answers within its limit", async () => {
    const { problems } = await executor.check("from mcptools import raw\nraw.ehco()");
    found = problems.map(({ evalue }) => evalue);
    return found.length > 0;
  });
  assertEquals(found, ["module 'mcptools.raw' has no attribute 'ehco'. Did you mean: 'echo'?"]);
  await executor.unregisterServer("raw");
  const left =
    "import os\nprint('raw' in os.listdir(os.environ['PYTHONPATH'].split(':')[1] + '/mcptools'))";
  assertEquals((await executor.execute(left)).text, "False");

  const late = await rejection(executor.execute("while True: pass", { timeoutMs: 300 }));
  assert(late instanceof ExecutionTimeoutError);
  assertEquals((await executor.execute("a")).text, "40");
  const died = await rejection(executor.execute("import os; os._exit(7)"));
  assert(died instanceof KernelDiedError);
  assertEquals((await executor.execute("'a' in globals()")).text, "False");
}
