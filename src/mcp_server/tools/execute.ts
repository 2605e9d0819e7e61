import { z } from "zod";
import type { PersonRequest } from "../../approval/wire.ts";
import { leaveUnaskable } from "../approvals.ts";
import { cellReportSchema, reportCell } from "../cell_report.ts";
import type { CellRun } from "../cell_run.ts";
import { abilitiesOf } from "../client_abilities.ts";
import { explained } from "../failure.ts";
import { filesNote } from "../instructions.ts";
import { Preparation, RequestProgress } from "../request_progress.ts";
import type { SdkMcpServer } from "../sdk.ts";
import type { Session } from "../session.ts";
import type { DeclareInput } from "../tool_input.ts";

const DESCRIPTION = `
Runs Python in a stateful, sandboxed IPython kernel; returns what it prints, its last value and images.

Variables persist. Top-level \`await\`, magics and \`!commands\` work, \`input()\` does not. Code can reach \
the outside only through tools of registered MCP servers; find them with search_tools:

  from mcptools.github import search_repositories
  print(search_repositories.run(query="ipybox").items[0].full_name)

Chain calls in one cell, keep results in variables, print only what you need: long output is cut and \
saved to a file. A call that the user refuses raises ApprovalRejectedError: do not retry, ask the user.
`.trim();

/** Adds `execute_ipython_cell`. */
export function registerExecute(
  server: SdkMcpServer,
  session: Session,
  declare: DeclareInput,
): void {
  const { rounds, log } = session;
  server.registerTool("execute_ipython_cell", {
    title: "Execute Python code",
    description: [DESCRIPTION, ...filesNote(session)].join("\n\n"),
    inputSchema: declare(z.object({
      code: z.string().describe("Python code"),
      timeout: z.number().positive().default(120)
        .describe("Seconds, not counting approvals (default 120)"),
      max_output_chars: z.number().int().positive().default(5000)
        .describe("Longer output is cut in the middle (default 5000)"),
    })),
    ...session.answers.declare(cellReportSchema),
    annotations: {
      readOnlyHint: false,
      destructiveHint: true,
      idempotentHint: false,
      openWorldHint: true,
    },
  }, async ({ code, timeout, max_output_chars: limit }, ctx) => {
    try {
      const work = new Preparation(session);
      const leave = (run: CellRun, request: PersonRequest) =>
        run.leave(request, session.parts.then(({ page }) => page.decide(request, true)));
      using progress = RequestProgress.of(work, ctx, log);
      const run = await rounds.resume(ctx, leave) ??
        await session.startCell(() => work.kernel(), { code, timeoutMs: timeout * 1000 });
      progress.follow(run);
      const can = abilitiesOf(server, ctx);
      for (;;) {
        const step = await run.next(ctx.mcpReq.signal);
        if (step.type === "ended") return await reportCell(step.outcome, session, limit);
        const { page } = await session.parts; // long there
        const by = { can, page, prefersPage: session.prefersPage };
        const { approvals, questions } = leaveUnaskable(run, step.waiting, by);
        if (approvals.length + questions.length === 0) continue;
        progress.keep();
        return await rounds.ask(run, { approvals, questions }, ctx);
      }
    } catch (error) {
      return explained(error);
    }
  });
}

const outputSchema = z.object({ state: z.literal("lost"), servers: z.array(z.string()) });

const RESET_DESCRIPTION = `
Restarts the kernel and cancels a running cell. Variables, imports and background processes \
are lost; files, packages and registered servers are kept.
`.trim();

/** Adds `reset`. */
export function registerReset(server: SdkMcpServer, session: Session, declare: DeclareInput): void {
  server.registerTool("reset", {
    title: "Reset the kernel",
    description: RESET_DESCRIPTION,
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
        "workspace files, packages and registered servers are kept";
      return session.answers.of({ text, report: { state: "lost", servers: executor.servers } });
    } catch (error) {
      return explained(error);
    }
  });
}
