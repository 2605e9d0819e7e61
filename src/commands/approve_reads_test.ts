import { assertEquals, assertMatch } from "@std/assert";
import { ipybox } from "../../tests/support/cli.ts";
import { rawServer } from "../../tests/support/mcp.ts";
import { TempFolder } from "../../tests/support/temp_folder.ts";
import type { ApprovalCall } from "../approval/request.ts";
import { joinPolicies, parsePolicy } from "../approval/rules/parse.ts";
import { silentLogger } from "../base/log.ts";
import { ToolRunner } from "../calls/runner.ts";
import { sealObject } from "../json/exact.ts";
import { launchText } from "../servers/fingerprint.ts";
import { allowingReads } from "./approve_reads.ts";

/** A workspace with the registered server `raw`, whose `echo` claims to be read-only. */
async function workspaceWithRaw(): Promise<TempFolder> {
  const folder = await TempFolder.create();
  const { command, args = [] } = rawServer();
  const registered = await ipybox(["register", "raw", "--", command, ...args], {
    cwd: folder.path,
  });
  assertEquals(registered.code, 0, registered.stderr);
  return folder;
}

Deno.test("--approve reads allows the tools that only read, and asks about all others", async () => {
  await using folder = await workspaceWithRaw();
  const workspace = folder.path;
  const approval = await allowingReads(undefined, { workspace, log: silentLogger });
  const asked: string[] = [];
  await using runner = await ToolRunner.start({ workspace, approval, log: silentLogger });
  using _approver = runner.channel.attach((request) => {
    asked.push(request.toolName);
    void request.accept();
  });
  for (const tool of ["echo", "count", "cwd"]) await runner.run("raw", tool);
  assertEquals(asked, ["count", "cwd"]);
  await runner.registerServer("raw", rawServer("pages"));
  await runner.run("raw", "echo");
  assertEquals(asked, ["count", "cwd", "echo"], "this is another server than the one of the start");
  await runner.registerServer("other", rawServer());
  await runner.run("other", "echo");
  assertEquals(asked.length, 4, "and this one was not registered then");
});

Deno.test("--approve reads holds a server to what it said, and obeys the person's policy", async () => {
  await using folder = await workspaceWithRaw();
  const workspace = folder.path;
  const call: ApprovalCall = {
    kind: "tool",
    serverName: "raw",
    toolName: "echo",
    arguments: sealObject({}),
    annotations: { readOnlyHint: true },
    server: { launch: launchText(rawServer()) },
  };
  const reads = await allowingReads(undefined, { workspace, log: silentLogger });
  assertEquals(reads.decide(call), {
    mode: "allow",
    reason: "--approve reads rule 1 (raw says that it only reads)",
  });
  const others: Partial<ApprovalCall>[] = [
    { annotations: { readOnlyHint: false } },
    { annotations: {} },
    { annotations: undefined },
    { toolName: "count" },
    { toolName: "ech" },
    { serverName: "other" },
    { server: { launch: "other" } },
    { server: undefined },
    { kind: "resource" },
  ];
  for (const other of others) {
    assertEquals(reads.decide({ ...call, ...other }).mode, "ask", JSON.stringify(other));
  }
  const own =
    '{"rules": [{"effect": "deny", "tool": "echo", "reason": "never"}], "redact": ["pin"]}';
  const policy = joinPolicies([parsePolicy("policy.json", own)], { workspace });
  const both = await allowingReads(policy, { workspace, log: silentLogger });
  assertEquals(both.decide(call), { mode: "deny", reason: "policy.json rule 1: never" });
  assertEquals(both.redact, ["pin"]);
});

Deno.test("--approve reads says that it allows nothing", async () => {
  await using folder = await TempFolder.create();
  const said: string[] = [];
  const log = { ...silentLogger, warn: (message: string) => void said.push(message) };
  await allowingReads(undefined, { workspace: folder.path, log });
  assertMatch(said.join(), /^--approve reads allows nothing: no registered server says/);
});
