/** What servers ask for while a tool runs: a person's answer, a model's, where to work. */
import { assert, assertEquals, assertMatch, assertRejects, assertThrows } from "@std/assert";
import { ToolCallError } from "../../src/base/errors.ts";
import { CodeExecutor } from "../../src/executor/code_executor.ts";
import { silentLogger } from "../../src/base/log.ts";
import { approvalPolicy, type ApprovalSetting } from "../../src/approval/policy.ts";
import type { ElicitationRequest } from "../../src/approval/questions.ts";
import { parsePolicy } from "../../src/approval/rules/parse.ts";
import { PolicyRules } from "../../src/approval/rules/rules.ts";
import { ToolRunner, type ToolRunnerOptions } from "../../src/calls/runner.ts";
import { fixtureServer, npmServer, rawServer, startHttpServer } from "../support/mcp.ts";
import { testPython } from "../support/python.ts";
import { auditedQuestions } from "../support/audited_questions.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { until } from "../support/wait.ts";
import { stateOf } from "../support/workspace_state.ts";

const QUESTION = {
  message: "Your \u001b[31mname\u202e?",
  requestedSchema: {
    type: "object",
    properties: { name: { type: "string", minLength: 1 } },
    required: ["name"],
  },
};

async function start(options: ToolRunnerOptions = {}): Promise<ToolRunner> {
  const servers = { raw: rawServer() };
  return await ToolRunner.start({ servers, approval: "allow", log: silentLogger, ...options });
}

async function ask(
  runner: ToolRunner,
  params: unknown,
  times = 1,
  method = "elicitation/create",
): Promise<unknown[]> {
  const { content } = await runner.run("raw", "ask", { method, params, times });
  return JSON.parse(String(content[0]?.text));
}

Deno.test("a form reaches the application, with its server, and the answer is checked", async () => {
  await using runner = await start();
  using _answerer = runner.elicitations.attach((request) => {
    assertEquals([request.serverName, request.question.kind], ["raw", "form"]);
    assertMatch(String(request.callId), /^[0-9a-f-]{36}$/);
    assertEquals(`${request}`, "raw asks: 'Your  [31mname ?'");
    assertThrows(() => request.accept(), TypeError, "name is missing");
    assertThrows(() => request.accept({ name: "" }), TypeError, "at least 1 characters");
    assertThrows(() => request.accept({ name: "x", more: 1 }), TypeError, "more is not a field");
    assert(request.accept({ name: "Ada" }));
    assert(!request.decline());
  });
  assertEquals(await ask(runner, QUESTION), [{ action: "accept", content: { name: "Ada" } }]);
});

Deno.test("the audit log says how each question ended, and not what was answered", async () => {
  await using folder = await TempFolder.create();
  const workspace = folder.path;
  const denying = { ...QUESTION, message: "forbidden" };
  const url = {
    mode: "url",
    message: "Open",
    url: "https://x.example/in?once=0ne",
    elicitationId: "1",
  };
  {
    const approval = rules({
      effect: "deny",
      kind: "elicitation",
      arguments: { "/message": "forbidden" },
    });
    await using runner = await start({ workspace, approval, approvalTimeoutMs: 500 });
    await ask(runner, QUESTION); // nobody is there
    await ask(runner, denying);
    using _answerer = runner.elicitations.attach((request) => {
      const { question } = request;
      if (question.kind === "url") request.decline();
      else if (question.message !== "silence") request.accept({ name: "s3cret" });
    });
    await ask(runner, QUESTION);
    await ask(runner, url, 1);
    await ask(runner, { ...QUESTION, message: "silence" });
  }
  const asked = "raw.elicitation/create elicitation";
  assertEquals(await auditedQuestions(workspace), [
    `${asked} approval_unavailable decline`,
    `${asked} policy decline`,
    `${asked} application accept`,
    `${asked} application decline`,
    `${asked} approval_timeout cancel`,
  ]);
  const lines = (await Deno.readTextFile(`${await stateOf(workspace)}/audit.jsonl`)).split("\n");
  const text = lines.filter((line) => line.includes('"kind":"elicitation"')).join("\n");
  assert(!text.includes("s3cret") && !text.includes("0ne"), text);
  assertMatch(text, /"callId":"[0-9a-f-]{36}"/);
  assertMatch(text, /"mode":"form".*"fields":\["name"\]/);
  assert(text.includes('"url":"https://x.example"'), text);
});

Deno.test("a question is cancelled when nobody answers in time, or whoever was asked leaves", async () => {
  await using runner = await start({ approvalTimeoutMs: 100 });
  const asked: ElicitationRequest[] = [];
  {
    using _answerer = runner.elicitations.attach((request) => void asked.push(request));
    assertEquals(await ask(runner, QUESTION), [{ action: "cancel" }]);
  }
  {
    const shown = Promise.withResolvers<void>();
    const answerer = runner.elicitations.attach(() => shown.resolve());
    const answers = ask(runner, QUESTION);
    await shown.promise;
    answerer[Symbol.dispose]();
    assertEquals(await answers, [{ action: "cancel" }]);
  }
  assert(asked[0]?.signal.aborted);
  assertEquals(asked[0]?.accept({ name: "late" }), false);
});

Deno.test("an address is shown only where it is one of the web", async () => {
  await using runner = await start();
  const shown: string[] = [];
  using _answerer = runner.elicitations.attach((request) => {
    shown.push(`${request}`);
    request.accept();
  });
  const url = (address: string) => ({
    mode: "url",
    message: "Log in",
    elicitationId: "1",
    url: address,
  });
  for (
    const address of [
      "file:///etc/passwd",
      "javascript:alert(1)",
      "data:text/html,x",
      "https://bank.example@evil.example/",
    ]
  ) {
    assertEquals(await ask(runner, url(address)), [{ action: "decline" }]);
  }
  assertEquals(shown, []);
});

Deno.test("a call that needs an address to be opened goes on once it is", async () => {
  const url = "https://login.example/";
  const authorize = (runner: ToolRunner, url: string) => runner.run("raw", "authorize", { url });
  {
    await using runner = await start();
    const shown: string[] = [];
    using _answerer = runner.elicitations.attach((request) => {
      shown.push(`${request}`);
      request.accept();
    });
    assertEquals((await authorize(runner, url)).content[0]?.text, "signed in");
    assertEquals(shown, [`raw asks: 'Sign in ${url}'`]);
  }
  {
    await using runner = await start();
    using _answerer = runner.elicitations.attach((request) => void request.decline());
    await assertRejects(() => authorize(runner, url), ToolCallError, "sign in first");
  }
  {
    await using runner = await start();
    using _answerer = runner.elicitations.attach(() => assert(false, "it must not be shown"));
    await assertRejects(() => authorize(runner, "file:///x"), ToolCallError, "sign in first");
  }
});

Deno.test("an address of the web is accepted without content", async () => {
  await using runner = await start();
  using _answerer = runner.elicitations.attach((request) => {
    const { question } = request;
    assert(question.kind === "url");
    assertEquals(question.url.hostname, "example.org");
    assertThrows(() => request.accept({ a: 1 }), TypeError);
    request.accept();
  });
  const params = {
    mode: "url",
    message: "Log in",
    elicitationId: "1",
    url: "https://example.org/x",
  };
  assertEquals(await ask(runner, params), [{ action: "accept" }]);
});

Deno.test("a server that asks a thousand times at once is declined after the first ten", async () => {
  await using folder = await TempFolder.create();
  const journal = `${folder.path}/journal`;
  await using runner = await start({ servers: { raw: rawServer("normal", journal) } });
  const othersDeclined = async () => {
    const notes = (await Deno.readTextFile(journal)).split("\n");
    return notes.filter((note) => note === "answered").length === 990;
  };
  let shown = 0;
  let declined: Promise<void> | undefined;
  using _answerer = runner.elicitations.attach(async (request) => {
    shown++;
    declined ??= until("the other questions are declined", othersDeclined);
    await declined;
    request.accept({ name: "x" });
  });
  const answers = await ask(runner, QUESTION, 1000);
  assertEquals(answers.length, 1000);
  const accepted = answers.filter((answer) => Object(answer).action === "accept");
  assertEquals([shown, accepted.length], [10, 10]);
});

Deno.test("a server gets no model and no roots unless the application gives them", async () => {
  const message = { role: "user", content: { type: "text", text: "hi" } };
  const params = { messages: [message], maxTokens: 10 };
  {
    await using runner = await start();
    for (const method of ["sampling/createMessage", "roots/list"]) {
      const [answer] = await ask(runner, params, 1, method);
      assertEquals(Object(answer).code, -32601);
    }
  }
  await using runner = await start({
    roots: [{ uri: "file:///data", name: "data" }],
    sampling: ({ serverName, params }) => {
      const text = `${serverName} ${params.maxTokens}`;
      const content = { type: "text", text };
      return Promise.resolve({ model: "none", role: "assistant", content });
    },
  });
  assertEquals(await ask(runner, params, 1, "sampling/createMessage"), [
    { model: "none", role: "assistant", content: { type: "text", text: "raw 10" } },
  ]);
  assertEquals(await ask(runner, {}, 1, "roots/list"), [
    { roots: [{ uri: "file:///data", name: "data" }] },
  ]);
});

Deno.test("a server of the newer era asks by its results", async () => {
  await using http = await startHttpServer(fixtureServer("sdk_v2_http_server.ts"), /^\d+\n/);
  const servers = { modern: { url: `http://127.0.0.1:${http.port}/mcp` } };
  await using runner = await start({ servers });
  const text = async () => (await runner.run("modern", "greet")).content[0]?.text;
  assertEquals(await text(), "nobody");
  using _answerer = runner.elicitations.attach((request) => void request.accept({ name: "Ada" }));
  assertEquals(await text(), "Hello Ada");
});

Deno.test("stream() asks on demand, and the time limit stands still meanwhile", async () => {
  await using folder = await TempFolder.create();
  await using executor = await CodeExecutor.start({
    workspace: folder.path,
    python: testPython(),
    sandbox: false,
    servers: { everything: npmServer("server-everything") },
    approval: "allow",
    log: silentLogger,
  });
  const code = `
import ipybox_runtime as r
print(r.ToolRunner("everything").run_sync("trigger-elicitation-request").text)`;
  assertMatch(String((await executor.execute(code)).text), /declined/);
  let text: string | null = null;
  const timeoutMs = 3000;
  for await (const event of executor.stream(code, { timeoutMs, events: ["elicitation"] })) {
    if (event.type === "elicitation") {
      const { question } = event.request;
      assert(question.kind === "form");
      // As long as the whole limit: without the pause, nothing of it is left.
      setTimeout(() => event.request.accept({ name: "Ada" }), timeoutMs);
    }
    if (event.type === "result") text = event.result.text;
  }
  assertMatch(String(text), /Ada/);
});

/** What the policy says of questions, and whether this one is passed on. */
const RULES: readonly (readonly [approval: ApprovalSetting, passed: boolean])[] = [
  ["allow", true],
  ["ask", true],
  [{ elicitations: "allow", tools: "allow" }, true],
  [{ elicitations: "deny", tools: "allow" }, false],
  [rules({ effect: "deny", kind: "elicitation" }), false],
  [rules({ effect: "deny", kind: "elicitation", server: "raw" }), false],
  [rules({ effect: "deny", kind: "elicitation", server: "other" }), true],
  [rules({ effect: "ask", kind: "elicitation" }), true],
  [rules({ effect: "allow", kind: "elicitation" }), true],
  [rules(), true],
  [rules({ effect: "deny", arguments: { "/message": { glob: "*name*" } } }), false],
  [rules({ effect: "deny", arguments: { "/mode": "url" } }), true],
  [rules({ effect: "deny", arguments: { "/fields": { some: "name" } } }), false],
  [rules({ effect: "deny", arguments: { "/fields": { some: "password" } } }), true],
];

function rules(...all: Record<string, unknown>[]): PolicyRules {
  const tools = { effect: "allow", kind: "tool", tool: "ask" };
  return new PolicyRules([
    parsePolicy(
      "p.json",
      JSON.stringify({
        rules: [tools, ...all],
      }),
    ),
  ]);
}

Deno.test("a question is passed on or not, as the policy says", async () => {
  let policy = approvalPolicy("ask");
  await using runner = await start({ approval: { decide: (call) => policy.decide(call) } });
  const asked: string[] = [];
  using _approver = runner.channel.attach((request) => void request.accept());
  using _answerer = runner.elicitations.attach((request) => {
    asked.push(request.serverName);
    request.accept({ name: "Ada" });
  });
  for (const [index, [approval, passed]] of RULES.entries()) {
    policy = approvalPolicy(approval);
    asked.length = 0;
    const [answer] = await ask(runner, QUESTION);
    const accepted = { action: "accept", content: { name: "Ada" } };
    assertEquals(answer, passed ? accepted : { action: "decline" }, `case ${index + 1}`);
    assertEquals(asked.length, passed ? 1 : 0);
  }
});
