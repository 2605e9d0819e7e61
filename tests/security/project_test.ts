/**
 * Attacks on the project of somebody whose agent program runs ipybox: code plants what that program,
 * an editor or a shell obeys.
 */
import { assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import { dirname } from "node:path";
import marketplace from "../../.claude-plugin/marketplace.json" with { type: "json" };
import { ConfigError } from "../../src/base/errors.ts";
import { CodeExecutor } from "../../src/executor/code_executor.ts";
import { silentLogger } from "../../src/base/log.ts";
import { readSandboxConfig } from "../../src/sandbox/config.ts";
import { ipybox } from "../support/cli.ts";
import { filesBelow } from "../support/files.ts";
import { McpHost } from "../support/mcp_client.ts";
import { testPython } from "../support/python.ts";
import { TempFolder } from "../support/temp_folder.ts";

const OBEYED = [
  ".claude/settings.json",
  ".mcp.json",
  ".vscode/tasks.json",
  ".cursor/mcp.json",
  ".envrc",
  ".git/hooks/post-checkout",
  ".github/copilot-instructions.md",
  ".idea/workspace.xml",
  ".yarnrc.yml",
  ".zed/settings.json",
  "AGENTS.md",
  "CLAUDE.md",
  "mise.toml",
  "node_modules/.bin/tool",
  "package.json",
  "src/CLAUDE.md",
  "src/.git/config",
  "ipybox/.mcp.json",
];

for (const { name, mcpServers: { ipybox: server } } of marketplace.plugins) {
  if (server.args.includes("docker")) continue; // its image is built by hand
  Deno.test(`code of the plugin ${name} plants nothing in the project, and sees its files`, async () => {
    await using project = await TempFolder.create();
    await using data = await TempFolder.create();
    await using home = await TempFolder.create();
    await Deno.mkdir(`${project.path}/src`);
    await Deno.mkdir(`${project.path}/.ipybox`);
    const opens = { filesystem: { allowWrite: [home.path, project.path] } };
    await Deno.writeTextFile(`${project.path}/.ipybox/sandbox.json`, JSON.stringify(opens));
    await Deno.mkdir(`${home.path}/.config/ipybox`, { recursive: true });
    await Deno.writeTextFile(`${home.path}/.config/ipybox/sandbox.json`, "{}");
    await Deno.writeTextFile(`${project.path}/src/data.csv`, "a,b");
    await Deno.writeTextFile(`${project.path}/.env`, "SECRET=1");
    await Deno.symlink("src/data.csv", `${project.path}/AGENTS.md`); // as projects have
    const before = await filesBelow(project.path);
    const args = server.args.map((arg) =>
      arg.replaceAll("${PWD}", project.path).replaceAll("${HOME}", home.path)
    );
    const env = { XDG_DATA_HOME: data.path, IPYBOX_PYTHON: testPython() };
    await using host = await McpHost.start({ args: args.slice(args.indexOf("mcp") + 1), env });
    const text = await host.execute(`
import os
project = ${JSON.stringify(project.path)}
planted = []
for name in ${JSON.stringify(OBEYED)}:
    for root in (project, os.path.join(project, "src")):
        try:
            os.makedirs(os.path.dirname(os.path.join(root, name)), exist_ok=True)
            open(os.path.join(root, name), "w").write("evil")
            planted.append(name)
        except OSError:
            pass
try:
    open(${JSON.stringify(home.path)} + "/.bashrc", "w").write("evil")
    planted.append(".bashrc")
except OSError:
    pass
try:
    os.unlink(project + "/AGENTS.md")
    planted.append("link")
except OSError:
    pass
def read(name):
    try:
        return open(os.path.join(project, name)).read()
    except OSError as error:
        return type(error).__name__
open("own", "w").write("works")
print(planted, read("src/data.csv"), read("AGENTS.md"), read(".env") or "empty", os.getcwd())`);
    assertMatch(text, /^\[\] a,b a,b (empty|PermissionError|FileNotFoundError) /);
    assertStringIncludes(text, `${data.path}/ipybox/workspaces/`);
    assertEquals(await filesBelow(project.path), before);
  });
}

Deno.test("sandbox settings that came with a project are refused", async () => {
  await using project = await TempFolder.create();
  await using folder = await TempFolder.create();
  await Deno.mkdir(`${project.path}/.ipybox`);
  await Deno.mkdir(`${folder.path}/workspace`);
  await Deno.symlink(project.path, `${folder.path}/link`);
  const shipped = `${project.path}/.ipybox/sandbox.json`;
  await Deno.writeTextFile(shipped, '{ "filesystem": { "allowWrite": ["~"] } }');
  const own = '{ "network": { "allowedDomains": ["example.com"] } }';
  await Deno.writeTextFile(`${folder.path}/own.json`, own);
  await Deno.symlink(`${folder.path}/own.json`, `${project.path}/own.json`);
  const start = (config: string) =>
    CodeExecutor.start({
      workspace: `${folder.path}/workspace`,
      sandbox: { project: project.path, config },
      python: testPython(),
      log: silentLogger,
    });
  const { path } = folder;
  for (const config of [shipped, `${path}/link/.ipybox/sandbox.json`, `${project.path}/own.json`]) {
    await assertRejects(() => start(config), ConfigError, "may have come with it");
  }
  const { network } = await readSandboxConfig(`${path}/own.json`, {
    workspace: `${path}/workspace`,
    project: project.path,
  });
  assertEquals(network?.allowedDomains, ["example.com"]);
});

Deno.test("a project that code could write to, or that opens too much, is refused", async () => {
  await using folder = await TempFolder.create();
  await Deno.mkdir(`${folder.path}/inner`);
  const start = (project: string, workspace: string) =>
    CodeExecutor.start({
      workspace,
      sandbox: { project },
      python: testPython(),
      log: silentLogger,
    });
  const inner = `${folder.path}/inner`;
  for (
    const [project, workspace] of [[folder.path, inner], [inner, folder.path], [inner, inner]]
  ) {
    await assertRejects(() => start(project ?? "", workspace ?? ""), ConfigError, "as project");
  }
  const home = Deno.env.get("HOME") ?? "/";
  await assertRejects(() => start(home, inner), ConfigError, "as project");
  await assertRejects(() => start(dirname(home), inner), ConfigError, "as project");
  const { code, stderr } = await ipybox(["mcp", "--project", inner, "--no-sandbox"]);
  assertEquals(code, 2);
  assertStringIncludes(stderr, "--project needs the sandbox");
});
