import { assertEquals } from "@std/assert";
import { parseExact, sealObject } from "../json/exact.ts";
import { ApprovalRequest } from "./request.ts";
import { answerText, approveText, parseAnswer, parseServerMessage } from "./wire.ts";

Deno.test("approveText() is the request that other approvers know", () => {
  const args = sealObject(parseExact('{"n":1.0}'));
  const call = { kind: "tool", serverName: "s", toolName: "t-1", arguments: args } as const;
  const text = approveText(new ApprovalRequest(call, { id: "1" }));
  assertEquals(
    text,
    '{"jsonrpc":"2.0","id":"1","method":"approve","params":' +
      '{"server_name":"s","tool_name":"t-1","tool_args":{"n":1.0},"kind":"tool"}}',
  );
  const message = parseServerMessage(text);
  assertEquals(message?.method, "approve");
});

Deno.test("parseAnswer() takes true alone for an approval", () => {
  const decisions = [
    ["true", true],
    ["false", false],
    ["1", undefined],
    ['"true"', undefined],
    ["{}", undefined],
    ["[true]", undefined],
    ["null", undefined],
    ['{"approved":true}', undefined],
    ['{"approved":1,"arguments":{}}', undefined],
    ['{"approved":true,"arguments":[]}', undefined],
    ['{"approved":true,"arguments":{"a":1}}', { approved: true, arguments: { a: 1 } }],
    ['{"approved":false,"reason":"no"}', { approved: false, reason: "no" }],
  ] as const;
  for (const [result, decision] of decisions) {
    const answer = parseAnswer(`{"jsonrpc":"2.0","id":"x","result":${result}}`);
    assertEquals(answer, { id: "x", decision }, result);
  }
});

Deno.test("parseAnswer() does not know other messages", () => {
  for (const text of ["", "x", "true", "[]", "{}", '{"id":1,"jsonrpc":"2.0","result":true}']) {
    assertEquals(parseAnswer(text), undefined, text);
  }
});

Deno.test("answerText() says true unless the arguments were edited", () => {
  const args = sealObject(parseExact('{"n":1}'));
  const accepted = { accepted: true, arguments: args } as const;
  assertEquals(answerText("x", accepted, false), '{"jsonrpc":"2.0","id":"x","result":true}');
  assertEquals(
    answerText("x", accepted, true),
    '{"jsonrpc":"2.0","id":"x","result":{"approved":true,"arguments":{"n":1}}}',
  );
});

Deno.test("approveText() carries all that a request shows", () => {
  const shown = {
    title: "Title",
    description: "Description",
    server: { launch: "npx fs" },
    source: { line: 3, text: "fs.read()" },
    changes: ["description was 'a', is 'b'"],
    callId: "c",
    annotations: { readOnlyHint: true },
  };
  const call = { kind: "tool", serverName: "s", toolName: "t", arguments: {}, ...shown } as const;
  const scopes = ["session", "always"] as const;
  const message = parseServerMessage(approveText(new ApprovalRequest(call, { id: "1", scopes })));
  assertEquals(message?.params, {
    server_name: "s",
    tool_name: "t",
    tool_args: {},
    kind: "tool",
    annotations: shown.annotations,
    call_id: "c",
    title: "Title",
    description: "Description",
    server_launch: "npx fs",
    source: shown.source,
    changes: shown.changes,
    scopes,
  });
});

Deno.test("answerText() and parseAnswer() agree on what is remembered", () => {
  const remember = { scope: "always", match: "arguments" } as const;
  const args = sealObject(parseExact('{"n":1.0}'));
  const accepted = { accepted: true, arguments: args, remember } as const;
  const cases = [
    [answerText("x", accepted, false), { approved: true, remember }],
    [answerText("x", accepted, true), { approved: true, arguments: args, remember }],
    [
      answerText(
        "x",
        { accepted: false, type: "approval_rejected", reason: "no", remember },
        false,
      ),
      { approved: false, reason: "no", remember },
    ],
  ] as const;
  for (const [text, decision] of cases) assertEquals(parseAnswer(text), { id: "x", decision });
});
