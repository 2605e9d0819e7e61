import type { GeneratedTool } from "../apigen/generate.ts";
import type { ApprovalPage } from "../approval/page/page.ts";
import {
  CodeExecutionError,
  EnvironmentNotReadyError,
  ExecutionTimeoutError,
  type KernelState,
  NO_OUTPUT,
} from "../base/errors.ts";
import { Deadline } from "../base/deadline.ts";
import { stderrLogger } from "../base/log.ts";
import { requirePositive } from "../base/numbers.ts";
import { abortable, allDone, anySignal, onAbort } from "../base/signals.ts";
import { stage } from "../base/stages.ts";
import { type Span, startSpan } from "../base/telemetry.ts";
import type { Door, ToolServer } from "../calls/tool_server.ts";
import type { CodeChecker } from "../check/checker.ts";
import { type CheckReport, shownNames } from "../check/report.ts";
import type { Run } from "../kernel/execution.ts";
import type { KernelHost } from "../kernel/host.ts";
import type { ExecutionResult } from "../kernel/outputs.ts";
import type { CodeCompletions, CodeStatus, TypedCodeOptions } from "../kernel/typed_code.ts";
import type { ServerParams } from "../mcp/params.ts";
import { PackageFolder } from "../python/packages.ts";
import { parseRequirement } from "../python/requirement.ts";
import { ServerApis } from "./apis.ts";
import { CodeInputs, type RunEvent } from "./code_inputs.ts";
import type {
  AttachOptions,
  CheckEvent,
  CheckMode,
  CodeExecutorOptions,
  DetachOptions,
  ExecuteOptions,
  ExecutionEvent,
  InstallPackagesOptions,
  NoteEvent,
  OwnExecutorOptions,
  OwnRegisterOptions,
  RegisterServerOptions,
  ResumeOptions,
  StreamOptions,
} from "./options.ts";
import { checkAttach, checkOptions, checkStart } from "./option_keys.ts";
import { warnUndisposed } from "./undisposed.ts";
import { attachParts, type DurableParts, type RunningParts, startParts } from "./start.ts";
import { findSession, type LeftTime } from "./durable.ts";

/** An executor's kernel, for ipybox's own programs. */
export let kernelOf: (executor: CodeExecutor) => KernelHost;
/** `CodeExecutor.start()` for ipybox's own programs, which pass on all their options. */
export let startOwn: (options: OwnExecutorOptions) => Promise<CodeExecutor>;
/** `CodeExecutor.attach()` for ipybox's own programs. The session keeps its place. */
export let attachOwn: (id: string, options: OwnExecutorOptions) => Promise<CodeExecutor>;

/**
 * A running IPython kernel in a sandbox, with the MCP tools that its code may call. Disposing it stops
 * the kernel and the MCP servers.
 *
 * Executions run one at a time, in the order of the calls, and share the kernel's variables.
 *
 * @example
 * ```ts
 * import { CodeExecutor } from "@ipybox/ipybox";
 *
 * await using executor = await CodeExecutor.start({ workspace: "." });
 * for await (const event of executor.stream("print(6 * 7)", { timeoutMs: 10_000 })) {
 *   switch (event.type) {
 *     case "chunk":
 *       break; // only with `events: ["chunk"]`
 *     case "approval":
 *       await event.request.reject("no tools today");
 *       break;
 *     case "result":
 *       console.error(event.result.text); // 42
 *   }
 * }
 * ```
 */
export class CodeExecutor implements AsyncDisposable {
  /** The workspace, as an absolute path without symbolic links. */
  readonly workspace: string;
  readonly #parts: AsyncDisposableStack;
  readonly #kernel: KernelHost;
  readonly #tools: ToolServer;
  readonly #apis: ServerApis;
  readonly #packages: PackageFolder | undefined;
  readonly #checker: CodeChecker | undefined;
  readonly #checkMode: CheckMode;
  readonly #durable: DurableParts | undefined;
  readonly #closed = new AbortController();
  #found:
    | (NonNullable<DurableParts["found"]> & { readonly turn: Disposable | undefined })
    | undefined;
  #current: Run<RunEvent> | undefined;
  #state: KernelState = "kept";
  #resetting: Promise<void> = Promise.resolve();
  #disposing: Promise<void> | undefined;

  static {
    kernelOf = (executor) => executor.#kernel;
    startOwn = (options) => CodeExecutor.#start(options);
    attachOwn = (id, options) => CodeExecutor.#attach(id, options);
  }

  private constructor(
    parts: AsyncDisposableStack,
    { workspace, kernel, tools, packages, checker, durable }: RunningParts,
    options: CodeExecutorOptions,
  ) {
    this.#parts = parts;
    this.workspace = workspace;
    this.#kernel = kernel;
    this.#tools = tools;
    this.#packages = packages;
    this.#checker = checker;
    this.#checkMode = options.check ?? "block";
    this.#apis = new ServerApis({ ...options, workspace, runner: tools.runner });
    this.#durable = durable;
    parts.use(warnUndisposed(this, options.log ?? stderrLogger()));
  }

  /**
   * Starts a kernel and the tool server for its calls.
   *
   * @param options Workspace, servers, sandbox, limits.
   * @returns The executor, ready to run code.
   * @throws {EnvironmentNotReadyError} Python or the sandbox is missing; `fix` says what to do. For the
   * sandbox, it is a `SandboxUnavailableError`.
   * @throws {ConfigError} The registry or an option is invalid.
   * @throws {RangeError} A time limit or a number is not positive.
   * @throws {TypeError} An option is unknown, or `requireShellEscape` is set, but `approval` allows all
   * shell commands.
   * @throws {GatewayStartError} The kernel gateway exited or did not answer in time.
   * @throws {KernelStartError} The kernel could not be set up or was not ready in time.
   */
  static async start(options: CodeExecutorOptions = {}): Promise<CodeExecutor> {
    checkStart(options);
    return await CodeExecutor.#start(options);
  }

  static async #start(options: OwnExecutorOptions): Promise<CodeExecutor> {
    await using parts = new AsyncDisposableStack();
    const logged = { ...options, log: options.log ?? stderrLogger() };
    const running = await startParts(parts, logged);
    const executor = new CodeExecutor(parts.move(), running, logged);
    await executor.#apis.learn();
    return executor;
  }

  /**
   * Attaches to a durable session that another process started or this one detached from. A process
   * that is still attached is detached.
   *
   * MCP servers are restarted, and policies are read again. Undecided requests of the running code are
   * made again once {@linkcode resume} is iterated, which must happen before other code runs.
   *
   * @param id The session's id, from {@linkcode sessionId}.
   * @param options Servers, approvals and limits.
   * @returns The executor. Disposing it ends the session; {@linkcode detach} keeps it.
   * @throws {ConfigError} The session does not exist, was lost, or refuses this process; the message
   * says what to do.
   */
  static async attach(id: string, options: AttachOptions = {}): Promise<CodeExecutor> {
    checkAttach(options);
    return await CodeExecutor.#attach(id, options);
  }

  static async #attach(id: string, options: OwnExecutorOptions): Promise<CodeExecutor> {
    await using parts = new AsyncDisposableStack();
    const record = await findSession(id);
    const logged = { ...options, log: options.log ?? stderrLogger() };
    const running = await attachParts(parts, logged, record);
    const { kernel, durable } = running;
    const executor = new CodeExecutor(parts.move(), running, logged);
    const found = durable?.found;
    if (found !== undefined) {
      const turn = found.ended ? undefined : await kernel.turn(executor.#closed.signal);
      executor.#found = { ...found, turn };
    } else durable?.follow?.();
    return executor;
  }

  /** The id of the durable session; `undefined` if the session is not durable. */
  get sessionId(): string | undefined {
    return this.#durable?.id;
  }

  /**
   * The code of the session's last execution, if no process has seen its end: {@linkcode resume}
   * continues it. Empty if the code was too long to keep; `undefined` if there is no such execution.
   */
  get unfinished(): string | undefined {
    return this.#found?.ended === false ? this.#found.code : undefined;
  }

  /** The id of that execution: the option `id` of {@linkcode stream}, or a random one. */
  get unfinishedId(): string | undefined {
    return this.#found?.ended === false ? this.#found.run.id : undefined;
  }

  /**
   * Aborts when a durable session has ended or another process has attached to it; `undefined` if the
   * session is not durable. The reason is the error that executions reject with from then on, such as
   * a {@linkcode SessionTakenError} if another process has attached.
   */
  get sessionEnded(): AbortSignal | undefined {
    return this.#durable && this.#kernel.gatewayEnded;
  }

  /**
   * Closes the executor and keeps the durable session running. A running execution continues without
   * this process, and rejects here with an `AbortError`; its tool calls wait for the next process.
   *
   * @param options Code to start first.
   * @throws {TypeError} The session is not durable.
   * @throws {CodeExecutionError} The code is certain to fail, so it was not started. The executor stays
   * open.
   */
  async detach(options: DetachOptions = {}): Promise<void> {
    checkOptions("detach()", options);
    if (this.#durable === undefined) {
      throw new TypeError("Cannot detach from a session that is not durable");
    }
    if (options.code !== undefined) await this.#begin(options.code);
    this.#durable.detached.value = true;
    this.#tools.cutKernel(); // detaching the approver must not refuse waiting calls
    await this.#kernel.leave();
    await this.#durable.gateway.leave();
    await this[Symbol.asyncDispose]();
  }

  /** Runs code until the kernel has started it. */
  async #begin(code: string): Promise<void> {
    const { promise: begun, resolve } = Promise.withResolvers<void>();
    const events = this.#run(
      code,
      { events: ["input"] },
      (execution) => resolve(execution.begun()),
    );
    const over = (async () => {
      while (!(await events.next()).done); // the next host repeats its questions
    })();
    await Promise.race([begun, over]);
    over.catch(() => {}); // the next host gets the outcome
  }

  /**
   * Replays the events of the session's last execution and follows it to its end. Call it once, after
   * {@linkcode attach}. An execution that has ended delivers its result again. Leaving the loop cancels
   * the execution.
   *
   * @param options Limits, and which events to deliver.
   * @returns Events as from {@linkcode stream}; none if no code has run.
   * @throws {CodeExecutionError} The code raised an exception.
   * @throws {ExecutionTimeoutError} The code took longer than `timeoutMs`, counted from this call, or,
   * without that, than the previous process allowed: time without a process does not count.
   * @throws {KernelDiedError} The kernel died, possibly while no process was attached.
   */
  async *resume(options: ResumeOptions = {}): AsyncGenerator<ExecutionEvent, void, undefined> {
    checkOptions("resume()", options);
    requirePositive(options, ["timeoutMs"]);
    const found = this.#found;
    if (found === undefined) return;
    this.#found = undefined;
    const { run, code, inputs, left } = found;
    const wanted = new Set(options.events);
    using turn = found.turn ?? await this.#kernel.turn(this.#closed.signal);
    this.#current = run;
    const { signal } = options;
    const cancel = () => run.cancel(signal?.reason);
    // Before it has begun here, nothing would interrupt the code.
    using _abort = onAbort(signal, () => void run.begun().then(cancel, () => {}));
    using span = startSpan("execute_code");
    try {
      const context = { code, names: undefined, options, turn, inputs, span, left };
      const events = this.#events(run, context);
      for (;;) {
        const { done, value } = await events.next();
        if (done) {
          yield* this.#notes();
          yield { type: "result", result: value };
          return;
        }
        if (value.type === "input" && !wanted.has("input")) value.request.end(); // nobody can answer it
        else if (value.type !== "chunk" || wanted.has("chunk")) yield value;
      }
    } catch (error) {
      yield* this.#notes();
      if (signal?.aborted || !run.isCancellation(error)) throw error;
    } finally {
      if (!run.isOver) await run.cancel();
      this.#current = undefined;
      if (this.#state === "lost") this.#checker?.reset();
    }
  }

  /** Where an `ApprovalClient` in another process connects to decide on approvals. */
  get applicationDoor(): Door {
    return this.#tools.applicationDoor;
  }

  /** The web page on which a person decides on approvals. */
  get page(): ApprovalPage {
    return this.#tools.page;
  }

  /**
   * Creates a link to the approval page. It works once, for a few minutes.
   *
   * @returns The link. Give it only to the person who decides.
   */
  approvalPage(): URL {
    return this.page.url();
  }

  /** The names of the MCP servers that code may call, sorted. */
  get servers(): string[] {
    return this.#tools.runner.registry.names;
  }

  /**
   * Whether the kernel's variables survived the last execution: `"lost"` if the kernel died, was reset,
   * or had to be replaced because the code could not be interrupted.
   */
  get state(): KernelState {
    return this.#state;
  }

  /**
   * Checks whether code could run now: nothing runs, no variables were lost since the last execution,
   * and the kernel has just answered. For health checks of servers.
   *
   * @returns Whether code could run; `false` after a second without an answer.
   */
  async isReady(): Promise<boolean> {
    return await this.#kernel.isReady(this.#closed.signal);
  }

  /**
   * Runs code and delivers events: approvals that wait for a decision, the progress of tool calls, logs
   * of MCP servers, and finally the result. Leaving the loop cancels the execution.
   *
   * The loop decides on approvals, unless an `ApprovalClient` is connected. The approval page can decide
   * as well; the first decision counts. To leave a request to the page, do nothing, or call
   * `page.decide()`, which rejects it once nobody can decide there any more.
   *
   * @param code IPython code: Python, top-level `await`, magics and `!commands`.
   * @param options Limits, and which events to deliver.
   * @returns The events. After {@linkcode cancel}, they end without a result.
   * @throws {CodeExecutionError} The code raised an exception.
   * @throws {ExecutionTimeoutError} The code took longer than `timeoutMs`.
   * @throws {KernelDiedError} The kernel, or the gateway or sandbox around it, died; the next
   * execution gets a fresh one.
   * @throws {DOMException} An `AbortError` if the executor is reset or disposed during the call.
   */
  async *stream(
    code: string,
    options: StreamOptions = {},
  ): AsyncGenerator<ExecutionEvent, void, undefined> {
    checkOptions("stream()", options);
    const result = yield* this.#run(code, options);
    if (result !== undefined) yield { type: "result", result };
  }

  /**
   * Runs code and approves, without asking anybody, every call that the `approval` option leaves open.
   * To judge the calls, pass `approve`, or use {@linkcode stream}. A call that a policy or `approval: "deny"`
   * refuses stays refused.
   *
   * @param code IPython code.
   * @param options Limits, and who approves calls.
   * @returns The result; empty if {@linkcode cancel} ended the execution.
   * @throws {CodeExecutionError} The code raised an exception.
   * @throws {ExecutionTimeoutError} The code took longer than `timeoutMs`.
   * @throws {KernelDiedError} The kernel, or the gateway or sandbox around it, died; the next
   * execution gets a fresh one.
   * @throws {DOMException} An `AbortError` if the executor is reset or disposed during the call.
   *
   * @example
   * ```ts
   * import { CodeExecutor } from "@ipybox/ipybox";
   *
   * await using executor = await CodeExecutor.start();
   * await executor.execute("a = 40");
   * const { text } = await executor.execute("a + 2", { timeoutMs: 10_000 });
   * console.error(text); // 42
   * await executor.execute("print(a)", { approve: ({ toolName }) => toolName.startsWith("read") });
   * ```
   */
  async execute(code: string, options: ExecuteOptions = {}): Promise<ExecutionResult> {
    checkOptions("execute()", options);
    const { approve, ...limits } = options;
    let result: ExecutionResult = NO_OUTPUT;
    for await (const event of this.stream(code, limits)) {
      switch (event.type) {
        case "chunk":
          break;
        case "approval":
          if (approve !== undefined) {
            if (await approve(event.request)) await event.request.accept();
            else await event.request.reject("The program refused it");
          } else if (event.request.kind === "change") {
            const reason =
              "execute() approves calls, but not the start of servers that are new or have changed";
            await event.request.reject(reason);
          } else await event.request.accept();
          break;
        case "result":
          result = event.result;
      }
    }
    return result;
  }

  /**
   * Interrupts the running execution, if any: the code sees a `KeyboardInterrupt`, which it may catch
   * and continue. {@linkcode cancel} always ends it.
   */
  async interrupt(): Promise<void> {
    await this.#kernel.interrupt();
  }

  /**
   * Cancels the running execution, if any: its events end without a result. Executions that wait for
   * their turn are not affected.
   *
   * @returns Whether the kernel's variables survived, once the execution has ended.
   */
  async cancel(): Promise<KernelState> {
    return await this.#current?.cancel() ?? "kept";
  }

  /**
   * Reports whether code is complete or needs more lines.
   *
   * @param code The IPython code typed so far.
   * @param options How long to wait for the answer.
   * @returns The status, and the indentation of the next line.
   * @throws {DOMException} A `TimeoutError` when code ran for longer than `timeoutMs`.
   *
   * @example
   * ```ts
   * import { CodeExecutor } from "@ipybox/ipybox";
   *
   * await using executor = await CodeExecutor.start();
   * console.error(await executor.isComplete("for x in y:")); // incomplete, 4 spaces
   * ```
   */
  async isComplete(code: string, options: TypedCodeOptions = {}): Promise<CodeStatus> {
    return await this.#kernel.isComplete(code, this.#untilClosed(options));
  }

  /**
   * Completes code at a position. Tool calls that the completion would make are refused.
   *
   * @param code The IPython code typed so far.
   * @param cursor The position, as an index into the string.
   * @param options How long to wait for the answer.
   * @returns The completions, and the range of the code that they replace.
   * @throws {RangeError} `cursor` is not a position between two characters of the code.
   * @throws {DOMException} A `TimeoutError` when code ran for longer than `timeoutMs`.
   *
   * @example
   * ```ts
   * import { CodeExecutor } from "@ipybox/ipybox";
   *
   * await using executor = await CodeExecutor.start();
   * const { matches } = await executor.complete("impo", 4);
   * console.error(matches); // ["import"]
   * ```
   */
  async complete(
    code: string,
    cursor: number,
    options: TypedCodeOptions = {},
  ): Promise<CodeCompletions> {
    return await this.#kernel.complete(code, cursor, this.#untilClosed(options));
  }

  /**
   * Checks code as if it were about to run, without running it.
   *
   * @param code IPython code.
   * @param options A signal that cancels the check.
   * @returns Certain failures, possible failures, and the tools that the code names.
   * @throws {EnvironmentNotReadyError} The option `check` is `"off"`.
   * @throws {DOMException} An `AbortError` if the executor is disposed during the call.
   *
   * @example
   * ```ts
   * import { CodeExecutor } from "@ipybox/ipybox";
   *
   * await using executor = await CodeExecutor.start();
   * const { problems } = await executor.check("print(nmae)");
   * console.error(problems[0]?.evalue); // name 'nmae' is not defined
   * ```
   */
  async check(code: string, options: { readonly signal?: AbortSignal } = {}): Promise<CheckReport> {
    checkOptions("check()", options);
    const checker = this.#checker;
    if (checker === undefined) {
      throw new EnvironmentNotReadyError("Checks are turned off", 'Remove `check: "off"`');
    }
    const signal = anySignal(options.signal, this.#closed.signal);
    using _turn = await this.#kernel.turn(signal);
    await abortable(this.#resetting, signal);
    const report = await checker.check(code, signal, CHECK_TIMEOUT_MS);
    checker.ended("blocked");
    return report;
  }

  /**
   * Starts over with a fresh kernel: variables, the code's home directory and the processes that it
   * started are gone, and MCP servers are restarted. Workspace files, packages and registrations stay.
   * A running execution rejects with an `AbortError`; executions that wait for their turn run in the
   * fresh kernel.
   */
  async reset(): Promise<void> {
    this.#checker?.reset();
    // The kernel is stopped immediately, so that its code does not see its calls fail.
    const reset = allDone([this.#kernel.reset(), this.#tools.reset()])
      .then(() => this.#apis.learn());
    this.#resetting = reset.then(() => {}, () => {}); // the caller of reset() gets the error
    await reset;
  }

  /**
   * Installs Python packages for the workspace. Code can import them immediately and in later sessions.
   * Packages that already satisfy the requirements are not reinstalled.
   *
   * The installer runs in a sandbox that can reach only the package indexes that pip or uv is configured
   * to use, and the hosts of the given Git repositories.
   *
   * @param requirements Such as `"pandas"`, `"numpy>=2,<3"` or `"git+https://HOST/OWNER/NAME@TAG"`;
   * several are resolved together.
   * @param options A signal that cancels it, and a callback for the installer's output.
   * @returns One line that names the packages that were installed, and those that were already
   * present.
   * @throws {TypeError} A requirement is neither a package nor a Git repository.
   * @throws {PackageInstallError} The installation failed; `output` says why.
   * @throws {EnvironmentNotReadyError} The installer, the sandbox or the packages folder is
   * missing, for example because `packages` is `false`; or Deno's permissions do not suffice.
   *
   * @example
   * ```ts
   * import { CodeExecutor } from "@ipybox/ipybox";
   *
   * await using executor = await CodeExecutor.start({ workspace: "." });
   * await executor.installPackages(["iniconfig>=2"]);
   * await executor.execute("import iniconfig");
   * ```
   */
  async installPackages(
    requirements: string | readonly string[],
    options: InstallPackagesOptions = {},
  ): Promise<string> {
    checkOptions("installPackages()", options);
    const list = typeof requirements === "string" ? [requirements] : requirements;
    const parsed = list.map(parseRequirement);
    const lacking = PackageFolder.lacking();
    if (lacking.length > 0) {
      throw new EnvironmentNotReadyError(
        `Cannot install packages: the program runs without ${lacking.join(" and ")}`,
        `Run it with ${
          lacking.join(" ")
        }, without paths or names; docs/typescript.md lists what else it takes`,
      );
    }
    if (this.#packages === undefined) {
      throw new EnvironmentNotReadyError(
        "Cannot install packages: this executor has no packages folder",
        "Remove `packages: false`; with a Python in the workspace, or a placement, install them into " +
          "the Python there",
      );
    }
    const signal = anySignal(options.signal, this.#closed.signal);
    return await this.#packages.install(parsed, { ...options, signal });
  }

  /**
   * Whether calls of an MCP server wait for its start, as for a progress message.
   *
   * @param serverName The server's name.
   * @returns `false` also for a server that runs, or that nothing has called yet.
   *
   * @example
   * ```ts
   * import { CodeExecutor } from "@ipybox/ipybox";
   *
   * await using executor = await CodeExecutor.start();
   * const starting = executor.servers.filter((name) => executor.isStarting(name));
   * console.log(`${starting.length} servers are starting`);
   * ```
   */
  isStarting(serverName: string): boolean {
    return this.#tools.runner.pool.isStarting(serverName);
  }

  /**
   * Registers an MCP server with the workspace and generates its Python API in `mcptools/`. The server
   * keeps running for calls. Code can import its API immediately; {@linkcode reset} reloads one that was
   * already imported. If anything fails, nothing is changed.
   *
   * @param name The server's name, which is also the name of its Python package.
   * @param params How the server is started or reached. `${VAR}` is filled in each time.
   * @param options A signal that cancels it.
   * @returns The outcome for each tool, in the server's order.
   * @throws {TypeError} The name is invalid.
   * @throws {ConfigError} The parameters are invalid.
   * @throws {McpConnectionError} The server does not start or answer.
   * @throws {McpLoginRequiredError} The server requires a login, and there is no `login` option.
   */
  async registerServer(
    name: string,
    params: ServerParams,
    options: RegisterServerOptions = {},
  ): Promise<GeneratedTool[]> {
    checkOptions("registerServer()", options);
    const own: OwnRegisterOptions = options;
    const signal = anySignal(options.signal, this.#closed.signal);
    return await this.#apis.add(name, params, { ...own, signal });
  }

  /**
   * Removes an MCP server from the workspace's registry, stops it, and removes its Python API.
   *
   * @param name The server's name.
   * @returns Whether there was anything to remove.
   * @throws {TypeError} The name is invalid.
   * @throws {ConfigError} The registry cannot be read.
   */
  async unregisterServer(name: string): Promise<boolean> {
    return await this.#apis.remove(name);
  }

  /**
   * Stops the kernel and the MCP servers. Running and waiting executions reject with an `AbortError`.
   */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed.abort(new DOMException("The executor was closed", "AbortError"));
    using _stage = stage("end");
    await (this.#disposing ??= this.#parts.disposeAsync());
  }

  /** Runs code when it is its turn. The turn ends before the result is delivered. */
  async *#run(
    code: string,
    options: StreamOptions,
    onRun: (execution: Run<RunEvent>) => void = () => {},
  ): AsyncGenerator<ExecutionEvent, ExecutionResult | undefined, undefined> {
    const { id, storeHistory } = options;
    const wanted = new Set(options.events);
    if (id !== undefined && !/^[\w-]{1,64}$/.test(id)) {
      throw new TypeError(`"${id}" cannot be an execution's id: use letters, digits, "-" and "_"`);
    }
    const signal = anySignal(options.signal, this.#closed.signal);
    using turn = await this.#kernel.turn(signal);
    const inputs = new CodeInputs(code, this.#tools.runner.trail);
    const execution: Run<RunEvent> = this.#kernel.prepare(code, {
      id,
      signal,
      storeHistory,
      chunks: wanted.has("chunk"),
      onInput: wanted.has("input") ? (request) => inputs.take(request, execution) : undefined,
    });
    this.#current = execution;
    using span = startSpan("execute_code");
    using _stage = stage("run code");
    let ended: "well" | "failed" | "blocked" = "blocked";
    try {
      await abortable(this.#resetting, execution.signal); // calls of the fresh kernel are not mixed up with the old one's
      await abortable(this.#kernel.ready(), execution.signal);
      // The code may import modules that were just generated.
      await abortable(this.#tools.runner.changes.settled(), execution.signal);
      await abortable(this.#kernel.sync(), execution.signal);
      const report = await this.#checker?.check(code, execution.signal);
      if (report !== undefined) yield* this.#judge(report);
      const names = report && shownNames(report.tools);
      ended = "failed";
      onRun(execution);
      const result = yield* this.#events(execution, { code, names, options, turn, inputs, span });
      ended = "well";
      yield* this.#notes();
      return result;
    } catch (error) {
      execution.end({ state: "kept", failure: { error } }); // if it has not started
      yield* this.#notes();
      span.fail(errorType(error));
      if (!execution.isCancellation(error)) throw error;
      return undefined;
    } finally {
      this.#current = undefined;
      if (this.#state === "lost") this.#checker?.reset();
      else this.#checker?.ended(ended);
    }
  }

  /** Delivers the events of an execution, within its time limit. */
  async *#events(
    execution: Run<RunEvent>,
    { code, names, options, turn, inputs, span, left }: Turn,
  ): AsyncGenerator<ExecutionEvent, ExecutionResult, undefined> {
    const wanted = new Set(options.events);
    const { runner } = this.#tools;
    const { channel, events: serverEvents, elicitations: questions } = runner;
    const { events } = execution;
    requirePositive(options, ["timeoutMs"]);
    using deadline = new Deadline(options.timeoutMs ?? left?.timeoutMs, {
      leftMs: options.timeoutMs ?? (left && Math.max(left.leftMs, FAREWELL_MS)),
      onTurn: () => this.#durable?.state.turn(),
    });
    using _clock = deadline.pauseWhilePending([channel, questions, inputs, runner.pool.starting]);
    using _watcher = serverEvents.watch((event) => {
      const size = JSON.stringify(event).length;
      if (events.hasRoom(size)) events.add(event, size);
    });
    using _follower = wanted.has("call_started") || wanted.has("call_ended")
      ? serverEvents.followCalls((event) => {
        if (wanted.has(event.type)) events.add(event);
      })
      : undefined;
    // The output before a request must be delivered first.
    using _approver = channel.attached ? undefined : channel.attach(async (request) => {
      await execution.flush();
      events.add({ type: "approval", request });
    });
    using _answerer = !wanted.has("elicitation") || questions.attached
      ? undefined
      : questions.attach(async (request) => {
        await execution.flush();
        events.add({ type: "elicitation", request });
      });
    using _cell = span.run(() => runner.calls.enterCell(code, names));
    this.#durable?.follow?.();
    this.#durable?.state.begin(execution.id, code, deadline);
    const ended = this.#kernel.run(execution, { turn, limit: deadline.signal });
    try {
      yield* execution;
      return await execution.result;
    } catch (error) {
      if (deadline.passed && error === deadline.signal?.reason) {
        const { timeoutMs } = deadline;
        throw new ExecutionTimeoutError(timeoutMs, await execution.state, execution.partial());
      }
      throw error;
    } finally {
      await ended;
      this.#state = await execution.state;
      if (this.#durable?.detached.value === false) {
        this.#durable.state.end();
        if (this.#state === "kept") this.#durable.journal.forgetUnasked();
      }
      span.set({ "ipybox.kernel.state": this.#state });
    }
  }

  /** Reports the findings of the check. Throws if the code is certain to fail and this blocks it. */
  *#judge(report: CheckReport): Generator<CheckEvent | NoteEvent> {
    const error = report.error();
    if (report.tools.length + report.notes.length > 0 || error !== undefined) {
      yield { type: "check", report };
    }
    if (error === undefined) return;
    if (this.#checkMode === "block") {
      this.#state = "kept";
      throw error;
    }
    yield { type: "note", text: `[ipybox] The code check found:\n${report}` };
  }

  *#notes(): Generator<NoteEvent> {
    const notes = [...this.#apis.takeNews(), ...this.#tools.runner.calls.takeNotes()];
    for (const text of notes) yield { type: "note", text };
  }

  #untilClosed(options: TypedCodeOptions): TypedCodeOptions {
    return { ...options, signal: anySignal(options.signal, this.#closed.signal) };
  }
}

/**
 * The time for code that ended while no process was attached to report that, if its limit is almost
 * used up.
 */
const FAREWELL_MS = 2000;

/** The time limit for a check if no execution waits for it. */
const CHECK_TIMEOUT_MS = 20_000;

/** The context of an execution during its turn. */
interface Turn {
  readonly code: string;
  /** The tools that the code names. */
  readonly names: readonly string[] | undefined;
  readonly options: StreamOptions;
  readonly turn: Disposable;
  readonly inputs: CodeInputs;
  /** The time that an earlier host left to the code. */
  readonly left?: LeftTime | undefined;
  /** The span of the execution, parent of the spans of its calls. */
  readonly span: Span;
}

/** The class of an error, for traces. Code chooses the names of Python exceptions. */
function errorType(error: unknown): string {
  if (error instanceof CodeExecutionError) return error.ename.slice(0, 100);
  return error instanceof Error ? error.name : "_OTHER";
}
