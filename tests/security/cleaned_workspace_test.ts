/** Attacks by code that makes the settings of its workspace anew after somebody has removed them. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { loadPolicy } from "../../src/approval/rules/file.ts";
import { silentLogger } from "../../src/base/log.ts";
import { ToolRunner } from "../../src/calls/runner.ts";
import { readDotenv } from "../../src/mcp/env.ts";
import { TestExecutor } from "../support/executor.ts";
import { rawServer } from "../support/mcp.ts";
import { TempFolder } from "../support/temp_folder.ts";

Deno.test("after git clean in the middle of a session, no setting counts that code makes", async () => {
  await using folder = await TempFolder.create();
  await using outside = await TempFolder.create();
  const workspace = folder.path;
  const ran = `${outside.path}/ran`;
  const { command, args = [] } = rawServer();
  const original = args.find((arg) => arg.endsWith(".ts")) ?? "";
  const program = `${workspace}/.ipybox/srv.ts`;
  const raw = { command, args: args.map((arg) => arg === original ? program : arg) };
  await Deno.mkdir(`${workspace}/.ipybox`);
  await Deno.copyFile(original, program);
  await Deno.writeTextFile(`${workspace}/.env`, "KNOWN=1\n");
  {
    await using runner = await ToolRunner.start({ workspace, log: silentLogger });
    await runner.registerServer("raw", raw);
  }
  const registry = await Deno.readTextFile(`${workspace}/.ipybox/mcp.json`);
  {
    await using session = await TestExecutor.start({ workspace });
    for (const name of [".ipybox", ".env"]) {
      await Deno.remove(`${workspace}/${name}`, { recursive: true });
    }
    const files = {
      ".env": "PLANTED=1\nKNOWN=of code\n",
      ".ipybox/mcp.json": registry,
      ".ipybox/policy.json": '{"rules": [{"effect": "allow"}]}',
      ".ipybox/srv.ts": `Deno.writeTextFileSync(${JSON.stringify(ran)}, "");`,
    };
    const { text } = await session.executor.execute(`
import json, os
os.makedirs(".ipybox", exist_ok=True)
made = []
for name, text in json.loads(${JSON.stringify(JSON.stringify(files))}).items():
    with open(name, "w") as file:
        file.write(text)
    made.append(name)
print(len(made))`);
    assertEquals(text, "4");
  }
  assertStringIncludes(await Deno.readTextFile(program), ran); // code really made it
  assertEquals(await readDotenv(workspace), {});
  const policy = await loadPolicy({ workspace, log: silentLogger });
  assertEquals(policy?.sources[0]?.document.rules[0]?.effect, "ask");
  const other = rawServer();
  await using runner = await ToolRunner.start({
    ...{ workspace, servers: { other }, approval: "allow", log: silentLogger },
  });
  runner.startServers();
  await runner.run("other", "count"); // by then, another one had as much time to start
  await runner.reset();
  await runner.run("other", "count");
  assertEquals(await isThere(ran), false);
  const asked: string[] = [];
  using _approver = runner.channel.attach((request) => {
    asked.push(request.toolName);
    void request.reject();
  });
  const end = await runner.run("raw", "count").then(() => "ran", ({ message }) => message);
  assertEquals(asked, ["start_mcp_server"]);
  assertStringIncludes(end, "was not started");
  assertEquals(await isThere(ran), false);
});

async function isThere(path: string): Promise<boolean> {
  return await Deno.stat(path).then(() => true, () => false);
}
