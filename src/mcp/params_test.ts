import { assertEquals, assertThrows } from "@std/assert";
import { ConfigError } from "../base/errors.ts";
import { checkServerName, fillVariables, parseServerParams } from "./params.ts";

Deno.test("checkServerName() takes what can be a Python package, and nothing else", () => {
  for (const name of ["github", "_x", "a1_b", "match", "a".repeat(64)]) checkServerName(name);
  const invalid = [
    ["", "..", "../x", "/etc", "a/b", "a\0b", "a-b", "A", "1a", "a b", "a\n", "a".repeat(65)],
    ["class", "import", "async", "__init__", "__pycache__", "ipybox", "ipybox_runtime"],
    ["gıthub", "аpi", "ﬁle", "a\u200b"],
  ].flat();
  for (const name of invalid) {
    assertThrows(() => checkServerName(name), TypeError, "Invalid MCP", name);
  }
});

Deno.test("parseServerParams() reads what other programs write", () => {
  assertEquals(
    parseServerParams("x", {
      type: "stdio",
      command: "npx",
      args: ["-y", "server"],
      env: { A: "${A}" },
      disabled: false,
      alwaysAllow: ["read"],
    }),
    { command: "npx", args: ["-y", "server"], env: { A: "${A}" } },
  );
  assertEquals(
    parseServerParams("x", { type: "streamable-http", url: "https://x/mcp", headers: { A: "b" } }),
    { url: "https://x/mcp", headers: { A: "b" }, type: "streamable_http" },
  );
  assertEquals(
    parseServerParams("x", { type: "streamableHttp", serverUrl: "https://x/mcp" }),
    { url: "https://x/mcp", type: "streamable_http" },
  );
  assertThrows(
    () => parseServerParams("x", { url: "https://x/mcp", serverUrl: "https://y/mcp" }),
    ConfigError,
    '"serverUrl"',
  );
});

Deno.test("parseServerParams() says what is wrong, and with which server", () => {
  const wrong: [unknown, string][] = [
    [{}, 'specify either "command" or "url"'],
    [{ cmd: "x" }, 'specify either "command" or "url", not "cmd"'],
    [null, 'they must be an object with "command" or "url"'],
    ["npx -y server", 'they must be an object with "command" or "url"'],
    [{ command: "x", url: "y" }, 'specify either "command" or "url", not both'],
    [{ command: "x", arg: ["y"] }, 'Unknown key "arg": did you mean "args"?'],
    [{ command: "x", enviroment: {} }, 'Unknown key "enviroment"'],
    [{ url: "x", header: {} }, 'Unknown key "header": did you mean "headers"?'],
    [{ url: "x", args: [] }, '"args" is for servers with "command", not with "url"'],
    [{ command: "x", headers: {} }, '"headers" is for servers with "url", not with "command"'],
    [{ command: ["npx", "-y"] }, "command: "],
    [{ url: new URL("https://x/") }, "url: "],
    [{ command: "x", connectTimeoutMs: -1 }, "connectTimeoutMs: "],
    [{ command: "x", protocol: "new" }, "protocol: "],
    [{ command: "x", args: "y" }, "args"],
    [{ command: "x", env: { A: 1 } }, "env.A"],
    [{ url: "x", type: "carrier-pigeon" }, "type"],
  ];
  for (const [value, problem] of wrong) {
    const error = assertThrows(() => parseServerParams("git", value), ConfigError, problem);
    assertEquals(error.message.includes('"git"'), true);
  }
});

Deno.test("fillVariables() fills every value and changes nothing else", () => {
  const params = {
    command: "${A}/x",
    args: ["${A}${B}", "$A", "${foo-bar}"],
    env: { K: "${C:-c}" },
  };
  const lookup = (name: string) => ({ A: "1", B: "2" })[name];
  assertEquals(fillVariables("x", params, lookup), {
    command: "1/x",
    args: ["12", "$A", "${foo-bar}"],
    env: { K: "c" },
  });
  assertEquals(params.command, "${A}/x");
});

Deno.test("fillVariables() names the server and all variables that are not set", () => {
  const params = { url: "https://${HOST}/mcp", headers: { A: "Bearer ${TOKEN}", B: "${TOKEN}" } };
  assertThrows(
    () => fillVariables("github", params, () => undefined),
    ConfigError,
    'MCP server "github" needs ${HOST}, ${TOKEN}, which are not set',
  );
});

Deno.test("fillVariables() does not fill what a variable holds", () => {
  const lookup = (name: string) => ({ A: "${B}", B: "secret" })[name];
  assertEquals(fillVariables("x", { command: "${A}" }, lookup), { command: "${B}" });
});
