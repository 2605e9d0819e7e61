/** Servers whose lists of tools are not what the protocol says: no tool costs another. */
import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { generateMcpSources } from "../../src/apigen/generate.ts";
import { McpConnectionError, ToolCallError } from "../../src/base/errors.ts";
import { parseExact, sealObject } from "../../src/json/exact.ts";
import { connectMcp } from "../../src/mcp/connect.ts";
import type { ServerParams } from "../../src/mcp/params.ts";
import { runPython } from "../support/run_python.ts";
import { TempFolder } from "../support/temp_folder.ts";

const schema = { type: "object", properties: { a: { type: "string" } }, required: ["a"] };

/** What can be called all the same, with the warning that it gets. */
const USABLE: readonly (readonly [tool: Record<string, unknown>, warning?: RegExp])[] = [
  [{ name: "good", inputSchema: schema }],
  [{ name: "no_type", inputSchema: { $schema: "http://json-schema.org/draft-07/schema#" } }],
  [{ name: "no_title", title: null, description: null, inputSchema: schema }],
  [{ name: "no_schema" }, /inputSchema is not an object/],
  [{ name: "list_schema", inputSchema: [] }, /inputSchema is not an object/],
  [{ name: "other_type", inputSchema: { type: "string" } }, /does not allow an object/],
  [{ name: "type_object", inputSchema: { type: { type: "object" } } }, /Keyword type is ignored/],
  [{ name: "no_required", inputSchema: { ...schema, required: null } }, /Keyword required/],
  [{ name: "no_properties", inputSchema: { ...schema, properties: null } }, /Keyword properties/],
  [
    { name: "text_output", inputSchema: schema, outputSchema: "text" },
    /outputSchema is not a schema/,
  ],
  [{ name: "list_output", inputSchema: schema, outputSchema: { type: "array" } }],
  [{ name: "odd_notes", inputSchema: schema, annotations: "none", icons: 5, _meta: [] }],
  [{ name: "odd_hints", inputSchema: schema, annotations: { readOnlyHint: "yes", title: 1 } }],
  [{ name: "", inputSchema: schema }],
];

/** What has no name to call it by, or not one of its own. */
const LEFT_OUT: readonly (readonly [entry: unknown, tool: string, reason: RegExp])[] = [
  [null, "#1", /is not an object/],
  ["echo", "#2", /is not an object/],
  [{ inputSchema: schema }, "#3", /has no name/],
  [{ name: 5, inputSchema: schema }, "#4", /has no name/],
];

const PROTO = '{"name":"proto","inputSchema":{"type":"object","properties":' +
  '{"__proto__":{"type":"string"},"constructor":{"type":"integer"}},"required":["__proto__"]}}';

const LIST = [
  ...LEFT_OUT.map(([entry]) => JSON.stringify(entry)),
  ...USABLE.map(([tool]) => JSON.stringify(tool)),
  PROTO,
  JSON.stringify({ name: "good", inputSchema: {} }),
].join();

function listing(definitions: string): ServerParams {
  const file = new URL("../fixtures/mcp/echo_server.ts", import.meta.url).pathname;
  return {
    command: Deno.execPath(),
    args: ["run", "--no-config", "--no-lock", file, definitions],
  };
}

Deno.test("each tool of an odd list becomes a module, or is left out by name with the reason", async () => {
  await using root = await TempFolder.create();

  const tools = await generateMcpSources("odd", listing(LIST), { rootDir: root.path });

  for (const [at, [, name, reason]] of LEFT_OUT.entries()) {
    assertEquals([tools[at]?.tool, tools[at]?.module], [name, null]);
    assertMatch(tools[at]?.warnings.join() ?? "", reason);
  }
  for (const [at, [tool, warning]] of USABLE.entries()) {
    const { module, warnings } = tools[LEFT_OUT.length + at] ?? {};
    assertEquals(module, tool.name === "" ? "tool" : tool.name);
    assertMatch(warnings?.join() ?? "", warning ?? /^$/);
  }
  assertEquals(tools.slice(-2), [
    { tool: "proto", module: "proto", warnings: [] },
    { tool: "good", module: null, warnings: ["An earlier tool in the list has the same name"] },
  ]);
  const code = 'import sys, importlib\nsys.path.insert(0, ".")\n' +
    `for name in ${JSON.stringify(tools.flatMap(({ module }) => module ?? []))}:\n` +
    '    m = importlib.import_module("odd." + name); m.Params.model_json_schema()\n' +
    'print(importlib.import_module("odd.proto").Params(field__proto__="x").to_arguments())';
  const { success, stdout, stderr } = await runPython(["-c", code], { cwd: root.path });
  assert(success, stderr);
  assertEquals(stdout, "{'__proto__': 'x'}\n");
});

Deno.test("tools of an odd list are found and called, and only what has its type is believed", async () => {
  await using connection = await connectMcp("odd", listing(LIST));

  const tools = await connection.listTools();

  assertEquals(tools.map(({ name }) => name), [...USABLE.map(([{ name }]) => name), "proto"]);
  assertEquals((await connection.findTool("odd_hints"))?.annotations, {});
  assertEquals((await connection.findTool("no_title"))?.title, undefined);
  const args = sealObject(parseExact('{"__proto__":"x"}'));
  const { content } = await connection.callTool("", args);
  assertMatch(`${content[0]?.text}`, /"name":"","arguments":\{"__proto__":"x"\}/);
});

Deno.test("a server of the newer era keeps its odd tools, without those whose headers cannot be sent", async () => {
  const header = (name: unknown) => ({
    type: "object",
    properties: { region: { type: "string", "x-mcp-header": name } },
  });
  const entries = [
    ...LIST_FOR_HTTP,
    { name: "fine", inputSchema: header("Region") },
    { name: "split", inputSchema: header("a\r\nb") },
  ];
  const asked: { method: string; region: string | null }[] = [];
  await using server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    async (request) => {
      if (request.method !== "POST") return new Response(null, { status: 405 });
      const { id, method } = await request.json();
      asked.push({ method, region: request.headers.get("mcp-param-region") });
      const cache = { ttlMs: 0, cacheScope: "private" };
      const results: Record<string, unknown> = {
        "server/discover": {
          ...cache,
          supportedVersions: ["2026-07-28"],
          capabilities: { tools: {} },
          serverInfo: { name: "odd", version: "1" },
        },
        "tools/list": { ...cache, tools: entries },
        "tools/call": { content: [{ type: "text", text: "called" }] },
      };
      const result = { resultType: "complete", ...Object(results[method]) };
      return Response.json({ jsonrpc: "2.0", id, result });
    },
  );
  const url = `http://127.0.0.1:${server.addr.port}/mcp`;
  await using root = await TempFolder.create();
  const params = { url, protocol: "2026-07-28" } as const;

  const tools = await generateMcpSources("odd", params, { rootDir: root.path });

  assertEquals(tools.filter(({ module }) => module === null).map(({ tool }) => tool), [
    "#1",
    "split",
  ]);
  assertMatch(tools.at(-1)?.warnings.join() ?? "", /x-mcp-header "a\\r\\nb" is not the name/);
  await using connection = await connectMcp("odd", params);
  const args = sealObject(parseExact('{"region":"eu"}'));
  const { content } = await connection.callTool("fine", args);
  assertEquals(content[0]?.text, "called");
  assertEquals(asked.at(-1), { method: "tools/call", region: "eu" });
  assertEquals((await connection.callTool("no_type", args)).content[0]?.text, "called");
});

const LIST_FOR_HTTP: readonly unknown[] = [null, { name: "no_type", title: null, inputSchema: {} }];

Deno.test("what is wrong with a server's messages is said in one line", async () => {
  const file = new URL("../fixtures/mcp/raw_server.ts", import.meta.url).pathname;
  const raw = { command: Deno.execPath(), args: ["run", "-A", "--no-config", "--no-lock", file] };
  await using connection = await connectMcp("raw", raw);
  const bad = '{"content":[{"type":"text"},{"type":"image"}],"isError":"no"}';
  const args = sealObject(parseExact(JSON.stringify({ json: bad })));
  const error = await assertRejects(() => connection.callTool("result", args), ToolCallError);
  assertEquals(
    error.message,
    "The server sent a malformed tool result: isError: Invalid input: expected boolean, received string",
  );
  const words = '{"protocolVersion":5,"capabilities":[],"serverInfo":{}}';
  const code = "for await (const c of Deno.stdin.readable.pipeThrough(new TextDecoderStream())) {" +
    `const { id } = JSON.parse(c); console.log(JSON.stringify({ jsonrpc: "2.0", id, result: ${words} })); }`;
  const mute = { command: Deno.execPath(), args: ["eval", code] };
  const refused = await assertRejects(() => connectMcp("bad", mute), McpConnectionError);
  assertMatch(
    refused.message,
    /^MCP server "bad" cannot be used: [^\n]*protocolVersion[^\n]*more\)$/,
  );
});
