import { join, resolve } from "node:path";
import type { z } from "zod";
import { ToolIndex, type ToolMatches } from "../apigen/search.ts";
import type { AuditLog, AuditLogOptions } from "../approval/audit/log.ts";
import type { CallObserver } from "../approval/observed_call.ts";
import type { ApprovalMode, ApprovalPolicy } from "../approval/policy.ts";
import { EnvironmentNotReadyError, SessionEndedError, SessionTakenError } from "../base/errors.ts";
import { type Logger, stderrLogger } from "../base/log.ts";
import { Semaphore } from "../base/mutex.ts";
import type { CodeExecutor } from "../executor/code_executor.ts";
import type { DurableOptions, NotedOptions } from "../executor/durable.ts";
import type { CodeExecutorOptions } from "../executor/options.ts";
import { ArtifactFolder } from "../files/artifact_folder.ts";
import type { FarWorkspace } from "../kernel/far_workspace.ts";
import { bindsWorkspace } from "../placement/carrier.ts";
import type { PythonEnvironment } from "../python/environment.ts";
import { ServerRegistry } from "../servers/registry.ts";
import { ApprovalRounds } from "./approvals.ts";
import { CellRun, type Patience } from "./cell_run.ts";
import { type Artifact, Artifacts } from "./images.ts";
import type { WaitingRequest } from "../approval/page/desk.ts";
import type { PersonRequest } from "../approval/wire.ts";
import type { PageAsker } from "./page_asker.ts";
import { shownActivity } from "./request_progress.ts";
import type { CallToolResult, ContentBlock } from "./sdk.ts";
import { CellTasks } from "./tasks.ts";

/** What the tools of one MCP session work with. */
export interface SessionParts {
  readonly executor: CodeExecutor;
  /** Asks the user where the client cannot. */
  readonly page: PageAsker;
  /** Where the whole output of cells goes: where images go too. */
  readonly outputs: ArtifactFolder;
}

/** What of a session's parts can be there before its client. */
interface PreparedParts extends Pick<SessionParts, "executor" | "outputs"> {
  /** What ends with them. */
  readonly stack: AsyncDisposableStack;
}

/**
 * What becomes of changes that a client asks for: registering and removing servers, installing from a
 * repository. Where the setup is `"fixed"`, clients are not offered what would change it.
 */
export type ChangeMode = ApprovalMode | "fixed";

/** Options of `McpServer.serveStdio()`. */
export interface McpServerOptions
  extends
    Omit<CodeExecutorOptions, "approval" | "audit" | "durable" | "requireShellEscape" | "signal"> {
  /**
   * Whether calls and changes are noted in the workspace's audit log, `.ipybox/audit.jsonl`.
   *
   * @default {true}
   */
  audit?: boolean;
  /**
   * What becomes of tool calls and requests for resources that code makes, and of changes that the
   * client asks for, such as server registrations: the client's user is asked by MCP elicitation, or on the approval
   * page where the client has none, or all are allowed or denied.
   *
   * @default {"ask"}
   */
  approve?: ApprovalMode;
  /**
   * What becomes of shell commands, such as `!ls`.
   *
   * @default {"allow"}
   */
  approveShell?: ApprovalMode;
  /**
   * Which calls are allowed, need approval or are denied. It does not decide on registrations.
   *
   * @default {undefined} `approve` and `approveShell` count for all calls
   */
  policy?: ApprovalPolicy;
  /**
   * Has the session outlive this process: the next server of the workspace with this name continues it.
   * Disposing the server leaves it running. Where another program attaches to it, this server's tools fail.
   *
   * @default {undefined} the session ends with this process, however that ends
   */
  durable?: DurableOptions & { readonly name: string };
  /**
   * Whether the approval page is asked, its link being shown at the start, even where the client can
   * ask its user.
   *
   * @default {false} only where the client cannot ask
   */
  page?: boolean;
  /**
   * Whether tools also return their results as structured content, for programs. Clients of models often
   * show that instead of text and images.
   *
   * @default {false} the text alone
   */
  structured?: boolean;
  /** The version that clients receive. */
  version?: string;
}

/** Options of {@linkcode Session}. */
export interface SessionOptions extends McpServerOptions {
  durable?: NotedOptions & { readonly name: string };
  /** Whether the durable session has run before, for another process: its workspace is as that left it. */
  continues?: boolean;
  /** Called when somebody has ended the durable session; without it, another one takes its place. */
  onEnded?: () => void;
  /** Whether clients are not offered what would change the setup. */
  fixed?: boolean;
  /** What this session is called in the log, where a server has several. */
  label?: string;
  /** The audit log that is written to in place of the workspace's own. */
  auditLog?: Pick<AuditLogOptions, "workspace" | "session">;
  /** Puts files into the workspace, before the kernel starts. It is done once, whole or not at all. */
  fill?: (signal: AbortSignal) => Promise<void>;
}

/**
 * One MCP session: its kernel, which starts with {@linkcode begin} or when it is needed, and all that its client has to do with.
 * Disposing it ends the kernel.
 *
 * What only runs once the kernel starts is loaded then, as clients need not wait for it.
 *
 * A start that failed is tried again by the next call that needs the kernel: its error says what the
 * user can do, and who has done it need not restart the client.
 */
export class Session implements AsyncDisposable {
  /** The cells that wait for the client's user. */
  readonly rounds: ApprovalRounds = new ApprovalRounds();
  /** The cells that its client looks for as tasks. */
  readonly tasks: CellTasks = new CellTasks(this);
  /** The form in which tools answer. */
  readonly answers: Answers;
  /** The files that cells have left. */
  readonly artifacts: Artifacts;
  /** What becomes of changes that the client asks for. */
  readonly changes: ChangeMode;
  /** Whether the approval page is asked even where the client can ask. */
  readonly prefersPage: boolean;
  readonly log: Logger;
  readonly #cells = new CellPlaces();
  readonly #options: SessionOptions;
  readonly #closing = new AbortController();
  readonly #listeners = new Set<() => void | Promise<void>>();
  #starting: string | undefined;
  #filled: Promise<void> | undefined;
  #lastCell: CellRun | undefined;
  #left: readonly CellRun[] = [];
  readonly #underWay = new Set<CellRun>();
  /** What the client is to be told of the session, with the next cell. */
  readonly #news: string[] = [];
  /** Whether the session has run here before. */
  #hasRun: boolean;
  /** Whether the durable session ends when this one is disposed of. */
  #ends = false;
  #disposing: Promise<void> | undefined;
  #closingLost: Promise<void> | undefined;
  /** The executor that was started before anybody needed it. */
  #prepared: Promise<PreparedParts> | undefined;
  /** What ends with it, once it has started. */
  #running: AsyncDisposable | undefined;
  #workspace: Promise<string> | undefined;
  #index: ToolIndex | undefined;
  #parts: Promise<SessionParts> | undefined;
  #audit: Promise<AuditLog> | undefined;

  constructor(options: SessionOptions) {
    this.#options = options;
    this.#hasRun = options.continues ?? false;
    this.changes = options.fixed ? "fixed" : options.approve ?? "ask";
    this.prefersPage = options.page ?? false;
    this.answers = new Answers(options.structured ?? false);
    this.log = options.log ?? stderrLogger();
    this.artifacts = new Artifacts();
  }

  /** Starts the kernel in the background, before anybody needs it. */
  begin(): void {
    this.parts.catch((error: unknown) => {
      if (!this.#closing.signal.aborted) this.log.error(`Cannot start the kernel: ${error}`);
    });
  }

  /** Starts the kernel for a client that is yet to come. What tells the user of the session waits. */
  async prepare(): Promise<void> {
    await (this.#prepared ??= this.#prepare());
  }

  /** Whether the kernel that {@linkcode prepare} started can run code. */
  async isReady(): Promise<boolean> {
    return await (await this.#prepared)?.executor.isReady() ?? false;
  }

  /** What it does, for the pages of other sessions. */
  get state(): "starting" | "running" | "idle" {
    if (this.#starting !== undefined) return "starting";
    return this.#underWay.size > 0 ? "running" : "idle";
  }

  /** What waits for a decision of the user. */
  async waiting(): Promise<readonly WaitingRequest[]> {
    if (this.#running === undefined) return [];
    const parts = await this.#parts?.catch(() => undefined); // another program has the session
    return parts?.executor.page.waiting ?? [];
  }

  /** What is done before the kernel runs code, in one line; `undefined` once it does. */
  get starting(): string | undefined {
    return this.#starting;
  }

  /** The running kernel and its packages. */
  get parts(): Promise<SessionParts> {
    this.#parts ??= this.#start().catch((error: unknown) => {
      this.#parts = undefined;
      throw error;
    }).finally(() => this.#starting = undefined);
    return this.#parts;
  }

  /** The observers that note changes in the audit log, like the calls of executed code. */
  async observers(): Promise<readonly CallObserver[]> {
    const log = await this.#auditLog();
    if (log === false) return [];
    const { AuditTrail } = await import("../approval/audit/trail.ts");
    return [new AuditTrail(log)];
  }

  /** The workspace, as an absolute path without symbolic links. */
  get workspace(): Promise<string> {
    return this.#workspace ??= Deno.realPath(this.#options.workspace ?? Deno.cwd());
  }

  /** The folder that code can read besides the workspace, if there is one. */
  get project(): string | undefined {
    const { sandbox } = this.#options;
    return typeof sandbox === "object" ? sandbox.project : undefined;
  }

  /** Whether the workspace starts with copies of the user's files. */
  get isFilled(): boolean {
    return this.#options.fill !== undefined;
  }

  /** Resolves when the workspace has the files that it starts with. */
  get filled(): Promise<void> {
    return this.#filled ??= this.#fill().catch((error: unknown) => {
      this.#filled = undefined;
      throw error;
    });
  }

  /** The folder of the generated Python APIs. */
  async mcptools(): Promise<string> {
    return join(await this.workspace, "mcptools");
  }

  /** The names of the registered servers, sorted. Needs no kernel. */
  async servers(): Promise<string[]> {
    const { servers } = this.#options;
    return (await ServerRegistry.open({ workspace: await this.workspace, servers })).names;
  }

  /** Searches the tools of registered servers. */
  async searchTools(query: string, servers?: readonly string[]): Promise<ToolMatches> {
    this.#index ??= new ToolIndex(await this.mcptools());
    return await this.#index.search(query, servers ?? await this.servers());
  }

  /** Starts a cell, after those that were started before. */
  async startCell(
    kernel: () => Promise<SessionParts>,
    { code, timeoutMs, patience }: {
      readonly code: string;
      readonly timeoutMs: number;
      readonly patience: Patience;
    },
  ): Promise<CellRun> {
    const place = this.#cells.admit(code);
    try {
      const { executor } = await kernel();
      this.rounds.newcomer(code);
      this.tasks.newcomer();
      const news = this.#news.splice(0);
      const busy = this.#left.find(({ isOver }) => !isOver);
      if (busy !== undefined) {
        const why = `Not run: cell ${busy.id} has not ended (${shownActivity(busy)}). ` +
          "Call wait_for_cell with its ID first, or reset";
        throw new Error([...news, why].join("\n"));
      }
      const after = this.#lastCell;
      const cell = this.#follow(
        new CellRun(executor, code, { timeoutMs, patience, after, news }),
      );
      cell.ended.then(() => place[Symbol.dispose]());
      return this.#lastCell = cell;
    } catch (error) {
      place[Symbol.dispose]();
      throw error;
    }
  }

  /** The client goes. Where the session outlives it, so do its cells. */
  leave(): void {
    if (this.#name !== undefined) { for (const cell of this.#underWay) cell.release(); }
  }

  /** Nobody needs the session any more. It ends when it is disposed of, also where it is durable. */
  end(): void {
    this.#ends = true;
  }

  #follow(cell: CellRun): CellRun {
    this.#underWay.add(cell);
    cell.ended.then(() => this.#underWay.delete(cell));
    return cell;
  }

  /** Keeps a cell that its client does not wait for any longer. */
  leaveCell(cell: CellRun): void {
    if (this.#left.includes(cell)) return;
    const old = this.#left.filter(({ isOver }) => isOver).slice(0, 1 - MAX_LEFT);
    this.#left = [...this.#left.filter((left) => !old.includes(left)), cell];
  }

  /** A cell that was left. */
  leftCell(id: string): CellRun {
    const cell = [...this.#left, ...this.tasks.runs].find((left) => left.id === id);
    if (cell !== undefined) return cell;
    throw new Error(
      `There is no cell "${id.slice(0, 100)}": none was left with this ID, or long ago`,
    );
  }

  /** Finds a cell by its execution, also one that goes on from the session's host before. */
  async runOf(execution: string): Promise<CellRun | undefined> {
    if (this.#name !== undefined) await this.parts;
    return [...this.#underWay, ...this.#left].find((run) => run.execution === execution);
  }

  /** Leaves what a cell waits for, and of which the client has asked nobody, to the approval page. */
  leaveToPage(run: CellRun, request: PersonRequest): void {
    run.leave(request, this.parts.then(({ page }) => page.decide(request, true)));
  }

  /** Makes a cell's whole text a resource. */
  async saveOutput(whole: string | { readonly text: string }): Promise<Artifact | undefined> {
    try {
      const { outputs } = await this.parts;
      const path = typeof whole === "string"
        ? whole
        : outputs.write("txt", new TextEncoder().encode(whole.text));
      return this.artifacts.add("outputs", path, "Full output of a cell");
    } catch (error) {
      this.log.warn(`Cannot save the full output of a cell: ${error}`);
      return undefined;
    }
  }

  /** The files that code works with, where those are not in the session's folder on this machine. */
  async farWorkspace(): Promise<FarWorkspace | undefined> {
    const { placement } = this.#options;
    if (placement === undefined || bindsWorkspace(placement)) return undefined;
    return (await this.parts).executor.farWorkspace;
  }

  /** Calls back whenever there are other servers, until disposed. */
  onServersChanged(listener: () => void | Promise<void>): Disposable {
    this.#listeners.add(listener);
    return { [Symbol.dispose]: () => void this.#listeners.delete(listener) };
  }

  /** Announces that the servers, and so the resources, have changed. */
  async serversChanged(): Promise<void> {
    await Promise.all([...this.#listeners].map((listener) => listener()));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await (this.#disposing ??= this.#dispose());
  }

  async #dispose(): Promise<void> {
    this.#closing.abort(new DOMException("The session was closed", "AbortError"));
    this.rounds[Symbol.dispose]();
    this.tasks[Symbol.dispose]();
    await this.#filled?.catch(() => {}); // it ends now; its callers got the error
    await this.#parts?.catch(() => {}); // its callers got the error
    await (await this.#prepared?.catch(() => undefined))?.stack[Symbol.asyncDispose]();
    await this.#running?.[Symbol.asyncDispose]();
    await this.#closingLost;
    const audit = await this.#audit?.catch(() => undefined); // its callers got the error
    await audit?.[Symbol.asyncDispose]();
  }

  async #auditLog(): Promise<AuditLog | false> {
    if (this.#options.audit === false) return false;
    return await (this.#audit ??= this.#openAudit());
  }

  async #openAudit(): Promise<AuditLog> {
    const { auditLog = { workspace: await this.workspace }, policy } = this.#options;
    const { AuditLog } = await import("../approval/audit/log.ts");
    return new AuditLog({ ...auditLog, redact: policy?.redact, log: this.log });
  }

  async #fill(): Promise<void> {
    const { fill, continues } = this.#options;
    if (fill === undefined || continues) return;
    this.#closing.signal.throwIfAborted();
    await fill(this.#closing.signal);
  }

  async #start(): Promise<SessionParts> {
    const prepared = this.#prepared ?? this.#prepare();
    this.#prepared = undefined;
    const { executor, outputs, stack } = await prepared;
    await using parts = stack;
    const { announceSession } = await import("./running_sessions.ts");
    const { PageAsker } = await import("./page_asker.ts");
    const workspace = await this.workspace;
    const { label = "" } = this.#options;
    parts.use(await announceSession({ workspace, label, ...doorOf(executor) }));
    const page = new PageAsker({ page: executor.page, label, workspace, log: this.log });
    if (this.prefersPage) page.invite();
    const { sessionEnded } = executor;
    const running = this.#running = parts.move();
    const lose = () => this.#lose(sessionEnded?.reason, running);
    if (sessionEnded?.aborted) lose();
    sessionEnded?.addEventListener("abort", lose, { once: true });
    return { executor, outputs, page };
  }

  async #prepare(): Promise<PreparedParts> {
    const { signal } = this.#closing;
    signal.throwIfAborted();
    if (this.isFilled) this.#starting = "Copying the files of the workspace";
    await this.filled;
    this.#starting = "Starting the kernel";
    const workspace = await this.workspace;
    const { placement } = this.#options;
    const python = placement === undefined
      ? (await this.#python()).executable
      : this.#options.python;
    this.#starting = "Starting the kernel";
    const { imagesDir = "images", approve = "ask", approveShell = "allow", policy } = this.#options;
    const outputs = new ArtifactFolder(resolve(workspace, imagesDir)); // before any code has run
    const { prepareSessionsFolder } = await import("./running_sessions.ts");
    await prepareSessionsFolder();
    await using stack = new AsyncDisposableStack();
    const executor = await this.#open(stack, {
      ...this.#options,
      approval: policy ?? { tools: approve, resources: approve, shell: approveShell },
      audit: await this.#auditLog(),
      workspace,
      python,
      signal,
    });
    return { executor, outputs, stack: stack.move() };
  }

  /** Starts the kernel, or finds that of the durable session, which goes on when the parts are disposed of. */
  async #open(
    parts: AsyncDisposableStack,
    options: CodeExecutorOptions & { readonly workspace: string },
  ): Promise<CodeExecutor> {
    const name = this.#name;
    if (name === undefined) {
      const { CodeExecutor } = await import("../executor/code_executor.ts");
      return parts.use(await CodeExecutor.start(options));
    }
    const { startNamed } = await import("../executor/named.ts");
    const { executor, before } = await startNamed(name, { ...options, replacesLost: true });
    parts.defer(() => this.#ends ? executor[Symbol.asyncDispose]() : executor.detach());
    const { unfinished, unfinishedId: resumes } = executor;
    if (before === "lost" || (before === "nothing" && this.#hasRun)) {
      this.#news.push(
        `[Session ${name} was lost: this is a new one, without its variables]`,
      );
    } else if (before === "itself") {
      this.#news.push(`[Session ${name} continues: its variables are still there]`);
    }
    if (unfinished !== undefined) {
      const cell = this.#follow(new CellRun(executor, unfinished, { resumes }));
      this.leaveCell(cell);
      this.#news.push(`[An earlier cell has ID ${cell.id}: wait_for_cell returns its result]`);
    }
    this.#hasRun = true;
    return executor;
  }

  /** The durable session is over, or another program has it. */
  #lose(reason: unknown, running: AsyncDisposable): void {
    if (this.#closing.signal.aborted || this.#running !== running) return;
    if (reason instanceof SessionTakenError) {
      const taken = reason.message + ", or restart this MCP server";
      this.log.warn(taken);
      this.#parts = Promise.reject(new Error(taken, { cause: reason }));
      this.#parts.catch(() => {}); // whoever needs it gets it
      return;
    }
    if (reason instanceof SessionEndedError) this.#options.onEnded?.();
    // The next call that needs a kernel begins another session, unless this one was closed.
    this.#parts = undefined;
    this.#running = undefined;
    this.#closingLost = Promise.resolve(running[Symbol.asyncDispose]()).catch((error: unknown) => {
      this.log.debug(`A session that was lost did not close cleanly: ${error}`);
    });
  }

  /** The name of the durable session that it is, if it is one. */
  get #name(): string | undefined {
    return this.#options.durable?.name;
  }

  /** The Python that runs the kernel; the managed one is built where it is missing. */
  async #python(): Promise<PythonEnvironment> {
    const { python } = this.#options;
    const { buildPythonEnvironment, findPython } = await import("../python/environment.ts");
    try {
      return await findPython({ python, workspace: await this.workspace, log: this.log });
    } catch (error) {
      const named = python ?? (Deno.env.get("IPYBOX_PYTHON") || undefined);
      if (!(error instanceof EnvironmentNotReadyError) || named !== undefined) throw error;
      return await buildPythonEnvironment({
        onProgress: (line) => {
          this.#starting = `Setting up Python: ${line}`;
          this.log.warn(line);
        },
        signal: this.#closing.signal,
      });
    }
  }
}

function doorOf({ applicationDoor: { url, token } }: CodeExecutor): { url: string; token: string } {
  return { url: url.href, token };
}

/** How many cells that were left and have ended are kept with their results. */
const MAX_LEFT = 4;

/** How many cells of a session may run or wait for their turn, and how long their code may be together. */
const MAX_CELLS = 32;
const MAX_CODE = 16 * 2 ** 20;

/** A session has as many cells under way as it may have. */
class TooManyCellsError extends Error {
  override readonly name: string = "TooManyCellsError";
}

/**
 * The places for a session's cells that have not ended. A client that asks for more than it waits for
 * is refused, as each waiting cell takes memory, even when its client has gone.
 */
class CellPlaces {
  readonly #cells = new Semaphore(MAX_CELLS);
  readonly #code = new Semaphore(MAX_CODE);

  /** Takes a place. */
  admit(code: string): Disposable {
    using taken = new DisposableStack();
    if (taken.use(this.#cells.tryAcquire()) === undefined) throw refusal(`${MAX_CELLS} cells`);
    if (taken.use(this.#code.tryAcquire(code.length)) === undefined) {
      throw refusal("Cells with much code");
    }
    return taken.move();
  }
}

function refusal(what: string): TooManyCellsError {
  return new TooManyCellsError(
    `${what} are already running or queued in this session: wait for their results, then run this one`,
  );
}

/** What a tool has to say. */
interface Answer<Report> {
  /** For the model. */
  readonly text: string;
  readonly images?: readonly ContentBlock[];
  /** The same for programs. */
  readonly report: Report;
  /** Whether the tool could not do what it was asked for. */
  readonly isError?: boolean;
}

/** How tools declare what they give. */
type Declared<Report> = { outputSchema?: z.ZodType<Report> };

/**
 * The form in which tools answer: one text, then images, which is what every client shows its model.
 *
 * Structured content is sent only on request: clients that know it show it instead of the text and the
 * images, or in addition to them, and send output schemas to the model with every request. Some also
 * show `_meta`. Links to resources are not sent at all: some clients read them into the context, or
 * break.
 */
class Answers {
  readonly #structured: boolean;

  /** @param structured Whether the report is sent as structured content, too. */
  constructor(structured: boolean) {
    this.#structured = structured;
  }

  /** The part of a tool's definition that says what its reports are like. */
  declare<Report>(outputSchema: z.ZodType<Report>): Declared<Report> {
    return this.#structured ? { outputSchema } : {};
  }

  /** Makes the result of a tool call. */
  of<Report extends object>(
    { text, images = [], report, isError = false }: Answer<Report>,
  ): CallToolResult {
    return {
      content: [{ type: "text", text }, ...images],
      ...(this.#structured ? { structuredContent: { ...report } } : {}),
      ...(isError ? { isError } : {}),
    };
  }
}
