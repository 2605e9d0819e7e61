/** What the model of a client sees: text, then images, and nothing else. */
import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { CLIENT_ERAS, McpHost, type ToolEnd } from "../support/mcp_client.ts";
import { RAW, workspaceWithServer } from "../support/mcp_workspace.ts";
import { stepsOf } from "../support/steps.ts";

const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJ" +
  "RU5ErkJggg==";
const DRAW = `
from base64 import b64decode
from IPython.display import Image, display
display(Image(b64decode("${PNG}")))`;

for (const kind of CLIENT_ERAS) {
  Deno.test(`ipybox mcp shows a model text and images alone, in a client of the kind ${kind}`, async (t) => {
    await using workspace = await workspaceWithServer();
    const decisions: string[] = [];
    await using host = await McpHost.start({
      kind,
      args: ["--workspace", workspace.path],
      answer: () => decisions.shift() ?? "deny",
    });
    const step = stepsOf(t);
    const cell = (code: string, more = {}) => host.call("execute_ipython_cell", { code, ...more });

    await step("no tool declares what clients would show in place of its text", async () => {
      for (const { name, outputSchema } of await host.tools()) {
        assertEquals(outputSchema, undefined, name);
      }
    });

    await step("a value costs its text and nothing else", async () => {
      const { content, others } = await cell("1+1");
      assertEquals(content, [{ type: "text", text: "2" }]);
      assertEquals(others, []); // some clients show these to the model
    });

    await step("an image follows the text, which does not name its class", async () => {
      const { content, text } = await cell(DRAW);
      assertEquals(content.map(({ type }) => type), ["text", "image"]);
      assertMatch(text, /^Generated images:\n\n- \[\w+\]\([^\n]+\.png\)$/);
    });

    await step("an exception is a result, with the text and the image before it", async () => {
      const { isError, content, text } = await cell(`print("before")${DRAW}\n1 / 0`);
      assertEquals([isError, ...content.map(({ type }) => type)], [false, "text", "image"]);
      assertMatch(text, /^before\n[^]*ZeroDivisionError: division by zero\n\nGenerated images:/);
    });

    await step("bad arguments are errors of the tool", async () => {
      assertEquals((await cell("1", { timeout: -1 })).isError, true);
    });

    await step("calls are not told where all of them went well", async () => {
      decisions.push("allow this tool with any arguments in this cell");
      const { text } = await cell(
        `${RAW}print(sum(bool(raw.run_sync("count")) for _ in range(60)))`,
      );
      assertEquals(text, "60");
    });

    await step("calls that failed are told in one line, also where the code hides it", async () => {
      decisions.push("allow once", "deny");
      const { text } = await cell(`${RAW}
print("before")
for name in ("count", "echo\\nx"):
    try: raw.run_sync(name)
    except Exception: pass`);
      assertEquals(
        text,
        "before\n\n[1 of 2 calls denied or failed: raw.echo\\nx (approval_rejected)]",
      );
    });

    await step("every other tool gives one text, too", async () => {
      const ends: Record<string, ToolEnd> = {
        search: await host.call("search_tools", { query: "", detail: "names" }),
        nothing: await host.call("search_tools", { query: "xyzzy" }),
        install: await host.call("install_package", { package_name: "no package" }),
        unregister: await host.call("unregister_mcp_server", { server_name: "raw" }),
        reset: await host.call("reset"),
      };
      for (const [name, { content, others }] of Object.entries(ends)) {
        assertEquals(content.map(({ type }) => type), ["text"], name);
        assertEquals(others, [], name);
      }
      assertStringIncludes(ends.nothing?.text ?? "", "Registered servers: raw");
    });
  });
}
