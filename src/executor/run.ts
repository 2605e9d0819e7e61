import { resolve } from "node:path";
import { guardsShell } from "../approval/policy.ts";
import { ExecutionTimeoutError, type KernelState } from "../base/errors.ts";
import { anySignal } from "../base/signals.ts";
import type { Span } from "../base/telemetry.ts";
import { TimeBudget } from "../base/time_budget.ts";
import type { ToolRunner } from "../calls/runner.ts";
import { ToolServer } from "../calls/tool_server.ts";
import type { ShellGuard } from "../kernel/bootstrap.ts";
import type { ExecuteOptions, Execution } from "../kernel/execution.ts";
import { ChunkQueue } from "../kernel/spill_file.ts";
import { findPython, type PythonEnvironment } from "../python/environment.ts";
import { PackageFolder } from "../python/packages.ts";
import type { SandboxOptions } from "../sandbox/sandbox.ts";
import { refuseNested } from "../sandbox/workspace.ts";
import type { ServerEvent } from "../servers/events.ts";
import { CodeInputs } from "./code_inputs.ts";
import { KernelSession } from "./kernel_session.ts";
import type {
  ChunkEvent,
  CodeExecutorOptions,
  ExecutionEvent,
  InputEvent,
  StreamOptions,
} from "./options.ts";

/** What a {@linkcode CodeRun} needs. */
interface CodeRunParts {
  /** Runs code in the kernel. */
  readonly execute: (code: string, options: ExecuteOptions) => Execution;
  /** Makes the calls of the code. */
  readonly runner: ToolRunner;
  /** Told of the execution; its calls are a part of it. */
  readonly span: Span;
}

/** Code whose turn it is: its execution, with its time limit, and with what becomes of its calls. */
export class CodeRun {
  /** Aborts when the run is given up. */
  readonly signal: AbortSignal;
  readonly #cancel = new AbortController();
  #execution: Execution | undefined;
  #state: KernelState | undefined;

  /** @param stop What gives the run up, beside {@linkcode cancel}. */
  constructor(stop: AbortSignal) {
    this.signal = anySignal(stop, this.#cancel.signal);
  }

  /** Whether the execution has begun. */
  get begun(): boolean {
    return this.#execution !== undefined;
  }

  /** Whether the kernel's variables survived; known at the end of a run that has begun. */
  get state(): KernelState | undefined {
    return this.#state;
  }

  /** Gives the run up. */
  async cancel(): Promise<KernelState> {
    this.#cancel.abort(new DOMException("The execution was cancelled", "AbortError"));
    return await (this.#execution?.state ?? "kept"); // it may not have begun
  }

  /** Tells whether an error is nothing but {@linkcode cancel}. */
  isCancellation(error: unknown): boolean {
    return this.#cancel.signal.aborted && error === this.#cancel.signal.reason;
  }

  /** Executes the code and tells what happens. Leaving the loop cancels the execution. */
  async *events(
    code: string,
    options: StreamOptions,
    { execute, runner, span }: CodeRunParts,
  ): AsyncGenerator<ExecutionEvent, void, undefined> {
    const { timeoutMs, chunks = false, elicitations = false, calls = false, inputs = false } =
      options;
    const { channel, events: serverEvents, elicitations: questions } = runner;
    const events = new EventQueue();
    using budget = new TimeBudget(timeoutMs);
    const asked = new CodeInputs({
      flush: () => execution.flush(),
      tell: (request) => events.addInput({ type: "input", request }),
    });
    using _clock = budget.standStillFor([channel, questions, asked]);
    using _watcher = serverEvents.watch((event) => events.addServerEvent(event));
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
    using _cell = span.run(() => runner.enterCell(code));
    const signal = anySignal(this.signal, budget.signal);
    const execution = execute(code, {
      signal,
      storeHistory: options.storeHistory,
      onInput: inputs ? (request) => asked.take(request) : undefined,
    });
    this.#execution = execution;
    const followed = events.follow(execution, { chunks });
    try {
      yield* events;
    } catch (error) {
      if (timeoutMs !== undefined && budget.expired && error === budget.signal.reason) {
        throw new ExecutionTimeoutError(timeoutMs, await execution.state, execution.partial());
      }
      throw error;
    } finally {
      this.#state = await execution.cancel(); // does nothing to one that has ended
      span.set({ "ipybox.kernel.state": this.#state });
      await followed;
    }
  }
}

/** The events that are told whole, however slow their reader is. */
type LastingEvent = Exclude<ExecutionEvent, ChunkEvent>;

/**
 * The events between an execution and whoever follows it, in order.
 *
 * A reader that pauses must not fill the memory of this process: beyond 16 MiB that wait to be read
 * chunks are left out, which a chunk says, and so are events of MCP servers. Requests and the result
 * are never left out.
 */
class EventQueue {
  readonly #queue = new ChunkQueue<LastingEvent>();

  /** Adds an event that somebody must see. */
  add(event: Exclude<LastingEvent, ServerEvent | InputEvent>): void {
    this.#queue.add(event);
  }

  /** Adds what a server tells, unless too much waits already. */
  addServerEvent(event: ServerEvent): void {
    const size = JSON.stringify(event).length;
    if (this.#queue.hasRoom(size)) this.#queue.add(event, size);
  }

  /** Adds what the code asks, unless too much waits already: then it hears that nobody answers. */
  addInput(event: InputEvent): void {
    const size = event.request.prompt.length;
    if (this.#queue.hasRoom(size)) this.#queue.add(event, size);
    else event.request.end();
  }

  /** Adds an execution's chunks, if they are asked for, and its end. Never rejects. */
  async follow(execution: Execution, options: { readonly chunks: boolean }): Promise<void> {
    try {
      if (options.chunks) {
        for await (const { stream, text } of execution) this.#queue.push(stream, text);
      }
      this.#queue.add({ type: "result", result: await execution.result });
      this.#queue.end();
    } catch (error) {
      this.#queue.fail(error);
    }
  }

  /** The events, until the result or what the execution failed with. */
  async *[Symbol.asyncIterator](): AsyncGenerator<ExecutionEvent, void, undefined> {
    for (;;) {
      const event = await this.#queue.next();
      if (event === undefined) return;
      if (event.type !== "chunk") yield event;
      else {
        const stream = event.stream === "stderr" ? "stderr" : "stdout";
        yield { type: "chunk", stream, text: event.text };
      }
    }
  }
}

/** What an executor consists of, running. */
export interface RunningParts {
  /** The workspace, as an absolute path without symbolic links. */
  readonly workspace: string;
  readonly kernel: KernelSession;
  readonly tools: ToolServer;
  /** The workspace's packages, where there may be any. */
  readonly packages: PackageFolder | undefined;
}

/** Starts the tool server, and then the kernel that it serves. */
export async function startParts(
  parts: AsyncDisposableStack,
  options: CodeExecutorOptions,
): Promise<RunningParts> {
  const shell = shellGuard(options);
  const workspace = await Deno.realPath(options.workspace ?? Deno.cwd());
  if (!options.nestedWorkspace) await refuseNested(workspace);
  const python = await findPython({ ...options, workspace });
  const tools = parts.use(await ToolServer.start({ ...options, workspace, kernelPort: false }));
  const { packages, importable } = await openPackages(options, workspace, python);
  const kernel = parts.use(
    await KernelSession.start({
      gateway: {
        ...options,
        python: python.executable,
        workspace,
        kernelDoor: (stream) => tools.serveKernel(stream),
        sandbox: withReadOnly(options.sandbox, tools.runner.settingsFiles),
        packages: importable,
      },
      kernel: {
        ...options,
        imagesDir: resolve(workspace, options.imagesDir ?? "images"),
        workingDir: workspace,
        toolToken: () => tools.renewKernelToken(),
        shell,
      },
    }),
  );
  return { workspace, kernel, tools, packages };
}

/** The packages that code can import, and the folder that further ones are installed into. */
async function openPackages(
  { packages = true, sandbox, log }: CodeExecutorOptions,
  workspace: string,
  python: PythonEnvironment,
): Promise<{ packages: PackageFolder | undefined; importable: readonly string[] }> {
  if (packages === false) return { packages: undefined, importable: [] };
  const others = packages === true ? [] : [await PackageFolder.find(packages, python)];
  const shared = others.filter((path) => path !== undefined);
  if (PackageFolder.isPermitted()) {
    const own = await PackageFolder.open(workspace, python, { sandbox, shared, log });
    return { packages: own, importable: [own.path, ...shared] };
  }
  const found = await PackageFolder.find(workspace, python);
  return { packages: undefined, importable: found === undefined ? shared : [found, ...shared] };
}

/** What code in the kernel must ask for before it runs commands. */
function shellGuard({ approval, requireShellEscape = false }: CodeExecutorOptions): ShellGuard {
  if (guardsShell(approval)) return requireShellEscape ? "escape" : "approval";
  if (!requireShellEscape) return "none";
  throw new TypeError(
    "Cannot require shell escapes where they are not approved: " +
      'set approval.shell to "ask" or "deny", or leave out requireShellEscape',
  );
}

/** Keeps code from changing the settings that decide on servers' sandboxes. */
function withReadOnly(
  sandbox: CodeExecutorOptions["sandbox"] = true,
  files: readonly string[],
): boolean | SandboxOptions {
  if (sandbox === false) return false;
  const options = sandbox === true ? {} : sandbox;
  return { ...options, readOnly: [...options.readOnly ?? [], ...files] };
}
