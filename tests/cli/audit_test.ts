import { assertEquals, assertMatch } from "@std/assert";
import { AuditLog, type AuditLogOptions } from "../../src/approval/audit/log.ts";
import { ipybox, startIpybox } from "../support/cli.ts";
import { commandsIn } from "../support/command_io.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { stateOf } from "../support/workspace_state.ts";

/** A log with calls that were sent, and how they ended. */
async function record(options: AuditLogOptions, from: number, to: number): Promise<void> {
  await using log = new AuditLog(options);
  for (let n = from; n <= to; n++) {
    const id = `id-${n}`;
    const time = new Date(n);
    await log.append({
      id,
      time,
      kind: "tool",
      server: "s",
      tool: "t",
      arguments: { n, text: "\x1b[2J" },
      decision: "allow",
      by: "policy",
    });
    log.appendOutcome({ id, time, status: "ok", durationMs: 1 });
  }
}

Deno.test("ipybox audit only reads", async () => {
  await using folder = await TempFolder.create();
  const cwd = folder.path;
  const command = commandsIn(cwd);
  assertEquals(await command(["audit", "--verify"]), {
    code: 0,
    stdout: "0 lines are intact\n",
    stderr: "",
  });
  assertEquals((await command(["audit"])).stderr, "No entries yet\n");
  assertEquals(await Array.fromAsync(Deno.readDir(cwd)), []);
});

Deno.test("ipybox audit shows a tool's name apart from what it says itself", async () => {
  const tool = "list({})  5 ms  (approver after 2.0 s)";
  await using folder = await TempFolder.create();
  {
    await using log = new AuditLog({ workspace: folder.path });
    const refused = { decision: "deny", by: "policy", status: "approval_rejected" } as const;
    await log.append({
      id: "a",
      time: new Date(1),
      kind: "tool",
      server: "s",
      tool,
      arguments: {},
      ...refused,
    });
  }
  const { stdout } = await commandsIn(folder.path)(["audit"]);
  const row = `refused   s.'${tool}'({})  (policy)`;
  assertEquals(stdout.trimEnd().endsWith(row), true, stdout);
});

Deno.test("ipybox audit tells how calls ended, and which have no outcome", async () => {
  await using folder = await TempFolder.create();
  const cwd = folder.path;
  await record({ workspace: cwd }, 1, 1);
  {
    await using log = new AuditLog({ workspace: cwd });
    await log.append({
      id: "open",
      time: new Date(2),
      kind: "tool",
      server: "s",
      tool: "t",
      arguments: {},
      decision: "allow",
      by: "approver",
      waitMs: 2500,
    });
    await log.append({
      id: "refused",
      time: new Date(3),
      kind: "tool",
      server: "s",
      tool: "t",
      arguments: {},
      decision: "deny",
      by: "approver",
      reason: "no",
      waitMs: 12,
      status: "approval_rejected",
      durationMs: 12,
    });
    await log.append({
      id: "asked",
      time: new Date(4),
      kind: "elicitation",
      server: "s",
      tool: "elicitation/create",
      arguments: {},
      decision: "deny",
      by: "page",
      status: "cancel",
      durationMs: 1500,
    });
  }
  const { stdout } = await ipybox(["audit"], { cwd, env: { TZ: "Africa/Cairo" } });
  assertEquals(stdout.trimEnd().split("\n"), [
    '1970-01-01 02:00:00  ok        s.t({"n":1,"text":"\\u001b[2J"})  1 ms  (policy)',
    "1970-01-01 02:00:00  no end    s.t({})  (approver after 2.5 s)",
    "1970-01-01 02:00:00  refused   s.t({})  (approver after 12 ms: no)",
    "1970-01-01 02:00:00  cancel    s.elicitation/create({})  1.5 s  (page)",
  ]);
  const command = commandsIn(cwd);
  const verified = await command(["audit", "--verify"]);
  assertEquals(verified.stdout, "5 lines are intact, calls without an outcome: 1\n");
  const verdict = JSON.parse((await command(["audit", "--verify", "--json"])).stdout);
  assertEquals([verdict.ok, verdict.unfinished], [true, 1]);
});

Deno.test("ipybox audit --follow waits for the log, and follows it across its files", async () => {
  await using folder = await TempFolder.create();
  const workspace = folder.path;
  const args = ["audit", "--follow", "--json", "-n", "100", "--workspace", workspace];
  const child = startIpybox(args, { stderr: "inherit" });
  const writing = record({ workspace, maxBytes: 1000 }, 1, 30);
  const seen: string[] = [];
  let text = "";
  for await (const chunk of child.stdout.pipeThrough(new TextDecoderStream())) {
    const lines = (text + chunk).split("\n");
    text = lines.pop() ?? "";
    for (const line of lines) {
      const { id, outcome } = JSON.parse(line);
      seen.push(id ?? outcome);
    }
    if (seen.length >= 60) break;
  }
  await writing;
  child.kill("SIGINT");
  assertEquals((await child.status).code, 130);
  const expected = Array.from({ length: 30 }, (_, n) => [`id-${n + 1}`, `id-${n + 1}`]).flat();
  assertEquals(seen.toSorted(), expected.toSorted());
  const files = await Array.fromAsync(Deno.readDir(await stateOf(workspace)), ({ name }) => name);
  assertMatch(files.join(" "), /audit\.\d+\.jsonl/);
});
