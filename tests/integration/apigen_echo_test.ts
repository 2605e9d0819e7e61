import { assertEquals } from "@std/assert";
import { generateMcpSources } from "../../src/apigen/generate.ts";
import { ToolServer } from "../../src/calls/tool_server.ts";
import { testPython } from "../support/python.ts";
import { TempFolder } from "../support/temp_folder.ts";

const TOOL = {
  name: "take-all",
  description: "Takes a value of every kind.",
  inputSchema: {
    type: "object",
    properties: {
      text: { type: "string" },
      integer: { type: "integer", default: 7 },
      number: { type: "number" },
      flag: { type: "boolean" },
      nothing: { type: "null" },
      maybe: { type: ["string", "null"] },
      choice: { enum: ["SUM", "Sum", 1, true, null] },
      fixed: { const: "v1" },
      list: { type: "array", items: { type: "integer" } },
      tuple: { type: "array", prefixItems: [{ type: "string" }, { type: "number" }] },
      union: { anyOf: [{ type: "integer" }, { type: "string" }] },
      tagged: {
        oneOf: [
          {
            type: "object",
            properties: { kind: { const: "a" }, size: { type: "integer" } },
            required: ["kind"],
          },
          {
            type: "object",
            properties: { kind: { const: "b" }, label: { type: "string" } },
            required: ["kind"],
          },
        ],
      },
      when: { type: "string", format: "date-time" },
      address: { type: "string", format: "uri" },
      map: { type: "object", additionalProperties: { type: "number" } },
      any: {},
      tree: { $ref: "#/$defs/tree" },
      from: { type: "string" },
      "kebab-case": { type: "string" },
      model_config: { type: "string" },
      _hidden: { type: "string" },
      __proto: { type: "string" },
    },
    required: ["text"],
    $defs: {
      tree: {
        type: "object",
        properties: {
          label: { type: "string" },
          children: { type: "array", items: { $ref: "#/$defs/tree" } },
        },
      },
    },
  },
};

/** What Python passes, and the JSON text of what the tool must receive for it. */
const CALLS: readonly (readonly [python: string, received: string])[] = [
  [`text="plain"`, `{"text":"plain"}`],
  [`text='quotes " \\\\ \\n\\t and 😀 \\u2028'`, `{"text":"quotes \\" \\\\ \\n\\t and 😀 \u2028"}`],
  [`text="", integer=0, number=0, flag=False`, `{"text":"","integer":0,"number":0,"flag":false}`],
  [`text="", integer=2**53 + 1`, `{"text":"","integer":9007199254740993}`],
  [`text="", integer=-(2**70)`, `{"text":"","integer":-1180591620717411303424}`],
  [`text="", number=1`, `{"text":"","number":1}`],
  [`text="", number=1.0`, `{"text":"","number":1.0}`],
  [`text="", number=1e-300`, `{"text":"","number":1e-300}`],
  [`text="", nothing=None, maybe=None`, `{"text":"","nothing":null,"maybe":null}`],
  [`text="", choice="Sum"`, `{"text":"","choice":"Sum"}`],
  [`text="", choice=True`, `{"text":"","choice":true}`],
  [`text="", choice=1, fixed="v1"`, `{"text":"","choice":1,"fixed":"v1"}`],
  [`text="", list=[], tuple=["a", 2]`, `{"text":"","list":[],"tuple":["a",2]}`],
  [`text="", list=[1, 2, 3]`, `{"text":"","list":[1,2,3]}`],
  [`text="", union=5`, `{"text":"","union":5}`],
  [`text="", union="5"`, `{"text":"","union":"5"}`],
  [
    `text="", tagged={"kind": "b", "label": "x", "more": 1}`,
    `{"text":"","tagged":{"kind":"b","label":"x","more":1}}`,
  ],
  [
    `text="", when="2026-01-02T03:04:05Z", address="https://EXAMPLE.com"`,
    `{"text":"","when":"2026-01-02T03:04:05Z","address":"https://EXAMPLE.com"}`,
  ],
  [`text="", map={"a": 1, "b": 2.5}`, `{"text":"","map":{"a":1,"b":2.5}}`],
  [`text="", any=[{"x": [None, True, 1.5]}]`, `{"text":"","any":[{"x":[null,true,1.5]}]}`],
  [
    `text="", tree={"label": "r", "children": [{"label": "c", "children": []}]}`,
    `{"text":"","tree":{"label":"r","children":[{"label":"c","children":[]}]}}`,
  ],
  [
    `text="", from_="a", kebab_case="b", model_config_="c", field_hidden="d", field__proto="e"`,
    `{"text":"","from":"a","kebab-case":"b","model_config":"c","_hidden":"d","__proto":"e"}`,
  ],
  [`**{"text": "", "from": "a", "kebab-case": "b"}`, `{"text":"","from":"a","kebab-case":"b"}`],
  [`text="", not_declared=[1]`, `{"text":"","not_declared":[1]}`],
];

Deno.test("a generated function sends every kind of value as it was given", async () => {
  await using root = await TempFolder.create();
  const file = new URL("../fixtures/mcp/echo_server.ts", import.meta.url).pathname;
  const server = {
    command: Deno.execPath(),
    args: ["run", "--no-config", "--no-lock", file, JSON.stringify(TOOL)],
  };
  await generateMcpSources("echo", server, { rootDir: root.path });
  await using tools = await ToolServer.start({ servers: { echo: server }, approval: "allow" });

  const received = await sentBy(root.path, tools);

  assertEquals(received, CALLS.map(([, expected]) => expected));
});

/** Makes all calls from Python, and gives the text of the arguments that the server received. */
async function sentBy(root: string, tools: ToolServer): Promise<string[]> {
  const code = [
    "import asyncio, json, warnings",
    'warnings.simplefilter("ignore")',
    "from echo.take_all import Params, run, run_async",
    "lines = []",
    ...CALLS.flatMap(([args], at) => [
      // Both ways to call, and both ways to wait.
      at % 2 === 0
        ? `lines.append(run(${args}))`
        : `lines.append(asyncio.run(run_async(Params(${args}))))`,
    ]),
    "print(json.dumps(lines))",
  ].join("\n");
  const { kernelDoor } = tools;
  const { success, stdout, stderr } = await new Deno.Command(testPython(), {
    args: ["-c", code],
    env: {
      PYTHONPATH: root,
      IPYBOX_TOOL_URL: kernelDoor.url.href,
      IPYBOX_TOOL_TOKEN: kernelDoor.token,
    },
  }).output();
  assertEquals(success, true, new TextDecoder().decode(stderr));
  const lines: string[] = JSON.parse(new TextDecoder().decode(stdout));
  // The spelling counts, so they are cut out and not parsed.
  const opening = '"arguments":';
  return lines.map((line) =>
    line.slice(line.indexOf(opening) + opening.length, line.lastIndexOf('},"jsonrpc"'))
  );
}
