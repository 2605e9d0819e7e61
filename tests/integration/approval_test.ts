import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { ApprovalClient } from "../../src/approval/client.ts";
import type { ApprovalPolicy } from "../../src/approval/policy.ts";
import type { ApprovalRequest } from "../../src/approval/request.ts";
import { CodeExecutionError, ExecutionTimeoutError } from "../../src/base/errors.ts";
import { follow, TestExecutor } from "../support/executor.ts";
import { npmServer, rawServer } from "../support/mcp.ts";
import { stepsOf } from "../support/steps.ts";
import { rejection, until } from "../support/wait.ts";

/** How long a decision takes where that must not count: longer than any time limit here. */
const LONG_MS = 2700;
const LIMIT_MS = 2500;

Deno.test("CodeExecutor asks before each tool call", async (t) => {
  await using test = await TestExecutor.start({ servers: { raw: rawServer() }, sandbox: false });
  const { executor } = test;
  const step = stepsOf(t);
  await executor.execute("from ipybox_runtime import ToolRunner; raw = ToolRunner('raw')");
  const count = async () =>
    Number(
      (await executor.execute("raw.run_sync('count').text")).text
        ?.replaceAll("'", ""),
    );

  await step("a call that is accepted runs, and its result reaches the code", async () => {
    const { events } = await follow(
      executor,
      'print(raw.run_sync(\'result\', {\'json\': \'{"content":[{"type":"text","text":"hi"}]}\'}).text)',
      (request) => request.accept(),
    );
    assertEquals(events.length, 2);
    assertStringIncludes(events[0] ?? "", "approval raw.result(json=");
    assertEquals(events[1], 'result "hi"');
  });

  await step("a request says what is called", async () => {
    const seen: ApprovalRequest[] = [];
    await follow(executor, "raw.run_sync('echo', {'n': 1, 's': 'a'})", (request) => {
      seen.push(request);
      return request.accept();
    });
    const described = seen.map(({ kind, serverName, toolName, toolArgs, annotations }) => ({
      kind,
      serverName,
      toolName,
      toolArgs,
      readOnly: annotations?.readOnlyHint,
    }));
    assertEquals(described, [{
      kind: "tool",
      serverName: "raw",
      toolName: "echo",
      toolArgs: { n: 1, s: "a" },
      readOnly: true,
    }]);
  });

  await step("a call that is rejected does not run, and the code gets the reason", async () => {
    const before = await count();
    const { result } = await follow(
      executor,
      `
from ipybox_runtime import ApprovalRejectedError
try:
    raw.run_sync('count')
except ApprovalRejectedError as error:
    print(error.reason, '|', error)
`,
      (request) => request.reject("not on a Sunday"),
    );
    assertStringIncludes(result?.text ?? "", "not on a Sunday |");
    assertStringIncludes(result?.text?.split("|")[1] ?? "", "not on a Sunday");
    assertEquals(await count(), before + 1);
  });

  await step("a rejection that the code does not catch is its error", async () => {
    const error = await rejection(
      follow(executor, "print('a')\nraw.run_sync('count')", (request) => request.reject("no")),
    );
    assert(error instanceof CodeExecutionError);
    assertEquals([error.ename, error.text], ["ApprovalRejectedError", "a"]);
    assertStringIncludes(error.evalue, "no");
  });

  await step("edited arguments are the ones that are sent", async () => {
    const { result } = await follow(
      executor,
      "raw.run_sync('echo', {'path': '/etc'}).text",
      (request) => request.accept({ arguments: { path: "/tmp" } }),
    );
    assertStringIncludes(result?.text ?? "", '"arguments":{"path":"/tmp"}');
  });

  await step("output and calls come in order each, and the result last", async () => {
    const { events } = await follow(
      executor,
      "for n in range(2):\n    print(n)\n    raw.run_sync('echo', {'n': n})\nprint(2)",
      (request) => request.accept(),
      { events: ["chunk"] },
    );
    const calls = events.filter((event) => event.startsWith("approval"));
    const chunks = events.filter((event) => event.startsWith("chunk"));
    assertEquals(calls, ["approval raw.echo(n=0)", "approval raw.echo(n=1)"]);
    assertEquals(chunks.join("").replaceAll(/\D/g, ""), "012");
    assertEquals(events.at(-1), 'result "0\\n1\\n2"');
  });

  await step("execute() approves all", async () => {
    const before = await count();
    assertEquals(await count(), before + 1);
  });

  await step("the time of a decision does not count", async () => {
    const { result } = await follow(
      executor,
      "raw.run_sync('echo'); print('done')",
      (request) => setTimeout(() => request.accept(), LONG_MS),
      { timeoutMs: LIMIT_MS },
    );
    assertEquals(result?.text, "done");
  });

  await step("with two decisions pending, the first one does not start the clock", async () => {
    const { events, result } = await follow(
      executor,
      `
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(2) as pool:
    list(pool.map(lambda n: raw.run_sync('echo', {'n': n}), [1, 2]))
print('done')
`,
      (request) => {
        const delay = request.toolArgs.n === 1 ? 0 : LONG_MS;
        setTimeout(() => request.accept(), delay);
      },
      { timeoutMs: LIMIT_MS },
    );
    assertEquals(events.length, 3);
    assertEquals(result?.text, "done");
  });

  await step("the time after a decision counts", async () => {
    const error = await rejection(follow(
      executor,
      "raw.run_sync('echo'); print('approved', flush=True); import time; time.sleep(60)",
      (request) => request.accept(),
      { timeoutMs: LIMIT_MS },
    ));
    assert(error instanceof ExecutionTimeoutError);
    assertEquals(error.text, "approved");
  });

  await step("the time of the tool counts, and the tool is told to stop", async () => {
    const error = await rejection(follow(
      executor,
      "raw.run_sync('sleep', {'ms': 60_000})",
      (request) => request.accept(),
      { timeoutMs: LIMIT_MS },
    ));
    assert(error instanceof ExecutionTimeoutError);
    assertEquals((await executor.execute("raw")).text, "ToolRunner('raw')");
  });

  await step(
    "cancel() ends code that waits for a decision, and withdraws the request",
    async () => {
      const requests: ApprovalRequest[] = [];
      const { events, result } = await follow(executor, "raw.run_sync('count')", (request) => {
        requests.push(request);
        executor.cancel();
      });
      assertEquals([events.length, result], [1, undefined]);
      await until("the request is withdrawn", () => requests[0]?.signal.aborted === true);
      assertEquals(await requests[0]?.accept(), false);
      assertEquals((await executor.execute("1 + 1")).text, "2");
    },
  );

  await step("leaving the loop over a request withdraws it and ends the code", async () => {
    const before = await count();
    let left: ApprovalRequest | undefined;
    for await (const event of executor.stream("raw.run_sync('count')\nleft = True")) {
      if (event.type === "approval") left = event.request;
      if (left !== undefined) break;
    }
    assertEquals(await left?.accept(), false);
    assertEquals((await executor.execute("'left' in globals()")).text, "False");
    assertEquals(await count(), before + 1);
  });

  await step("reset ends code that waits for a decision with an AbortError", async () => {
    const error = await rejection(
      follow(executor, "raw.run_sync('count')", () => executor.reset()),
    );
    assert(error instanceof DOMException && error.name === "AbortError", String(error));
    assertEquals((await executor.execute("'raw' in globals()")).text, "False");
  });

  await step("an ApprovalClient at the application's door decides", async () => {
    const { url, token } = executor.applicationDoor;
    const seen: string[] = [];
    await using _client = await ApprovalClient.connect({
      url,
      token,
      onRequest: async (request) => {
        seen.push(String(request));
        if (seen.length === 1) await request.accept();
        else await request.reject("once is enough");
      },
    });
    const code = "from ipybox_runtime import ToolRunner; ToolRunner('raw').run_sync('echo', {})";
    const { events } = await follow(executor, code, () => {
      throw new Error("whoever iterates is not asked");
    });
    const error = await rejection(executor.execute(code));
    assert(error instanceof CodeExecutionError);
    assertStringIncludes(error.evalue, "once is enough");
    assertEquals(events.length, 1);
    assertEquals(seen, ["raw.echo()", "raw.echo()"]);
  });
});

Deno.test("an approval that nobody decides in time is refused", async () => {
  await using test = await TestExecutor.start({
    servers: { raw: rawServer() },
    sandbox: false,
    approvalTimeoutMs: 300,
  });
  const requests: ApprovalRequest[] = [];

  const error = await rejection(follow(
    test.executor,
    "from ipybox_runtime import ToolRunner; ToolRunner('raw').run_sync('count')",
    (request) => requests.push(request),
    { timeoutMs: 60_000 },
  ));

  assert(error instanceof CodeExecutionError);
  assertEquals(error.ename, "ApprovalTimeoutError");
  assertStringIncludes(error.evalue, "0.3 s");
  assertEquals(await requests[0]?.accept(), false);
});

/** Code that makes a call of each kind, and the kinds of those that are refused. */
const EACH_KIND = `
from ipybox_runtime import ApprovalRejectedError, ToolRunner
everything, refused = ToolRunner("everything"), []
def attempt(kind, call):
    try:
        call()
    except ApprovalRejectedError:
        refused.append(kind)
attempt("tool", lambda: everything.run_sync("echo", {"message": "hi"}))
attempt("resource", lambda: everything.resources.read("demo://resource/dynamic/text/1"))
attempt("shell", lambda: get_ipython().system("true"))
refused`;

Deno.test("execute() approves what is left open, but nothing that a policy or the program refuses", async () => {
  const servers = { everything: npmServer("server-everything") };
  const deny = new Set<string>(["tool", "shell"]);
  const policy: ApprovalPolicy = {
    decide: ({ kind }) => deny.has(kind) ? { mode: "deny", reason: "no" } : { mode: "ask" },
  };
  const all = "['tool', 'resource', 'shell']";
  const asked = [undefined, "[]", "every kind is asked about"] as const;
  const refusing = [isTool, "['resource', 'shell']", "the program refuses some"] as const;
  const denied = [undefined, all, "every kind is denied"] as const;
  const unasked = [() => true, all, "what is denied, the program is not asked about"] as const;
  const some = [undefined, "['tool', 'shell']", "a policy denies some"] as const;
  for (
    const [approval, cases] of [
      [{ shell: "ask" }, [asked, refusing]],
      ["deny", [denied, unasked]],
      [policy, [some]],
    ] as const
  ) {
    await using test = await TestExecutor.start({ servers, approval, sandbox: false });
    for (const [approve, refused, name] of cases) {
      const { text } = await test.executor.execute(EACH_KIND, { approve });
      assertEquals(text, refused, name);
    }
  }
});

function isTool({ kind }: ApprovalRequest): Promise<boolean> {
  return Promise.resolve(kind === "tool");
}
