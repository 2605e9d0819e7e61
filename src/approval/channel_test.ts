import { assert, assertEquals, assertFalse, assertRejects, assertThrows } from "@std/assert";
import { parseExact, sealObject } from "../json/exact.ts";
import { ApprovalChannel } from "./channel.ts";
import { ApprovalGate } from "./gate.ts";
import { approvalPolicy } from "./policy.ts";
import type { ApprovalCall, ApprovalRequest } from "./request.ts";

function call(n = 1): ApprovalCall {
  const args = sealObject(parseExact(`{"n":${n}}`));
  return { kind: "tool", serverName: "s", toolName: "t", arguments: args };
}

Deno.test("ApprovalChannel refuses at once when nobody is there to ask", async () => {
  const channel = new ApprovalChannel();
  assertEquals(await channel.request(call()), {
    accepted: false,
    type: "approval_unavailable",
    reason: "Approval channel not connected",
  });
});

Deno.test("ApprovalChannel gives each request its own answer, whatever the order", async () => {
  const channel = new ApprovalChannel();
  const asked: ApprovalRequest[] = [];
  using _approver = channel.attach((request) => void asked.push(request));
  const answers = Promise.all([1, 2, 3].map((n) => channel.request(call(n))));
  assertEquals(channel.pending, 3);
  await asked[2]?.reject("three");
  await asked[0]?.accept();
  await asked[1]?.reject("two");
  assertEquals((await answers).map(({ accepted }) => accepted), [true, false, false]);
  assertEquals(channel.pending, 0);
  assertEquals(new Set(asked.map(({ id }) => id)).size, 3);
});

Deno.test("ApprovalChannel reports how many requests are pending", async () => {
  const channel = new ApprovalChannel();
  const seen: number[] = [];
  using _watch = channel.onPendingChange((pending) => seen.push(pending));
  using _approver = channel.attach((request) => void request.accept());
  await channel.request(call());
  assertEquals(seen, [1, 0]);
});

Deno.test("ApprovalChannel refuses what nobody decided in time", async () => {
  const channel = new ApprovalChannel({ timeoutMs: 20 });
  const asked: ApprovalRequest[] = [];
  using _approver = channel.attach((request) => void asked.push(request));
  const response = await channel.request(call());
  assert(!response.accepted);
  assertEquals(response.type, "approval_timeout");
  assertEquals(await asked[0]?.accept(), false);
});

Deno.test("ApprovalChannel refuses what is undecided when its approver leaves", async () => {
  const channel = new ApprovalChannel();
  const approver = channel.attach(() => {});
  const response = channel.request(call());
  approver[Symbol.dispose]();
  assertEquals(await response, {
    accepted: false,
    type: "approval_unavailable",
    reason: "Approval channel disconnected",
  });
  assertEquals(channel.attached, false);
});

Deno.test("ApprovalChannel refuses what its approver failed on", async () => {
  const channel = new ApprovalChannel();
  using _approver = channel.attach(() => Promise.reject(new Error("broken")));
  const response = await channel.request(call());
  assert(!response.accepted);
  assertEquals(response.reason, "Approver failed");
});

Deno.test("ApprovalChannel withdraws a request whose call has ended", async () => {
  const channel = new ApprovalChannel();
  const asked: ApprovalRequest[] = [];
  using _approver = channel.attach((request) => void asked.push(request));
  const ended = new AbortController();
  const response = channel.request(call(), { signal: ended.signal });
  ended.abort();
  assertEquals((await response).accepted, false);
  assert(asked[0]?.signal.aborted);
});

Deno.test("ApprovalChannel takes one approver at a time", async () => {
  const channel = new ApprovalChannel();
  const first = channel.attach(() => {});
  assertThrows(() => channel.attach(() => {}), Error, "already has one");
  await assertRejects(() => channel.whenFree(AbortSignal.timeout(5)), DOMException);
  const free = channel.whenFree(AbortSignal.timeout(5000));
  first[Symbol.dispose]();
  await free;
  const second = channel.attach(() => {});
  first[Symbol.dispose](); // an old handle must not detach a newer approver
  assert(channel.attached);
  second[Symbol.dispose]();
});

Deno.test("ApprovalGate asks nobody where the policy decides", async () => {
  const channel = new ApprovalChannel();
  const allow = new ApprovalGate(approvalPolicy("allow"), channel);
  assertEquals((await allow.decide(call())).decision, "allow");
  const deny = new ApprovalGate(approvalPolicy("deny"), channel);
  const denial = await deny.decide(call());
  assertEquals([denial.decision, denial.by], ["deny", "policy"]);
  assertEquals(deny.judge(call()), denial);
  assertEquals(allow.judge(call()), undefined);
});

Deno.test("approvalPolicy() has separate switches for tools and shell", () => {
  const policy = approvalPolicy({ tools: "allow", shell: "deny" });
  assertEquals(policy.decide(call()).mode, "allow");
  assertEquals(policy.decide({ ...call(), kind: "shell" }).mode, "deny");
  assertEquals(policy.decide({ ...call(), kind: "shell_magic" }).mode, "deny");
  assertEquals(approvalPolicy({}).decide(call()).mode, "ask");
  assertEquals(approvalPolicy({}).decide({ ...call(), kind: "shell" }).mode, "allow");
  assertEquals(policy.decide({ ...call(), kind: "elicitation" }).mode, "ask");
  const declining = approvalPolicy({ elicitations: "deny" });
  assertEquals(declining.decide({ ...call(), kind: "elicitation" }).mode, "deny");
  assertEquals(declining.decide(call()).mode, "ask");
  assertEquals(approvalPolicy("deny").decide({ ...call(), kind: "elicitation" }).mode, "deny");
  const unknown: Record<string, string> = { tools: "maybe" };
  assertThrows(() => approvalPolicy(unknown), TypeError, '"maybe"');
});

Deno.test("ApprovalChannel shows requests to watchers, who may decide but are not waited for", async () => {
  const channel = new ApprovalChannel();
  const seen: ApprovalRequest[] = [];
  const watch = channel.watch((request) => void seen.push(request));
  using _broken = channel.watch(() => {
    throw new Error("broken");
  });
  assertEquals((await channel.request(call())).accepted, false);
  assertEquals(seen, [], "what nobody is asked is not shown");
  using _approver = channel.attach(() => {});
  const first = channel.request(call(1));
  using _late = channel.watch((request) => void request.accept());
  assertEquals((await first).accepted, true, "those that come later see what waits");
  const second = channel.request(call(2));
  await seen[1]?.reject("no");
  assertEquals((await second).accepted, true, "the first decision counts");
  watch[Symbol.dispose]();
  await channel.request(call(3));
  assertEquals(seen.length, 2);
});

Deno.test("ApprovalChannel asks its fallback while there is no approver", async () => {
  const channel = new ApprovalChannel();
  const asked: string[] = [];
  const fallback = channel.setFallback((request) => {
    asked.push("fallback");
    if (request.toolArgs.n === 1) void request.accept();
  }, () => "gone");
  assertThrows(() => channel.setFallback(() => {}, () => ""), Error, "already has one");
  assertEquals((await channel.request(call(1))).accepted, true);
  const approver = channel.attach((request) => {
    asked.push("approver");
    void request.accept();
  });
  assertEquals((await channel.request(call(2))).accepted, true);
  approver[Symbol.dispose]();
  const left = channel.request(call(3));
  fallback[Symbol.dispose]();
  fallback[Symbol.dispose]();
  assertEquals(await left, { accepted: false, type: "approval_unavailable", reason: "gone" });
  assertEquals(asked, ["fallback", "approver", "fallback"]);
  assertFalse((await channel.request(call())).accepted);
});
