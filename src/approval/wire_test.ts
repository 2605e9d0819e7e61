import { assert, assertEquals, assertRejects } from "@std/assert";
import { parseExact, sealObject } from "../json/exact.ts";
import { parseElicitation } from "../mcp/questions.ts";
import { ElicitationRequest } from "./questions.ts";
import { type ApprovalCall, ApprovalRequest, type ApprovalResponse } from "./request.ts";
import {
  answerText,
  decisionJson,
  parseAnswer,
  parseServerMessage,
  type PersonRequest,
  readAnswer,
  requestText,
} from "./wire.ts";

const SCOPES = ["session", "always"] as const;

function request(json = "{}"): ApprovalRequest {
  const args = sealObject(parseExact(json));
  const call = { kind: "tool", serverName: "s", toolName: "t-1", arguments: args } as const;
  return new ApprovalRequest(call, { id: "1", scopes: SCOPES });
}

function question(): ElicitationRequest {
  const asked = parseElicitation({
    message: "Which?",
    requestedSchema: {
      type: "object",
      properties: { n: { type: "integer", minimum: 1, maximum: 1e21 } },
    },
  });
  assert(typeof asked !== "string");
  return new ElicitationRequest({ serverName: "s", callId: "c" }, asked, { id: "1" });
}

/** Answers a request with a result's JSON text; returns the outcome. */
async function answered(asked: PersonRequest, result: string): Promise<unknown> {
  const answer = parseAnswer(`{"jsonrpc":"2.0","id":"1","result":${result}}`);
  assertEquals(answer?.id, "1");
  const settle = readAnswer(asked, answer?.result);
  if (settle === undefined) return undefined;
  assert(await settle());
  return await asked.response;
}

Deno.test("requestText() is the request that other approvers know", () => {
  const text = requestText(request('{"n":1.0}'));
  assertEquals(
    text,
    '{"jsonrpc":"2.0","id":"1","method":"approve","params":' +
      '{"server_name":"s","tool_name":"t-1","tool_args":{"n":1.0},"kind":"tool",' +
      '"scopes":["session","always"]}}',
  );
});

Deno.test("A call reaches an approver with all that a request shows", () => {
  const call: ApprovalCall = {
    kind: "tool",
    serverName: "s",
    toolName: "t",
    arguments: sealObject(parseExact('{"n":1.0}')),
    title: "Title",
    description: "Description",
    server: { launch: "npx fs" },
    source: { line: 3, text: "fs.read()" },
    askedAt: new Date("2026-01-02T03:04:05.678Z"),
    changes: ["description was 'a', is 'b'"],
    callId: "c",
    annotations: { readOnlyHint: true },
  };
  const options = { scopes: SCOPES, pattern: "any `path` below /data" };
  const message = parseServerMessage(
    requestText(new ApprovalRequest(call, { id: "1", ...options })),
  );
  assertEquals(message, { method: "approve", id: "1", call, ...options });
});

Deno.test("A server's question reaches an approver whole", () => {
  const asked = question();
  const message = parseServerMessage(requestText(asked));
  assertEquals(message, {
    method: "elicit",
    id: "1",
    source: { serverName: "s", callId: "c" },
    question: asked.question,
  });
  const hostile = requestText(asked).replace('"type":"object"', '"type":"string"');
  assertEquals(parseServerMessage(hostile), undefined);
});

Deno.test("readAnswer() takes true alone for an approval", async () => {
  const plain = { accepted: true, arguments: {} };
  const edited = { accepted: true, arguments: { a: 1 } };
  const refused = { accepted: false, type: "approval_rejected" };
  const remember = { scope: "always", match: "tool" } as const;
  const decisions: readonly (readonly [string, unknown])[] = [
    ["true", plain],
    ["false", { ...refused, reason: "no reason was given" }],
    ["1", undefined],
    ['"true"', undefined],
    ["{}", undefined],
    ["[true]", undefined],
    ["null", undefined],
    ['{"approved":true}', undefined],
    ['{"approved":1,"arguments":{}}', undefined],
    ['{"approved":true,"arguments":[]}', undefined],
    ['{"approved":true,"arguments":{},"extra":1}', undefined],
    ['{"action":"accept"}', undefined],
    ['{"approved":true,"remember":true}', undefined],
    ['{"approved":true,"remember":{"scope":"session"}}', undefined],
    ['{"approved":true,"remember":{"scope":"ever","match":"tool"}}', undefined],
    ['{"approved":true,"remember":{"scope":"session","match":"tool","more":1}}', undefined],
    ['{"approved":true,"arguments":{"a":1}}', edited],
    ['{"approved":true,"edited":{"texts":{"a":"x"},"json":"{\\"b\\":1.0}"}}', {
      accepted: true,
      arguments: sealObject(parseExact('{"b":1.0,"a":"x"}')),
    }],
    [`{"approved":true,"remember":${JSON.stringify(remember)}}`, { ...plain, remember }],
    ['{"approved":false,"reason":"no"}', { ...refused, reason: "no" }],
    ['{"approved":false,"reason":""}', { ...refused, reason: "no reason was given" }],
  ];
  for (const [result, decision] of decisions) {
    assertEquals(await answered(request(), result), decision, result);
  }
});

Deno.test("readAnswer() takes for an answer to a server what fits its form", async () => {
  const answers: readonly (readonly [string, unknown])[] = [
    ['{"action":"accept","content":{"n":2}}', { action: "accept", content: { n: 2 } }],
    ['{"action":"decline","content":{"n":2}}', { action: "decline" }],
    ['{"action":"cancel"}', { action: "cancel" }],
    ["true", undefined],
    ["null", undefined],
    ['{"approved":true,"arguments":{}}', undefined],
    ['{"action":"accept","content":{"n":{}}}', undefined],
    ['{"action":"accept","content":[]}', undefined],
  ];
  for (const [result, answer] of answers) {
    assertEquals(await answered(question(), result), answer, result);
  }
  const asked = question();
  for (const content of ['{"n":"2"}', '{"n":0}', '{"n":1.5}', '{"m":1}']) {
    const result = `{"action":"accept","content":${content}}`;
    await assertRejects(() => answered(asked, result), TypeError, "Invalid answer to s");
  }
  assertEquals(await answered(asked, '{"action":"accept"}'), { action: "accept", content: {} });
});

Deno.test("parseAnswer() does not know other messages", () => {
  for (const text of ["", "x", "true", "[]", "{}", '{"id":1,"jsonrpc":"2.0","result":true}']) {
    assertEquals(parseAnswer(text), undefined, text);
  }
});

Deno.test("What an approver sends is read as what it decided", async () => {
  const remember = { scope: "always", match: "arguments" } as const;
  const args = sealObject(parseExact('{"n":1.0}'));
  const accepted = { accepted: true, arguments: args } as const;
  const rejected = { accepted: false, type: "approval_rejected", reason: "no", remember } as const;
  const cases: readonly (readonly [ApprovalResponse, edited: boolean, result: string])[] = [
    [accepted, false, "true"],
    [accepted, true, '{"approved":true,"arguments":{"n":1.0}}'],
    [{ ...accepted, remember }, false, `{"approved":true,"remember":${JSON.stringify(remember)}}`],
    [rejected, false, `{"approved":false,"reason":"no","remember":${JSON.stringify(remember)}}`],
  ];
  for (const [answer, edited, result] of cases) {
    const text = answerText("1", decisionJson(answer, edited));
    assertEquals(text, `{"jsonrpc":"2.0","id":"1","result":${result}}`);
    assertEquals(await answered(request('{"n":1.0}'), result), answer);
  }
});
