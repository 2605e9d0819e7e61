import { z } from "zod";
import type { PersonRequest } from "../../approval/wire.ts";
import { anySignal, Deadline } from "../../base/signals.ts";
import { leaveUnaskable } from "../approvals.ts";
import { cellReportSchema, reportCell, reportRunning } from "../cell_report.ts";
import type { CellRun } from "../cell_run.ts";
import { abilitiesOf } from "../client_abilities.ts";
import { explained } from "../failure.ts";
import { filesNote } from "../instructions.ts";
import { Preparation, RequestProgress } from "../request_progress.ts";
import type { CallToolResult, InputRequiredResult, SdkMcpServer, ServerContext } from "../sdk.ts";
import type { Session } from "../session.ts";
import { reportTask, TASK_AFTER_MS, type TaskServerOptions } from "../tasks.ts";
import type { DeclareInput } from "../tool_input.ts";

const DESCRIPTION = `
Runs Python in a stateful, sandboxed IPython kernel; returns its output, last value and images.

Top-level \`await\`, magics and \`!commands\` work, \`input()\` does not. Code can reach \
the outside only through tools of registered MCP servers; find them with search_tools:

  from mcptools.github import search_repositories
  print(search_repositories.run(query="ipybox").items[0].full_name)

Chain calls in one cell, keep results in variables, print only what you need: long output is cut. A call that \
the user refuses raises ApprovalRejectedError: do not retry, ask the user.
`.trim();

/** Adds `execute_ipython_cell`. */
export function registerExecute(
  server: SdkMcpServer,
  session: Session,
  { declare, tasks }: {
    readonly declare: DeclareInput;
    /** How clients that take tasks find them; without it there are none. */
    readonly tasks: TaskServerOptions | undefined;
  },
): void {
  server.registerTool("execute_ipython_cell", {
    title: "Execute Python code",
    description: [DESCRIPTION, ...filesNote(session)].join("\n\n"),
    inputSchema: declare(() =>
      z.object({
        code: z.string().describe("Python code"),
        timeout: z.number().positive().default(120)
          .describe("Seconds without approvals (default 120)"),
        max_output_chars: z.number().int().positive().default(5000)
          .describe("Default 5000; longer output is cut"),
        wait_seconds: z.number().positive().optional()
          .describe("Answer by then, ended or not"),
      })
    ),
    ...session.answers.declare(cellReportSchema),
    annotations: {
      readOnlyHint: false,
      destructiveHint: true,
      idempotentHint: false,
      openWorldHint: true,
    },
  }, async ({ code, timeout, max_output_chars: limit, wait_seconds: wait }, ctx) => {
    const begin = (work: Preparation) => {
      const patience = { limit, waitMs: wait === undefined ? undefined : wait * 1000 };
      return session.startCell(() => work.kernel(), { code, timeoutMs: timeout * 1000, patience });
    };
    // Who says how long it waits wants an answer by then.
    const taken = wait === undefined ? tasks : undefined;
    return await follow(begin, { session, server, ctx, isLeft: false, tasks: taken });
  });
}

/** Adds `wait_for_cell`. */
export function registerWait(server: SdkMcpServer, session: Session, declare: DeclareInput): void {
  server.registerTool("wait_for_cell", {
    title: "Wait for a cell",
    description: "Waits for a cell that execute_ipython_cell left running",
    inputSchema: declare(() => z.object({ cell: z.string().describe("Its ID") })),
    ...session.answers.declare(cellReportSchema),
    annotations: { readOnlyHint: true, openWorldHint: false },
  }, async ({ cell }, ctx) => {
    const find = async (work: Preparation) => {
      await work.kernel();
      return session.leftCell(cell);
    };
    return await follow(find, { session, server, ctx, isLeft: true });
  });
}

/** A request for a cell's result. */
interface CellRequest {
  readonly session: Session;
  readonly server: SdkMcpServer;
  readonly ctx: ServerContext;
  /** Whether the cell goes on when the request is cancelled. */
  readonly isLeft: boolean;
  /** How its client finds it as a task, where it takes one. */
  readonly tasks?: TaskServerOptions | undefined;
}

/** Waits for a cell, as long as its client does, and has the user asked what it asks. */
async function follow(
  find: (work: Preparation) => Promise<CellRun>,
  { session, server, ctx, isLeft, tasks: offered }: CellRequest,
): Promise<CallToolResult | InputRequiredResult> {
  try {
    const { rounds, log } = session;
    const work = new Preparation(session);
    const can = abilitiesOf(server, ctx);
    const tasks = can.tasks ? offered : undefined;
    const leave = (run: CellRun, request: PersonRequest) => session.leaveToPage(run, request);
    using progress = RequestProgress.of(work, ctx, log);
    const run = await rounds.resume(ctx, leave) ?? await find(work);
    progress.follow(run);
    const { limit, waitMs } = run.patience;
    using deadline = new Deadline(tasks === undefined ? waitMs : TASK_AFTER_MS);
    using _cancelling = isLeft ? undefined : run.cancelledBy(ctx.mcpReq.signal);
    const patience = anySignal(deadline.signal, isLeft ? ctx.mcpReq.signal : undefined);
    for (;;) {
      const step = await run.next(patience);
      switch (step.type) {
        case "ended":
          return await reportCell(step.outcome, session, limit);
        case "running":
          if (tasks !== undefined) return reportTask(run, session, tasks);
          session.leaveCell(run);
          return reportRunning(run, session);
        case "waiting": {
          const { page } = await session.parts; // long there
          const by = { can, page, prefersPage: session.prefersPage };
          const { approvals, questions } = leaveUnaskable(run, step.waiting, by);
          if (approvals.length + questions.length === 0) continue;
          if (tasks !== undefined) return reportTask(run, session, tasks);
          progress.keep();
          return await rounds.ask(run, { approvals, questions }, { ctx, isLeft });
        }
      }
    }
  } catch (error) {
    return explained(error);
  }
}

const outputSchema = () => z.object({ state: z.literal("lost"), servers: z.array(z.string()) });

const RESET_DESCRIPTION = `
Restarts the kernel and cancels a running cell. Variables, imports and background processes \
are lost; files, packages and registered servers are kept.
`.trim();

/** Adds `reset`. */
export function registerReset(server: SdkMcpServer, session: Session, declare: DeclareInput): void {
  server.registerTool("reset", {
    title: "Reset the kernel",
    description: RESET_DESCRIPTION,
    inputSchema: declare(() => z.object({})),
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
