// deno-lint-ignore-file no-console no-import-prefix -- a script; the SDK is no dependency of ipybox
/**
 * An agent with the AI SDK: its model writes Python, ipybox runs it, and you decide on tool calls.
 *
 * Run it with `ANTHROPIC_API_KEY=… deno run -A examples/ai_sdk.ts [TASK]`; `ipybox` must be on your
 * `PATH`.
 *
 * @module
 */
import { anthropic } from "npm:@ai-sdk/anthropic@4.0.105";
import { createMCPClient, ElicitationRequestSchema } from "npm:@ai-sdk/mcp@2.0.99";
import { StdioMCPTransport } from "npm:@ai-sdk/mcp@2.0.99/mcp-stdio";
import { ToolLoopAgent } from "npm:ai@7.0.173";
import { z } from "zod";

const [task = "Which of New York, Chicago and Los Angeles is the coldest?"] = Deno.args;

/** The form of an approval: the first choice allows the call once. */
const approvalForm = z.object({
  properties: z.object({ decision: z.object({ default: z.string() }) }),
});

const workspace = await Deno.makeTempDir();
await using cleanUp = new AsyncDisposableStack();
cleanUp.defer(() => Deno.remove(workspace, { recursive: true }));
const ipybox = cleanUp.adopt(
  await createMCPClient({
    transport: new StdioMCPTransport({
      command: "ipybox",
      args: ["mcp", "--workspace", workspace],
    }),
    capabilities: { elicitation: {} },
  }),
  (client) => client.close(),
);
ipybox.onElicitationRequest(ElicitationRequestSchema, ({ params }) => {
  if (!confirm(params.message)) return { action: "decline" };
  const { decision } = approvalForm.parse(params.requestedSchema).properties;
  return { action: "accept", content: { decision: decision.default } };
});

const agent = new ToolLoopAgent({
  model: anthropic("claude-sonnet-5-5"),
  instructions: "Act by writing Python. For the weather, register the MCP server `everything`: " +
    "`npx -y @modelcontextprotocol/server-everything@2026.8.31 stdio`.",
  tools: await ipybox.tools(),
});
const { text } = await agent.generate({ prompt: task });
console.log(text);
