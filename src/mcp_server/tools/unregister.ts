import { z } from "zod";
import { checkServerName } from "../../mcp/params.ts";
import { success } from "../failure.ts";
import { addTool, type ToolHost } from "../tool.ts";
import { knownServers, requireServer } from "./search.ts";

export function registerUnregister(host: ToolHost): void {
  addTool(host, "unregister_mcp_server", {
    title: "Remove an MCP server",
    description: "Removes an MCP server and its Python modules, if the user agrees.",
    input: () => z.object({ server_name: z.string().describe("Its registered name") }),
    hints: ["destructive", "idempotent"],
  }, async ({ server_name: name }, request) => {
    const { session, work } = request;
    checkServerName(name);
    await requireServer(name, session);
    const change = {
      tool: "unregister_mcp_server",
      parameters: { server_name: name },
      question: {
        description: `Remove the MCP server "${name}" and its Python API?`,
        summary: `Removing the server "${name}"`,
        byHand: `Ask the user to run: ipybox unregister ${name}`,
        effect: "Removes the MCP server and its Python API",
      },
    };
    const { makeChange } = await import("./make_change.ts");
    return await makeChange(change, request, async () => {
      work.activity = `Removing ${name}`;
      await (await work.kernel()).executor.unregisterServer(name);
      await session.serversChanged();
      return success(`Removed ${name}. ${await knownServers(session)}`);
    });
  });
}
