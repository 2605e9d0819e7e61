/**
 * Parsers of hostile input, fed with damaged examples of what they take. They end in little time, and
 * throw nothing but what they say. `deno task fuzz [SECONDS]` goes on for longer.
 */
import { assert, assertEquals } from "@std/assert";
import fc from "../support/fast_check.ts";
import { renderFiles } from "../../src/apigen/generate.ts";
import { describeCall, visible } from "../../src/approval/call_text.ts";
import { ElicitationRequest } from "../../src/approval/questions.ts";
import { ApprovalRequest } from "../../src/approval/request.ts";
import { parseAnswer, parseServerMessage, readAnswer } from "../../src/approval/wire.ts";
import { readChainLine } from "../../src/approval/audit/file.ts";
import { redactArguments } from "../../src/approval/audit/redact.ts";
import { ConfigError, ToolCallError } from "../../src/base/errors.ts";
import { parseExact, sealObject, stringifyExact } from "../../src/json/exact.ts";
import { parseDocument } from "../../src/json/document.ts";
import { ArtifactFolder } from "../../src/files/artifact_folder.ts";
import { decodeMessage } from "../../src/kernel/jupyter.ts";
import { OutputCollector } from "../../src/kernel/output_collector.ts";
import { shownOnScreen } from "../../src/kernel/text.ts";
import { cleanTraceback } from "../../src/kernel/traceback.ts";
import { encodeFrame, FrameDecoder, FrameType, LinkError } from "../../src/link/frame.ts";
import { parseToolResult } from "../../src/mcp/results.ts";
import { parseForm } from "../../src/mcp/questions.ts";
import { parseMessage } from "../../src/mcp/message.ts";
import { readChallenge } from "../../src/mcp/oauth/session.ts";
import { OAuthHttpError, trustedUrl } from "../../src/mcp/oauth/http.ts";
import { fillVariables, parseServerParams } from "../../src/mcp/params.ts";
import { imageSize } from "../../src/mcp_server/images.ts";
import { parsePolicy } from "../../src/approval/rules/parse.ts";
import { readShell } from "../../src/approval/rules/commands.ts";
import { parseRequirement } from "../../src/python/requirement.ts";
import { parseDotenv } from "../../src/sandbox/own_variables.ts";
import { Refused } from "../../src/calls/http_checks.ts";
import { parseServersFile } from "../../src/servers/import_config.ts";
import { launchText } from "../../src/servers/fingerprint.ts";
import {
  parseApproveRequest,
  parseCatalogRequest,
  parseHead,
  parseRunRequest,
} from "../../src/calls/wire.ts";
import { cpuMs } from "../support/stalls.ts";

/** How long each parser is fed. */
const BUDGET_MS = Number(Deno.env.get("IPYBOX_FUZZ_SECONDS") ?? 0.15) * 1000;
/** No single input of at most {@linkcode MAX_BYTES} takes longer, also where others use the machine. */
const MAX_MS = 1000;
const MAX_BYTES = 2 ** 17;

interface Parser<Input> {
  readonly parse: (input: Input) => unknown;
  /** What it may throw. */
  readonly throws?: readonly (new (...args: never[]) => Error)[];
  /** What it takes. */
  readonly seeds: readonly string[];
}

const encoder = new TextEncoder();
const JSON_SEEDS = [
  '{"a": [1, 2.50, -0, 1e400, "x\\u0000\\ud800", {"__proto__": null}]}',
  "[[[[[[]]]]]]",
];
const CALL = '{"server":"s","tool":"t","arguments":{"a":1}}';
const SERVERS = '{"mcpServers":{"a-b":{"command":"x","args":["${env:A}"],"env":{"T":"${T:-x}"}}}}';
const TOOL = '{"name":"get","description":"Gets. `x` \\"\\"\\"","inputSchema":{"type":"object",' +
  '"properties":{"a":{"type":"string","pattern":"^(a+)+$","enum":["\\\\","\'"]},"b":{"$ref":"#"}}}}';

const CALL_REQUEST = new ApprovalRequest({
  kind: "tool",
  serverName: "s",
  toolName: "t",
  arguments: sealObject({}),
});
const QUESTION_REQUEST = new ElicitationRequest(
  { serverName: "s" },
  { kind: "form", message: "m", fields: [], schema: {} },
);

const TEXTS: Readonly<Record<string, Parser<string>>> = {
  "exact JSON": {
    parse: (text) => {
      const value = parseExact(text);
      const written = stringifyExact(value);
      assertEquals(stringifyExact(parseExact(written)), written);
    },
    throws: [SyntaxError],
    seeds: JSON_SEEDS,
  },
  "arguments": {
    parse: (text) => {
      const args = sealObject(parseExact(text));
      describeCall({ kind: "tool", serverName: "s", toolName: "t", arguments: args });
    },
    throws: [SyntaxError, TypeError],
    seeds: JSON_SEEDS,
  },
  "JSON with places": { parse: parseDocument, throws: [SyntaxError], seeds: JSON_SEEDS },
  "JSON with comments": {
    parse: (text) => parseDocument(text, { comments: true }),
    throws: [SyntaxError],
    seeds: [...JSON_SEEDS, '{ // a\n "a": [1, /* b */ ], }'],
  },
  "messages of MCP": {
    parse: parseMessage,
    throws: [SyntaxError, TypeError],
    seeds: ['{"jsonrpc":"2.0","id":1,"result":{"structuredContent":{"a":1.0},"content":[]}}'],
  },
  "results of tools": {
    parse: (text) => parseToolResult(JSON.stringify({ result: json(text) })),
    throws: [ToolCallError],
    seeds: ['{"content":[{"type":"text","text":"a"},{"type":"image","data":"","mimeType":"x"}]}'],
  },
  "tool lists": {
    parse: (text) => renderFiles("hostile", { tools: [json(text), json(TOOL)] }),
    throws: [ConfigError],
    seeds: [TOOL],
  },
  "forms": {
    parse: (text) => parseForm(json(text)),
    seeds: ['{"type":"object","properties":{"a":{"type":"string","enum":["x"]}},"required":["a"]}'],
  },
  "server parameters": {
    parse: (text) => {
      const params = parseServerParams("s", json(text));
      launchText(params);
      fillVariables("s", params, () => "filled");
    },
    throws: [ConfigError],
    seeds: [
      '{"command":"x","args":["${A:-b}","--token","t"],"env":{"A":"${B}"}}',
      '{"url":"https://h.example/?a=${A}&token=t#x","headers":{"A":"${B}"}}',
    ],
  },
  "servers of editors": {
    parse: (text) => parseServersFile("x.json", text),
    throws: [ConfigError],
    seeds: [SERVERS, `// a\n${SERVERS}`],
  },
  "policies": {
    parse: (text) => parsePolicy("policy.json", text),
    throws: [ConfigError],
    seeds: [
      '{"rules":[{"effect":"allow","server":"s","tool":["a*"],"arguments":{"/p":{"path":"."}}}]}',
    ],
  },
  "lines of the shell": {
    parse: readShell,
    seeds: [
      "a=1 env -i b 'c' \"$d\" $(e `f`) <<X | g && ( h ) ; xargs -I{} i 2>&1 >j\nX",
      "for i in {1..3}; do case $i in a) b;; esac; done; sudo -u x sh -c 'ls'",
    ],
  },
  "answers of approvers": {
    parse: parseAnswer,
    seeds: ['{"jsonrpc":"2.0","id":"1","result":true}', '{"id":"1","result":{"approved":true}}'],
  },
  "requests to approvers": {
    parse: parseServerMessage,
    seeds: [
      `{"jsonrpc":"2.0","id":"1","method":"approve","params":${CALL}}`,
      '{"jsonrpc":"2.0","id":"1","method":"elicit","params":{"server_name":"s","question":{' +
      '"kind":"form","message":"m","schema":{"type":"object","properties":{}}}}}',
    ],
  },
  "decisions": {
    parse: (text) => readAnswer(CALL_REQUEST, json(text)),
    seeds: ["true", '{"approved":true,"arguments":{},"remember":{"scope":"cell","match":"tool"}}'],
  },
  "answers to servers": {
    parse: (text) => readAnswer(QUESTION_REQUEST, json(text)),
    seeds: ['{"action":"accept","content":{"n":1.0,"s":["a"]}}'],
  },
  "challenges of OAuth": {
    parse: (text) => {
      const headers = new Headers();
      try {
        headers.set("www-authenticate", text);
      } catch {
        return; // no server can send it
      }
      readChallenge(new Response(null, { status: 401, headers }));
    },
    throws: [OAuthHttpError],
    seeds: ['Bearer realm="a", resource_metadata="https://h.example/x", scope="a b", error="x"'],
  },
  "addresses": {
    parse: (text) => trustedUrl("address", text, new URL("https://h.example/mcp")),
    throws: [OAuthHttpError],
    seeds: ["https://a:b@h.example:1/x?y#z", "http://[::1]/", "https://0x7f.1/"],
  },
  "tracebacks": {
    parse: (text) => cleanTraceback([text]),
    seeds: [
      "File /w/mcptools/a/b.py:35, in run(params)\n     34 x\n---> 35  return CLIENT.run_sync(1)",
      String.raw`x = get_ipython().run_cell_magic('a', "b\'", 'c\x00\Uffffffff')`,
    ],
  },
  "texts of outputs": {
    parse: shownOnScreen,
    seeds: ["a\rb\b\b\r\nc\x1b[A\x1b[2Kd\x1b]8;;e\x07\x1b[1m"],
  },
  "secrets in texts": {
    parse: (text: string) => redactArguments({ text }, {}),
    seeds: ['--token abc password=\\"x\\" https://a:b@c bearer x -----BEGIN PRIVATE KEY-----'],
  },
  "invisible texts": { parse: visible, seeds: ["a\u202e\u{e0041}\u200db\x1b[2J"] },
  "requirements": {
    parse: parseRequirement,
    throws: [TypeError],
    seeds: ["pandas[a,b]>=2, <3", "x @ git+https://h.example/a/b@c#egg=d"],
  },
  "files of variables": {
    parse: parseDotenv,
    seeds: ["A=1\nexport B=\"x\\n$A\" # c\nC='${B:-d}'"],
  },
};

const BYTES: Readonly<Record<string, Parser<Uint8Array<ArrayBuffer>>>> = {
  "frames of the link": {
    parse: (bytes) => {
      const decoder = new FrameDecoder();
      for (let at = 0; at < bytes.length; at += 1000) {
        for (const { type, stream, payload } of decoder.push(bytes.subarray(at, at + 1000))) {
          assertEquals([...new FrameDecoder().push(encodeFrame(type, stream, payload))].length, 1);
        }
      }
      assert(decoder.pending <= 2 ** 16 + 9);
    },
    throws: [LinkError],
    seeds: [
      latin1(encodeFrame(FrameType.OPEN, 1)) +
      latin1(encodeFrame(FrameType.DATA, 1, encoder.encode("x"))),
    ],
  },
  "messages of kernels": {
    parse: (bytes) => decodeMessage(bytes.buffer),
    throws: [Error],
    seeds: [latin1(kernelMessage("display_data", '{"data":{},"metadata":{},"transient":{}}'))],
  },
  "first lines of calls": {
    parse: parseHead,
    throws: [Refused],
    seeds: ['{"token":"0f","call":"run","size":3,"line":1}'],
  },
  "calls": { parse: parseRunRequest, throws: [TypeError], seeds: [CALL] },
  "questions for catalogs": {
    parse: parseCatalogRequest,
    throws: [TypeError],
    seeds: ['{"server":"s"}'],
  },
  "requests for approval": { parse: parseApproveRequest, throws: [TypeError], seeds: [CALL] },
  "lines of the audit log": { parse: readChainLine, seeds: ['{"a":1,"hash":"x","previous":"y"}'] },
  "headers of pictures": {
    parse: imageSize,
    seeds: ["\xff\xd8\xff\xe1\x00\x05abc\xff\xc0\x00\x11\x08\x00\x08\x00\x08", "\x89PNG\r\n\x1a\n"],
  },
};

for (const [name, parser] of Object.entries(TEXTS)) {
  Deno.test(`${name} can be anything`, () => feed(parser, (text) => text));
}

for (const [name, parser] of Object.entries(BYTES)) {
  Deno.test(`${name} can be anything`, () => {
    feed(parser, (text) => Uint8Array.from(text, (character) => character.charCodeAt(0) & 0xff));
  });
}

Deno.test("outputs of kernels can be anything", () => {
  const folder = Deno.makeTempDirSync();
  const images = new ArtifactFolder(folder);
  const value = fc.jsonValue({ maxDepth: 4 });
  const fields = [
    "data",
    "metadata",
    "transient",
    "name",
    "text",
    "wait",
    "ename",
    "evalue",
    "traceback",
  ];
  const bundle = fc.dictionary(
    fc.constantFrom("text/plain", "text/html", "image/png", "image/svg+xml", "display_id", "x"),
    fc.oneof(value, fc.string(), fc.constant("iVBORw0KGgo=")),
    { maxKeys: 3 },
  );
  const type = fc.constantFrom(
    ...["stream", "display_data", "execute_result", "update_display_data", "error", "clear_output"],
  );
  const content = fc.dictionary(fc.constantFrom(...fields), fc.oneof(value, bundle, fc.string()));
  const messages = fc.array(fc.record({ type, content }), { maxLength: 20 });
  try {
    fc.assert(
      fc.property(messages, fc.nat(300), (messages, maxOutputBytes) => {
        using collector = new OutputCollector({
          maxOutputBytes,
          images,
          onText: () => {},
        });
        for (const { type, content } of messages) {
          collector.add({ channel: "iopub", type, parentId: "", parentSession: "", content });
        }
        collector.addPayload(messages);
        JSON.stringify(collector.partial());
      }),
      { interruptAfterTimeLimit: BUDGET_MS, numRuns: Infinity },
    );
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
});

/** Feeds a parser until its time is over. */
function feed<Input>(
  { parse, throws = [], seeds }: Parser<Input>,
  made: (text: string) => Input,
): void {
  for (const seed of seeds) judge({ parse, throws, seeds }, made(seed));
  fc.assert(
    fc.property(damaged(seeds), (text) => judge({ parse, throws, seeds }, made(text))),
    { interruptAfterTimeLimit: BUDGET_MS, numRuns: Infinity },
  );
}

function judge<Input>({ parse, throws = [] }: Parser<Input>, input: Input): void {
  const begin = cpuMs();
  try {
    parse(input);
  } catch (error) {
    if (!throws.some((kind) => error instanceof kind)) throw error;
  }
  const took = cpuMs() - begin;
  assert(took < MAX_MS, `It took ${Math.round(took)} ms`);
}

/** Examples with parts replaced, left out, repeated or taken from elsewhere, and texts of any kind. */
function damaged(seeds: readonly string[]): fc.Arbitrary<string> {
  const token = fc.constantFrom(
    ..."\"'`$\\{}[]()<>:;,=&|#%@!?*+-/ \n\r\t\0\x1b\xff".split(""),
    ...['""', "${", "\\u", "$(", "\r\n", "__proto__", "1e999", "-0", "\ud800", "\u202e", "null"],
  );
  const part = fc.oneof(
    token,
    fc.string({ maxLength: 5 }),
    fc.string({ unit: "binary", maxLength: 5 }),
  );
  const change = fc.record({
    at: fc.double({ min: 0, max: 1, noNaN: true }),
    length: fc.nat(10),
    part,
    times: fc.oneof({ weight: 9, arbitrary: fc.nat(3) }, fc.constantFrom(100, 20_000)),
  });
  const changed = fc.tuple(fc.constantFrom(...seeds), fc.array(change, { maxLength: 6 }))
    .map(([seed, changes]) => {
      let text = seed;
      for (const { at, length, part, times } of changes) {
        const place = Math.floor(at * text.length);
        // What is there is repeated as well: it is what the parser looks for.
        const repeated = length > 5 ? text.slice(place, place + length) + part : part;
        text = text.slice(0, place) + repeated.repeat(times) + text.slice(place + length);
      }
      return text.slice(0, MAX_BYTES);
    });
  return fc.oneof({ weight: 5, arbitrary: changed }, fc.string({ unit: "binary", maxLength: 100 }));
}

function json(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text; // a value as well
  }
}

function latin1(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
}

/** The binary form of a message: the number of offsets, the offsets, the parts. */
function kernelMessage(type: string, content: string): Uint8Array {
  const header = { username: "", version: "5", session: "", msg_id: "", msg_type: type };
  const parts = ["iopub", JSON.stringify(header), "{}", "{}", content];
  const offsets = [8 * (parts.length + 2)];
  for (const part of parts) offsets.push((offsets.at(-1) ?? 0) + part.length);
  const head = new Uint8Array(new BigUint64Array([offsets.length, ...offsets].map(BigInt)).buffer);
  return new Uint8Array([...head, ...encoder.encode(parts.join(""))]);
}
