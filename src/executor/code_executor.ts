import type { GeneratedTool } from "../apigen/generate.ts";
import type { StaleTools } from "../apigen/package.ts";
import type { ApprovalPage } from "../approval/page/page.ts";
import {
  CodeExecutionError,
  EnvironmentNotReadyError,
  ExecutionTimeoutError,
  type KernelState,
} from "../base/errors.ts";
import { stderrLogger } from "../base/log.ts";
import { abortable, allDone, anySignal } from "../base/signals.ts";
import { stage } from "../base/stages.ts";
import { type Span, startSpan } from "../base/telemetry.ts";
import { TimeBudget } from "../base/time_budget.ts";
import type { Door, ToolServer } from "../calls/tool_server.ts";
import type { CodeChecker } from "../check/checker.ts";
import { type CheckReport, shownNames } from "../check/report.ts";
import type { Run } from "../kernel/execution.ts";
import type { FarWorkspace } from "../kernel/far_workspace.ts";
import type { KernelHost } from "../kernel/host.ts";
import type { ExecutionResult } from "../kernel/outputs.ts";
import type { CodeCompletions, CodeStatus, TypedCodeOptions } from "../kernel/typed_code.ts";
import type { ServerParams } from "../mcp/params.ts";
import type { PackageFolder } from "../python/packages.ts";
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
  RegisterServerOptions,
  ResumeOptions,
  StreamOptions,
} from "./options.ts";
import { attachParts, type Durably, type RunningParts, startParts } from "./start.ts";
import { findSession } from "./durable.ts";

/**
 * A running IPython kernel in a sandbox, with the MCP tools that its code may call. Disposing it ends
 * the kernel and the MCP servers.
 *
 * Executions run one after the other in the order in which they were asked for, and share the
 * kernel's variables.
 *
 * @example
 * ```ts
 * import { CodeExecutor } from "@ipybox/ipybox";
 *
 * await using executor = await CodeExecutor.start({ workspace: "." });
 * for await (const event of executor.stream("print(6 * 7)", { timeoutMs: 10_000 })) {
 *   switch (event.type) {
 *     case "chunk":
 *       break; // only with `chunks: true`
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
  readonly #durably: Durably | undefined;
  readonly #closed = new AbortController();
  #found: (NonNullable<Durably["found"]> & { readonly turn: Disposable | undefined }) | undefined;
  #current: Run<RunEvent> | undefined;
  #state: KernelState = "kept";
  #resetting: Promise<void> = Promise.resolve();
  #disposing: Promise<void> | undefined;

  private constructor(
    parts: AsyncDisposableStack,
    running: RunningParts & { readonly checkMode: CheckMode; readonly apis: ServerApis },
  ) {
    const { workspace, kernel, tools, packages, checker, checkMode, apis } = running;
    this.#parts = parts;
    this.workspace = workspace;
    this.#kernel = kernel;
    this.#tools = tools;
    this.#packages = packages;
    this.#checker = checker;
    this.#checkMode = checkMode;
    this.#apis = apis;
    this.#durably = running.durably;
  }

  /**
   * Starts a kernel, and the tool server that its calls need.
   *
   * @param options Where, with which servers, how closed in.
   * @returns The executor, ready for code.
   * @throws {EnvironmentNotReadyError} Python or the sandbox is missing; `fix` says how to fix it. A
   * `SandboxUnavailableError` is one of these.
   * @throws {ConfigError} The registry or an option cannot be used.
   * @throws {RangeError} A time limit or a number is not positive.
   * @throws {TypeError} `requireShellEscape` is given, but `approval` allows all shell commands.
   * @throws {GatewayStartError} The kernel gateway ended or did not answer in time.
   * @throws {KernelStartError} The kernel could not be set up or was not ready in time.
   */
  static async start(options: CodeExecutorOptions = {}): Promise<CodeExecutor> {
    await using parts = new AsyncDisposableStack();
    const logged = { ...options, log: options.log ?? stderrLogger() };
    const running = await startParts(parts, logged);
    const { workspace, tools: { runner } } = running;
    const apis = new ServerApis({ ...logged, workspace, runner });
    await apis.learn();
    const checkMode = logged.check ?? "block";
    return new CodeExecutor(parts.move(), { ...running, checkMode, apis });
  }

  /**
   * Attaches to a durable session that another process has started, or this one has detached from. A
   * process that is attached is detached.
   *
   * MCP servers start anew, and policies are read again. What code asked and nobody has decided is asked
   * again, once {@linkcode resume} is iterated, which comes before other code.
   *
   * @param id The session's id, as {@linkcode sessionId} said.
   * @param options Its servers, approvals and limits.
   * @returns The executor. Disposing it ends the session; {@linkcode detach} leaves it.
   * @throws {ConfigError} There is no such session, it is lost, or it refuses this process; the message
   * says what to do.
   */
  static async attach(id: string, options: AttachOptions = {}): Promise<CodeExecutor> {
    await using parts = new AsyncDisposableStack();
    const record = await findSession(id);
    const logged = { ...options, log: options.log ?? stderrLogger() };
    const running = await attachParts(parts, logged, record);
    const { workspace, kernel, durably, tools: { runner } } = running;
    const apis = new ServerApis({ ...logged, workspace, runner });
    const checkMode = logged.check ?? "block";
    const executor = new CodeExecutor(parts.move(), { ...running, checkMode, apis });
    const found = durably?.found;
    if (found !== undefined) {
      const turn = found.ended ? undefined : await kernel.turn(executor.#closed.signal);
      executor.#found = { ...found, turn };
    } else durably?.follow?.();
    return executor;
  }

  /** The id of the durable session; `undefined` where it ends with this process. */
  get sessionId(): string | undefined {
    return this.#durably?.id;
  }

  /**
   * The code of the session's last execution where no process has seen its end: {@linkcode resume} tells
   * what became of it. Empty where it was too long to be kept; `undefined` where there is none.
   */
  get unfinished(): string | undefined {
    return this.#found?.ended === false ? this.#found.code : undefined;
  }

  /**
   * Aborts when a durable session has ended, or is no longer this process's; `undefined` where it is not
   * durable. The reason is the error with which its executions end from then on: a
   * {@linkcode SessionTakenError} where another process has attached.
   */
  get sessionEnded(): AbortSignal | undefined {
    return this.#durably && this.#kernel.gatewayEnded;
  }

  /**
   * Leaves a durable session running and closes the executor. An execution under way goes on without
   * this process, and ends here with an `AbortError`; its tool calls wait for the next process.
   *
   * @param options Code that is begun before.
   * @throws {TypeError} The session is not durable.
   * @throws {CodeExecutionError} The code is certain to fail, so it was not begun. The executor stays.
   */
  async detach(options: DetachOptions = {}): Promise<void> {
    if (this.#durably === undefined) throw new TypeError("Only durable sessions can be left");
    if (options.code !== undefined) await this.#begin(options.code);
    this.#durably.left.is = true;
    await this.#kernel.leave();
    await this.#durably.gateway.leave();
    await this[Symbol.asyncDispose]();
  }

  /** Runs code until the kernel has begun with it. */
  async #begin(code: string): Promise<void> {
    const { promise: begun, resolve } = Promise.withResolvers<void>();
    const events = this.#run(code, { inputs: true }, (execution) => resolve(execution.begun()));
    const over = (async () => {
      while (!(await events.next()).done); // what it asks is asked again by the next host
    })();
    await Promise.race([begun, over]);
    over.catch(() => {}); // it tells the next host
  }

  /**
   * Tells what the session's last execution has done since it began, and does: after {@linkcode attach},
   * once. One that has ended gives its result once more. Leaving the loop cancels the execution.
   *
   * @param options Its limits, and which events come.
   * @returns The events, as of {@linkcode stream}; none where no code has been run.
   * @throws {CodeExecutionError} The code raised an exception.
   * @throws {ExecutionTimeoutError} It took longer than `timeoutMs` from now on.
   * @throws {KernelDiedError} Its kernel died, perhaps while no process was attached.
   */
  async *resume(options: ResumeOptions = {}): AsyncGenerator<ExecutionEvent, void, undefined> {
    const found = this.#found;
    if (found === undefined) return;
    this.#found = undefined;
    const { run, code, inputs } = found;
    const { chunks = false, inputs: tellsInputs = false } = options;
    using turn = found.turn ?? await this.#kernel.turn(this.#closed.signal);
    this.#current = run;
    using span = startSpan("execute_code");
    try {
      const events = this.#events(run, { code, names: undefined, options, turn, inputs, span });
      for (;;) {
        const { done, value } = await events.next();
        if (done) {
          yield* this.#notes();
          yield { type: "result", result: value };
          return;
        }
        if (value.type === "input" && !tellsInputs) value.request.end(); // nobody answers it
        else if (chunks || value.type !== "chunk") yield value;
      }
    } catch (error) {
      yield* this.#notes();
      if (!run.isCancellation(error)) throw error;
    } finally {
      if (!run.isOver) await run.cancel();
      this.#current = undefined;
      if (this.#state === "lost") this.#checker?.reset();
    }
  }

  /** The door at which an `ApprovalClient` in another process decides on approvals. */
  get applicationDoor(): Door {
    return this.#tools.applicationDoor;
  }

  /** The web page on which a person decides on approvals. */
  get page(): ApprovalPage {
    return this.#tools.page;
  }

  /**
   * Makes a link to the approval page. It works once, and for some minutes.
   *
   * @returns The link, only for the person who decides.
   */
  approvalPage(): URL {
    return this.#tools.approvalPage();
  }

  /** The names of the MCP servers that code may call, sorted. */
  get servers(): string[] {
    return this.#tools.runner.registry.names;
  }

  /**
   * Whether the kernel's variables survived the execution that ended last: `"lost"` after its kernel
   * died, was reset, or had to be replaced because the code could not be interrupted.
   */
  get state(): KernelState {
    return this.#state;
  }

  /**
   * Runs code and tells what happens: approvals that wait for a decision, the progress of tool calls,
   * what MCP servers log, and at the end the result. Leaving the loop cancels the execution.
   *
   * The iterating code decides on approvals, unless an `ApprovalClient` is connected: then that does.
   * The approval page may decide as well; the first decision counts. To leave a request to the page,
   * do nothing, or call `page.decide()`, which rejects it once nobody can be asked there any more.
   *
   * @param code IPython code: Python, top-level `await`, magics and `!commands`.
   * @param options Its limits, and whether output is streamed as it is produced.
   * @returns The events. After {@linkcode cancel} they end without a result.
   * @throws {CodeExecutionError} The code raised an exception.
   * @throws {ExecutionTimeoutError} It took longer than `timeoutMs`.
   * @throws {KernelDiedError} Its kernel, or the gateway or sandbox around it, died; the next
   * execution gets a fresh one.
   * @throws {DOMException} An `AbortError` if the executor is reset or disposed of during the call.
   */
  async *stream(
    code: string,
    options: StreamOptions = {},
  ): AsyncGenerator<ExecutionEvent, void, undefined> {
    const result = yield* this.#run(code, options);
    if (result !== undefined) yield { type: "result", result };
  }

  /**
   * Runs code and approves every tool call that it makes.
   *
   * @param code IPython code.
   * @param options Its limits.
   * @returns What it produced; nothing if {@linkcode cancel} ended it.
   * @throws {CodeExecutionError} The code raised an exception.
   * @throws {ExecutionTimeoutError} It took longer than `timeoutMs`.
   * @throws {KernelDiedError} Its kernel, or the gateway or sandbox around it, died; the next
   * execution gets a fresh one.
   * @throws {DOMException} An `AbortError` if the executor is reset or disposed of during the call.
   *
   * @example
   * ```ts
   * import { CodeExecutor } from "@ipybox/ipybox";
   *
   * await using executor = await CodeExecutor.start();
   * await executor.execute("a = 40");
   * const { text } = await executor.execute("a + 2", { timeoutMs: 10_000 });
   * console.error(text); // 42
   * ```
   */
  async execute(code: string, options: ExecuteOptions = {}): Promise<ExecutionResult> {
    let result: ExecutionResult = { text: null, images: [], outputs: [] };
    for await (const event of this.stream(code, options)) {
      switch (event.type) {
        case "chunk":
          break;
        case "approval":
          if (event.request.kind !== "change") await event.request.accept();
          else {await event.request.reject(
              "execute() approves calls, but not the start of unregistered servers",
            );}
          break;
        case "result":
          result = event.result;
      }
    }
    return result;
  }

  /**
   * Interrupts the execution under way, if there is one: its code sees a `KeyboardInterrupt`, which
   * it may catch and continue, unlike a cancelled one.
   */
  async interrupt(): Promise<void> {
    await this.#kernel.interrupt();
  }

  /**
   * Cancels the execution under way, if there is one: its events end without a result. Those that
   * wait for their turn continue.
   *
   * @returns Whether the kernel's variables survived, once the execution has ended.
   */
  async cancel(): Promise<KernelState> {
    return await this.#current?.cancel() ?? "kept";
  }

  /**
   * Tells whether code is complete or needs more lines.
   *
   * @param code IPython code, as far as it is typed.
   * @param options How long the answer is waited for.
   * @returns Its status, and the indentation of its next line.
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
   * Says what can stand at a position of code. Tool calls that completing it would make are refused.
   *
   * @param code IPython code, as far as it is typed.
   * @param cursor The position, as an index of the string.
   * @param options How long the answer is waited for.
   * @returns The completions, and what of the code each of them replaces.
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
   * Checks code as if it were about to run: nothing of it runs.
   *
   * @param code IPython code.
   * @param options What stops it.
   * @returns What is certain to fail, what may fail, and which tools the code names.
   * @throws {EnvironmentNotReadyError} The option `check` is `"off"`.
   * @throws {DOMException} An `AbortError` if the executor is disposed of during the call.
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
    const checker = this.#checker;
    if (checker === undefined) {
      throw new EnvironmentNotReadyError("Code is not checked", 'Remove `check: "off"`');
    }
    const signal = anySignal(options.signal, this.#closed.signal);
    using _turn = await this.#kernel.turn(signal);
    await abortable(this.#resetting, signal);
    const report = await checker.check(code, signal, CHECK_TIMEOUT_MS);
    checker.ended("blocked");
    return report;
  }

  /**
   * Starts afresh: variables, what code wrote to its home directory and the processes that it started
   * are gone, and MCP servers stop. Files of the workspace, which the fresh kernel may import,
   * packages and registrations stay.
   * An execution under way ends with an `AbortError`; those that wait for their turn run in the
   * fresh kernel.
   */
  async reset(): Promise<void> {
    this.#checker?.reset();
    // The kernel is stopped immediately: its code must not live to see its calls fail.
    const reset = allDone([this.#kernel.reset(), this.#tools.reset()])
      .then(() => this.#apis.learn());
    this.#resetting = reset.then(() => {}, () => {}); // the caller of reset() gets the error
    await reset;
  }

  /**
   * Installs Python packages for the workspace's code, which can import them right away and in later
   * sessions. Packages that already satisfy the requirements are not reinstalled.
   *
   * The installer runs in a sandbox that reaches only the package indexes which pip or uv is
   * configured to use, and the hosts of the Git repositories named.
   *
   * @param requirements Such as `"pandas"`, `"numpy>=2,<3"` or `"git+https://HOST/OWNER/NAME@TAG"`;
   * several are resolved together.
   * @param options What stops it, and what receives the installer's lines.
   * @returns What the installer wrote, its last 16 KiB.
   * @throws {TypeError} One of them is neither a package nor a Git repository.
   * @throws {PackageInstallError} They could not be installed; `output` says why.
   * @throws {EnvironmentNotReadyError} There is no installer, no sandbox, or no packages folder:
   * `packages` is `false`, or Deno's permissions do not allow to write to the user's cache.
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
    const list = typeof requirements === "string" ? [requirements] : requirements;
    const parsed = list.map(parseRequirement);
    if (this.#packages === undefined) {
      throw new EnvironmentNotReadyError(
        "Cannot install packages: this executor has no packages folder",
        "Remove `packages: false`, and let Deno read and write everywhere (--allow-read --allow-write); " +
          "with a placement, add packages to the Python there",
      );
    }
    const signal = anySignal(options.signal, this.#closed.signal);
    return await this.#packages.install(parsed, { ...options, signal });
  }

  /** @internal The files of the workspace, with a placement that does not show this machine's. */
  get farWorkspace(): FarWorkspace {
    return this.#kernel.farWorkspace;
  }

  /**
   * Registers an MCP server with the workspace and generates its Python API in `mcptools/`. Code can
   * import it immediately; {@linkcode reset} updates one that was already imported.
   *
   * @param name The server's name, which is the name of its Python package.
   * @param params How it is started or reached. `${VAR}` is filled in whenever that happens.
   * @param options Cancels it. If anything fails, nothing is changed.
   * @returns What became of each tool, in the server's order.
   * @throws {TypeError} The name cannot be a server's.
   * @throws {ConfigError} The parameters make no sense.
   * @throws {McpConnectionError} The server does not start or answer. Nothing was registered.
   * @throws {McpLoginRequiredError} The server requires a login, and there is no `login` option.
   */
  async registerServer(
    name: string,
    params: ServerParams,
    options: RegisterServerOptions = {},
  ): Promise<GeneratedTool[]> {
    return await this.#apis.add(name, params, anySignal(options.signal, this.#closed.signal));
  }

  /**
   * Removes an MCP server from the workspace's registry, stops it, and removes its Python API.
   *
   * @param name The server's name.
   * @returns Whether there was anything to remove.
   * @throws {TypeError} The name cannot be a server's.
   * @throws {ConfigError} The registry cannot be read.
   */
  async unregisterServer(name: string): Promise<boolean> {
    return await this.#apis.remove(name);
  }

  /**
   * Compares a server's tools with its generated Python API. Of use after a `tools_changed` event:
   * {@linkcode registerServer} brings the API up to date.
   *
   * @param name The registered server.
   * @returns The tools that differ, by their names on the wire.
   * @throws {ToolCallError} The server cannot be reached or does not give its list.
   */
  async staleTools(name: string): Promise<StaleTools> {
    return await this.#apis.stale(name);
  }

  /**
   * Ends the kernel and the MCP servers. Executions under way or waiting for their turn end with an
   * `AbortError`.
   */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed.abort(new DOMException("The executor was closed", "AbortError"));
    using _stage = stage("end");
    await (this.#disposing ??= this.#parts.disposeAsync());
  }

  /** Runs code in its turn, which ends before the result is yielded. */
  async *#run(
    code: string,
    options: StreamOptions,
    onRun: (execution: Run<RunEvent>) => void = () => {},
  ): AsyncGenerator<ExecutionEvent, ExecutionResult | undefined, undefined> {
    const { storeHistory, chunks = false, inputs: tellsInputs = false } = options;
    const signal = anySignal(options.signal, this.#closed.signal);
    using turn = await this.#kernel.turn(signal);
    const inputs = new CodeInputs(code, (question) => {
      this.#tools.runner.questionEnded(question);
    });
    const execution: Run<RunEvent> = this.#kernel.prepare(code, {
      signal,
      storeHistory,
      chunks,
      onInput: tellsInputs ? (request) => inputs.take(request, execution) : undefined,
    });
    this.#current = execution;
    using span = startSpan("execute_code");
    using _stage = stage("run code");
    let ended: "well" | "failed" | "blocked" = "blocked";
    try {
      await abortable(this.#resetting, execution.signal); // calls of the fresh kernel are not the old one's
      await abortable(this.#kernel.ready(), execution.signal);
      // The code may import what is new.
      await abortable(this.#tools.runner.toolsFollowed(), execution.signal);
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
      execution.end({ state: "kept", failure: { error } }); // where it has not begun
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

  /** Runs code with its time limit, and with what becomes of its calls. */
  async *#events(
    execution: Run<RunEvent>,
    { code, names, options, turn, inputs, span }: Turn,
  ): AsyncGenerator<ExecutionEvent, ExecutionResult, undefined> {
    const { timeoutMs, elicitations = false, calls = false } = options;
    const { runner } = this.#tools;
    const { channel, events: serverEvents, elicitations: questions } = runner;
    const { events } = execution;
    using budget = new TimeBudget(timeoutMs);
    using _clock = budget.standStillFor([channel, questions, inputs]);
    using _watcher = serverEvents.watch((event) => {
      const size = JSON.stringify(event).length;
      if (events.hasRoom(size)) events.add(event, size);
    });
    using _follower = calls ? serverEvents.followCalls((event) => events.add(event)) : undefined;
    // Who decides sees first what the code has said before.
    using _approver = channel.attached ? undefined : channel.attach(async (request) => {
      await execution.flush();
      events.add({ type: "approval", request });
    });
    using _answerer = !elicitations || questions.attached
      ? undefined
      : questions.attach(async (request) => {
        await execution.flush();
        events.add({ type: "elicitation", request });
      });
    using _cell = span.run(() => runner.enterCell(code, names));
    this.#durably?.follow?.();
    this.#durably?.state.begin(execution.id, code);
    const ended = this.#kernel.run(execution, { turn, limit: budget.signal });
    try {
      yield* execution;
      return await execution.result;
    } catch (error) {
      if (timeoutMs !== undefined && budget.expired && error === budget.signal.reason) {
        throw new ExecutionTimeoutError(timeoutMs, await execution.state, execution.partial());
      }
      throw error;
    } finally {
      await ended;
      this.#state = await execution.state;
      if (this.#durably?.left.is === false) {
        this.#durably.state.end();
        if (this.#state === "kept") this.#durably.journal.forgetUnasked();
      }
      span.set({ "ipybox.kernel.state": this.#state });
    }
  }

  /** Tells what the check found. What is certain to fail ends here, unless it is only warned of. */
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
    yield { type: "note", text: `[ipybox] The check of the code says:\n${report}` };
  }

  *#notes(): Generator<NoteEvent> {
    const notes = [...this.#apis.takeNews(), ...this.#tools.runner.takeNotes()];
    for (const text of notes) yield { type: "note", text };
  }

  #untilClosed(options: TypedCodeOptions): TypedCodeOptions {
    return { ...options, signal: anySignal(options.signal, this.#closed.signal) };
  }
}

/** How long a check may take that nothing waits behind. */
const CHECK_TIMEOUT_MS = 20_000;

/** What an execution has while it is its turn. */
interface Turn {
  readonly code: string;
  /** The tools that it names. */
  readonly names: readonly string[] | undefined;
  readonly options: StreamOptions;
  readonly turn: Disposable;
  readonly inputs: CodeInputs;
  /** Observes the execution; its calls are a part of it. */
  readonly span: Span;
}

/** The class of an error, for traces. The names of Python's exceptions are chosen by the code. */
function errorType(error: unknown): string {
  if (error instanceof CodeExecutionError) return error.ename.slice(0, 100);
  return error instanceof Error ? error.name : "_OTHER";
}
