/** Tools that refuse calls that are not tasks (`execution.taskSupport: "required"`). */
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { generateMcpSources } from "../../src/apigen/generate.ts";
import { ToolCallError } from "../../src/base/errors.ts";
import { silentLogger } from "../../src/base/log.ts";
import { ToolRunner } from "../../src/calls/runner.ts";
import { npmServer, rawServer } from "../support/mcp.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { until } from "../support/wait.ts";

Deno.test("a tool of a real server that only runs as a task runs, and may ask meanwhile", async () => {
  await using runner = await ToolRunner.start({
    servers: { everything: npmServer("server-everything") },
    approval: "allow",
    log: silentLogger,
  });
  const research = async (args: Record<string, unknown>) => {
    const { content } = await runner.run("everything", "simulate-research-query", args);
    return String(content[0]?.text);
  };
  using _answers = runner.elicitations.attach((request) => {
    request.accept({ interpretation: "snake" });
  });
  const [plain, asked] = await Promise.all([
    research({ topic: "python" }),
    research({ topic: "python", ambiguous: true }),
  ]);
  assertStringIncludes(plain, "# Research Report: python\n");
  assertStringIncludes(asked, "- **Clarification**: snake");
});

Deno.test("cancelling a call cancels its task", async () => {
  await using folder = await TempFolder.create();
  const journal = `${folder.path}/journal`;
  await using runner = await ToolRunner.start({
    servers: { raw: rawServer("tasks", journal) },
    approval: "allow",
    log: silentLogger,
  });
  const noted = async (method: string) => (await Deno.readTextFile(journal)).includes(method);
  const { content } = await runner.run("raw", "task", { id: "first" });
  assertEquals(content[0]?.text, "result of first");
  const cancel = new AbortController();
  const call = runner.run("raw", "task", { id: "endless" }, { signal: cancel.signal });
  await until(async () => (await Deno.readTextFile(journal)).split("tasks/result").length === 3);
  assert(!await noted("tasks/cancel"));
  cancel.abort();
  const error = await assertRejects(() => call, ToolCallError);
  assertEquals(error.type, "cancelled");
  await until(() => noted("tasks/cancel"));
  assertEquals((await runner.run("raw", "count")).content[0]?.text, "1");
});

Deno.test("a tool that only runs as a task is left out where its server offers no tasks", async () => {
  await using root = await TempFolder.create();
  const generate = async (mode: string) =>
    (await generateMcpSources("raw", rawServer(mode), { rootDir: root.path })).at(-1);
  assertEquals(await generate("tasks"), { tool: "task", module: "task", warnings: [] });
  assertEquals(await generate("taskless"), {
    tool: "task",
    module: null,
    warnings: ["It runs only as a task, and its server does not support tasks"],
  });
});
