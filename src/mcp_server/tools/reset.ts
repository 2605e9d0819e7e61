import { z } from "zod";
import { explained } from "../failure.ts";
import type { SdkMcpServer } from "../sdk.ts";
import type { Session } from "../session.ts";
import type { DeclareInput } from "../session_argument.ts";

const DESCRIPTION = `
Starts a fresh kernel, also when a cell hangs: that cell ends as cancelled.

Cleared: variables, imports, background processes, the home directory, connections to MCP servers. \
Kept: installed packages, registered servers, and all files of the workspace, also modules that code \
left there. Call it to import an API that was registered anew.
`.trim();

/** Adds `reset`. */
export function registerReset(server: SdkMcpServer, session: Session, declare: DeclareInput): void {
  server.registerTool("reset", {
    title: "Reset the kernel",
    description: DESCRIPTION,
    inputSchema: declare(z.object({})),
    outputSchema: z.object({ state: z.literal("lost"), servers: z.array(z.string()) }),
    annotations: {
      readOnlyHint: false,
      destructiveHint: true,
      idempotentHint: true,
      openWorldHint: false,
    },
  }, async () => {
    try {
      const { executor } = await session.parts;
      await executor.reset();
      const text = "The kernel was reset: variables, imports and background processes are gone; " +
        "files of the workspace, packages and registered servers are kept";
      return {
        content: [{ type: "text", text }],
        structuredContent: { state: "lost", servers: executor.servers },
      };
    } catch (error) {
      return explained(error);
    }
  });
}
