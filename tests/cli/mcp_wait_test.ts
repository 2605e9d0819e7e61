/** Cells that take longer than their client waits. */
import {
  assert,
  assertEquals,
  assertMatch,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import { CodeExecutionError } from "../../src/base/errors.ts";
import { silentLogger } from "../../src/base/log.ts";
import { CellRun } from "../../src/mcp_server/cell_run.ts";
import { PageAsker } from "../../src/mcp_server/page_asker.ts";
import { TestExecutor } from "../support/executor.ts";
import { McpHost } from "../support/mcp_client.ts";
import { RAW, workspaceWithServer } from "../support/mcp_workspace.ts";
import { exists } from "../support/files.ts";
import { stepsOf } from "../support/steps.ts";
import { until } from "../support/wait.ts";

const STILL =
  /^Cell (\w+) is still running(?:\. .+)?\nGet its result with wait_for_cell, cell "\1"$/;

Deno.test("ipybox mcp leaves a cell running that its client does not wait for", async (t) => {
  await using workspace = await workspaceWithServer();
  const questions: string[] = [];
  await using host = await McpHost.start({
    args: ["--workspace", workspace.path, "--no-sandbox"],
    answer: (question) => {
      questions.push(question);
      return "allow once";
    },
  });
  const step = stepsOf(t);
  /** Code that ends once there is a file. */
  const awaits = (name: string) =>
    `import os, time\nprint('begun')\nwhile not os.path.exists('${name}'): time.sleep(0.02)\n`;
  const go = (name: string) => Deno.writeTextFile(`${workspace.path}/${name}`, "");
  const wait = (cell: string) => host.call("wait_for_cell", { cell });
  const runs = async (cell: string) => STILL.test((await wait(cell)).text);
  const leave = async (code: string) => {
    const { isError, text } = await host.call("execute_ipython_cell", { code, wait_seconds: 0.1 });
    assertEquals(isError, false, text);
    return STILL.exec(text)?.[1] ?? text;
  };

  await step("and gives its result when it is asked for, more than once", async () => {
    const id = await leave(`${awaits("a")}print(6 * 7)`);
    assertEquals(await runs(id), true);
    const output = "is still running. Last output: begun\n";
    await until("its output is shown", async () => (await wait(id)).text.includes(output));
    const other = await host.call("execute_ipython_cell", { code: "1" });
    assertEquals(other.isError, true);
    assertStringIncludes(other.text, `Not run. Cell ${id} is still running`);
    await go("a");
    await until("the cell has ended", async () => !await runs(id));
    assertEquals(await host.execute("print(43)"), "43");
    const { isError, text } = await wait(id);
    assertEquals([isError, text], [false, "begun\n42"]);
  });

  await step("also when a request that waits for it is cancelled", async () => {
    const id = await leave(awaits("b"));
    await assertRejects(() =>
      host.call("wait_for_cell", { cell: id }, { signal: AbortSignal.timeout(1) })
    );
    await go("b");
    await until("the cell has ended", async () => !await runs(id));
  });

  await step("and is told of variables that a cancelled cell has lost", async () => {
    const cancel = new AbortController();
    const running = host.call("execute_ipython_cell", {
      code: "kept = 1\nopen('deaf', 'w').close()\nimport time\nwhile True:\n" +
        "    try: time.sleep(60)\n    except KeyboardInterrupt: pass",
    }, { signal: cancel.signal });
    await until("the cell has begun", () => exists(`${workspace.path}/deaf`));
    cancel.abort(new Error("enough"));
    await assertRejects(() => running);
    const { text } = await host.call("execute_ipython_cell", { code: "'kept' in globals()" });
    assertMatch(
      text,
      /^False\n*\[The kernel was restarted when an earlier cell was cancelled: all/,
    );
    assertEquals(await host.execute("1"), "1");
  });

  await step("and has its user asked when it is waited for", async () => {
    const id = await leave(`${awaits("c")}${RAW}print(raw.run_sync("count").text)`);
    await go("c");
    await until("the cell has ended", async () => !await runs(id));
    assertEquals(questions.length, 1);
  });

  await step("and has its whole output written once, however often it is asked for", async () => {
    const id = await leave(`${awaits("e")}print('x' * 6000)`);
    await go("e");
    await until("the cell has ended", async () => !await runs(id));
    const { text } = await wait(id);
    assertMatch(text, /\[Full output: /);
    assertEquals((await wait(id)).text, text);
  });

  await step("until it is reset", async () => {
    const id = await leave(awaits("d"));
    await host.call("reset");
    assertMatch((await wait(id)).text, /The cell was cancelled/);
    const unknown = await wait("nothing");
    assertEquals(unknown.isError, true);
    assertStringIncludes(unknown.text, 'There is no cell "nothing"');
  });
});

Deno.test("a cell that has ended holds no more than its report needs", async () => {
  await using session = await TestExecutor.start({ sandbox: false });
  const { executor } = session;
  for (const code of ["1", "1 / 0"]) {
    const page = new PageAsker({ page: executor.page, log: silentLogger });
    const cell = new CellRun({ executor, page }, `display({"a/b": "c"}, raw=True)\n${code}`, {});
    const step = await cell.next();
    assert(step.type === "ended");
    const { end } = step.outcome;
    const { outputs, images } = "error" in end ? end.error as CodeExecutionError : end.result;
    assertEquals([outputs, images, cell.code], [[], [], ""]);
    assert("result" in end || end.error instanceof CodeExecutionError);
  }
});
