/** Arguments as real clients send them, and schemas as providers of models take them. */
import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { ServerRegistry } from "../../src/servers/registry.ts";
import { HttpMcp } from "../support/http_mcp.ts";
import { rawServer } from "../support/mcp.ts";
import { McpHost } from "../support/mcp_client.ts";
import { workspaceWithServer } from "../support/mcp_workspace.ts";
import { geminiProblems, strictProblems } from "../support/provider_schemas.ts";
import { stepsOf } from "../support/steps.ts";

Deno.test("ipybox mcp takes what clients send for arguments", async (t) => {
  await using workspace = await workspaceWithServer();
  await using host = await McpHost.start({
    args: ["--workspace", workspace.path, "--no-sandbox", "--approve", "allow"],
  });
  const step = stepsOf(t);
  const registry = () => ServerRegistry.open({ workspace: workspace.path });
  const { command, args = [] } = rawServer();

  await step("null, empty text and numbers as text", async () => {
    const cells: Record<string, unknown>[] = [
      { timeout: null, max_output_chars: null },
      { timeout: "", max_output_chars: "" },
      { timeout: "60", max_output_chars: "100" },
      { timeout: "0.5e2", max_output_chars: 100, other: null },
    ];
    for (const more of cells) {
      const { isError, text } = await host.call("execute_ipython_cell", { code: "1+1", ...more });
      assertEquals([isError, text], [false, "2"]);
    }
    const cut = await host.call("execute_ipython_cell", {
      code: "print('a' * 999)",
      max_output_chars: "10",
    });
    assertStringIncludes(cut.text, "exceeded 10 character limit");
  });

  await step("a search of everything, in all the ways to say so", async () => {
    const searches: Record<string, unknown>[] = [
      { query: "xyzzy", server: null, detail: null },
      { query: "xyzzy", server: "", detail: "" },
      { query: null },
      {},
    ];
    for (const search of searches) {
      const { isError, text } = await host.call("search_tools", search);
      assertEquals(isError, false, text);
      assertMatch(text, /raw has no Python API/);
    }
  });

  await step("but no value that means something else", async () => {
    const wrong: Record<string, unknown>[] = [
      { code: null },
      { code: "1", timeout: "soon" },
      { code: "1", timeout: " " },
      { code: "1", timeout: "-1" },
      { code: "1", timeout: "NaN" },
    ];
    for (const args of wrong) {
      const { isError, text } = await host.call("execute_ipython_cell", args);
      assertEquals(isError, true, JSON.stringify(args));
      assertMatch(text, /code|timeout/);
    }
  });

  await step(
    "servers with variables as a list or as an object, and the rest left empty",
    async () => {
      const forms: Record<string, unknown>[] = [
        { command, args, env: ["KEY=a=b", "EMPTY="], url: "", headers: [] },
        { command, args, env: { KEY: "a=b", EMPTY: "" }, url: null, headers: {} },
      ];
      for (const [index, server_params] of forms.entries()) {
        const server_name = `form_${index}`;
        const end = await host.call("register_mcp_server", { server_name, server_params });
        assertEquals(end.isError, false, end.text);
        const stored = { command, args, env: { KEY: "a=b", EMPTY: "" } };
        assertEquals((await registry()).get(server_name), stored);
      }
      const wrong = { command, args, env: ["no value"] };
      const end = await host.call("register_mcp_server", {
        server_name: "wrong",
        server_params: wrong,
      });
      assertEquals(end.isError, true);
      assertStringIncludes(end.text, 'expected "NAME=value"');
    },
  );
});

Deno.test("The tools of ipybox mcp have schemas that every provider takes", async () => {
  await using workspace = await workspaceWithServer();
  await using server = await HttpMcp.start(["--workspace", workspace.path, "--no-sandbox"]);
  await using host = await McpHost.join(server.address, { kind: "2.x 2026-07-28" });
  const tools = await host.tools();

  assertEquals(tools.some(({ name }) => name === "open_session"), true);
  for (const { name, inputSchema } of tools) {
    assertEquals(geminiProblems({ ...inputSchema }), [], name);
    assertEquals(strictProblems({ ...inputSchema }), [], name);
    for (
      const [argument, { default: preset, description }] of Object.entries(inputSchema.properties)
    ) {
      if (preset === undefined) continue;
      assertMatch(String(description), /\bdefault\b/i, `${name}.${argument} names its default`);
    }
  }
  const end = await host.call("execute_ipython_cell", { code: "1+1", session: "" });
  assertEquals(end.text, "2");
});
