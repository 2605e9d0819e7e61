import { z } from "zod";
import { explained } from "../failure.ts";
import { Preparation, RequestProgress } from "../request_progress.ts";
import type { SdkMcpServer } from "../sdk.ts";
import type { Session } from "../session.ts";
import type { DeclareInput } from "../tool_input.ts";

const outputSchema = z.object({ state: z.literal("lost"), servers: z.array(z.string()) });

const DESCRIPTION = `
Starts a fresh kernel; a cell that runs ends as cancelled. Variables, imports and background processes \
are lost; files, packages and registered servers are kept.
`.trim();

/** Adds `reset`. */
export function registerReset(server: SdkMcpServer, session: Session, declare: DeclareInput): void {
  server.registerTool("reset", {
    title: "Reset the kernel",
    description: DESCRIPTION,
    inputSchema: declare(z.object({})),
    ...session.answers.declare(outputSchema),
    annotations: {
      readOnlyHint: false,
      destructiveHint: true,
      idempotentHint: true,
      openWorldHint: false,
    },
  }, async (_args, ctx) => {
    try {
      const work = new Preparation(session, "Resetting the kernel");
      using _progress = RequestProgress.of(work, ctx, session.log);
      const { executor } = await work.kernel();
      await executor.reset();
      const text = "The kernel was reset: variables, imports and background processes are gone; " +
        "files of the workspace, packages and registered servers are kept";
      return session.answers.of({ text, report: { state: "lost", servers: executor.servers } });
    } catch (error) {
      return explained(error);
    }
  });
}
