import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { TempFolder } from "../../tests/support/temp_folder.ts";
import { ConfigError, EnvironmentNotReadyError, McpConnectionError } from "../base/errors.ts";
import { connectMcp } from "./connect.ts";
import { startFailure } from "./start_errors.ts";
import { LoginStore } from "./oauth/store.ts";
import type { StdioServerParams } from "./params.ts";

const url = "https://mcp.example.com/mcp";
const HIDDEN =
  `MCP server "remote" cannot be started. ipybox gives the reason only in its log (its ` +
  "stderr), because it may contain secrets";

Deno.test("startFailure() names no file of the host to code", async () => {
  await using folder = await TempFolder.create();
  const store = LoginStore.find(new URL(url), { folder: folder.path });
  if (store === undefined) throw new Error("There is no place for logins");
  await Deno.writeTextFile(store.path, "{}", { mode: 0o644 });
  const readable = await store.read().catch((error: Error) => error);
  await Deno.remove(store.path);
  await Deno.symlink(store.path, store.path);
  const failed = await store.read().catch((error: Error) => error);
  for (const error of [readable, failed]) {
    if (!(error instanceof Error)) throw new Error("The file was read");
    assertEquals(error.message.includes(folder.path), true);
    assertEquals(startFailure("remote", { url }, error), HIDDEN);
  }
});

Deno.test("startFailure() tells code what the user has to set", () => {
  assertEquals(startFailure("remote", { url }, new ConfigError("Set A")), "Set A");
});

Deno.test("startFailure() hides what may quote a variable, and nothing else", () => {
  const refused = new ConfigError("Move it out of the workspace");
  const failure = (params: StdioServerParams, error: Error = refused) =>
    startFailure("remote", params, error);
  const token = { TOKEN: "${SECRET}" };
  assertEquals(failure({ command: "npx", env: token }), refused.message);
  assertEquals(failure({ command: "npx", env: { PATH: "${SECRET}" } }), HIDDEN);
  assertEquals(failure({ command: "npx", args: ["${SECRET}"] }), HIDDEN);
  assertEquals(failure({ command: "npx", cwd: "${workspaceFolder}" }), refused.message);
  const missing = new EnvironmentNotReadyError("bubblewrap is missing", "install it");
  assertEquals(failure({ command: "npx", args: ["${SECRET}"] }, missing), missing.message);
});

Deno.test("startFailure() repeats nothing that a server says when it refuses the connection", async () => {
  const code = "for await (const c of Deno.stdin.readable.pipeThrough(new TextDecoderStream())) {" +
    "const error = { code: -1, message: `bad key ${Deno.env.get('KEY')}` };" +
    "console.log(JSON.stringify({ jsonrpc: '2.0', id: JSON.parse(c).id, error })); }";
  await using folder = await TempFolder.create();
  const file = `${folder.path}/server.js`;
  await Deno.writeTextFile(file, code);
  const args = ["run", "-A", "--no-config", file];
  const params = { command: Deno.execPath(), args, env: { KEY: "hunter2" } };
  const error = await assertRejects(() => connectMcp("picky", params), McpConnectionError);
  assertStringIncludes(error.message, "bad key hunter2"); // the user reads it
  const said = 'MCP server "picky" refused the connection (error -1)';
  assertEquals(startFailure("picky", params, error), said);
});
