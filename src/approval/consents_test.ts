import { assert, assertEquals, assertFalse, assertMatch, assertRejects } from "@std/assert";
import { parseExact, sealObject } from "../json/exact.ts";
import type { Logger } from "../base/log.ts";
import { ApprovalChannel } from "./channel.ts";
import {
  changesSince,
  type Consent,
  Consents,
  type ConsentStore,
  type FingerprintPart,
  isFor,
  makeConsent,
} from "./consents.ts";
import { ApprovalGate, type GateDecision } from "./gate.ts";
import { approvalPolicy, type ApprovalSetting } from "./policy.ts";
import { parsePolicy } from "./rules/parse.ts";
import { patternJudge } from "./rules/patterns.ts";
import { PolicyRules } from "./rules/rules.ts";
import type { ApprovalCall, ApprovalRequest, Remember } from "./request.ts";

function call(args: string, more: Partial<ApprovalCall> = {}): ApprovalCall {
  const sealed = sealObject(parseExact(args));
  return { kind: "tool", serverName: "fs", toolName: "write", arguments: sealed, ...more };
}

const FINGERPRINT: readonly FingerprintPart[] = [
  { name: "command", about: "server", value: "npx fs", shown: "npx fs" },
  { name: "environment variable 'TOKEN'", about: "server", value: "secret" },
  { name: "description", about: "tool", value: "Writes a file", shown: "Writes a file" },
  {
    name: "parameter 'path'",
    about: "tool",
    value: '{"type":"string"}',
    shown: '{"type":"string"}',
  },
];

const ASKED = call('{"path":"a.txt","n":1}');

/** A call, and whether a consent to the tool, or to exactly those arguments, applies to it. */
const CALLS: readonly (readonly [call: ApprovalCall, tool: boolean, exact: boolean])[] = [
  [ASKED, true, true],
  [call('{"n":1,"path":"a.txt"}'), true, true],
  [call('{"path":"b.txt","n":1}'), true, false],
  [call('{"path":"a.txt","n":1.0}'), true, false],
  [call('{"path":"a.txt","n":"1"}'), true, false],
  [call('{"path":"a.txt"}'), true, false],
  [call('{"path":"a.txt","n":1,"m":null}'), true, false],
  [call('{"path":["a.txt"],"n":1}'), true, false],
  [call('{"path":"a.txt\u200b","n":1}'), true, false],
  [call('{"PATH":"a.txt","n":1}'), true, false],
  [call("{}"), true, false],
  [call('{"path":"a.txt","n":1}', { toolName: "read" }), false, false],
  [call('{"path":"a.txt","n":1}', { toolName: "Write" }), false, false],
  [call('{"path":"a.txt","n":1}', { toolName: "write " }), false, false],
  [call('{"path":"a.txt","n":1}', { serverName: "fs2" }), false, false],
  [call('{"path":"a.txt","n":1}', { serverName: "fs.write", toolName: "" }), false, false],
  [call('{"path":"a.txt","n":1}', { kind: "resource" }), false, false],
  [call('{"path":"a.txt","n":1}', { kind: "shell" }), false, false],
];

for (const [index, [asked, tool, exact]] of CALLS.entries()) {
  Deno.test(`a consent is for the calls that it was given for, case ${index + 1}`, () => {
    const decided = { call: ASKED, fingerprint: [], decision: "allow" } as const;
    assertEquals(isFor(makeConsent(decided, "tool"), asked), tool);
    assertEquals(isFor(makeConsent(decided, "arguments"), asked), exact);
  });
}

const [COMMAND, TOKEN, DESCRIPTION, PATH] = FINGERPRINT as [
  FingerprintPart,
  FingerprintPart,
  FingerprintPart,
  FingerprintPart,
];

/** The current server and tool, and the changes that people see. */
const CHANGES:
  readonly (readonly [fingerprint: readonly FingerprintPart[], changes: readonly string[]])[] = [
    [FINGERPRINT, []],
    [FINGERPRINT.toReversed(), []],
    [[], [
      "command was removed",
      "environment variable 'TOKEN' was removed",
      "description was removed",
      "parameter 'path' was removed",
    ]],
    [[{ ...COMMAND, value: "npx evil", shown: "npx evil" }, TOKEN, DESCRIPTION, PATH], [
      "command was 'npx fs', is 'npx evil'",
    ]],
    [[COMMAND, { ...TOKEN, value: "other" }, DESCRIPTION, PATH], [
      "environment variable 'TOKEN' changed",
    ]],
    [[COMMAND, { ...TOKEN, value: "${TOKEN}", shown: "${TOKEN}" }, DESCRIPTION, PATH], [
      "environment variable 'TOKEN' changed",
    ]],
    [[COMMAND, TOKEN, { ...DESCRIPTION, value: "x", shown: "Writes a file" }, PATH], [
      "description was 'Writes a file', is 'Writes a file'",
    ]],
    [[...FINGERPRINT, { name: "parameter 'mode'", about: "tool", value: "{}", shown: "{}" }], [
      "parameter 'mode' was added",
    ]],
    [[COMMAND, TOKEN, DESCRIPTION, { ...PATH, name: "parameter 'file'" }], [
      "parameter 'file' was added",
      "parameter 'path' was removed",
    ]],
    [[COMMAND, TOKEN, { ...DESCRIPTION, value: "\u001b[2K", shown: "\u001b[2K\u202e'" }, PATH], [
      "description was 'Writes a file', is '\\x1b[2K\\u202e\\''",
    ]],
  ];

for (const [index, [fingerprint, changes]] of CHANGES.entries()) {
  Deno.test(`a consent counts only while nothing changed, case ${index + 1}`, () => {
    const consent = makeConsent(
      { call: ASKED, fingerprint: FINGERPRINT, decision: "allow" },
      "tool",
    );
    assertEquals(changesSince(consent, fingerprint), changes);
  });
}

Deno.test("what changed late in a long text is shown, and all of it counts", () => {
  const part = (
    value: string,
  ): FingerprintPart[] => [{ name: "description", about: "tool", value, shown: value }];
  const since = (before: string, after: string) => {
    const decided = { call: ASKED, fingerprint: part(before), decision: "allow" } as const;
    return changesSince(makeConsent(decided, "tool"), part(after));
  };
  const long = "x".repeat(500);
  assertEquals(since(`${long}old`, `${long}new`), [
    `description was …'${"x".repeat(20)}old', is …'${"x".repeat(20)}new'`,
  ]);
  const longer = "x".repeat(5000);
  assertEquals(since(`${longer}old`, `${longer}new`), [
    "description changed after its first 1000 characters",
  ]);
});

Deno.test("a consent keeps no secrets, and the same ones do not look the same", () => {
  const decided = { call: ASKED, fingerprint: FINGERPRINT, decision: "allow" } as const;
  const [one, other] = [makeConsent(decided, "arguments"), makeConsent(decided, "arguments")];
  assertFalse(JSON.stringify(one).includes("secret"));
  assert(one.bound[TOKEN.name]?.hash !== other.bound[TOKEN.name]?.hash);
  assert(one.arguments !== other.arguments);
});

/** A store in memory, which can be set to fail. */
class MemoryStore implements ConsentStore {
  all: Consent[] = [];
  broken = false;
  list(): Promise<readonly Consent[]> {
    return Promise.resolve(this.all);
  }
  add(consent: Consent, replaced: (earlier: Consent) => boolean): Promise<void> {
    if (this.broken) return Promise.reject(new Error("the disk is full"));
    this.all = [...this.all.filter((earlier) => !replaced(earlier)), consent];
    return Promise.resolve();
  }
}

/** A gate with an approver that gives preset answers, and its requests and decisions. */
class TestGate {
  readonly store = new MemoryStore();
  readonly errors: string[] = [];
  readonly asked: ApprovalRequest[] = [];
  readonly decisions: GateDecision[] = [];
  readonly consents: Consents;
  readonly channel = new ApprovalChannel();
  readonly #gate: ApprovalGate;
  answer: (request: ApprovalRequest) => unknown = (request) => request.accept();

  constructor(mode: ApprovalSetting = "ask") {
    const nothing = () => {};
    const log: Logger = {
      debug: nothing,
      info: nothing,
      warn: nothing,
      error: (text) => this.errors.push(text),
    };
    this.consents = new Consents({ store: this.store, patterns: patternJudge(), log });
    this.#gate = new ApprovalGate(approvalPolicy(mode), this.channel, this.consents);
    this.channel.attach((request) => {
      this.asked.push(request);
      this.answer(request);
    });
  }

  /** The outcome of a call, and whether anybody was asked. */
  async ask(asked = ASKED, fingerprint = FINGERPRINT): Promise<string> {
    const before = this.asked.length;
    const decision = await this.#gate.decide(asked, { fingerprint: () => fingerprint });
    this.decisions.push(decision);
    const outcome = decision.decision === "allow" ? "allowed" : "denied";
    return this.asked.length === before ? outcome : `${outcome}, asked`;
  }

  remember(scope: Remember["scope"], match: Remember["match"] = "tool"): void {
    this.answer = (request) => request.accept({ remember: { scope, match } });
  }
}

const OTHER = call('{"path":"b.txt"}');

Deno.test("where a rule may deny a call, a permission counts for exactly its arguments only", async () => {
  const rules = [{ effect: "deny", arguments: { "/path": { path: "/root/.ssh" } } }];
  const policy = new PolicyRules([parsePolicy("p.json", JSON.stringify({ rules }))]);
  const gate = new TestGate(policy);
  gate.remember("session", "tool");
  assertEquals(await gate.ask(call('{"path":"/tmp/a"}')), "allowed, asked");
  assertEquals(await gate.ask(call('{"path":"/tmp/b"}')), "allowed");
  assertEquals(await gate.ask(call('{"path":"/root/.ssh/id"}')), "denied");

  const doubtful = call('{"path":"/root/x%2f../.ssh/id"}');
  gate.answer = (request) => request.reject("no");
  assertEquals(await gate.ask(doubtful), "denied, asked");
  gate.remember("session", "arguments");
  assertEquals(await gate.ask(doubtful), "allowed, asked");
  assertEquals(await gate.ask(doubtful), "allowed");
});

/** A call of a file in a folder of data. */
function file(path: string): ApprovalCall {
  return call(JSON.stringify({ path: `/data/${path}`, text: path }));
}

Deno.test("a decision for a pattern counts for the calls that match it", async () => {
  const gate = new TestGate();
  gate.remember("always", "pattern");
  assertEquals(await gate.ask(file("in/a")), "allowed, asked");
  assertEquals(gate.asked[0]?.pattern, "any `path` below /data/in (other arguments: any)");
  gate.answer = (request) => request.reject("no");
  assertEquals(await gate.ask(file("in/b")), "allowed");
  assertMatch(
    String(gate.decisions[1]?.reason),
    /^remembered always \([0-9a-f]{8}\), for any `path` below \/data\/in \(other arguments: any\)$/,
  );
  assertEquals(await gate.ask(file("out/a")), "denied, asked");
  assertEquals(await gate.ask({ ...file("in/b"), toolName: "read" }), "denied, asked");
  const changed = FINGERPRINT.map((part) => ({ ...part, value: `${part.value}, changed` }));
  assertEquals(await gate.ask(file("in/b"), changed), "denied, asked");
});

Deno.test("a decision for a pattern replaces the one for the same pattern, and overrides no refusal", async () => {
  const gate = new TestGate();
  gate.remember("always", "pattern");
  await gate.ask(file("in/a"));
  await gate.ask(file("out/a"));
  await gate.ask(file("in/a"), []);
  const paths = gate.store.all.map(({ where }) => Object.values(where?.arguments ?? {}));
  assertEquals(paths, [[{ path: "/data/out" }], [{ path: "/data/in" }]]);
  const refused = { scope: "always", match: "arguments" } as const;
  const decided = {
    call: file("in/x"),
    fingerprint: [],
    decision: "deny",
    reason: "never",
  } as const;
  await gate.consents.remember(decided, refused, undefined);
  assertEquals(await gate.ask(file("in/x"), []), "denied");
  assertEquals(await gate.ask(file("in/y"), []), "allowed");
});

Deno.test("where a rule may deny a call, a permission for a pattern does not count", async () => {
  const rules = [{ effect: "deny", arguments: { "/text": { path: "/root/.ssh" } } }];
  const gate = new TestGate(new PolicyRules([parsePolicy("p.json", JSON.stringify({ rules }))]));
  gate.remember("session", "pattern");
  assertEquals(await gate.ask(file("in/a")), "allowed, asked");
  gate.answer = (request) => request.reject("no");
  const doubtful = call('{"path":"/data/in/b","text":"/root/x%2f../.ssh/id"}');
  assertEquals(await gate.ask(doubtful), "denied, asked");
  assertEquals(await gate.ask(call('{"path":"/data/in/b","text":"/tmp/b"}')), "allowed");
});

Deno.test("a decision for a pattern that nobody proposed is refused, and leaves the call undecided", async () => {
  const gate = new TestGate();
  gate.answer = async (request: ApprovalRequest) => {
    const remember = { scope: "session", match: "pattern" } as const;
    await assertRejects(() => request.accept({ remember }), TypeError, 'use "tool" or "arguments"');
    await request.reject("no");
  };
  assertEquals(await gate.ask(ASKED), "denied, asked");
  assertEquals(gate.asked[0]?.pattern, undefined);
});

Deno.test("a decision without memory counts once", async () => {
  const gate = new TestGate();
  assertEquals(await gate.ask(), "allowed, asked");
  assertEquals(await gate.ask(), "allowed, asked");
  assertEquals(gate.asked[0]?.scopes, ["session", "always"]);
});

for (const scope of ["cell", "session", "always"] as const) {
  Deno.test(`a decision for the ${scope} counts as long as that, and for what it was made`, async () => {
    const gate = new TestGate();
    {
      using _cell = gate.consents.enterCell();
      gate.remember(scope, "arguments");
      assertEquals(await gate.ask(), "allowed, asked");
      gate.answer = (request) => request.reject("no");
      assertEquals(await gate.ask(), "allowed");
      assertEquals(await gate.ask(OTHER), "denied, asked");
      gate.remember(scope, "tool");
      assertEquals(await gate.ask(OTHER), "allowed, asked");
      gate.answer = (request) => request.reject("no");
      assertEquals(await gate.ask(OTHER), "allowed");
      assertEquals(await gate.ask(call("{}", { toolName: "read" })), "denied, asked");
    }
    const afterCell = await gate.ask(OTHER); // as a thread that the cell left would
    assertEquals(afterCell, scope === "cell" ? "denied, asked" : "allowed");
    await gate.consents.reset();
    assertEquals(await gate.ask(OTHER), scope === "always" ? "allowed" : "denied, asked");
    assertMatch(
      String(gate.decisions[1]?.reason),
      scope === "always"
        ? /^remembered always \([0-9a-f]{8}\), for exactly these arguments$/
        : new RegExp(`^remembered for this ${scope}, for exactly these arguments$`),
    );
    assertEquals(gate.decisions[1]?.by, "consent");
  });
}

Deno.test("an answer for the cell that comes after its end counts once", async () => {
  const gate = new TestGate();
  const asked = Promise.withResolvers<ApprovalRequest>();
  gate.answer = (request) => asked.resolve(request);
  const cell = gate.consents.enterCell();
  const outcome = gate.ask();
  const request = await asked.promise;
  cell[Symbol.dispose]();
  using _next = gate.consents.enterCell();
  await request.accept({ remember: { scope: "cell", match: "tool" } });
  assertEquals(await outcome, "allowed, asked");
  gate.answer = (request) => request.reject();
  assertEquals(await gate.ask(), "denied, asked");
});

Deno.test("without a cell or a store nothing is remembered for them", async () => {
  const channel = new ApprovalChannel();
  const gate = new ApprovalGate(approvalPolicy("ask"), channel);
  const refused: unknown[] = [];
  using _approver = channel.attach(async (request) => {
    assertEquals(request.scopes, ["session"]);
    for (const scope of ["cell", "always"] as const) {
      await assertRejects(
        () => request.accept({ remember: { scope, match: "tool" } }),
        TypeError,
        `Cannot remember this decision for "${scope}": use session`,
      );
    }
    refused.push(request.id);
    await request.reject();
  });
  assertEquals((await gate.decide(ASKED)).decision, "deny");
  assertEquals(refused.length, 1);
});

Deno.test("a refusal is remembered with its reason, and beats permissions", async () => {
  const gate = new TestGate();
  gate.remember("session", "arguments");
  assertEquals(await gate.ask(), "allowed, asked");
  gate.answer = (request) => {
    return request.reject("never", { remember: { scope: "always", match: "tool" } });
  };
  assertEquals(await gate.ask(OTHER), "denied, asked");
  assertEquals(await gate.ask(OTHER), "denied");
  assertEquals(await gate.ask(), "denied");
  assertMatch(String(gate.decisions.at(-1)?.reason), /^remembered always .*: never$/);
});

Deno.test("what the policy says beats what is remembered, but for asking", async () => {
  for (const [mode, outcome] of [["deny", "denied"], ["allow", "allowed"]] as const) {
    const gate = new TestGate(mode);
    const decision = mode === "deny" ? "allow" : "deny";
    gate.store.all = [makeConsent({ call: ASKED, fingerprint: FINGERPRINT, decision }, "tool")];
    assertEquals(await gate.ask(), outcome);
    assertEquals(gate.decisions[0]?.by, "policy");
  }
});

Deno.test("a consent lapses when something changed, the request says what, and a new one replaces it", async () => {
  const gate = new TestGate();
  gate.remember("always");
  assertEquals(await gate.ask(), "allowed, asked");
  assertEquals(gate.asked[0]?.changes, undefined);
  const changed = FINGERPRINT.map((part) =>
    part.name === "description" ? { ...part, value: "Evil", shown: "Evil" } : part
  );
  gate.answer = (request) => request.accept();
  assertEquals(await gate.ask(ASKED, changed), "allowed, asked");
  assertEquals(gate.asked[1]?.changes, ["description was 'Writes a file', is 'Evil'"]);
  assertEquals(await gate.ask(), "allowed"); // as it was
  gate.remember("always");
  assertEquals(await gate.ask(ASKED, changed), "allowed, asked");
  assertEquals(await gate.ask(ASKED, changed), "allowed");
  assertEquals(gate.store.all.length, 1);
});

Deno.test("of many changes, those that are left out are counted", async () => {
  const gate = new TestGate();
  gate.remember("session");
  await gate.ask(ASKED, []);
  const fingerprint = Array.from({ length: 50 }, (_, n) => ({
    name: `parameter '${n}'`,
    about: "tool" as const,
    value: "",
  }));
  await gate.ask(ASKED, fingerprint);
  assertEquals(gate.asked[1]?.changes?.length, 21);
  assertEquals(gate.asked[1]?.changes?.at(-1), "and 30 more changes");
});

Deno.test("edited arguments are the ones that are remembered", async () => {
  const gate = new TestGate();
  gate.answer = (request) =>
    request.accept({
      arguments: { path: "b.txt" },
      remember: { scope: "session", match: "arguments" },
    });
  assertEquals(await gate.ask(), "allowed, asked");
  assertEquals(await gate.ask(OTHER), "allowed");
  assertEquals(await gate.ask(), "allowed, asked");
});

for (const scope of ["session", "always"] as const) {
  Deno.test(`an answer that is remembered (${scope}) settles the requests that it is for before the next one is shown`, async () => {
    const gate = new TestGate();
    gate.answer = () => {};
    const outcomes = Promise.all([gate.ask(), gate.ask(OTHER)]);
    await until(gate.channel, 2);
    await gate.asked[0]?.accept({ remember: { scope, match: "tool" } });
    assertEquals([gate.asked[1]?.signal.aborted, gate.channel.pending], [true, 0]);
    assertEquals((await outcomes).map((outcome) => outcome.split(",")[0]), ["allowed", "allowed"]);
    assertEquals(gate.asked.length, 2);
  });
}

Deno.test("a decision that cannot be kept counts once, and a warning is logged", async () => {
  const gate = new TestGate();
  gate.store.broken = true;
  gate.remember("always");
  assertEquals(await gate.ask(), "allowed, asked");
  assertEquals(await gate.ask(), "allowed, asked");
  assertMatch(gate.errors[0] ?? "", /applies to one call only: the disk is full/);
});

Deno.test("an approver cannot remember edited arguments that the policy denies", async () => {
  const channel = new ApprovalChannel();
  const consents = new Consents();
  const policy = {
    decide: ({ arguments: { path } }: ApprovalCall) => ({
      mode: path === "secret" ? "deny" : "ask",
    } as const),
  };
  const gate = new ApprovalGate(policy, channel, consents);
  using _approver = channel.attach((request) =>
    void request.accept({
      arguments: { path: "secret" },
      remember: { scope: "session", match: "tool" },
    })
  );
  const { decision, by } = await gate.decide(ASKED);
  assertEquals([decision, by], ["deny", "policy"]);
  assertEquals((await consents.recall(ASKED, [])).decision, undefined);
});

Deno.test("a store that fails while calls wait fails those calls, and nothing else", async () => {
  let fails = false;
  const store: ConsentStore = {
    list: () => fails ? Promise.reject(new Error("disk full")) : Promise.resolve([]),
    add: () => Promise.resolve(),
  };
  const channel = new ApprovalChannel();
  const gate = new ApprovalGate(approvalPolicy("ask"), channel, new Consents({ store }));
  const requests: ApprovalRequest[] = [];
  using _approver = channel.attach((request) => void requests.push(request));
  const [first, second] = [gate.decide(ASKED), gate.decide(call("{}"))];
  const failing = assertRejects(() => second, Error, "disk full");
  await until(channel, 2);
  fails = true;
  await requests[0]?.accept({ remember: { scope: "session", match: "tool" } });
  assertEquals((await first).decision, "allow");
  await failing;
});

Deno.test("calls wait on undisturbed while decisions on others are remembered, of which there are only so many", async () => {
  let looks = 0;
  const store: ConsentStore = {
    list: () => (looks++, Promise.resolve([])),
    add: () => Promise.resolve(),
  };
  const channel = new ApprovalChannel();
  const consents = new Consents({ store });
  const gate = new ApprovalGate(approvalPolicy("ask"), channel, consents);
  const requests: ApprovalRequest[] = [];
  using _approver = channel.attach((request) => void requests.push(request));
  const waiting = gate.decide(ASKED);
  await until(channel, 1);
  const before = looks;
  const remember = { scope: "session", match: "arguments" } as const;
  const other = (i: number) => call(`{"number":${i}}`);
  for (let i = 0; i < 1100; i++) {
    await consents.remember(
      { call: other(i), fingerprint: [], decision: "allow" },
      remember,
      undefined,
    );
  }
  assertEquals(looks, before);
  assertEquals((await consents.recall(other(999), [])).decision, "allow");
  assertEquals((await consents.recall(other(1000), [])).decision, undefined);
  await requests[0]?.accept();
  assertEquals((await waiting).decision, "allow");
});

/** Waits until so many requests are pending. */
async function until(channel: ApprovalChannel, count: number): Promise<void> {
  const all = Promise.withResolvers<void>();
  using _watch = channel.onPendingChange((pending) => {
    if (pending === count) all.resolve();
  });
  if (channel.pending < count) await all.promise;
}

Deno.test("an earlier decision on a call does not count once calls like it were denied", async () => {
  const consents = new Consents();
  const gate = new ApprovalGate(approvalPolicy("ask"), new ApprovalChannel(), consents);
  const earlier = { decision: "allow", by: "approver" } as const;
  assertEquals((await gate.decide(ASKED, { earlier })).decision, "allow");
  const denied = { call: ASKED, fingerprint: [], decision: "deny" } as const;
  await consents.remember(denied, { scope: "session", match: "tool" }, undefined);
  const { decision, by } = await gate.decide(ASKED, { earlier });
  assertEquals([decision, by], ["deny", "consent"]);
});

Deno.test("a decision on arguments that are too large to show is not remembered, least of all for any", async () => {
  const consents = new Consents();
  const large = call(`{"text":"${"x".repeat(300_000)}"}`);
  const decided = { call: large, fingerprint: [], decision: "allow" } as const;
  await consents.remember(decided, { scope: "session", match: "arguments" }, undefined);
  assertEquals((await consents.recall(call("{}"), [])).decision, undefined);
  assertEquals((await consents.recall(large, [])).decision, undefined);
});
