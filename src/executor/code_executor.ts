import { join, resolve } from "node:path";
import type { GeneratedTool } from "../apigen/generate.ts";
import { generateMcpSources } from "../apigen/sources.ts";
import type { ApprovalSetting } from "../approval/policy.ts";
import { Mutex } from "../async/mutex.ts";
import { AsyncQueue } from "../async/queue.ts";
import { abortable, anySignal } from "../async/signals.ts";
import { ExecutionTimeoutError, type KernelState } from "../errors.ts";
import type { Execution } from "../kernel/execution.ts";
import type { ExecutionResult } from "../kernel/outputs.ts";
import { type Logger, stderrLogger } from "../log.ts";
import type { ServerParams } from "../mcp/server_params.ts";
import { findPython } from "../python/environment.ts";
import type { ResourceLimits } from "../sandbox/limits.ts";
import type { SandboxOptions } from "../sandbox/sandbox.ts";
import { type Door, ToolServer } from "../tool_server/tool_server.ts";
import type { ExecutionEvent } from "./events.ts";
import { KernelSession } from "./kernel_session.ts";
import { TimeBudget } from "./time_budget.ts";

/** Options of {@linkcode CodeExecutor.start}. */
export interface CodeExecutorOptions {
  /**
   * The code's working directory. It holds the generated Python APIs in `mcptools/` and the registry
   * of MCP servers in `.ipybox/mcp.json`. Executed code can read and write it, but for those two.
   *
   * @default {Deno.cwd()}
   */
  workspace?: string | undefined;
  /** MCP servers by name, for this executor only, over those that the workspace has registered. */
  servers?: Readonly<Record<string, ServerParams>> | undefined;
  /**
   * Whether code runs in the OS sandbox, and how that differs from its defaults.
   *
   * @default {true}
   */
  sandbox?: boolean | SandboxOptions | undefined;
  /**
   * What one process of the executed code may take, also without the sandbox; `false` for no limits.
   * An error that comes from one of them names it.
   *
   * @default 8 GiB of memory, 1024 processes in the sandbox, files of 4 GiB, no limit of CPU time
   */
  limits?: ResourceLimits | false | undefined;
  /**
   * Which calls need approval.
   *
   * @default {{ tools: "ask", shell: "allow" }}
   */
  approval?: ApprovalSetting | undefined;
  /** Environment variables of the kernel, which inherits nothing of the host's but `PATH`. */
  kernelEnv?: Readonly<Record<string, string>> | undefined;
  /** A folder with further Python packages for the code, which it can only read. It exists. */
  packagesDir?: string | undefined;
  /**
   * The folder for image files, relative to the workspace; created with the first image.
   *
   * @default {"images"}
   */
  imagesDir?: string | undefined;
  /**
   * Whether each execution starts in the workspace again, wherever the one before went.
   *
   * @default {false}
   */
  restoreWorkingDir?: boolean | undefined;
  /**
   * How much text of one execution is kept in memory, in bytes: half of it from the start and half
   * from the end. The whole of a longer one goes to a file, which the text names.
   *
   * @default {1048576}
   */
  maxOutputBytes?: number | undefined;
  /**
   * Whether a second kernel is kept ready, so that {@linkcode CodeExecutor.reset} takes milliseconds
   * and a kernel that died is replaced at once. It costs the memory of one idle kernel, some 45 MB.
   *
   * @default {true}
   */
  spareKernel?: boolean | undefined;
  /**
   * How long a decision on an approval is waited for, in milliseconds; then the call is refused.
   *
   * @default {undefined} for ever
   */
  approvalTimeoutMs?: number | undefined;
  /**
   * How long an MCP server may take to start, in milliseconds.
   *
   * @default {30000}
   */
  connectTimeoutMs?: number | undefined;
  /**
   * How long the kernel may take to start, in milliseconds.
   *
   * @default {60000}
   */
  startTimeoutMs?: number | undefined;
  /**
   * The path of a Python that has `jupyter_kernel_gateway`, `ipykernel` and `pydantic`.
   *
   * @default the environment variable `IPYBOX_PYTHON`, else the environment made by `ipybox setup`
   */
  python?: string | undefined;
  /** Gives up the start. */
  signal?: AbortSignal | undefined;
  /**
   * Told what happens.
   *
   * @default warnings and errors go to stderr
   */
  log?: Logger | undefined;
}

/** Options of {@linkcode CodeExecutor.execute}. */
export interface ExecuteOptions {
  /**
   * How long the code may run, in milliseconds. Tool calls count; waiting for approvals, and for the
   * executions before it, does not.
   *
   * @default {undefined} for ever
   */
  timeoutMs?: number | undefined;
  /** Cancels the execution, which then rejects with the signal's reason. */
  signal?: AbortSignal | undefined;
}

/** Options of {@linkcode CodeExecutor.stream}. */
export interface StreamOptions extends ExecuteOptions {
  /**
   * Whether pieces of output come as events as they are produced.
   *
   * @default {false}
   */
  chunks?: boolean | undefined;
}

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
  readonly #kernel: KernelSession;
  readonly #tools: ToolServer;
  readonly #connectTimeoutMs: number | undefined;
  readonly #turns = new Mutex();
  readonly #closed = new AbortController();
  #current: { readonly cancel: AbortController; execution?: Execution } | undefined;
  #state: KernelState = "kept";
  #disposing: Promise<void> | undefined;

  private constructor(
    parts: AsyncDisposableStack,
    running: { workspace: string; kernel: KernelSession; tools: ToolServer },
    options: CodeExecutorOptions,
  ) {
    this.#parts = parts;
    this.workspace = running.workspace;
    this.#kernel = running.kernel;
    this.#tools = running.tools;
    this.#connectTimeoutMs = options.connectTimeoutMs;
  }

  /**
   * Starts a kernel and what its tool calls need.
   *
   * @param options Where, with which servers, how closed in.
   * @returns The executor, ready for code.
   * @throws {EnvironmentNotReadyError} Python or the sandbox is not there; `fix` says what helps. A
   * `SandboxUnavailableError` is one of these.
   * @throws {ConfigError} The registry or an option cannot be used.
   * @throws {GatewayStartError} The kernel gateway ended or did not answer in time.
   */
  static async start(options: CodeExecutorOptions = {}): Promise<CodeExecutor> {
    const { servers, approval, approvalTimeoutMs, connectTimeoutMs, startTimeoutMs } = options;
    const { kernelEnv, sandbox, signal, imagesDir = "images", log = stderrLogger() } = options;
    await using parts = new AsyncDisposableStack();
    const workspace = await Deno.realPath(options.workspace ?? Deno.cwd());
    const python = await findPython({ python: options.python, log });
    const tools = parts.use(
      await ToolServer.start({
        workspace,
        servers,
        approval,
        approvalTimeoutMs,
        connectTimeoutMs,
        log,
      }),
    );
    const { hostname, port, token } = tools.kernelDoor;
    const { packagesDir, restoreWorkingDir, maxOutputBytes, spareKernel } = options;
    const kernel = parts.use(
      await KernelSession.start({
        gateway: {
          python: python.executable,
          workspace,
          kernelDoor: { hostname, port },
          kernelToken: token,
          sandbox,
          limits: options.limits,
          kernelEnv,
          packagesDir,
          startTimeoutMs,
          signal,
          log,
        },
        kernel: {
          imagesDir: resolve(workspace, imagesDir),
          workingDir: workspace,
          restoreWorkingDir,
          maxOutputBytes,
          spareKernel,
          startTimeoutMs,
          signal,
          log,
        },
      }),
    );
    return new CodeExecutor(parts.move(), { workspace, kernel, tools }, options);
  }

  /** The door at which an `ApprovalClient` in another process decides on approvals. */
  get applicationDoor(): Door {
    return this.#tools.applicationDoor;
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
   * Runs code and tells what happens: approvals that wait for a decision, and at the end the result.
   * Leaving the loop cancels the execution.
   *
   * Whoever iterates decides on approvals, unless an `ApprovalClient` is connected: then that does.
   *
   * @param code IPython code: Python, top-level `await`, magics and `!commands`.
   * @param options Its limits, and whether output is told as it is produced.
   * @returns The events. After {@linkcode cancel} they end without a result.
   * @throws {CodeExecutionError} The code raised an exception.
   * @throws {ExecutionTimeoutError} It took longer than `timeoutMs`.
   * @throws {KernelDiedError} Its kernel, or the gateway or sandbox around it, died; the next
   * execution gets a fresh one.
   * @throws {DOMException} An `AbortError` when the executor was reset or disposed of meanwhile.
   */
  async *stream(
    code: string,
    options: StreamOptions = {},
  ): AsyncGenerator<ExecutionEvent, void, undefined> {
    const stop = anySignal(options.signal, this.#closed.signal);
    using _turn = await this.#turns.acquire(stop);
    const cancel = new AbortController();
    this.#current = { cancel };
    try {
      yield* this.#run(code, options, anySignal(stop, cancel.signal));
    } catch (error) {
      if (!cancel.signal.aborted || error !== cancel.signal.reason) throw error;
    } finally {
      this.#current = undefined;
    }
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
   * @throws {DOMException} An `AbortError` when the executor was reset or disposed of meanwhile.
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
          await event.request.accept();
          break;
        case "result":
          result = event.result;
      }
    }
    return result;
  }

  /**
   * Cancels the execution under way, if there is one: its events end without a result. Those that
   * wait for their turn go on.
   *
   * @returns Whether the kernel's variables survived, once the execution has ended.
   */
  async cancel(): Promise<KernelState> {
    const current = this.#current;
    if (current === undefined) return "kept";
    current.cancel.abort(new DOMException("The execution was cancelled", "AbortError"));
    return await (current.execution?.state ?? "kept"); // it may not have begun
  }

  /**
   * Starts afresh: variables are lost and MCP servers stop; files, packages and registrations stay.
   * An execution under way ends with an `AbortError`; those that wait for their turn run in the
   * fresh kernel.
   */
  async reset(): Promise<void> {
    await this.#tools.reset();
    await this.#kernel.reset();
  }

  /**
   * Registers an MCP server with the workspace and generates its Python API in `mcptools/`. Code can
   * import it at once; one that was imported before comes up to date with {@linkcode reset}.
   *
   * @param name The server's name, which is the name of its Python package.
   * @param params How it is started or reached. `${VAR}` is filled in whenever that happens.
   * @returns What became of each tool, in the server's order.
   * @throws {TypeError} The name cannot be a server's.
   * @throws {ConfigError} The parameters make no sense.
   * @throws {McpConnectionError} The server does not start or answer. Nothing was registered.
   */
  async registerServer(name: string, params: ServerParams): Promise<GeneratedTool[]> {
    const tools = await generateMcpSources(name, params, {
      rootDir: join(this.workspace, "mcptools"),
      workspace: this.workspace,
      connectTimeoutMs: this.#connectTimeoutMs,
    });
    await this.#tools.runner.registerServer(name, params);
    return tools;
  }

  /**
   * Ends the kernel and the MCP servers. Executions under way or waiting for their turn end with an
   * `AbortError`.
   */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed.abort(new DOMException("The executor was closed", "AbortError"));
    await (this.#disposing ??= this.#parts.disposeAsync());
  }

  /** Runs code whose turn it is. */
  async *#run(
    code: string,
    options: StreamOptions,
    stop: AbortSignal,
  ): AsyncGenerator<ExecutionEvent, void, undefined> {
    const { timeoutMs, chunks = false } = options;
    const execute = await abortable(this.#kernel.ready(), stop);
    const { channel } = this.#tools.runner;
    const events = new AsyncQueue<ExecutionEvent>();
    using budget = new TimeBudget(timeoutMs);
    using _clock = channel.onPendingChange((pending) => budget.setPending(pending));
    using _approver = channel.attached
      ? undefined
      : channel.attach((request) => events.push({ type: "approval", request }));
    const execution = execute(code, { signal: anySignal(stop, budget.signal) });
    if (this.#current !== undefined) this.#current.execution = execution;
    const told = tell(execution, events, chunks);
    try {
      for await (const event of events) yield event;
    } catch (error) {
      if (timeoutMs !== undefined && budget.expired && error === budget.signal.reason) {
        throw new ExecutionTimeoutError(timeoutMs, await execution.state, execution.partial());
      }
      throw error;
    } finally {
      this.#state = await execution.cancel(); // does nothing to one that has ended
      await told;
    }
  }
}

/** Passes an execution's chunks and its end on as events. Never rejects. */
async function tell(
  execution: Execution,
  events: AsyncQueue<ExecutionEvent>,
  chunks: boolean,
): Promise<void> {
  try {
    if (chunks) {
      for await (const { stream, text } of execution) {
        events.push({ type: "chunk", stream: stream === "stderr" ? "stderr" : "stdout", text });
      }
    }
    events.push({ type: "result", result: await execution.result });
    events.end();
  } catch (error) {
    events.fail(error);
  }
}
