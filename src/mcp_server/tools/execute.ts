import { z } from "zod";
import { leaveUnaskable } from "../approval_rounds.ts";
import { RequestProgress } from "../request_progress.ts";
import { cellReportSchema, reportCell } from "../cell_report.ts";
import { CellRun } from "../cell_run.ts";
import { abilitiesOf } from "../client_abilities.ts";
import { explained } from "../failure.ts";
import type { SdkMcpServer } from "../sdk.ts";
import type { Session } from "../session.ts";
import type { DeclareInput } from "../tool_input.ts";

const DESCRIPTION = `
Executes Python code in a stateful IPython kernel and returns what it prints and its last value.

Variables, functions and imports persist between calls; cells run one after the other. Top-level \
\`await\` and IPython magics work; \`input()\` does not. The kernel runs in a sandbox: it can write to \
the workspace, and reaches the outside world only through the registered MCP servers, each of whose \
tools is a function:

  from mcptools.github import search_repositories
  for repo in search_repositories.run(query="ipybox").items: print(repo.full_name)

Find tools and their signatures with search_tools before you write code. Chain calls in one cell, keep \
intermediate results in variables, and print only what you need: what is longer than max_output_chars \
is cut in the middle, and the whole is saved to a file. The user may be asked to approve a tool call; \
a refused one raises ApprovalRejectedError with the reason. Errors come with the output before them.
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
    description: DESCRIPTION,
    inputSchema: declare(z.object({
      code: z.string().describe("Python code"),
      timeout: z.number().positive().default(120)
        .describe("Seconds until it is interrupted, not counting approvals (default 120)"),
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
      const run = await rounds.resume(ctx) ?? await startCell(session, code, timeout * 1000);
      using parts = new DisposableStack();
      parts.use(RequestProgress.of(run, ctx, log));
      const can = abilitiesOf(server, ctx);
      for (;;) {
        const step = await run.next(ctx.mcpReq.signal);
        if (step.type === "ended") return await reportCell(step.outcome, session, limit);
        const { page } = await session.parts;
        const by = { can, page, prefersPage: session.prefersPage };
        const { approvals, questions } = leaveUnaskable(run, step.waiting, by);
        if (approvals.length + questions.length === 0) continue;
        const isOpen = ctx.mcpReq.envelope === undefined;
        if (isOpen) parts.move(); // its client waits on, and must hear that the cell is alive
        return await rounds.ask(run, { approvals, questions }, ctx);
      }
    } catch (error) {
      return explained(error);
    }
  });
}

async function startCell(session: Session, code: string, timeoutMs: number): Promise<CellRun> {
  const { executor } = await session.parts;
  session.rounds.newcomer(code);
  return new CellRun(executor, code, timeoutMs);
}
