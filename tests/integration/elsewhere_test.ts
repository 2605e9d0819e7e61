/** Calls that wait in other sessions of a workspace, as the approval page names them. */
import { assertEquals } from "@std/assert";
import { silentLogger } from "../../src/base/log.ts";
import { CodeExecutor } from "../../src/executor/code_executor.ts";
import type { NotedOptions } from "../../src/executor/durable.ts";
import { browserTest } from "../support/browser.ts";
import { rawServer } from "../support/mcp.ts";
import { testPython } from "../support/python.ts";
import { TempFolder } from "../support/temp_folder.ts";

const CODE = 'from ipybox_runtime import ToolRunner\nToolRunner("raw").run_sync("count").text';

browserTest("a page names what waits in a durable session beside it", async (browser) => {
  await using folder = await TempFolder.create();
  const { path: workspace } = folder;
  const options = { servers: { raw: rawServer() }, python: testPython(), log: silentLogger };
  const durable: NotedOptions = { idleMs: 120_000, name: "work" };
  await using own = await CodeExecutor.start({ ...options, workspace });
  await using other = await CodeExecutor.start({
    ...options,
    workspace,
    durable,
  });
  const { sessionId: id = "" } = other;
  const asked = Promise.withResolvers<void>();
  const over = (async () => {
    for await (const event of other.stream(CODE)) if (event.type === "approval") asked.resolve();
  })().catch(() => {}); // it is left
  await asked.promise;
  const page = await browser.open(own.page.url());
  const item = page.locator("#elsewhere-list li");
  await item.getByText("Decide it with the program that has this session").waitFor();
  assertEquals(await item.locator(".name").innerText(), "raw.count");
  await other.detach();
  await over;
  await item.getByText(`Continue the session: ipybox attach ${id}`).waitFor();

  await using next = await CodeExecutor.attach(id, options);
  let text: string | null = null;
  for await (const event of next.resume()) {
    if (event.type === "approval") await event.request.accept();
    if (event.type === "result") text = event.result.text;
  }
  assertEquals(text, "'1'");
  await page.locator("#elsewhere").waitFor({ state: "hidden" });
  assertEquals(browser.problems, []);
});
