/** `ipybox run --page`: a person decides in a browser, without a terminal. */
import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { ServerRegistry } from "../../src/servers/registry.ts";
import { pageLinkIn, untilReady } from "../support/approval_page.ts";
import { browserTest } from "../support/browser.ts";
import { startIpybox } from "../support/cli.ts";
import { rawServer } from "../support/mcp.ts";
import { TempFolder } from "../support/temp_folder.ts";

const CODE = `
from ipybox_runtime import ApprovalRejectedError, ToolRunner
raw = ToolRunner("raw")
print(raw.run_sync("count").text)
try:
    raw.run_sync("count")
except ApprovalRejectedError as error:
    print(error)
`;

browserTest("ipybox run --page prints a link, and asks there", async (browser) => {
  await using folder = await TempFolder.create();
  const registry = await ServerRegistry.open({ workspace: folder.path });
  await registry.register("raw", rawServer());
  await using child = startIpybox(["run", "--page", "--workspace", folder.path, "-c", CODE]);
  const stdout = new Response(child.stdout).text();
  const page = await browser.open(await pageLinkIn(child.stderr));
  await page.getByRole("heading", { name: "raw.count" }).waitFor();
  await untilReady(page);
  await page.keyboard.press("y");
  await page.locator("#settled").getByText("Allowed").waitFor();
  await page.getByRole("heading", { name: "raw.count" }).waitFor();
  await untilReady(page);
  await page.getByLabel("Reason").fill("once is enough");
  await page.getByLabel("Reason").press("Enter");
  assertEquals((await child.status).code, 0);
  const output = await stdout;
  assertMatch(output, /^1\n/);
  assertStringIncludes(output, "once is enough");
  await page.getByText("ipybox has stopped").waitFor();
});
