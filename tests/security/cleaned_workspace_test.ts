/** Attacks by code that makes the settings of its workspace anew after somebody has removed them. */
import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { ConfigError } from "../../src/base/errors.ts";
import { silentLogger } from "../../src/base/log.ts";
import { ToolRunner } from "../../src/calls/runner.ts";
import { readDotenv } from "../../src/mcp/env.ts";
import { readSandboxConfig } from "../../src/sandbox/config.ts";
import { TestExecutor } from "../support/executor.ts";
import { exists } from "../support/files.ts";
import { copiedServer, rawServer } from "../support/mcp.ts";
import { decisionOnCount } from "../support/policy.ts";
import { TempFolder } from "../support/temp_folder.ts";

Deno.test("after git clean in the middle of a session, no setting counts that code makes", async () => {
  await using folder = await TempFolder.create();
  await using outside = await TempFolder.create();
  const workspace = folder.path;
  const ran = `${outside.path}/ran`;
  const program = `${workspace}/.ipybox/srv.ts`;
  await Deno.mkdir(`${workspace}/.ipybox`);
  const raw = await copiedServer(program);
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
  assertEquals(await decisionOnCount({ workspace }), "ask");
  const other = rawServer();
  await using runner = await ToolRunner.start({
    ...{ workspace, servers: { other }, approval: "allow", log: silentLogger },
  });
  runner.pool.startAhead(runner.registry.names);
  await runner.run("other", "count"); // by then, another one had as much time to start
  await runner.reset();
  await runner.run("other", "count");
  assertEquals(await exists(ran), false);
  const asked: string[] = [];
  using _approver = runner.channel.attach((request) => {
    asked.push(request.toolName);
    void request.reject();
  });
  const end = await runner.run("raw", "count").then(() => "ran", ({ message }) => message);
  assertEquals(asked, ["start_mcp_server"]);
  assertStringIncludes(end, "was not started");
  assertEquals(await exists(ran), false);
});

Deno.test("a folder deep in a workspace whose settings its code wrote is a workspace without any", async () => {
  await using folder = await TempFolder.create();
  const inner = `${folder.path}/a/b/c/d/e`; // deeper than ipybox hides its folders
  await Deno.mkdir(`${inner}/.ipybox`, { recursive: true });
  const program = `${inner}/.ipybox/srv.ts`;
  const mine = await copiedServer(program);
  {
    await using runner = await ToolRunner.start({ workspace: inner, log: silentLogger });
    await runner.registerServer("mine", mine);
  }
  const files = {
    ".env": "PLANTED=1\n",
    ".ipybox/mcp.json": JSON.stringify({ mcpServers: { mine, evil: rawServer() } }),
    ".ipybox/policy.json": '{"rules": [{"effect": "allow"}]}',
    ".ipybox/sandbox.json": '{"filesystem": {"allowWrite": ["~"]}}',
    ".ipybox/srv.ts": "// of code",
  };
  {
    await using session = await TestExecutor.start({ workspace: folder.path });
    const { text } = await session.executor.execute(`
import json
for name, text in json.loads(${JSON.stringify(JSON.stringify(files))}).items():
    with open("a/b/c/d/e/" + name, "w") as file:
        file.write(text)
print("written")`);
    assertEquals(text, "written");
  }
  assertEquals(await Deno.readTextFile(program), "// of code");
  assertEquals(await readDotenv(inner), {});
  assertEquals(await decisionOnCount({ workspace: inner }), "ask");
  await using runner = await ToolRunner.start({
    workspace: inner,
    approval: "allow",
    log: silentLogger,
  });
  for (const name of ["mine", "evil"]) {
    const end = await runner.run(name, "count").then(() => "ran", ({ message }) => message);
    assertStringIncludes(end, "was not started", name);
  }
  for (const config of [`${inner}/.ipybox/sandbox.json`, `${folder.path}/sandbox.json`]) {
    await Deno.writeTextFile(config, files[".ipybox/sandbox.json"]);
    const workspace = config.startsWith(inner) ? inner : folder.path;
    await assertRejects(
      () => TestExecutor.start({ workspace, sandbox: { config } }),
      ConfigError,
      "could have written it",
    );
  }
  const own = `${folder.path}/.ipybox/sandbox.json`;
  await Deno.writeTextFile(own, '{"network": {"allowedDomains": ["example.com"]}}');
  const { network } = await readSandboxConfig(own, { workspace: folder.path });
  assertEquals(network?.allowedDomains, ["example.com"]);
});
