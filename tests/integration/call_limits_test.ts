/** The limits of tool calls that an application sets, seen from the code in the kernel. */
import { assertEquals } from "@std/assert";
import { TestExecutor } from "../support/executor.ts";
import { rawServer } from "../support/mcp.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { until } from "../support/wait.ts";

const RAW = "import ipybox_runtime as r\nraw = r.ToolRunner('raw')\n";

Deno.test("CodeExecutor's limits of tool calls hold", async () => {
  await using folder = await TempFolder.create();
  const journal = `${folder.path}/journal`;
  await using test = await TestExecutor.start({
    servers: { raw: rawServer("normal", journal) },
    approval: "allow",
    sandbox: false,
    spareKernel: false,
    callTimeoutMs: 2000,
    serverIdleMs: 1,
  });
  const { executor } = test;
  const run = async (code: string) => (await executor.execute(RAW + code)).text;

  const slow = "try:\n    raw.run_sync('sleep', {'ms': 60000})\nexcept r.ToolTimeoutError as e:\n" +
    "    print(type(e).__name__)";
  assertEquals(await run(slow), "ToolTimeoutError");

  // A server that was stopped meanwhile counts from the start.
  const count = "print(raw.run_sync('count').text)";
  await run(count);
  await until(async () => await run(count) === "1");
});
