/**
 * The tasks extension of protocol 2026-07-28: clients that declare it get a task instead of the result
 * of a cell that takes long or asks the user, and poll for the result.
 *
 * A task is a view of a cell, whose state is looked up when the client polls.
 */
import { z } from "zod";
import type { PersonRequest } from "../approval/wire.ts";
import { Deadline } from "../base/deadline.ts";
import { ABANDONED_MS, formsOf, takeAnswers } from "./approvals.ts";
import { reportCell, type ReportingSession } from "./cell_report.ts";
import { type CellRun, shownActivity } from "./cell_run.ts";
import { abilitiesOf, TASKS } from "./client_abilities.ts";
import {
  type CallToolResult,
  MissingRequiredClientCapabilityError,
  ProtocolError,
  ProtocolErrorCode,
  type SdkMcpServer,
  type ServerContext,
} from "./sdk.ts";

/** How long a cell runs before its client gets a task. */
export const TASK_AFTER_MS = 5000;
const POLL_MS = 1000;
/** How long the results of ended tasks are kept. */
const KEPT_MS = 10 * 60_000;

interface TaskState {
  readonly taskId: string;
  readonly status: "working" | "input_required" | "completed" | "cancelled";
  readonly statusMessage?: string;
  readonly createdAt: string;
  readonly lastUpdatedAt: string;
  readonly ttlMs: number | null;
  readonly pollIntervalMs: number;
}

/** A cell whose client polls for the result. */
class CellTask implements Disposable {
  readonly run: CellRun;
  readonly #session: TaskSession;
  readonly #createdAt = Date.now();
  /** When the client first received each question. */
  readonly #askedAt = new WeakMap<PersonRequest, number>();
  #updatedAt = this.#createdAt;
  #status: TaskState["status"] = "working";
  #isCancelled = false;
  #abandoning: Deadline | undefined;

  constructor(run: CellRun, session: TaskSession) {
    this.run = run;
    this.#session = session;
  }

  /** The time until which its result is kept; `undefined` before its end. */
  get keptUntil(): number | undefined {
    return this.run.endedAt && this.run.endedAt + KEPT_MS;
  }

  /** The response that replaces the cell's result. */
  get begun(): Omit<TaskState, "taskId"> {
    return this.#state("working", shownActivity(this.run));
  }

  async look(server: SdkMcpServer, ctx: ServerContext): Promise<object> {
    this.#keep();
    const { run } = this;
    const step = await run.next(NO_PATIENCE, abilitiesOf(server, ctx, this.#session));
    switch (step.type) {
      case "running":
        return this.#state("working", shownActivity(run));
      case "ended": {
        if (this.#isCancelled && step.outcome.cancelled) return this.#state("cancelled");
        const result = await reportCell(step.outcome, this.#session, run.patience.limit);
        return { ...this.#state("completed"), result: { resultType: "complete", ...result } };
      }
      case "waiting": {
        const { shown, inputRequests } = formsOf(step.requests);
        for (const request of shown) this.#askedAt.getOrInsert(request, Date.now());
        return { ...this.#state("input_required", shownActivity(run)), inputRequests };
      }
    }
  }

  /** Takes answers to questions that were asked; others are ignored. */
  async answer(given: ServerContext["mcpReq"]["inputResponses"] = {}): Promise<void> {
    this.#keep();
    const step = await this.run.next(NO_PATIENCE);
    const waiting = step.type === "waiting" ? step.requests : [];
    const answered = waiting.filter((request) =>
      this.#askedAt.has(request) && Object.hasOwn(given, request.id)
    );
    const askedAt = Math.max(...answered.map((request) => this.#askedAt.get(request) ?? 0));
    await takeAnswers(this.run, answered, { given, askedAt });
  }

  cancel(): void {
    this.#isCancelled = true;
    this.run.cancel();
  }

  /** Cancels the cell soon if it waits for its client, unless the client polls again. */
  abandon(): void {
    if (this.#abandoning !== undefined || this.run.isOver) return;
    const deadline = this.#abandoning = new Deadline(ABANDONED_MS, {
      onPassed: async () => {
        const { type } = await this.run.next(); // it may not wait yet
        if (type !== "waiting" || this.#abandoning !== deadline) return;
        this.run.cancel();
      },
    });
  }

  [Symbol.dispose](): void {
    this.#keep();
  }

  /** Called when the client polls. */
  #keep(): void {
    this.#abandoning?.[Symbol.dispose]();
    this.#abandoning = undefined;
  }

  #state(status: TaskState["status"], statusMessage?: string): Omit<TaskState, "taskId"> {
    if (status !== this.#status) this.#updatedAt = Date.now();
    this.#status = status;
    return {
      status,
      ...(statusMessage === undefined ? {} : { statusMessage }),
      createdAt: new Date(this.#createdAt).toISOString(),
      lastUpdatedAt: new Date(this.#updatedAt).toISOString(),
      ttlMs: this.keptUntil === undefined ? null : this.keptUntil - this.#createdAt,
      pollIntervalMs: POLL_MS,
    };
  }
}

const NO_PATIENCE = AbortSignal.abort();

/** The parts of a session that tasks need. */
interface TaskSession extends ReportingSession {
  readonly tasks: CellTasks;
  readonly prefersPage: boolean;
  /** The cells that clients ask for again. */
  readonly parked: readonly CellRun[];
  park(run: CellRun): void;
  runOf(execution: string): Promise<CellRun | undefined>;
}

/** The tasks of a session. */
export class CellTasks implements Disposable {
  readonly #session: TaskSession;
  readonly #tasks = new WeakMap<CellRun, CellTask>();

  constructor(session: TaskSession) {
    this.#session = session;
  }

  /** Whether a client polls for a cell. */
  has(run: CellRun): boolean {
    return this.#tasks.has(run);
  }

  of(run: CellRun): CellTask {
    this.#session.park(run);
    return this.#tasks.getOrInsertComputed(run, () => new CellTask(run, this.#session));
  }

  /** Finds a task, including one that a previous host of the session started. */
  async find(execution: string): Promise<CellTask | undefined> {
    const run = await this.#session.runOf(execution);
    const task = run && this.of(run);
    return (task?.keptUntil ?? Infinity) < Date.now() ? undefined : task;
  }

  /** Called when another cell is requested: a cell whose client has gone must not delay it. */
  onNewCell(): void {
    for (const run of this.#session.parked) this.#tasks.get(run)?.abandon();
  }

  [Symbol.dispose](): void {
    for (const run of this.#session.parked) this.#tasks.get(run)?.[Symbol.dispose]();
  }
}

/** Answers with a task instead of a cell's result. Its id begins with the session's prefix. */
export function reportTask(run: CellRun, session: TaskSession, prefix: string): CallToolResult {
  return {
    content: [],
    resultType: "task",
    taskId: prefix + run.execution,
    ...session.tasks.of(run).begun,
  };
}

const idParams = z.object({ taskId: z.string() });

/** Serves the tasks of a session; without a session, none are found. */
export function registerTasks(
  server: SdkMcpServer,
  session: TaskSession | undefined,
  prefix: string = "",
): void {
  const { server: low } = server;
  low.registerCapabilities({ extensions: { [TASKS]: {} } });
  const serve = (
    method: string,
    act: (task: CellTask, ctx: ServerContext, taskId: string) => Promise<object> | object,
  ) =>
    low.setRequestHandler(method, { params: idParams }, async ({ taskId }, ctx) => {
      if (!abilitiesOf(server, ctx).tasks) {
        throw new MissingRequiredClientCapabilityError({
          requiredCapabilities: { extensions: { [TASKS]: {} } },
        });
      }
      const task = taskId.startsWith(prefix)
        ? await session?.tasks.find(taskId.slice(prefix.length))
        : undefined;
      if (task === undefined) {
        const message = `There is no task "${
          taskId.slice(0, 100)
        }": it ended long ago, or the ID is wrong`;
        throw new ProtocolError(ProtocolErrorCode.InvalidParams, message);
      }
      return { ...await act(task, ctx, taskId) };
    });
  serve("tasks/get", async (task, ctx, taskId) => ({ taskId, ...await task.look(server, ctx) }));
  serve("tasks/update", async (task, ctx) => {
    await task.answer(ctx.mcpReq.inputResponses);
    return {};
  });
  serve("tasks/cancel", (task) => {
    task.cancel();
    return {};
  });
}
