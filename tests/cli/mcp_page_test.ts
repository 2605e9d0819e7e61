/** `ipybox mcp` for clients that cannot ask their user: the approval page. */
import {
  assert,
  assertEquals,
  assertMatch,
  assertNotMatch,
  assertStringIncludes,
} from "@std/assert";
import { join } from "node:path";
import { ConsentFile } from "../../src/approval/rules/consent_file.ts";
import { ServerRegistry } from "../../src/servers/registry.ts";
import { untilReady } from "../support/approval_page.ts";
import { browserTest, type Page, type TestBrowser } from "../support/browser.ts";
import { until } from "../support/wait.ts";
import { HttpMcp } from "../support/http_mcp.ts";
import { rawServer } from "../support/mcp.ts";
import { type ClientKind, eachEra, McpHost } from "../support/mcp_client.ts";
import { RAW, workspaceWithServer } from "../support/mcp_workspace.ts";
import { writeAcceptedPolicy } from "../support/policy.ts";
import { stepsOf } from "../support/steps.ts";
import { TempFolder } from "../support/temp_folder.ts";

const CELL = "execute_ipython_cell";
const COUNT = `${RAW}print(raw.run_sync("count").text)`;
const ASK = `${RAW}
schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
params = {"message": "Which one?", "requestedSchema": schema}
print(raw.run_sync("ask", {"method": "elicitation/create", "params": params}).text)`;
const ASKING_IS_ALLOWED = '{"rules": [{"effect": "allow", "server": "raw", "tool": "ask"}]}';
const CODE = /\b(?:[0-9A-Z]{4}-){3}[0-9A-Z]{4}\b/g;

browserTest(
  "Clients of each kind without elicitation leave approvals and servers' questions to the page",
  (browser) => eachEra((kind) => leavesQuestionsToPage(kind, browser)),
);

async function leavesQuestionsToPage(kind: ClientKind, browser: TestBrowser): Promise<void> {
  await using workspace = await workspaceWithServer();
  await writeAcceptedPolicy(workspace.path, ASKING_IS_ALLOWED);
  await using host = await McpHost.start({
    kind,
    args: ["--workspace", workspace.path, "--no-sandbox"],
  });

  const refused = await host.call(CELL, { code: COUNT });
  assertStringIncludes(refused.text, "Traceback");
  assertNotMatch(JSON.stringify(refused), CODE);
  const page = await enter(browser, addressIn(refused.text), codeIn(host.stderr));

  const messages: string[] = [];
  const allowed = host.call(CELL, { code: COUNT, timeout: 3 }, {
    onProgress: ({ message = "" }) => void messages.push(message),
  });
  await page.getByRole("heading", { name: "raw.count" }).waitFor();
  await untilReady(page);
  await until(
    "its client hears that it waits",
    () => messages.some((message) => /approval page \(\d+ s\)$/.test(message)),
  );
  await page.keyboard.press("y");
  assertEquals((await allowed).text, "1");

  const denied = host.call(CELL, { code: COUNT });
  await page.getByRole("heading", { name: "raw.count" }).waitFor();
  await untilReady(page);
  await page.getByLabel("Reason").fill("once is enough");
  await page.getByLabel("Reason").press("Enter");
  assertStringIncludes(
    (await denied).text,
    "ApprovalRejectedError: raw.count was refused: once is enough",
  );

  const left = host.call(CELL, { code: COUNT });
  await page.getByRole("heading", { name: "raw.count" }).waitFor();
  await page.close();
  assertStringIncludes((await left).text, "no approval page is open");
  assertEquals(new Set(host.stderr.match(CODE)).size, 2); // and another code was written

  const declined = await host.call(CELL, { code: ASK });
  assertStringIncludes(declined.text, '[{"action":"decline"}]');
  assertMatch(
    declined.text,
    /A question from MCP server "raw" was declined: the user's answer is needed/,
  );
  assertNotMatch(JSON.stringify(declined), CODE);
  const next = await enter(browser, addressIn(declined.text), codeIn(host.stderr));

  const answered = host.call(CELL, { code: ASK });
  await next.getByRole("heading", { name: "raw asks" }).waitFor();
  await untilReady(next);
  await next.getByLabel("name").fill("Ada");
  await next.getByLabel("name").press("Control+Enter");
  assertEquals((await answered).text, '[{"action":"accept","content":{"name":"Ada"}}]');

  const unanswered = host.call(CELL, { code: ASK });
  await next.getByRole("heading", { name: "raw asks" }).waitFor();
  await next.close();
  assertMatch((await unanswered).text, /"decline"[^]*no approval page is open/);
  assertEquals(browser.problems, []);
}

Deno.test("What the model is told of the page opens nothing", async () => {
  await using workspace = await workspaceWithServer();
  await using host = await McpHost.start({ args: ["--workspace", workspace.path] });
  const { text } = await host.call(CELL, { code: COUNT });
  const address = addressIn(text);

  // With a browser or a shell of its own:
  const first = await fetch(address);
  const body = await first.text();
  assertEquals([first.status, first.headers.get("set-cookie")], [200, null]);
  assertNotMatch(body, CODE);
  assertStringIncludes(
    first.headers.get("content-security-policy") ?? "",
    "form-action 'self'; frame-ancestors 'none'",
  );
  const port = Number(address.port);
  for (
    const [path, status] of [
      ["open", 403],
      ["open?code=", 403],
      ["open?code=0000-0000-0000-0000", 403],
      [`${"0".repeat(32)}/`, 404],
      [`${"0".repeat(32)}/live`, 404],
      [`${"0".repeat(32)}/requests/1`, 404],
    ] as const
  ) {
    const tried = await fetch(new URL(path, address), { redirect: "manual" });
    await tried.body?.cancel();
    assertEquals([tried.status, tried.headers.get("set-cookie")], [status, null], path);
  }
  const posted = await fetch(address, { method: "POST" });
  await posted.body?.cancel();
  assertEquals(posted.status, 405);

  // With code, even where somebody has told it the code:
  const code = codeIn(host.stderr);
  const visit = `
import urllib.request
try:
    print(urllib.request.urlopen("http://127.0.0.1:${port}/page/open?code=${code}", timeout=5).status)
except OSError as error:
    print("refused")`;
  assertEquals((await host.call(CELL, { code: visit })).text, "refused");
  const again = await host.call(CELL, { code: COUNT });
  assertStringIncludes(again.text, "Traceback");
  for (const answer of [text, again.text]) assertEquals(answer.includes(code), false);
});

browserTest("ipybox mcp --page asks there, even where the client could", async (browser, t) => {
  await using workspace = await workspaceWithServer();
  await using host = await McpHost.start({
    args: ["--workspace", workspace.path, "--no-sandbox", "--page"],
    answer: () => {
      throw new Error("the client is not to be asked");
    },
  });
  const step = stepsOf(t);
  await until("there is a link", () => codeIn(host.stderr) !== "");
  const page = await browser.open(/Approvals: (\S+)/.exec(host.stderr)?.[1] ?? "");
  await page.locator('#status[data-state="open"]').waitFor();

  await step("for calls", async () => {
    const allowed = host.call(CELL, { code: COUNT });
    await page.getByRole("heading", { name: "raw.count" }).waitFor();
    await untilReady(page);
    await page.keyboard.press("y");
    assertEquals((await allowed).text, "1");
  });

  const names = async () => (await ServerRegistry.open({ workspace: workspace.path })).names;

  await step("for registrations, which are shown as they will be done", async () => {
    const params = { server_name: "mine", server_params: { ...rawServer() } };
    const registered = host.call("register_mcp_server", params);
    await page.getByRole("heading", { name: "ipybox.register_mcp_server" }).waitFor();
    const shown = await page.locator("#arguments").innerText();
    for (const part of ["mine", Deno.execPath(), ...rawServer().args ?? []]) {
      assertStringIncludes(shown, part);
    }
    assertEquals(await page.locator("#edit").isVisible(), false);
    await untilReady(page);
    await page.keyboard.press("e"); // nothing to edit
    await page.keyboard.press("y");
    assertEquals((await registered).isError, false);
    assertEquals(await names(), ["mine", "raw"]);
  });

  await step("for removals", async () => {
    const removed = host.call("unregister_mcp_server", { server_name: "mine" });
    await page.getByRole("heading", { name: "ipybox.unregister_mcp_server" }).waitFor();
    await untilReady(page);
    await page.keyboard.press("n");
    assertEquals((await removed).text, 'Removing the server "mine": no reason was given');
    assertEquals(await names(), ["mine", "raw"]);
  });

  await step("for installations, which are withdrawn with their call", async () => {
    const name = "git+https://example.org/owner/name";
    const stop = new AbortController();
    const installed = host.call("install_package", { package_name: name }, { signal: stop.signal })
      .catch(() => {});
    await page.getByRole("heading", { name: "ipybox.install_package" }).waitFor();
    assertStringIncludes(await page.locator("#arguments").innerText(), name);
    stop.abort();
    await page.locator("#settled").getByText("Withdrawn").waitFor();
    await installed;
  });
  assertEquals(browser.problems, []);
});

browserTest("Over HTTP each session has a page of its own", async (browser) => {
  await using workspace = await TempFolder.create();
  const registry = await ServerRegistry.open({ workspace: workspace.path });
  const { args = [], ...server } = rawServer();
  // It does not start without the variable.
  await registry.register("raw", { ...server, args: [...args.slice(0, -1), "${RAW_MODE}"] });
  await Deno.writeTextFile(join(workspace.path, ".env"), "RAW_MODE=normal\n");
  await using http = await HttpMcp.start(["--workspace", workspace.path, "--no-sandbox"]);
  await using first = await McpHost.join(http.address);
  await using second = await McpHost.join(http.address);

  await first.execute("open('.env', 'w').write('RAW_MODE=unknown')"); // not read

  const [own, other] = [await refusedIn(first), await refusedIn(second)];
  assert(own.folder !== other.folder && own.address.port !== other.address.port);
  const page = await enter(browser, own.address, codeOf(http, own.folder));
  await enter(browser, other.address, codeOf(http, other.folder));

  const allowed = first.call(CELL, { code: COUNT });
  await page.getByRole("heading", { name: "raw.count" }).waitFor();
  await untilReady(page);
  await page.locator("#scope").selectOption("always");
  await page.locator("#allow").click();
  assertEquals((await allowed).text, "1"); // ${RAW_MODE} is that of the workspace

  // What the operator allows always is the workspace's, and counts for sessions to come.
  assertEquals((await (await ConsentFile.open(workspace.path)).read()).length, 1);
  await using third = await McpHost.join(http.address);
  assertEquals((await third.call(CELL, { code: COUNT })).text, "1");
  assertEquals(browser.problems, []);
});

async function refusedIn(host: McpHost): Promise<{ folder: string; address: URL }> {
  const folder = await host.call(CELL, { code: "import os; print(os.path.basename(os.getcwd()))" });
  const { text } = await host.call(CELL, { code: COUNT });
  return { folder: folder.text, address: addressIn(text) };
}

/** Opens the address, and types the code in lower case. */
async function enter(browser: TestBrowser, address: URL, code: string): Promise<Page> {
  const page = await browser.open(address);
  await page.getByLabel("Code").fill(code.toLowerCase());
  await page.getByLabel("Code").press("Enter");
  await page.locator('#status[data-state="open"]').waitFor();
  return page;
}

function addressIn(text: string): URL {
  assertMatch(text, /open http:\/\/127\.0\.0\.1:\d+\/page\/ with the newest code/);
  return new URL(/http:\S+/.exec(text)?.[0] ?? "");
}

function codeIn(log: string): string {
  return log.match(CODE)?.at(-1) ?? "";
}

function codeOf(http: HttpMcp, session: string): string {
  const line = http.stderr.split("\n").find((line) => line.includes(`of session ${session}: `));
  return codeIn(line ?? "");
}
