/** The least MCP server that the SDK makes, for `start.ts` to compare `ipybox mcp` with. */
import { McpServer } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";

serveStdio(() => {
  const server = new McpServer({ name: "bare", version: "1" });
  server.registerTool("answer", {}, () => ({ content: [{ type: "text", text: "42" }] }));
  return server;
});
