import { z } from "zod";
import { checkServerName } from "../../mcp/params.ts";
import { explained } from "../failure.ts";
import { Preparation, RequestProgress } from "../request_progress.ts";
import type { SdkMcpServer } from "../sdk.ts";
import type { Session } from "../session.ts";
import type { DeclareInput } from "../tool_input.ts";
import { knownServers } from "./search.ts";

const DESCRIPTION = `
Removes an MCP server and its Python modules, if the user agrees.
`.trim();

const outputSchema = () =>
  z.object({
    removed: z.string(),
    servers: z.array(z.string()).describe("The remaining servers"),
  });

/** Adds `unregister_mcp_server`. */
export function registerUnregister(
  server: SdkMcpServer,
  session: Session,
  declare: DeclareInput,
): void {
  server.registerTool("unregister_mcp_server", {
    title: "Remove an MCP server",
    description: DESCRIPTION,
    inputSchema: declare(() =>
      z.object({
        server_name: z.string().describe("Its registered name"),
      })
    ),
    ...session.answers.declare(outputSchema),
    annotations: {
      readOnlyHint: false,
      destructiveHint: true,
      idempotentHint: true,
      openWorldHint: false,
    },
  }, async ({ server_name: name }, ctx) => {
    try {
      const work = new Preparation(session);
      using progress = RequestProgress.of(work, ctx, session.log);
      checkServerName(name);
      if (!(await session.servers()).includes(name)) {
        throw new Error(`No server "${name}" is registered. ${await knownServers(session)}`);
      }
      const change = {
        tool: "unregister_mcp_server",
        parameters: { server_name: name },
        question: {
          description: `Remove the MCP server "${name}" and its Python API?`,
          what: `Removing the server "${name}"`,
          byHand: `Ask the user to run: ipybox unregister ${name}`,
          effect: "Removes the MCP server and its Python API",
        },
      };
      const { makeChange } = await import("./make_change.ts");
      return await makeChange(change, { session, server, ctx, work, progress }, async () => {
        work.activity = `Removing ${name}`;
        await (await work.kernel()).executor.unregisterServer(name);
        await session.serversChanged();
        const text = `Removed ${name}. ${await knownServers(session)}`;
        const report = { removed: name, servers: await session.servers() };
        return session.answers.of({ text, report });
      });
    } catch (error) {
      return explained(error);
    }
  });
}
