import {
  assert,
  assertEquals,
  assertMatch,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import { ToolRunner } from "../../src/calls/runner.ts";
import { ServerRegistry } from "../../src/servers/registry.ts";
import { ConfigError, ToolCallError } from "../../src/base/errors.ts";
import { silentLogger } from "../../src/base/log.ts";
import { loadPolicy } from "../../src/approval/rules/file.ts";
import { approvalCall } from "../../src/approval/rules/rules.ts";
import { ipybox } from "../support/cli.ts";
import { commandsIn, inThisProcess } from "../support/command_io.ts";
import { CommandProcess } from "../support/command_process.ts";
import { rawServer } from "../support/mcp.ts";
import { decisionOnCount, writeAcceptedPolicy } from "../support/policy.ts";
import { beginWriting } from "../../src/sandbox/workspace.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { ipyboxAtTerminal, type Typing } from "../support/terminal.ts";
import { stateOf } from "../support/workspace_state.ts";

const POLICY = {
  rules: [
    { effect: "allow", server: "raw", tool: "echo" },
    {
      effect: "deny",
      server: "raw",
      arguments: { "/path": { not: { path: "." } } },
      reason: "stay inside",
    },
    { effect: "allow", command: ["git log **", "head **"] },
  ],
  redact: ["pin"],
  tests: [
    { call: { server: "raw", tool: "echo" }, expect: "allow" },
    { call: { server: "raw", tool: "echo", arguments: { path: "/etc/x" } }, expect: "deny" },
    { call: { kind: "shell", command: "git log -3" }, expect: "allow" },
  ],
};

async function workspaceWith(policy: unknown): Promise<TempFolder> {
  const folder = await TempFolder.create();
  await writeAcceptedPolicy(folder.path, JSON.stringify(policy, null, 2));
  return folder;
}

Deno.test("ipybox policy checks, tests and explains the workspace's policy and the user's", async () => {
  await using workspace = await workspaceWith(POLICY);
  await using home = await TempFolder.create();
  const env = { XDG_CONFIG_HOME: home.path };
  await using commands = new CommandProcess({ cwd: workspace.path, env });

  const checked = await commands.run(["policy", "check"]);
  assertEquals(checked, { code: 0, stdout: ".ipybox/policy.json: 3 rules, 3 tests\n", stderr: "" });
  assertEquals((await commands.run(["policy", "test"])).stdout, "3 passed, 0 failed\n");

  const outside = await commands.run(["policy", "explain", "raw.echo", '{"path": "/etc"}']);
  assertEquals(outside.stdout.split("\n")[0], "deny: .ipybox/policy.json rule 2: stay inside");
  const shell = await commands.run(["policy", "explain", "--shell", "git log | sh"]);
  assertEquals(
    shell.stdout,
    "ask: .ipybox/policy.json rule 3 may match, but this is uncertain: " +
      "it is not a simple command: it has a |\n" +
      "    .ipybox/policy.json rule 3: allow, may match: " +
      "it is not a simple command: it has a |\n" +
      '        {"effect":"allow","command":["git log **","head **"]}\n',
  );
  const named = await commands.run(["policy", "check", ".ipybox/policy.json"]);
  assertEquals(named, checked);
  const twice = await commands.run(["policy", "check", "a.json", "--file", "b.json"]);
  assertEquals(twice.code, 2);
  assertStringIncludes(twice.stderr, "Name the file once");

  await Deno.mkdir(`${home.path}/ipybox`);
  await Deno.writeTextFile(
    `${home.path}/ipybox/policy.json`,
    '{"rules": [{"effect": "deny", "tool": "echo"}]}',
  );
  const joined = await commands.run(["policy", "test"]);
  assertEquals(joined.code, 1);
  assertStringIncludes(joined.stdout, "expected allow, got deny: the user's policy.json rule 1");
});

Deno.test("ipybox policy knows what servers say of their tools, and says what it does not know", async () => {
  const call = { server: "files", tool: "read-text" };
  await using workspace = await workspaceWith({
    trustedServers: ["files"],
    rules: [
      { effect: "allow", annotations: { readOnlyHint: true } },
      { effect: "allow", tool: "list_*", arguments: { "/path": { path: "." } } },
    ],
    tests: [{ call, expect: "allow" }],
  });
  await using home = await TempFolder.create();
  const env = { XDG_CONFIG_HOME: home.path };
  await using commands = new CommandProcess({ cwd: workspace.path, env });
  const explain = (...call: string[]) => commands.run(["policy", "explain", ...call]);

  const unknown = await explain("files.read-text");
  assertEquals(
    unknown.stdout,
    "ask: .ipybox/policy.json rule 1 may match, but this is uncertain: the tool's annotations are incomplete\n" +
      "    .ipybox/policy.json rule 1: allow, may match: the tool's annotations are incomplete\n" +
      '        {"effect":"allow","annotations":{"readOnlyHint":true}}\n',
  );
  assertMatch(unknown.stderr, /^Server "files" has no generated package here, .*register it/);

  await Deno.mkdir(`${workspace.path}/mcptools/files`, { recursive: true });
  const tools = [
    { name: "read-text", annotations: { readOnlyHint: true } },
    { name: "write" },
    { name: "list_one", inputSchema: { type: "object", properties: { path: {} } } },
    { name: "list_all", inputSchema: { type: "object", properties: { paths: {} } } },
  ];
  await Deno.writeTextFile(
    `${workspace.path}/mcptools/files/schema.json`,
    JSON.stringify({ tools }),
  );
  assertEquals(
    (await explain("files.read_text")).stdout.split("\n")[0],
    "allow: .ipybox/policy.json rule 1",
  );
  assertEquals((await commands.run(["policy", "test"])).stdout, "1 passed, 0 failed\n");
  assertMatch((await explain("files.write")).stdout, /^ask: .*annotations are incomplete/);
  const path = JSON.stringify({ path: `${await Deno.realPath(workspace.path)}/a` });
  assertMatch((await explain("files.list_one", path)).stdout, /^allow: .*rule 2/);
  assertMatch((await explain("files.list_all", path)).stdout, /rule 2: .*the tool does not take/);
  assertEquals(
    (await explain("--shell", "git log | head")).stdout,
    "allow: No rule applies to shell commands\n",
  );
});

Deno.test("ipybox policy init writes a policy to begin with", async () => {
  await using workspace = await TempFolder.create();
  await using home = await TempFolder.create();
  const env = { XDG_CONFIG_HOME: home.path };
  await using commands = new CommandProcess({ cwd: workspace.path, env });
  const registry = await ServerRegistry.open({ workspace: workspace.path });
  await registry.register("raw", rawServer());
  const path = `${workspace.path}/.ipybox/policy.json`;
  const call = (tool: string, hints: { readOnlyHint?: boolean }) =>
    approvalCall({ kind: "tool", server: "raw", tool, annotations: hints });
  const reading = call("get_file", { readOnlyHint: true });
  const writing = call("write_file", { readOnlyHint: false });
  const silent = call("do_it", {});
  const deleting = call("bulkDelete", { readOnlyHint: true });
  const cases: Record<string, string> = {
    reads: "allow ask ask deny",
    readonly: "allow deny ask deny",
    strict: "ask ask ask deny",
  };
  for (const [preset, expected] of Object.entries(cases)) {
    const written = await commands.run(["policy", "init", preset]);
    assertEquals([written.code, written.stdout], [0, ""], written.stderr);
    assertMatch(written.stderr, /^Wrote .*policy\.json\n[^]*Accepted .*policy\.json\n$/);
    const policy = await loadPolicy({ workspace: workspace.path, log: silentLogger });
    const asked = [reading, writing, silent, deleting];
    assertEquals(asked.map((each) => policy?.decide(each).mode).join(" "), expected, preset);
    await Deno.rename(path, `${workspace.path}/${preset}.json`);
  }
  await Deno.rename(`${workspace.path}/reads.json`, path);
  const again = await commands.run(["policy", "init"]);
  assertStringIncludes(again.stderr, "There is a policy already");
  assertStringIncludes(
    (await commands.run(["policy", "init", "all"])).stderr,
    "reads, readonly",
  );
});

Deno.test("ipybox policy init says that reading is allowed only once a server is trusted", async () => {
  await using workspace = await TempFolder.create();
  const command = commandsIn(workspace.path);
  const { stderr } = await command(["policy", "init", "reads"]);
  assertStringIncludes(stderr, "rule 1 allows nothing");

  await Deno.remove(`${workspace.path}/.ipybox/policy.json`);
  const registry = await ServerRegistry.open({ workspace: workspace.path });
  await registry.register("raw", rawServer());
  const trusting = await command(["policy", "init", "reads"]);
  assert(!trusting.stderr.includes("allows nothing"), trusting.stderr);
});

Deno.test("ipybox policy edit opens the policy in an editor, checks it and accepts it", async () => {
  await using workspace = await TempFolder.create();
  const path = `${workspace.path}/.ipybox/policy.json`;
  const edited = async (program: string, script: Typing[] = []) => {
    const editor = `${workspace.path}/editor.py`;
    await Deno.writeTextFile(editor, `import sys; path = sys.argv[1]\n${program}\n`);
    const options = { cwd: workspace.path, env: { EDITOR: `python3 ${editor}` } };
    return await ipyboxAtTerminal(["policy", "edit"], script, options);
  };
  const explained = async (tool = "raw.echo") =>
    (await inThisProcess(["policy", "explain", tool], { workspace: workspace.path })).stdout.split(
      ":",
    )[0];
  assertStringIncludes((await edited("")).output, "There is no policy to edit");
  await writeAcceptedPolicy(workspace.path, '{"rules": []}');
  assertEquals(await explained(), "ask");
  const rule = '{"rules": [{"effect": "allow", "tool": "echo"}]}';
  const end = await edited(`open(path, "w").write('${rule}')`);
  assertEquals(end.code, 0, end.output);
  assertStringIncludes(end.output, "Accepted ");
  assertEquals(await explained(), "allow");
  assertEquals(await Deno.readTextFile(path), rule);

  assertStringIncludes(
    (await edited("")).output,
    "Not changed: no changes were made in the editor",
  );
  const wrong = await edited('open(path, "a").write("x")', [["Edit it again? [y/N] ", "n\n"]]);
  assertMatch(wrong.output, /policy\.json:1:49: [^]*The policy was not changed/);
  assertEquals(await Deno.readTextFile(path), rule);
  const meanwhile = await edited(
    `open(path, "a").write(" "); open(${JSON.stringify(path)}, "a").write(" ")`,
  );
  assertMatch(meanwhile.output, /was changed while\s+you edited it/);

  // What came with a repository is shown as ipybox reads it, also where one edits it.
  await Deno.writeTextFile(path, '{"rules": [{"effect": "allow"}]}');
  const foreign = await edited('open(path, "a").write(" ")', [["Accept it? [y/N] ", "n\n"]]);
  assertStringIncludes(foreign.output, "every call that can be judged");
  assertEquals(await explained("raw.count"), "ask");

  await Deno.writeTextFile(path, "{"); // a mistake is what an editor is for
  await edited(`open(path, "w").write('${rule}')`, [["Accept it? [y/N] ", "n\n"]]);
  assertEquals(await Deno.readTextFile(path), rule);
});

Deno.test("ipybox policy says where a policy is wrong, and that there is none", async () => {
  await using workspace = await TempFolder.create();
  await Deno.mkdir(`${workspace.path}/.ipybox`);
  const wrongPolicy = JSON.stringify({ rules: [{ effect: "alow" }] }, null, 2);
  await Deno.writeTextFile(`${workspace.path}/.ipybox/policy.json`, wrongPolicy);
  await using home = await TempFolder.create();
  const env = { XDG_CONFIG_HOME: home.path };
  await using commands = new CommandProcess({ cwd: workspace.path, env });
  const wrong = await commands.run(["policy", "check"]);
  assertEquals(wrong.code, 2);
  assertMatch(wrong.stderr, /\.ipybox\/policy\.json:4:7: \/rules\/0\/effect: /);
  // a policy that cannot be read does not count as none
  assertEquals((await commands.run(["run", "-c", "1"])).code, 2);
  assertEquals((await commands.run(["run", "-c", "1", "--approve", "none.json"])).code, 2);
  await Deno.remove(`${workspace.path}/.ipybox/policy.json`);
  const none = await commands.run(["policy", "check"]);
  assertEquals(none.code, 2);
  assertStringIncludes(none.stderr, "No policy found");
});

Deno.test("a policy decides on calls, and the audit log says how", async () => {
  await using workspace = await workspaceWith(POLICY);
  const cwd = workspace.path;
  const command = commandsIn(cwd);
  {
    await using runner = await ToolRunner.start({
      workspace: cwd,
      servers: { raw: rawServer() },
      approval: await loadPolicy({ workspace: cwd, file: `${cwd}/.ipybox/policy.json` }),
      log: silentLogger,
    });
    using _cell = runner.calls.enterCell("raw.echo()");
    await runner.run("raw", "echo", { text: "hi", pin: 1234, password: "hunter2" });
    for (const args of [{ path: "/etc/passwd" }, { n: 1 }]) {
      const tool = "n" in args ? "get" : "echo";
      await runner.run("raw", tool, args).catch((error) => {
        if (!(error instanceof ToolCallError)) throw error;
      });
    }
    using _approver = runner.channel.attach((request) =>
      void request.accept({ arguments: { path: "/etc/passwd" } })
    );
    await runner.run("raw", "get", { path: "x" }).catch((error) => {
      if (!(error instanceof ToolCallError)) throw error;
    });
  }
  const { stdout } = await command(["audit", "--json"]);
  const lines = stdout.trimEnd().split("\n").map((text) => JSON.parse(text));
  assertEquals(lines.map(({ decision, by, status }) => [decision, by, status]), [
    ["allow", "policy", undefined], // written before it is sent
    [undefined, undefined, "ok"],
    ["deny", "policy", "approval_rejected"],
    ["deny", "approval_unavailable", "approval_unavailable"],
    ["deny", "policy", "approval_rejected"], // what an approver put in place of the arguments
  ]);
  assertEquals(Object.keys(lines[0].arguments), ["text", "pin", "password"]);
  assertMatch(lines[0].arguments.pin, /^\[redacted:4:[\da-f]{16}\]$/);
  assertMatch(lines[0].arguments.password, /^\[redacted:7:[\da-f]{16}\]$/);
  assertEquals(lines[1].outcome, lines[0].id);
  assertMatch(lines[0].codeHash, /^[0-9a-f]{64}$/);
  assertMatch(lines[2].reason, /policy\.json rule 2: stay inside$/);

  const shown = await command(["audit", "-n", "1"]);
  assertMatch(
    shown.stdout,
    /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d {2}refused {3}raw\.get\(.*\) {2}\(policy: /,
  );
  assertEquals(await command(["audit", "--verify"]), {
    code: 0,
    stdout: "5 lines are intact\n",
    stderr: "",
  });
  const log = `${await stateOf(cwd)}/audit.jsonl`;
  await Deno.writeTextFile(log, (await Deno.readTextFile(log)).replace('"hi"', '"ho"'));
  const verified = await command(["audit", "--verify"]);
  assertEquals([verified.code, verified.stdout.split("\n")[0]], [
    1,
    "audit.jsonl:1: The line was changed: its hash does not match",
  ]);
});

Deno.test("ipybox policy shows, explains and takes back what is remembered", async () => {
  await using workspace = await TempFolder.create();
  await using home = await TempFolder.create();
  const env = { XDG_CONFIG_HOME: home.path };
  await using commands = new CommandProcess({ cwd: workspace.path, env });
  const none = await commands.run(["policy", "consents"]);
  assertEquals(none, { code: 0, stdout: "", stderr: "No decisions are remembered\n" });
  {
    await using runner = await ToolRunner.start({ workspace: workspace.path, log: silentLogger });
    await runner.registerServer("raw", rawServer());
    using _approver = runner.channel.attach((request) => {
      const match = request.toolName === "echo" ? "arguments" : "tool";
      const remember = { scope: "always", match } as const;
      if (request.toolName === "cwd") void request.reject("private\u001b[2K", { remember });
      else void request.accept({ remember });
    });
    await runner.run("raw", "count");
    await runner.run("raw", "echo", { a: 1, token: "hunter2" });
    await runner.run("raw", "cwd").catch(() => {}); // it is refused
  }
  const listed = await commands.run(["policy", "consents"]);
  const lines = listed.stdout.trimEnd().split("\n");
  assertMatch(lines[0] ?? "", /^[0-9a-f]{8} {2}\d{4}-\d\d-\d\d {2}allow {2}raw\.count\(…\)$/);
  assertMatch(lines[1] ?? "", / {2}allow {2}raw\.echo\(a=1, token='\[redacted\]'\)$/);
  assertMatch(lines[2] ?? "", / {2}deny {2}raw\.cwd\(…\): private\\x1b\[2K$/);
  const json = JSON.parse((await commands.run(["policy", "consents", "--json"])).stdout);
  assertEquals(json.map((one: { arguments: string }) => one.arguments), [
    "any",
    "exactly these",
    "any",
  ]);
  assertEquals(/hunter2|salt|hash/.test(JSON.stringify(json)), false);

  const explain = async (...call: string[]) =>
    (await commands.run(["policy", "explain", ...call])).stdout.trimEnd().split("\n");
  const id = lines[0]?.slice(0, 8);
  assertEquals(await explain("raw.count"), [
    `allow: remembered always (${id}), for any arguments, unless the tool has changed since; otherwise`,
    "ask: There is no policy",
    `    remembered always (${id}), for any arguments: allow`,
  ]);
  assertMatch(
    (await explain("raw.echo", '{"token":"hunter2","a":1}'))[0] ?? "",
    /^allow: .*exactly/,
  );
  assertEquals(await explain("raw.echo", '{"a":2}'), ["ask: There is no policy"]);
  assertMatch((await explain("raw.cwd"))[0] ?? "", /^deny: remembered always .*: private/);
  await ServerRegistry.open({ workspace: workspace.path })
    .then((registry) => registry.register("raw", rawServer("pages")));
  const lapsed = await explain("raw.count");
  assertEquals(lapsed[0], "ask: There is no policy");
  assertMatch(lapsed[1] ?? "", /: allow, lapsed: command was .*normal', is .*pages'$/);

  assertEquals((await commands.run(["policy", "forget"])).code, 2);
  assertEquals((await commands.run(["policy", "forget", "nothing"])).code, 2);
  const forgotten = await commands.run(["policy", "forget", String(id)]);
  assertEquals([forgotten.code, forgotten.stderr], [0, `Forgot: ${lines[0]}\n`]);
  await commands.run(["policy", "forget", "--all"]);
  assertEquals((await commands.run(["policy", "consents"])).stdout, "");

  await Deno.writeTextFile(`${await stateOf(workspace.path)}/consents.json`, "{");
  for (const action of [["consents"], ["forget", "--all"], ["explain", "raw.count"]]) {
    const broken = await commands.run(["policy", ...action]);
    assertEquals(broken.code, 2, action[0]);
    assertStringIncludes(broken.stderr, "consents.json:1:2: ");
  }
});

/** Where a policy is, in a folder with a workspace `ws`, and whether it counts there as it is named. */
const POLICY_PLACES: Readonly<Record<string, "always" | "before code ran" | "never">> = {
  "policy.json": "always",
  "ws/.ipybox/other.json": "always",
  "ws/policy.json": "before code ran",
  "ws/.ipyboxes/policy.json": "never",
  "ws/.ipybox/../policy.json": "before code ran",
  "link-into-ws/policy.json": "never",
  "link-into-ws/plain.json": "before code ran",
  "link-to-file.json": "before code ran",
  "ws/link-out.json": "never",
  "ws/.ipybox/link.json": "before code ran",
};

Deno.test("a policy that executed code could have written counts once its user has accepted it", async () => {
  const allow = '{"rules": [{"effect": "allow"}]}';
  for (const [place, counts] of Object.entries(POLICY_PLACES)) {
    for (const ran of [false, true]) {
      await using folder = await TempFolder.create();
      const path = await Deno.realPath(folder.path);
      const workspace = `${path}/ws`;
      await Deno.mkdir(`${workspace}/.ipybox`, { recursive: true });
      await Deno.mkdir(`${workspace}/sub`);
      await Deno.mkdir(`${workspace}/.ipyboxes`);
      for (const name of ["policy", "ws/.ipybox/other", "ws/policy", "ws/sub/plain"]) {
        await Deno.writeTextFile(`${path}/${name}.json`, allow);
      }
      await Deno.symlink(`${workspace}/sub`, `${path}/link-into-ws`);
      await Deno.symlink(`${workspace}/policy.json`, `${path}/link-to-file.json`);
      await Deno.symlink(`${path}/policy.json`, `${workspace}/link-out.json`);
      await Deno.symlink(`${workspace}/policy.json`, `${workspace}/.ipybox/link.json`);
      for (const name of ["sub", ".ipyboxes"]) {
        await Deno.symlink(`${path}/policy.json`, `${workspace}/${name}/policy.json`);
      }
      if (ran) await beginWriting(workspace);
      const options = { workspace, file: `${path}/${place}` };
      if (counts === "never") {
        await assertRejects(() => decisionOnCount(options), ConfigError, "is a symbolic link");
        continue;
      }
      const first = ran && counts === "before code ran" ? "ask" : "allow";
      assertEquals(await decisionOnCount(options), first, place);
      assertEquals(await decisionOnCount({ ...options, trust: "all" }), "allow", place);
      const accept = async () => {
        assertEquals((await inThisProcess(["trust", "--yes", workspace])).code, 0);
      };
      if (ran) {
        await accept();
        assertEquals(await decisionOnCount(options), "allow", place);
        continue;
      }
      await Deno.writeTextFile(options.file, '{"rules": []}');
      await accept();
      await Deno.writeTextFile(options.file, allow); // by whoever can write there
      const isUsers = place === "policy.json";
      assertEquals(await decisionOnCount(options), isUsers ? "allow" : "ask", place);
    }
  }
});

Deno.test("looking at a policy in a workspace accepts nothing", async () => {
  await using folder = await TempFolder.create();
  const path = await Deno.realPath(folder.path);
  const workspace = `${path}/ws`;
  await Deno.mkdir(`${workspace}/.ipybox`, { recursive: true });
  await Deno.writeTextFile(`${workspace}/policy.json`, "{}");
  await using commands = new CommandProcess({ env: { XDG_CONFIG_HOME: path } });
  await beginWriting(workspace);
  const file = `${workspace}/policy.json`;
  for (const args of [["check", file], ["test", "--file", file]]) {
    const { code, stderr } = await commands.run(["policy", ...args, "--workspace", workspace]);
    assertEquals(code, 0, stderr);
  }
  assertStringIncludes((await commands.run(["trust", workspace])).stderr, "Nothing to accept");
  const run = ["run", "-c", "1", "--workspace", workspace];
  const named = await commands.run([...run, "--python", "/bin/false", "--approve", file]);
  assertEquals(named.code, 3); // for want of a Python, once it has looked at the policy
  assertStringIncludes(named.stderr, `accept it with \`ipybox trust ${workspace}\``);
  // the user's own policy in a workspace that is the home folder
  await Deno.mkdir(`${path}/ws/config/ipybox`, { recursive: true });
  await Deno.writeTextFile(`${path}/ws/config/ipybox/policy.json`, "{}");
  const own = await ipybox(run, { env: { XDG_CONFIG_HOME: `${path}/ws/config` } });
  assertEquals(own.code, 2);
  assertStringIncludes(own.stderr, "is in the workspace");
});
