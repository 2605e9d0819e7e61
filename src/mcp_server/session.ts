import { basename, join } from "node:path";
import type { ToolIndex, ToolMatches } from "../apigen/search.ts";
import type { AuditLog } from "../approval/audit/log.ts";
import type { CallObserver } from "../approval/observed_call.ts";
import { visible } from "../approval/call_text.ts";
import type { ApprovalPage } from "../approval/page/page.ts";
import type { ApprovalMode, ApprovalPolicy } from "../approval/policy.ts";
import { EnvironmentNotReadyError, SessionEndedError, SessionTakenError } from "../base/errors.ts";
import { type Logger, stderrLogger } from "../base/log.ts";
import { Semaphore } from "../base/mutex.ts";
import type { CodeExecutor } from "../executor/code_executor.ts";
import type { NotedOptions } from "../executor/durable.ts";
import type {
  CodeExecutorOptions,
  DurableOptions,
  OwnExecutorOptions,
  OwnOptions,
} from "../executor/options.ts";
import type { KernelHost } from "../kernel/host.ts";
import type { WorkspaceFiles } from "../place/workspace_files.ts";
import { bindsWorkspace } from "../place/placement.ts";
import type { PythonEnvironment } from "../python/environment.ts";
import { ServerRegistry } from "../servers/registry.ts";
import { ElicitationRounds } from "./approvals.ts";
import { type CellParts, CellRun, type CellRunOptions, LOST, type Patience } from "./cell_run.ts";
import { type Artifact, Artifacts } from "./images.ts";
import { SettingQuestions, type UnacceptedSetting } from "./setting_questions.ts";
import type { PageAsker } from "./page_asker.ts";
import { CellTasks } from "./tasks.ts";

/** The parts that can be started before a client connects. */
interface PreparedParts extends CellParts {
  /** Disposed of with the parts. */
  readonly stack: AsyncDisposableStack;
}

/**
 * How a client's changes are decided; with `"fixed"`, it is not offered tools that make changes.
 */
type ChangeMode = ApprovalMode | "fixed";

/** Options of `McpServer.serveStdio()`. */
export interface McpServerOptions
  extends
    Omit<CodeExecutorOptions, "approval" | "audit" | "durable" | "requireShellEscape" | "signal"> {
  /**
   * Whether calls and changes are recorded in the workspace's audit log.
   *
   * @default {true}
   */
  audit?: boolean;
  /**
   * How tool calls and resource requests of the code are decided, and changes that the client requests,
   * such as server registrations. `"ask"` asks the client's user by MCP elicitation, or on the approval
   * page if the client does not support that.
   *
   * @default {"ask"}
   */
  approve?: ApprovalMode;
  /**
   * How shell commands, such as `!ls`, are decided.
   *
   * @default {"allow"}
   */
  approveShell?: ApprovalMode;
  /**
   * Decides which calls are allowed, need approval or are denied. It does not apply to registrations.
   *
   * @default {undefined} `approve` and `approveShell` apply to all calls
   */
  policy?: ApprovalPolicy;
  /**
   * Lets the session outlive this process: the workspace's next server with this name continues it.
   * Disposing the server leaves the session running. If another program attaches to it, this server's
   * tools fail.
   *
   * @default {undefined} the session ends with this process, even if that is killed
   */
  durable?: DurableOptions & { readonly name: string };
  /**
   * Whether to ask on the approval page even if the client can ask its user. The page's link is shown
   * at the start.
   *
   * @default {false} only if the client cannot ask
   */
  page?: boolean;
  /** The version that clients receive. */
  version?: string;
}

export interface SessionOptions extends McpServerOptions, OwnOptions {
  durable?: NotedOptions & { readonly name: string };
  /** Whether another process has run the durable session before: its workspace already has its files. */
  continues?: boolean;
  /** Called when the durable session was ended from outside. Without it, the next call starts a new one. */
  onEnded?: () => void;
  /** Whether to hide the tools that change the setup. */
  fixed?: boolean;
  /** The session's name in the log, for servers with several. */
  label?: string;
  /** The settings in the workspace, for a session whose client's user may accept them. */
  settings?: SessionSettings;
}

/** The settings that a session reads each time it starts a kernel. */
export interface SessionSettings {
  /** Finds the settings that do not count yet. */
  unaccepted(): Promise<readonly UnacceptedSetting[]>;
  /** Reads the settings that count, and returns the kernel's variables. */
  read(): Promise<CodeExecutorOptions["kernelEnv"]>;
}

/**
 * One MCP session: its kernel, which starts with {@linkcode begin} or when it is needed, and the state
 * of its client. Disposing it ends the kernel.
 *
 * Code that only runs once the kernel starts is imported then, so that clients need not wait for it.
 *
 * If the start fails, the next call that needs the kernel tries again: the error says how to fix it,
 * and the client need not be restarted afterwards.
 */
export class Session implements AsyncDisposable {
  /** The cells that wait for the client's user. */
  readonly rounds: ElicitationRounds = new ElicitationRounds();
  /** The questions that the start of the kernel waits for, if its client's user is asked any. */
  readonly questions: SettingQuestions | undefined;
  /** The cells that the client polls as tasks. */
  readonly tasks: CellTasks = new CellTasks(this);
  /** The files that cells have produced. */
  readonly artifacts: Artifacts;
  /** How changes that the client requests are decided. */
  readonly changes: ChangeMode;
  /** Whether to ask on the approval page even if the client can ask. */
  readonly prefersPage: boolean;
  readonly log: Logger;
  readonly #places = new Semaphore(MAX_CELLS);
  readonly #code = new Semaphore(MAX_CODE);
  readonly #options: SessionOptions;
  readonly #closing = new AbortController();
  readonly #listeners = new Set<() => void | Promise<void>>();
  #starting: string | undefined;
  /** The running and queued cells, in order. */
  readonly #underWay = new Set<CellRun>();
  /** The cells for which the client has stopped waiting, with the results of the last ones. */
  #parked: readonly CellRun[] = [];
  /** News about the session, for the next cell whose result the client gets. */
  readonly #news: string[] = [];
  /** Whether the session has had a kernel before. */
  #hasRun: boolean;
  /** Whether disposing ends the durable session, too. */
  #ends = false;
  #disposing: Promise<void> | undefined;
  #closingLost: Promise<void> | undefined;
  /** The parts that {@linkcode prepare} started. */
  #prepared: Promise<PreparedParts> | undefined;
  /** Disposed of at the end, once the session has started. */
  #running: AsyncDisposable | undefined;
  #workspace: Promise<string> | undefined;
  #index: ToolIndex | undefined;
  #parts: Promise<CellParts> | undefined;
  #audit: Promise<AuditLog> | undefined;

  constructor(options: SessionOptions) {
    this.#options = options;
    this.questions = options.settings && new SettingQuestions();
    this.#hasRun = options.continues ?? false;
    this.changes = options.fixed ? "fixed" : options.approve ?? "ask";
    this.prefersPage = options.page ?? false;
    this.log = options.log ?? stderrLogger();
    this.artifacts = new Artifacts(options.shownPath);
  }

  /** Starts the kernel in the background, before it is needed. */
  begin(): void {
    this.parts.catch((error: unknown) => {
      if (!this.#closing.signal.aborted) this.log.error(`Cannot start the kernel: ${error}`);
    });
  }

  /** Starts the kernel ahead of a client. The session is announced once it has one. */
  async prepare(): Promise<void> {
    await (this.#prepared ??= this.#prepare());
  }

  /** Whether the kernel that {@linkcode prepare} started can run code. */
  async isReady(): Promise<boolean> {
    return await (await this.#prepared)?.executor.isReady() ?? false;
  }

  /** The current step of the start, in one line; `undefined` after it. */
  get starting(): string | undefined {
    return this.#starting;
  }

  get parts(): Promise<CellParts> {
    this.#parts ??= this.#start().catch((error: unknown) => {
      this.#parts = undefined;
      throw error;
    }).finally(() => this.#starting = undefined);
    return this.#parts;
  }

  /** The observers that record changes in the audit log, as they do the calls of code. */
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

  /** The folder that code can read besides the workspace, if any. */
  get project(): string | undefined {
    const { sandbox } = this.#options;
    return typeof sandbox === "object" ? sandbox.project : undefined;
  }

  async mcptools(): Promise<string> {
    return join(await this.workspace, "mcptools");
  }

  /** The names of the registered servers, sorted. Needs no kernel. */
  async servers(): Promise<string[]> {
    const { servers } = this.#options;
    return (await ServerRegistry.open({ workspace: await this.workspace, servers })).names;
  }

  /**
   * Searches the tools of some servers; by default, the tools of all servers and the saved actions.
   */
  async searchTools(query: string, servers?: readonly string[]): Promise<ToolMatches> {
    const { ToolIndex } = await import("../apigen/search.ts");
    this.#index ??= new ToolIndex(await this.mcptools());
    if (servers !== undefined) return await this.#index.search(query, servers);
    const { actionTools } = await import("../apigen/saved_actions.ts");
    const actions = await actionTools(await this.workspace);
    return await this.#index.search(query, await this.servers(), actions);
  }

  /** Starts a cell, which runs after the earlier ones. */
  async startCell(
    kernel: () => Promise<CellParts>,
    { code, timeoutMs, patience }: {
      readonly code: string;
      readonly timeoutMs: number;
      readonly patience: Patience;
    },
  ): Promise<CellRun> {
    const place = this.#admit(code);
    try {
      const parts = await kernel();
      this.rounds.onNewCell(code);
      this.tasks.onNewCell();
      const busy = this.#parked.find((cell) => !cell.isOver && !this.tasks.has(cell));
      if (busy !== undefined) {
        const why = `Not run. ${busy.runningText}\nCall wait_for_cell with its ID first, or reset`;
        throw new Error([...this.#news.splice(0), why].join("\n"));
      }
      const cell = this.#follow(parts, code, { timeoutMs, patience });
      cell.ended.then(() => place[Symbol.dispose]());
      return cell;
    } catch (error) {
      place[Symbol.dispose]();
      throw error;
    }
  }

  /** Called after a reset, whose caller knows that variables are lost. */
  startOver(): void {
    const at = this.#news.indexOf(LOST);
    if (at !== -1) this.#news.splice(at, 1);
  }

  /** Called when the client disconnects. The cells of a durable session continue. */
  onDisconnect(): void {
    if (this.#name === undefined) return;
    for (const cell of this.#underWay) cell.keepRunning();
  }

  /** Makes disposing end the session even if it is durable. */
  end(): void {
    this.#ends = true;
  }

  /** Reserves room for a cell: a waiting one takes memory, even when its client has gone. */
  #admit(code: string): Disposable {
    using taken = new DisposableStack();
    const excess = taken.use(this.#places.tryAcquire()) === undefined
      ? `${MAX_CELLS} cells`
      : taken.use(this.#code.tryAcquire(code.length)) === undefined
      ? "Cells with much code"
      : undefined;
    if (excess === undefined) return taken.move();
    throw new Error(
      `${excess} are already running or queued in this session: wait for their results, then run ` +
        "this one",
    );
  }

  #follow(parts: CellParts, code: string, options: CellRunOptions): CellRun {
    const queue = { cells: this.#underWay, news: this.#news };
    const cell = new CellRun(parts, code, { ...options, queue });
    this.#underWay.add(cell);
    cell.ended.then(() => this.#underWay.delete(cell));
    return cell;
  }

  /** The cells for which the client has stopped waiting. */
  get parked(): readonly CellRun[] {
    return this.#parked;
  }

  /** Keeps a cell for which the client has stopped waiting. */
  park(cell: CellRun): void {
    if (this.#parked.includes(cell)) return;
    const old = this.#parked.filter(({ isOver }) => isOver).slice(0, 1 - MAX_PARKED);
    this.#parked = [...this.#parked.filter((parked) => !old.includes(parked)), cell];
  }

  /** Finds a cell for which the client has stopped waiting. */
  parkedCell(id: string): CellRun {
    const cell = this.#parked.find((parked) => parked.id === id);
    if (cell !== undefined) return cell;
    throw new Error(
      `There is no cell "${id.slice(0, 100)}": the ID is wrong, or the cell ended long ago`,
    );
  }

  /** Finds a cell by its execution, including one that a previous host started. */
  async runOf(execution: string): Promise<CellRun | undefined> {
    if (this.#name !== undefined) await this.parts;
    return [...this.#underWay, ...this.#parked].find((run) => run.execution === execution);
  }

  /** Saves a cell's full text as a resource. */
  async saveOutput(whole: string | { readonly text: string }): Promise<Artifact | undefined> {
    try {
      const path = typeof whole === "string"
        ? whole
        : (await this.#kernel()).images.write("txt", new TextEncoder().encode(whole.text));
      return this.artifacts.add("outputs", path, "Full output of a cell");
    } catch (error) {
      this.log.warn(`Cannot save the full output of a cell: ${error}`);
      return undefined;
    }
  }

  /** Whether code sees this machine's workspace. */
  get showsWorkspace(): boolean {
    const { placement } = this.#options;
    return placement === undefined || bindsWorkspace(placement);
  }

  /** The workspace's files, as code sees them. */
  async workspaceFiles(): Promise<WorkspaceFiles> {
    return (await this.#kernel()).workspaceFiles;
  }

  async #kernel(): Promise<KernelHost> {
    const { kernelOf } = await import("../executor/code_executor.ts");
    return kernelOf((await this.parts).executor);
  }

  /** Calls back when servers were added or removed, until disposed. */
  onServersChanged(listener: () => void | Promise<void>): Disposable {
    this.#listeners.add(listener);
    return { [Symbol.dispose]: () => void this.#listeners.delete(listener) };
  }

  /** Announces that the servers, and with them the resources, have changed. */
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
    const { parentWorkspace, policy } = this.#options;
    const own = await this.workspace;
    const { AuditLog } = await import("../approval/audit/log.ts");
    return new AuditLog({
      workspace: parentWorkspace ?? own,
      session: parentWorkspace && basename(own),
      get redact() {
        return policy?.redact; // of the policy at that time
      },
      log: this.log,
    });
  }

  async #start(): Promise<CellParts> {
    const prepared = this.#prepared ?? this.#prepare();
    this.#prepared = undefined;
    const { executor, page, stack } = await prepared;
    await using parts = stack;
    const { announceSession } = await import("./running_sessions.ts");
    const workspace = await this.workspace;
    const { label = "" } = this.#options;
    const { url: { href: url }, token } = executor.applicationDoor;
    parts.use(await announceSession({ workspace, label, url, token }));
    if (this.prefersPage) page.invite();
    const { sessionEnded } = executor;
    const running = this.#running = parts.move();
    const lose = () => this.#lose(sessionEnded?.reason, running);
    if (sessionEnded?.aborted) lose();
    sessionEnded?.addEventListener("abort", lose, { once: true });
    return { executor, page };
  }

  async #prepare(): Promise<PreparedParts> {
    const { signal } = this.#closing;
    signal.throwIfAborted();
    const workspace = await this.workspace;
    const { placement } = this.#options;
    const python = placement === undefined
      ? (await this.#python()).executable
      : this.#options.python;
    this.#starting = "Starting the kernel";
    const { approve = "ask", approveShell = "allow", policy } = this.#options;
    const { prepareSessionsFolder } = await import("./running_sessions.ts");
    await prepareSessionsFolder();
    const { PageAsker } = await import("./page_asker.ts");
    const { settings } = this.#options;
    let page: PageAsker | undefined;
    const askerOf = (at: ApprovalPage) =>
      page ??= new PageAsker({ page: at, label: this.#options.label, workspace, log: this.log });
    await using stack = new AsyncDisposableStack();
    const executor = await this.#open(stack, {
      ...this.#options,
      approval: policy ?? { tools: approve, resources: approve, shell: approveShell },
      audit: await this.#auditLog(),
      workspace,
      python,
      installer: "tool",
      signal,
      beforeKernel: settings && ((at) => this.#settle(settings, askerOf(at))),
    });
    const asker = askerOf(executor.page);
    const { unfinished, unfinishedId: resumes } = executor;
    if (unfinished !== undefined) {
      const cell = this.#follow({ executor, page: asker }, unfinished, { resumes });
      this.park(cell);
      this.#news.push(`[An earlier cell has ID ${cell.id}: wait_for_cell returns its result]`);
    }
    return { executor, page: asker, stack: stack.move() };
  }

  /** Asks about settings that do not count yet, and then reads all that count. */
  async #settle(
    settings: SessionSettings,
    asker: PageAsker,
  ): Promise<CodeExecutorOptions["kernelEnv"]> {
    const { signal } = this.#closing;
    const found = await settings.unaccepted();
    if (found.length > 0) {
      this.#starting = "Waiting for the user's decision on settings of the workspace";
      if (this.prefersPage) asker.invite();
      const asked = this.changes === "deny"
        ? undefined
        : await this.questions?.ask(found, { asker, signal });
      const left = asked ?? found;
      if (left.length > 0) {
        const files = left.map(({ file }) => visible(file)).join(", ");
        this.#news.push(`[Not in force, as the user has not accepted it: ${files}]`);
      }
      this.#starting = "Starting the kernel";
    }
    return await settings.read();
  }

  /**
   * Starts the kernel, or attaches to the durable session's, which outlives the disposal of the
   * parts.
   */
  async #open(
    parts: AsyncDisposableStack,
    options: OwnExecutorOptions & { readonly workspace: string },
  ): Promise<CodeExecutor> {
    const name = this.#name;
    if (name === undefined) {
      const { startOwn } = await import("../executor/code_executor.ts");
      return parts.use(await startOwn(options));
    }
    const { startNamed } = await import("../executor/named_sessions.ts");
    const { executor, before } = await startNamed(name, { ...options, replacesLost: true });
    parts.defer(() => this.#ends ? executor[Symbol.asyncDispose]() : executor.detach());
    if (before === "lost" || (before === "nothing" && this.#hasRun)) {
      this.#news.push(
        `[Session ${name} was lost: this is a new one, without the old variables]`,
      );
    } else if (before === "itself") {
      this.#news.push(`[Session ${name} continues: its variables are still there]`);
    }
    this.#hasRun = true;
    return executor;
  }

  /** Handles the end of the durable session, or its loss to another program. */
  #lose(reason: unknown, running: AsyncDisposable): void {
    if (this.#closing.signal.aborted || this.#running !== running) return;
    if (reason instanceof SessionTakenError) {
      const taken = reason.message + ", or restart this MCP server";
      this.log.warn(taken);
      this.#parts = Promise.reject(new Error(taken, { cause: reason }));
      this.#parts.catch(() => {}); // the next caller gets it
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

  /** The name of the session, if it is durable. */
  get #name(): string | undefined {
    return this.#options.durable?.name;
  }

  /** The Python that runs the kernel; the managed one is built if it is missing. */
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

/** How many ended cells are kept with their results. */
const MAX_PARKED = 8;

/** How many cells of a session may run or be queued, and how long their code may be in total. */
const MAX_CELLS = 32;
const MAX_CODE = 16 * 2 ** 20;
