import { visible } from "../approval/call_text.ts";
import { ElicitationRequest } from "../approval/questions.ts";
import type { PersonRequest } from "../approval/wire.ts";
import type { ApprovalRequest, RememberScope } from "../approval/request.ts";
import type { KernelState } from "../base/errors.ts";
import { onAbort } from "../base/signals.ts";
import type { CodeExecutor } from "../executor/code_executor.ts";
import type { ExecutionResult } from "../kernel/outputs.ts";
import type { ElicitationAnswer } from "../mcp/questions.ts";
import { CallRecords } from "./call_records.ts";
import type { ClientAbilities } from "./client_abilities.ts";
import type { PageAsker } from "./page_asker.ts";

const MAX_MESSAGE = 200;

/** Work that a client waits for. */
export interface Work {
  /** The current step, in one line. */
  readonly activity: string;
}

/** The current step, shortened and without hidden characters. */
export function shownActivity({ activity }: Work): string {
  return visible(activity.slice(0, MAX_MESSAGE)).slice(0, MAX_MESSAGE).toWellFormed();
}

/** A cell's next event: it waits for a person, runs beyond the given time, or ends. */
type CellStep =
  | { readonly type: "waiting"; readonly requests: readonly PersonRequest[] }
  | { readonly type: "running" }
  | { readonly type: "ended"; readonly outcome: CellOutcome };

export interface CellOutcome {
  /** Its result, or why it failed. */
  readonly end: { readonly result: ExecutionResult } | { readonly error: unknown };
  /** Whether it was cancelled, by its client or by a reset. */
  readonly cancelled: boolean;
  readonly calls: CallRecords;
  /** Notes for the agent, such as changed tools of a server. */
  readonly notes: readonly string[];
  /** The last output, for a cell without a result. */
  readonly lastText: string;
  /** When it ended, in milliseconds since 1970. */
  readonly endedAt: number;
  readonly state: KernelState;
}

/** A decision on a call: allow it once, allow such calls for a scope, or deny it. */
export type CellDecision = "once" | "deny" | RememberScope;

/** How a client waits for a cell. */
export interface Patience {
  /** How many characters of output the client accepts. */
  readonly limit: number;
  /** How long a request waits for the end of the cell, in milliseconds; `undefined` for no limit. */
  readonly waitMs: number | undefined;
}

/** The parts of its session that a cell uses. */
export interface CellParts {
  readonly executor: CodeExecutor;
  /** Asks the user if the client cannot. */
  readonly page: PageAsker;
}

export interface CellRunOptions {
  /** How long it may run, not counting approvals and server starts. */
  readonly timeoutMs?: number;
  /** The execution to continue, if a previous host started it. */
  readonly resumes?: string;
  readonly patience?: Patience;
  readonly queue?: CellQueue;
}

/** The cells of a session. */
interface CellQueue {
  /** The running and queued cells, in order. */
  readonly cells: ReadonlySet<CellRun>;
  /** News about the session, for the next cell whose result the client gets. */
  readonly news: string[];
}

/** The news that a kernel was replaced. */
export const LOST =
  "[The kernel was restarted when an earlier cell was cancelled: all variables are lost]";

/** The events that a cell receives in addition to those that every reader of an execution gets. */
const EVENTS = ["chunk", "elicitation", "call_started", "call_ended"] as const;

const ENDLESS: Patience = { limit: 5000, waitMs: undefined };

/** How many characters of a running cell's output are kept. */
const MAX_LAST_TEXT = 10_000;

/**
 * A running cell, which continues while its approvals travel to the client's user and back.
 *
 * In the protocol's newer era each round of approvals is its own request, so a cell outlives
 * the request that started it.
 */
export class CellRun {
  /** The random id of its execution, by which a server that takes over the session finds it. */
  readonly execution: string;
  readonly patience: Patience;
  /** Resolves when it has ended; never rejects. */
  readonly ended: Promise<void>;
  readonly calls: CallRecords = new CallRecords();
  readonly #executor: CodeExecutor;
  readonly #page: PageAsker;
  readonly #notes: string[] = [];
  readonly #cancel = new AbortController();
  /** The requests that wait for the client's user. */
  readonly #waiting = new Set<PersonRequest>();
  /** The number of requests on the approval page. */
  #onPage = 0;
  #code: string;
  readonly #queue: CellQueue;
  #outcome: CellOutcome | undefined;
  #lastText = "";
  #keepsRunning = false;
  #news = Promise.withResolvers<void>();

  constructor({ executor, page }: CellParts, code: string, options: CellRunOptions) {
    const { patience = ENDLESS, queue = { cells: new Set(), news: [] }, resumes } = options;
    this.execution = resumes ?? crypto.randomUUID();
    this.#executor = executor;
    this.#page = page;
    this.#code = code;
    this.patience = patience;
    this.#queue = queue;
    this.ended = this.#run(options).then((end) => {
      forgetOutputs("error" in end ? end.error : end.result);
      const news = this.#takeNews(executor.state, resumes !== undefined);
      this.#code = "";
      this.#outcome = {
        end,
        cancelled: "error" in end && isAbort(end.error),
        calls: this.calls,
        notes: [...news, ...this.#notes],
        lastText: this.#lastText,
        endedAt: Date.now(),
        state: executor.state,
      };
      this.#wake();
    });
  }

  /** A short id, which a model can repeat. */
  get id(): string {
    return this.execution.slice(0, 8);
  }

  /** Its code while it runs. */
  get code(): string {
    return this.#code;
  }

  get isOver(): boolean {
    return this.#outcome !== undefined;
  }

  /** When it ended; `undefined` before. */
  get endedAt(): number | undefined {
    return this.#outcome?.endedAt;
  }

  /** Its current work, in one line. */
  get activity(): string {
    return this.#step ?? (this.#lastLine || "Running");
  }

  /** That it is still running, with its current step or last output. */
  get runningText(): string {
    const activity = this.#step ?? (this.#lastLine && `Last output: ${this.#lastLine}`);
    return `Cell ${this.id} is still running${activity && `. ${shownActivity({ activity })}`}`;
  }

  /** The current step, if it is another one than running the code. */
  get #step(): string | undefined {
    const [before = this] = this.#queue.cells;
    if (before !== this) return `Waiting for another cell: ${before.activity}`;
    if (this.#waiting.size > 0) {
      const isAnswer = this.#waiting.values().every((request) =>
        request instanceof ElicitationRequest
      );
      return `Waiting for the user's ${isAnswer ? "answer" : "approval"}`;
    }
    if (this.#onPage > 0) return "Waiting for the user on the approval page";
    const { running, servers } = this.calls;
    const starting = servers.find((server) => this.#executor.isStarting(server));
    if (starting !== undefined) return `MCP server "${starting}" is starting for ${running}`;
    return running === "" ? undefined : `Calling ${running}`;
  }

  /** The last line of output that is not blank. */
  get #lastLine(): string {
    return this.#lastText.trimEnd().split(/[\r\n]/).at(-1)?.trim() ?? "";
  }

  /**
   * Waits until the client has to ask its user, the cell has ended, or the signal aborts.
   *
   * @param can What the client can ask, by default everything; the rest moves to the approval page.
   */
  async next(patience?: AbortSignal, can?: ClientAbilities): Promise<CellStep> {
    using _end = onAbort(patience, () => this.#wake());
    for (;;) {
      for (const request of this.#waiting) {
        const kind = request instanceof ElicitationRequest ? request.question.kind : "form";
        if (can?.[kind] === false) this.moveToPage(request);
      }
      if (this.#outcome !== undefined) return { type: "ended", outcome: this.#outcome };
      if (this.#waiting.size > 0) return { type: "waiting", requests: [...this.#waiting] };
      if (patience?.aborted) return { type: "running" };
      await this.#news.promise;
    }
  }

  /** Moves a waiting request to the approval page, for example because the client asked nobody. */
  moveToPage(request: PersonRequest, isUnasked = false): void {
    if (!this.#waiting.delete(request)) return;
    this.#onPage++;
    this.#page.decide(request, isUnasked).then((why) => {
      this.#onPage--;
      // Code gets the reason for a refused call; only the server gets the reason for a question.
      if (why === undefined || !(request instanceof ElicitationRequest)) return;
      this.#notes.push(`A question from MCP server "${request.serverName}" was declined: ${why}`);
    });
  }

  async decide(request: ApprovalRequest, decision: CellDecision): Promise<void> {
    if (!this.#waiting.delete(request)) return;
    if (decision === "deny") await request.reject("the user gave no reason");
    else if (decision === "once") await request.accept();
    else {
      const match = request.kind === "tool" ? "tool" : "arguments";
      await request.accept({ remember: { scope: decision, match } });
    }
  }

  answer(request: ElicitationRequest, answer: ElicitationAnswer): void {
    if (!this.#waiting.delete(request)) return;
    try {
      request.answer(answer, "elicitation");
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
      request.answer({ action: "decline" }, "elicitation");
    }
  }

  /** Cancels the cell, unless it must keep running. */
  cancel(): void {
    if (!this.#keepsRunning) this.#cancel.abort();
  }

  /** Lets it continue when its requests end, because its session outlives this process. */
  keepRunning(): void {
    this.#keepsRunning = true;
  }

  /** Makes all waiting callers check again. */
  #wake(): void {
    this.#news.resolve();
    this.#news = Promise.withResolvers();
  }

  /**
   * Takes the session's news for its result. A client that cancels its request does not get them.
   */
  #takeNews(state: KernelState, isResumed: boolean): string[] {
    const { news } = this.#queue;
    const { aborted } = this.#cancel.signal;
    if (state === "lost" && !isResumed) news.length = 0; // it is about variables that are gone
    if (state === "lost" && aborted) news.push(LOST);
    return aborted || isResumed ? [] : news.splice(0);
  }

  async #run({ timeoutMs, resumes }: CellRunOptions): Promise<CellOutcome["end"]> {
    try {
      const { signal } = this.#cancel;
      const common = { timeoutMs, events: EVENTS, signal };
      const stream = resumes === undefined
        ? this.#executor.stream(this.code, { ...common, id: this.execution })
        : this.#executor.resume(common);
      for await (const event of stream) {
        switch (event.type) {
          case "result":
            return { result: event.result };
          case "approval":
          case "elicitation":
            this.#waiting.add(event.request);
            event.request.response.then(() => this.#waiting.delete(event.request));
            this.#wake();
            break;
          case "chunk":
            this.#lastText = (this.#lastText + event.text).slice(-MAX_LAST_TEXT);
            break;
          case "call_started":
          case "call_ended":
            this.calls.take(event);
            break;
          case "note":
            this.#notes.push(event.text);
            break;
          case "input":
          case "progress":
          case "log":
          case "tools_changed":
        }
      }
      throw new DOMException("The cell was cancelled", "AbortError");
    } catch (error) {
      return { error };
    }
  }
}

/** Drops large outputs that are not reported, because a cell may be kept long after its end. */
function forgetOutputs(produced: unknown): void {
  if (typeof produced !== "object" || produced === null || !("outputs" in produced)) return;
  const images = "images" in produced && Array.isArray(produced.images) ? produced.images : [];
  Object.assign(produced, {
    images: images.map(({ path, mimeType }) => ({ path, mimeType })), // without their data
    html: [],
    outputs: [],
  });
}

function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}
