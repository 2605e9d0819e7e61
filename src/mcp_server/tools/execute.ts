import { z } from "zod";
import { Deadline } from "../../base/deadline.ts";
import { anySignal, onAbort } from "../../base/signals.ts";
import { reportCell, reportRunning } from "../cell_report.ts";
import type { CellRun } from "../cell_run.ts";
import { abilitiesOf } from "../client_abilities.ts";
import { success } from "../failure.ts";
import { filesNote } from "../instructions.ts";
import type { Preparation } from "../request_progress.ts";
import type { CallToolResult, InputRequiredResult } from "../sdk.ts";
import { reportTask, TASK_AFTER_MS } from "../tasks.ts";
import { addTool, type ToolHost, type ToolRequest } from "../tool.ts";

const DESCRIPTION = `
Runs Python in a stateful, sandboxed IPython kernel; returns its output, last value and images.

Top-level \`await\`, magics and \`!commands\` work, \`input()\` does not. Code can reach \
the outside only through tools of registered MCP servers; find them with search_tools:

  from mcptools.github import search_repositories
  print(search_repositories.run(query="ipybox").items[0].full_name)

Chain calls in one cell, keep results in variables, print only what you need: long output is cut. A call that \
the user refuses raises ApprovalRejectedError: do not retry, ask the user.
`.trim();

/** Adds `execute_ipython_cell`. Without a prefix, no client gets a task. */
export function registerExecute(host: ToolHost, taskPrefix: string | undefined): void {
  addTool(host, "execute_ipython_cell", {
    title: "Execute Python code",
    description: [DESCRIPTION, ...filesNote(host.session)].join("\n\n"),
    input: () =>
      z.object({
        code: z.string().describe("Python code"),
        timeout: z.number().positive().default(120)
          .describe("Seconds without approvals (default 120)"),
        max_output_chars: z.number().int().positive().default(5000)
          .describe("Default 5000; longer output is cut"),
        wait_seconds: z.number().positive().optional()
          .describe("Answer by then, even if unfinished"),
      }),
    hints: ["destructive", "openWorld"],
  }, async ({ code, timeout, max_output_chars: limit, wait_seconds: wait }, request) => {
    const begin = (work: Preparation) => {
      const patience = { limit, waitMs: wait === undefined ? undefined : wait * 1000 };
      const options = { code, timeoutMs: timeout * 1000, patience };
      return request.session.startCell(() => work.kernel(), options);
    };
    // A client that says how long it waits wants a result by then.
    const offered = wait === undefined ? taskPrefix : undefined;
    return await follow(begin, request, { isLeft: false, taskPrefix: offered });
  });
}

export function registerWait(host: ToolHost): void {
  addTool(host, "wait_for_cell", {
    title: "Wait for a cell",
    description: "Waits for a cell that execute_ipython_cell left running",
    input: () => z.object({ cell: z.string().describe("Its ID") }),
    hints: ["readOnly"],
  }, async ({ cell }, request) => {
    const find = async (work: Preparation) => {
      await work.kernel();
      return request.session.parkedCell(cell);
    };
    return await follow(find, request, { isLeft: true });
  });
}

/** How a cell is followed. */
interface FollowOptions {
  /** Whether the cell continues when the request is cancelled. */
  readonly isLeft: boolean;
  /** The prefix of its task id, if the client may get a task. */
  readonly taskPrefix?: string | undefined;
}

/** Waits for a cell as long as its client does, and passes its questions to the user. */
async function follow(
  find: (work: Preparation) => Promise<CellRun>,
  { session, server, ctx, work, progress }: ToolRequest,
  { isLeft, taskPrefix: offered }: FollowOptions,
): Promise<CallToolResult | InputRequiredResult> {
  const { rounds } = session;
  const can = abilitiesOf(server, ctx, session);
  const prefix = can.tasks ? offered : undefined;
  const run = await rounds.resume(ctx) ?? await find(work);
  progress.follow(run);
  const { limit, waitMs } = run.patience;
  using deadline = new Deadline(prefix === undefined ? waitMs : TASK_AFTER_MS);
  const { signal } = ctx.mcpReq;
  using _cancelling = onAbort(isLeft ? undefined : signal, () => run.cancel());
  const patience = anySignal(deadline.signal, isLeft ? signal : undefined);
  const step = await run.next(patience, can);
  switch (step.type) {
    case "ended":
      return await reportCell(step.outcome, session, limit);
    case "running":
      if (prefix !== undefined) return reportTask(run, session, prefix);
      session.park(run);
      return reportRunning(run);
    case "waiting":
      if (prefix !== undefined) return reportTask(run, session, prefix);
      progress.keep();
      return await rounds.ask(run, step.requests, { ctx, isLeft });
  }
}

const RESET_DESCRIPTION = `
Restarts the kernel and cancels a running cell. Variables, imports and background processes \
are lost; files, packages and registered servers are kept.
`.trim();

export function registerReset(host: ToolHost): void {
  addTool(host, "reset", {
    title: "Reset the kernel",
    description: RESET_DESCRIPTION,
    input: () => z.object({}),
    activity: "Resetting the kernel",
    hints: ["destructive", "idempotent"],
  }, async (_args, { session, work }) => {
    const { executor } = await work.kernel();
    await executor.reset();
    session.startOver();
    return success(
      "The kernel was reset: variables, imports and background processes are gone; " +
        "workspace files, packages and registered servers are kept",
    );
  });
}
