/** Settings files of a workspace that are none, and records of what was accepted that are no longer about them. */
import { assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import { acceptPolicy, loadPolicy } from "../../src/approval/rules/file.ts";
import { approvalCall } from "../../src/approval/rules/rules.ts";
import { ConfigError, ToolCallError } from "../../src/base/errors.ts";
import { silentLogger } from "../../src/base/log.ts";
import { ToolRunner } from "../../src/calls/runner.ts";
import { readDotenv } from "../../src/mcp/env.ts";
import { readSandboxConfig } from "../../src/sandbox/config.ts";
import { beginWriting, makeOwnFolders } from "../../src/sandbox/workspace.ts";
import { acceptVariables, CODE_NOTE, readVariables } from "../../src/sandbox/own_variables.ts";
import { ServerRegistry } from "../../src/servers/registry.ts";
import { ipybox } from "../support/cli.ts";
import { rawServer } from "../support/mcp.ts";
import { decisionOnCount, writeAcceptedPolicy } from "../support/policy.ts";
import { TempFolder } from "../support/temp_folder.ts";

const log = silentLogger;

/** How each file is read, by its path in the workspace. */
const READERS: Readonly<Record<string, (workspace: string) => Promise<unknown>>> = {
  ".ipybox/mcp.json": (workspace) => ServerRegistry.open({ workspace }),
  ".ipybox/policy.json": (workspace) => loadPolicy({ workspace, log }),
  ".ipybox/sandbox.json": (workspace) =>
    readSandboxConfig(`${workspace}/.ipybox/sandbox.json`, { workspace }),
  ".env": (workspace) => readDotenv(workspace, log),
};

/** What a settings file can be, and the words about it; the first of `.env`, which is ignored or empty. */
const ODD: Readonly<Record<string, [(path: string) => Promise<unknown>, RegExp, boolean]>> = {
  "a link to itself": [(path) => Deno.symlink(path, path), /plain file|symbolic links/, true],
  "a folder": [(path) => Deno.mkdir(path), /not a plain file/, true],
  "a pipe": [
    (path) => new Deno.Command("mkfifo", { args: [path] }).output(),
    /not a plain file/,
    true,
  ],
  "100 MB": [(path) => Deno.create(path).then(truncate), /larger than 4 MiB/, false],
  "not JSON": [(path) => Deno.writeTextFile(path, "{"), /\.json/, true],
  "not UTF-8": [(path) => Deno.writeFile(path, new Uint8Array([0xff, 0xfe, 0x7b])), /\.json/, true],
};

async function truncate(file: Deno.FsFile): Promise<void> {
  using open = file;
  await open.truncate(100_000_000);
}

for (const [what, [make, words, isNoVariables]] of Object.entries(ODD)) {
  Deno.test(`a settings file that is ${what} is named, or counts as none`, async () => {
    for (const [name, read] of Object.entries(READERS)) {
      await using folder = await TempFolder.create();
      const workspace = await Deno.realPath(folder.path);
      await Deno.mkdir(`${workspace}/.ipybox`);
      const path = `${workspace}/${name}`;
      await make(path);
      if (name === ".env" && isNoVariables) {
        assertEquals(await read(workspace), {}, name);
        continue;
      }
      const { message } = await assertRejects(() => read(workspace), ConfigError, undefined, name);
      assertStringIncludes(message, name.replace(".ipybox/", ""));
      assertEquals(words.test(message), true, `${name}: ${message}`);
    }
  });
}

Deno.test("what was accepted counts for what was shown, in that workspace, by whatever path", async () => {
  await using folder = await TempFolder.create();
  await using other = await TempFolder.create();
  const workspace = `${folder.path}/workspace`;
  await Deno.mkdir(`${workspace}/.ipybox`, { recursive: true });
  const policy = '{"rules": [{"effect": "allow"}]}';
  await Deno.writeTextFile(`${workspace}/.ipybox/policy.json`, policy);
  await Deno.writeTextFile(`${workspace}/.env`, "A=1");
  await Deno.writeTextFile(`${workspace}/${CODE_NOTE}`, "");
  const counting = async (path: string): Promise<unknown[]> => [
    await decisionOnCount({ workspace: path }),
    await readDotenv(path, log),
  ];
  const [all, none] = [["allow", { A: "1" }], ["ask", {}]];
  assertEquals(await counting(workspace), none);
  const shown = await readVariables(workspace);
  // They change between the question and the answer.
  await Deno.writeTextFile(`${workspace}/.env`, "B=2");
  await Promise.all([acceptPolicy(workspace, '{"rules": []}'), acceptVariables(workspace, shown)]);
  assertEquals(await counting(workspace), none);
  await Deno.writeTextFile(`${workspace}/.env`, "A=1");
  await acceptPolicy(workspace, policy);
  assertEquals(await counting(workspace), all);
  await Deno.symlink(workspace, `${other.path}/link`);
  assertEquals(await counting(`${other.path}/link`), all);
  const copied = await new Deno.Command("cp", {
    args: ["-a", workspace, `${other.path}/copy`],
  }).output();
  assertEquals(copied.success, true);
  assertEquals(await counting(`${other.path}/copy`), none);
  await Deno.rename(workspace, `${folder.path}/moved`);
  assertEquals(await counting(`${folder.path}/moved`), none);
});

Deno.test("until a change of the policy is accepted, the stricter of both versions decides", async () => {
  await using folder = await TempFolder.create();
  const workspace = folder.path;
  const policy = (effects: Readonly<Record<string, string>>) =>
    JSON.stringify({
      rules: Object.entries(effects).map(([tool, effect]) => ({ server: "raw", tool, effect })),
    });
  await writeAcceptedPolicy(
    workspace,
    policy({ echo: "allow", count: "allow", cwd: "allow", env: "deny" }),
  );
  const changed = { echo: "allow", cwd: "deny", result: "allow", env: "allow" };
  await Deno.writeTextFile(`${workspace}/.ipybox/policy.json`, policy(changed));
  await using runner = await ToolRunner.start({
    workspace,
    servers: { raw: rawServer() },
    approval: await loadPolicy({ workspace, log }),
    log,
  });
  const asked: string[] = [];
  using _approver = runner.channel.attach((request) => {
    asked.push(request.toolName);
    void request.reject("not now");
  });
  const ends: string[] = [];
  for (const tool of ["echo", "count", "cwd", "result", "env"]) {
    const end = await runner.run("raw", tool, { json: "{}" })
      .then(() => "ran", ({ message }) => message);
    ends.push(`${tool} ${end}`);
  }
  assertEquals(asked, ["count", "result"]);
  const waits = " \\(until the user accepts the policy as it is now\\)";
  assertMatch(
    ends.join("\n"),
    new RegExp([
      "^echo ran",
      "count .*not now",
      "cwd .*policy.json rule 2",
      "result .*not now",
      `env .*former .ipybox/policy.json rule 4${waits}$`,
    ].join("\n")),
  );
});

Deno.test("what an agent's file tool adds between sessions and during one counts for nothing", async () => {
  await using folder = await TempFolder.create();
  const workspace = folder.path;
  await (await ServerRegistry.open({ workspace })).register("raw", rawServer());
  await Deno.writeTextFile(`${workspace}/${CODE_NOTE}`, "");
  const files = {
    ".env": "ADDED=1",
    ".ipybox/policy.json": '{"rules": [{"effect": "allow"}]}',
    ".ipybox/mcp.json": JSON.stringify({ mcpServers: { raw: rawServer(), added: rawServer() } }),
  };
  for (const when of ["during", "before"]) {
    const approval = await loadPolicy({ workspace, log });
    await using runner = await ToolRunner.start({ workspace, approval, log });
    const asked: string[] = [];
    using _approver = runner.channel.attach((request) => {
      asked.push(request.toolName);
      void request.reject();
    });
    if (when === "during") {
      for (const [name, text] of Object.entries(files)) {
        await Deno.writeTextFile(`${workspace}/${name}`, text);
      }
    }
    for (const _reset of [1, 2]) {
      await assertRejects(() => runner.run("raw", "count"), ToolCallError);
      await runner.reset(); // which reads the registry
    }
    await assertRejects(() => runner.run("added", "count"), ToolCallError, "was not started");
    assertEquals(asked, ["count", "count", "start_mcp_server"], when);
    assertEquals(await readDotenv(workspace, log), {});
  }
});

Deno.test("a domain that is added to sandbox settings counts once the user has accepted it", async () => {
  await using folder = await TempFolder.create();
  const workspace = await Deno.realPath(folder.path);
  const path = `${workspace}/.ipybox/sandbox.json`;
  const write = (...allowedDomains: string[]) =>
    Deno.writeTextFile(path, JSON.stringify({ network: { allowedDomains } }));
  const domains = async () =>
    (await readSandboxConfig(path, { workspace })).network?.allowedDomains ?? [];
  await Deno.mkdir(`${workspace}/.ipybox`);
  await write("example.com");
  assertEquals(await domains(), ["example.com"]); // naming the file accepts it

  await write("example.org", "evil.example");
  assertEquals(await domains(), ["example.com"]); // as it was accepted
  const config = await readSandboxConfig(path, { workspace, trust: "all" });
  assertEquals(config.network?.allowedDomains?.length, 2); // as `run --trust` reads it
  const { code, stderr } = await ipybox(["trust", "--yes"], { cwd: workspace });
  assertEquals(code, 0, stderr);
  assertStringIncludes(stderr, "evil.example");
  assertEquals(await domains(), ["example.org", "evil.example"]);
  assertStringIncludes((await ipybox(["trust", "--list"])).stdout, ".ipybox/sandbox.json");
});

Deno.test("settings that code could have written count once they were accepted, however they are named", async () => {
  await using folder = await TempFolder.create();
  const workspace = await Deno.realPath(folder.path);
  const path = `${workspace}/sandbox.json`;
  const write = (...allowedDomains: string[]) =>
    Deno.writeTextFile(path, JSON.stringify({ network: { allowedDomains } }));
  const domains = async (trust?: "all") =>
    (await readSandboxConfig(path, { workspace, trust })).network?.allowedDomains;
  await makeOwnFolders(workspace);
  await beginWriting(workspace); // code runs there from now on
  await write("example.com");
  for (const _again of [1, 2]) {
    const { message } = await assertRejects(() => domains(), ConfigError);
    for (const words of ["code that ran in", `\`ipybox trust ${workspace}\``]) {
      assertStringIncludes(message, words);
    }
  }
  assertEquals(await domains("all"), ["example.com"]);
  assertEquals((await ipybox(["trust", "--list"])).stdout.includes(workspace), false);
  const { stderr } = await ipybox(["trust", "--yes"], { cwd: workspace });
  assertStringIncludes(stderr, `Code that ran here could have written ${path}`);
  assertEquals(await domains(), ["example.com"]);
  await write("evil.example");
  assertEquals(await domains(), ["example.com"]);
});

Deno.test("what an accepted policy denies is not allowed after a change, also of a long one, or once it is gone", async () => {
  await using folder = await TempFolder.create();
  const workspace = await Deno.realPath(folder.path);
  const path = `${workspace}/.ipybox/policy.json`;
  const decision = async () =>
    (await loadPolicy({ workspace, log }))
      ?.decide(approvalCall({ kind: "shell", command: "ls" })).mode;
  for (const [more, mode] of [[0, "deny"], [1000, "ask"]] as const) {
    const others = Array.from({ length: more }, (_, at) => ({ effect: "allow", tool: `get${at}` }));
    const rules = [{ effect: "deny", kind: "shell" }, ...others];
    await writeAcceptedPolicy(workspace, JSON.stringify({ rules }));
    assertEquals(await decision(), "deny");
    await Deno.writeTextFile(path, '{"rules": [{"effect": "allow"}]}');
    assertEquals(await decision(), mode);
    await Deno.remove(path);
    assertEquals(await decision(), mode);
    const { code, stderr } = await ipybox(["trust", "--yes"], { cwd: workspace });
    assertEquals(code, 0, stderr);
    assertStringIncludes(stderr, `${path} is gone`);
    assertEquals(await decision(), undefined);
  }
});

Deno.test("sandbox settings whose former text cannot be used start nothing until they are accepted", async () => {
  await using folder = await TempFolder.create();
  const workspace = await Deno.realPath(folder.path);
  await Deno.mkdir(`${workspace}/.ipybox`);
  const denyRead = Array.from({ length: 2000 }, (_, at) => `/srv/secret${at}`);
  const former = {
    long: { filesystem: { denyRead } },
    unsafe: { enableWeakerNestedSandbox: true },
  };
  const now = { network: { allowedDomains: ["example.com"] } };
  for (const [name, config] of Object.entries(former)) {
    const path = `${workspace}/.ipybox/${name}.json`;
    await Deno.writeTextFile(path, JSON.stringify(config));
    await readSandboxConfig(path, { workspace, allowUnsafe: true });
    await Deno.writeTextFile(path, JSON.stringify(now));
    const { message } = await assertRejects(
      () => readSandboxConfig(path, { workspace }),
      ConfigError,
    );
    assertMatch(message, new RegExp(`former .*${name === "long" ? "too long" : path}`));
    for (const words of [path, "`ipybox trust"]) assertStringIncludes(message, words);
    assertEquals((await ipybox(["trust", "--yes"], { cwd: workspace })).code, 0);
    assertEquals(await readSandboxConfig(path, { workspace }), now);
  }
});
