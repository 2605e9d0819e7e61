import { assert, assertEquals, assertFalse, assertMatch, assertRejects } from "@std/assert";
import { parseExact, sealObject } from "../json/exact.ts";
import { describeCall } from "./call_text.ts";
import { type ApprovalCall, ApprovalRequest } from "./request.ts";

function call(json: string, toolName = "write_file"): ApprovalCall {
  return { kind: "tool", serverName: "fs", toolName, arguments: sealObject(parseExact(json)) };
}

Deno.test("describeCall() writes a call as Python would", () => {
  const json = `{"path":"it's","n":1.0,"id":12345678901234567890,"on":true,"off":false,"no":null,
    "list":[1,"a"],"object":{"k":[]}}`;
  assertEquals(
    describeCall(call(json)),
    "fs.write_file(path='it\\'s', n=1.0, id=12345678901234567890, on=True, off=False, no=None, " +
      "list=[1, 'a'], object={'k': []})",
  );
});

Deno.test("describeCall() escapes what could fool a terminal or a reader", () => {
  const hostile = JSON.stringify({
    path: "a\u001b[2Kb\r\nc\u202ed\u200be\u0085\ud800",
    "a='x', b": "y",
    "b\u001b": 1,
  });
  const shown = describeCall(call(hostile, "tool(x=1)\n# \u001b[1A"));
  assertFalse(/[^\x20-\x7e]/.test(shown), shown);
  assertEquals(
    shown,
    "fs.'tool(x=1)\\n# \\x1b[1A'(path='a\\x1b[2Kb\\r\\nc\\u202ed\\u200be\\x85\\ud800', " +
      "**{'a=\\'x\\', b': 'y', 'b\\x1b': 1})",
  );
});

Deno.test("describeCall() shows what fonts show nothing or several things for", () => {
  for (
    const hidden
      of "\u00a0\u00ad\u034f\u061c\u115f\u2000\u2066\u2800\u3000\u3164\ufe0f\uffa0\ufffc\u{13441}\u{13442}\u{16fe4}\u{1d159}\u{1da7f}"
  ) {
    const code = (hidden.codePointAt(0) ?? 0).toString(16);
    const escape = code.length > 4
      ? `\\U${code.padStart(8, "0")}`
      : code.length > 2
      ? `\\u${code.padStart(4, "0")}`
      : `\\x${code}`;
    assertEquals(
      describeCall(call(JSON.stringify({ a: `x${hidden}` }))),
      `fs.write_file(a='x${escape}')`,
    );
  }
  const tag = describeCall(call(JSON.stringify({ a: "\u{e0061}" })));
  assertEquals(tag, "fs.write_file(a='\\U000e0061')");
  const marks = describeCall(call(JSON.stringify({ a: `e\u0301 o${"\u0301".repeat(5)}` })));
  assertEquals(marks, `fs.write_file(a='e\u0301 o${"\\u0301".repeat(5)}')`);
});

Deno.test("describeCall() escapes the server's name, which code may invent", () => {
  const shown = describeCall({ ...call("{}"), serverName: "fs\u001b[2K\nok" });
  assertEquals(shown, "'fs\\x1b[2K\\nok'.write_file()");
});

Deno.test("describeCall() cuts nothing", () => {
  const shown = describeCall(call(JSON.stringify({ content: "x".repeat(100_000) + "END" })));
  assertMatch(shown, /END'\)$/);
});

Deno.test("ApprovalRequest counts the first decision only", async () => {
  const answers: boolean[] = [];
  const request = new ApprovalRequest(call('{"a":1}'), {
    onAnswer: ({ accepted }) => {
      answers.push(accepted);
      return Promise.resolve(true);
    },
  });
  assertEquals(await request.reject("no"), true);
  assertEquals(await request.accept(), false);
  assertEquals(answers, [false]);
  assertEquals(await request.response, {
    accepted: false,
    type: "approval_rejected",
    reason: "no",
  });
});

Deno.test("ApprovalRequest answers with the very arguments that it showed", async () => {
  const asked = call('{"a":1.0,"__proto__":{"x":1}}');
  const request = new ApprovalRequest(asked);
  assert(Object.isFrozen(request.toolArgs));
  assertEquals(request.argumentsJson, '{"a":1.0,"__proto__":{"x":1}}');
  await request.accept();
  const response = await request.response;
  assert(response.accepted);
  assert(response.arguments === asked.arguments);
});

Deno.test("ApprovalRequest takes edited arguments, and none that JSON cannot express", async () => {
  const request = new ApprovalRequest(call('{"a":1}'));
  await assertRejects(() => request.accept({ arguments: { a: NaN } }), TypeError, "NaN");
  const edited: Record<string, unknown> = { a: 2 };
  await request.accept({ arguments: edited });
  edited.a = 3;
  const response = await request.response;
  assert(response.accepted);
  assertEquals(response.arguments, { a: 2 });
});

Deno.test("ApprovalRequest resolves its response before the answer is delivered", async () => {
  const delivery = Promise.withResolvers<boolean>();
  const request = new ApprovalRequest(call("{}"), { onAnswer: () => delivery.promise });
  const accepted = request.accept();
  assert((await request.response).accepted);
  delivery.resolve(true);
  assert(await accepted);
});

Deno.test("ApprovalRequest that was withdrawn aborts its signal and takes no decision", async () => {
  const request = new ApprovalRequest(call("{}"));
  request.withdraw({ accepted: false, type: "approval_timeout", reason: "too late" });
  assert(request.signal.aborted);
  assertEquals(await request.accept(), false);
  assertEquals((await request.response).accepted, false);
});
