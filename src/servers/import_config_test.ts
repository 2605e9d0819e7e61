import { assertEquals, assertThrows } from "@std/assert";
import { ConfigError } from "../base/errors.ts";
import { parseServersFile } from "./import_config.ts";

/** Files of other programs, and the servers read from them. */
const FILES: readonly (readonly [program: string, text: string, servers: unknown])[] = [
  [
    "most programs",
    '{"mcpServers":{"a":{"url":"http://h"},"b":{"command":"x","disabled":false}},"other":1}',
    { a: { url: "http://h" }, b: { command: "x" } },
  ],
  [
    "VS Code",
    `{
      // what it asks for once
      "inputs": [{ "id": "token", "type": "promptString" }],
      "servers": {
        "files": { "type": "stdio", "command": "\${userHome}/x", "args": ["\${workspaceFolder}"], },
        "remote": { "type": "http", "url": "https://h", "headers": { "A": "Bearer \${env:TOKEN}" } },
      },
    }`,
    {
      files: { command: "${HOME}/x", args: ["${workspaceFolder}"] },
      remote: { url: "https://h", type: "http", headers: { A: "Bearer ${TOKEN}" } },
    },
  ],
  ["VS Code's settings", '{"mcp":{"servers":{"a":{"command":"x"}}}}', { a: { command: "x" } }],
];

for (const [program, text, servers] of FILES) {
  Deno.test(`parseServersFile() reads a file of ${program}`, () => {
    const parsed = parseServersFile("x.json", text);
    assertEquals(Object.fromEntries(parsed.servers), servers);
    assertEquals([parsed.renamed.size, parsed.unusable.size], [0, 0]);
  });
}

Deno.test("parseServersFile() gives servers names that Python can import", () => {
  const { servers, renamed } = parseServersFile(
    "x.json",
    '{"mcpServers":{"Brave-search":{"command":"1"},"class":{"command":"2"}}}',
  );
  assertEquals([...servers.keys()], ["brave_search", "class_server"]);
  assertEquals([...renamed], [["brave_search", "Brave-search"], ["class_server", "class"]]);
});

/** Servers that cannot be used, and the errors. */
const UNUSABLE: readonly (readonly [name: string, params: string, said: string])[] = [
  ["__proto__", '{"command":"1"}', "Invalid MCP server name"],
  ["日本", '{"command":"1"}', "Invalid MCP server name"],
  ["-", '{"command":"1"}', "Invalid MCP server name"],
  ["", '{"command":"1"}', "Invalid MCP server name"],
  ["A_b", '{"command":"1"}', 'Servers "a-b" and "A_b" would both be "a_b" in Python, in x.json'],
  ["b", '{"command":"1","envFile":".env"}', "envFile"],
  ["b", "1", 'must be an object with "command" or "url", in x.json'],
  ["b", '{"command":"1","env":{"K":"${input:key}"}}', "uses ${input:key}, which only the editor"],
];

for (const [name, params, said] of UNUSABLE) {
  Deno.test(`parseServersFile() says of ${JSON.stringify(name)}: ${said}`, () => {
    const text = `{"mcpServers":{"a-b":{"command":"x"},${JSON.stringify(name)}:${params}}}`;
    const { servers, unusable } = parseServersFile("x.json", text);
    assertEquals([...servers.keys()], ["a_b"]); // which costs the others nothing
    assertEquals([...unusable.keys()], [name]);
    const [error] = unusable.values();
    assertEquals(error?.message.includes(said), true, error?.message);
  });
}

/** Files without servers. */
const WRONG: readonly (readonly [text: string, said: string])[] = [
  ["nope", "x.json:1:1: Expected a value"],
  ['{\n  "mcpServers": {,}\n}', "x.json:2:18"],
  ['{"mcpServers": {', "x.json:1:17: Expected a name in double quotes"],
  ['{"mcpServers": []}', '"mcpServers" must be an object'],
  ['{"mcp": {"servers": 1}}', '"mcp.servers" must be an object'],
  ["{}", "No servers in x.json"],
  ["[]", "No servers in x.json"],
];

for (const [text, said] of WRONG) {
  Deno.test(`parseServersFile() refuses ${JSON.stringify(text)}`, () => {
    assertThrows(() => parseServersFile("x.json", text), ConfigError, said);
  });
}
