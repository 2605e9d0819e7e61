import { KernelDiedError, type KernelState } from "../base/errors.ts";
import { requirePositive } from "../base/numbers.ts";
import { type Logger, silentLogger } from "../base/log.ts";
import { messageOf } from "../base/message_of.ts";
import { Mutex } from "../base/mutex.ts";
import { Deadline } from "../base/deadline.ts";
import { abortable, anySignal } from "../base/signals.ts";
import { ArtifactFolder } from "../files/artifact_folder.ts";
import type { OwnOptions, PythonOptions } from "../executor/options.ts";
import type { ShellGuard } from "./bootstrap.ts";
import { type ExecuteOptions, type Outcome, Run } from "./execution.ts";
import { WorkspaceFiles } from "../place/workspace_files.ts";
import { KernelGateway, START_TIMEOUT_MS } from "./gateway.ts";
import {
  type CheckerProcess,
  type GatewayAddress,
  GatewayConnection,
} from "./gateway_connection.ts";
import type { JsonObject, KernelRequest, RequestContent } from "./jupyter.ts";
import { Kernel, type KernelReference } from "./kernel.ts";
import type { KernelGatewayOptions } from "../place/place.ts";
import {
  type CodeCompletions,
  codeCompletions,
  type CodeStatus,
  codeStatus,
  toCodePoints,
  TYPED_CODE_TIMEOUT_MS,
  type TypedCodeOptions,
} from "./typed_code.ts";

/** Options of `KernelClient.start()`. */
export interface KernelClientOptions
  extends
    Pick<KernelGatewayOptions, "startTimeoutMs" | "signal" | "log">,
    Pick<PythonOptions, "maxOutputBytes" | "restoreWorkingDir"> {
  /** The kernel gateway: a running `KernelGateway` is one. */
  readonly gateway: GatewayAddress;
  /**
   * The folder for files of displays, such as images, and for texts that are too long. It is
   * created with the first file.
   *
   * @default {"images"}
   */
  readonly imagesDir?: string;
  /** Where code starts; relative to the gateway's working directory, which is also the default. */
  readonly workingDir?: string;
  /**
   * The rule for shell commands. With `"approval"`, `!cmd`, `%%bash` and the like ask the tool
   * server that the gateway's kernels know; with `"escape"`, all other ways to start a process also
   * raise an exception.
   *
   * @default {"none"}
   */
  readonly shell?: ShellGuard;
  /**
   * Makes the token (`IPYBOX_TOOL_TOKEN`) that code sends to the tool server, and revokes the
   * previous one. It is called as soon as a kernel is given up, before its processes have ended.
   *
   * @default {undefined} the gateway's token for all its kernels
   */
  readonly toolToken?: () => string;
  /**
   * Ends the gateway. Called if the gateway does not end a kernel that was given up, or cannot
   * start another one in its place.
   *
   * @default {undefined} the gateway is tried again
   */
  readonly endGateway?: () => Promise<void>;
  /**
   * The time limit for interrupted code to end before its kernel is replaced. A kernel that reports
   * the end of the code gets ten more seconds to be ready for other code.
   *
   * @default {2000}
   */
  readonly interruptGraceMs?: number;
}

/** Options of {@linkcode KernelHost}. */
export interface KernelHostOptions
  extends
    Omit<KernelClientOptions, "gateway">,
    Pick<OwnOptions, "shownPath" | "spareKernel" | "installer"> {
  /** A running gateway, or how the host starts its own, and a fresh one when that has ended. */
  readonly gateway: GatewayAddress | KernelGatewayOptions;
  /** Called with each kernel before code runs in it. */
  readonly onKernel?: (kernel: KernelReference) => void;
  /** A kernel that another host has started, with its last execution. It is used in place of a new one. */
  readonly found?: {
    readonly kernel: KernelReference;
    readonly execution?: {
      readonly id: string;
      /** Makes the request that receives its messages. */
      readonly find: (host: KernelHost, kernel: Kernel) => KernelRequest;
    } | undefined;
  };
}

/** The part of a run that the host needs, whatever events its reader gets. */
type AnyRun = Pick<Run, "signal" | "runIn" | "interrupt" | "end">;

/**
 * The kernel's life cycle. `start` resolves to the current or the next kernel.
 *
 * | from       | event                                       | to                                  |
 * | ---------- | ------------------------------------------- | ----------------------------------- |
 * | `starting` | it is ready                                 | `idle`                              |
 * | `starting` | it cannot be started: waiters get the error | `lost`, reported                    |
 * | `idle`     | an execution has its turn                   | `busy`                              |
 * | `idle`     | it dies, or its gateway                     | `lost`                              |
 * | `busy`     | the execution ends and leaves it usable     | `idle`                              |
 * | `busy`     | the execution is given up and does not end  | `starting`; the execution reports it|
 * | `busy`     | it dies, or its gateway                     | `lost`; the execution reports it    |
 * | `lost`     | an execution ends as lost, or has its turn  | `lost`, reported, or `starting`     |
 * | `lost`     | reported, and somebody needs a kernel       | `starting`                          |
 * | `lost`     | its replacement dies, or cannot be started  | `lost`, with or without another one |
 * | all        | `reset()`                                   | `starting`                          |
 * | all        | disposal                                    | `closed`                            |
 *
 * One event is handled at a time, without waiting in between. Only the holder of the turn makes a
 * kernel `busy`, and only the execution that it runs ends that. A kernel that is not `start` any
 * more has been given up: its events change nothing.
 */
type State =
  | { readonly is: "starting"; readonly start: Promise<Kernel> }
  | { readonly is: "idle"; readonly start: Promise<Kernel> }
  | { readonly is: "busy"; readonly start: Promise<Kernel>; readonly execution: AnyRun }
  /** The variables of earlier code are gone; `reported` once an execution failed with the reason. */
  | {
    readonly is: "lost";
    readonly reason: unknown;
    readonly reported: boolean;
    /** The kernel that takes the place of the lost one. */
    readonly start: Promise<Kernel> | undefined;
  }
  | { readonly is: "closed"; readonly reason: unknown; readonly start?: undefined };

/** The time limit for interrupted code to end before its kernel is replaced. */
const INTERRUPT_GRACE_MS = 2000;

/** A spare kernel is started this long after the first code: many sessions are over before. */
const HEAD_START_MS = 3000;

/** The time limit for a kernel that does nothing to answer. */
const READY_TIMEOUT_MS = 1000;

/** A kernel that dies sooner is replaced only when needed: something may keep killing kernels. */
export const SHORT_LIFE_MS: number = 1000;

/**
 * The owner of a kernel's life: it starts the kernel and, if it must, its gateway, gives turns to
 * executions, and replaces a kernel that dies or is given up: with the spare one if that is ready.
 *
 * Disposing it ends the kernels, and the gateway that it has started.
 */
export class KernelHost implements AsyncDisposable {
  readonly #options: KernelHostOptions;
  readonly #log: Logger;
  /** Receives the files of displays, and texts that are too long. */
  readonly images: ArtifactFolder;
  readonly #turns = new Mutex();
  readonly #closed = new AbortController();
  /** Kernels that are being ended. The next one is started, or begins, after that. */
  readonly #endings = new Set<Promise<void>>();
  #hasEnded = false; // whether a kernel has, since modules were last copied
  #gateway: GatewayConnection | undefined;
  #state: State;
  /**
   * The attempt to attach to an earlier host's kernel. If that died, an execution must report it.
   */
  #attaching: Promise<Kernel> | undefined;
  #spare: Promise<Kernel> | undefined;
  /** Whether code has run. */
  #isUsed = false;
  #spareTimer: ReturnType<typeof setTimeout> | undefined;
  #disposing: Promise<void> | undefined;

  private constructor(options: KernelHostOptions) {
    const { imagesDir = "images", toolToken, signal } = options;
    this.#options = options;
    this.#log = options.log ?? silentLogger;
    this.images = new ArtifactFolder(imagesDir);
    const starting = anySignal(signal, this.#closed.signal);
    const start = options.found === undefined
      ? this.#start(toolToken?.(), starting)
      : this.#attach(options.found, starting);
    if (options.found !== undefined) this.#attaching = start;
    this.#state = { is: "starting", start: this.#watch(start) };
  }

  /** Starts a kernel, and a gateway unless one is given. */
  static async start(options: KernelHostOptions): Promise<KernelHost> {
    requirePositive(options, ["startTimeoutMs"]);
    for (const name of ["maxOutputBytes", "interruptGraceMs"] as const) {
      const value = options[name] ?? 0;
      if (!(value >= 0)) {
        throw new RangeError(`${name} must be a number of 0 or more, not ${value}`);
      }
    }
    const host = new KernelHost(options);
    try {
      await host.#usable();
      return host;
    } catch (error) {
      // After attaching, a lost session is reported by the execution that was running.
      if (options.found !== undefined && error instanceof KernelDiedError) return host;
      await host[Symbol.asyncDispose]();
      throw error;
    }
  }

  /**
   * Waits for the turn, which lasts until it is disposed. One execution or question has it at a
   * time.
   */
  async turn(signal: AbortSignal): Promise<Disposable> {
    const turn = await this.#turns.acquire(signal);
    if (this.#state.is !== "closed") return turn;
    turn[Symbol.dispose](); // the host was closed, or left the kernel to another, in the meantime
    throw this.#state.reason;
  }

  /** Makes an execution for {@linkcode run}. */
  prepare<Extra = never>(
    code: string,
    options: ExecuteOptions & { readonly chunks?: boolean; readonly id?: string } = {},
  ): Run<Extra> {
    const { maxOutputBytes = 1024 ** 2, interruptGraceMs = INTERRUPT_GRACE_MS, shownPath } =
      this.#options;
    return new Run<Extra>({
      ...options,
      code,
      maxOutputBytes,
      images: this.images,
      shownPath,
      graceMs: interruptGraceMs,
      closed: this.#closed.signal,
    });
  }

  /** Runs an execution, in its own turn or in one that its caller holds. Never rejects. */
  async run(
    execution: AnyRun,
    held?: { readonly turn: Disposable; readonly limit: AbortSignal | undefined },
  ): Promise<void> {
    try {
      using _turn = held === undefined ? await this.turn(execution.signal) : undefined;
      execution.end(await this.#perform(execution, anySignal(execution.signal, held?.limit)));
    } catch (error) { // it did not get its turn
      execution.end({ state: "kept", failure: { error } });
    }
  }

  /** Interrupts the execution that runs, if there is one. */
  async interrupt(): Promise<void> {
    if (this.#state.is === "busy") await this.#state.execution.interrupt();
  }

  /** Reports whether code is complete or needs more lines. */
  async isComplete(code: string, options: TypedCodeOptions): Promise<CodeStatus> {
    return codeStatus(await this.#ask({ type: "is_complete_request", code }, options));
  }

  /** Completes code at a position. */
  async complete(
    code: string,
    cursor: number,
    options: TypedCodeOptions,
  ): Promise<CodeCompletions> {
    const request = { type: "complete_request", code, cursor: toCodePoints(code, cursor) } as const;
    return codeCompletions(await this.#ask(request, options), code);
  }

  /**
   * Has the kernel inspect code that the caller, holding the turn, is about to run; returns JSON.
   */
  async inspect(code: string, signal: AbortSignal): Promise<string> {
    if (this.#unreported !== undefined) throw this.#unreported.reason;
    const kernel = await abortable(this.#usable(), signal);
    return await kernel.inspect(code, signal);
  }

  /** Whether code could run now: no other code runs, no loss is unreported, and the kernel just answered. */
  async isReady(signal: AbortSignal): Promise<boolean> {
    if (this.#state.is !== "idle") return false;
    try {
      await this.isComplete("", { timeoutMs: READY_TIMEOUT_MS, signal });
      return this.#state.is === "idle";
    } catch (error) {
      this.#log.debug(`The kernel does not answer: ${messageOf(error)}`);
      return false;
    }
  }

  /** Starts a type checker beside the kernel; `undefined` without one. */
  openChecker(): CheckerProcess | undefined {
    return this.#gateway?.address.openChecker?.();
  }

  /** The files of the workspace, as code sees them. */
  get workspaceFiles(): WorkspaceFiles {
    return new WorkspaceFiles(() => this.#gateway?.openFile());
  }

  /** Copies generated modules to the kernel, if it does not see them. */
  async sync(): Promise<void> {
    const isChanged = this.#hasEnded; // its code could have changed the copies
    this.#hasEnded = false;
    if (isChanged) await Promise.all(this.#endings);
    await this.#gateway?.address.sync?.(isChanged);
  }

  /** Resolves when a gateway runs: a fresh one, if the loss of the last one has been reported. */
  async ready(): Promise<void> {
    if (this.#needsGateway && this.#unreported === undefined) await this.#usable();
  }

  /** Replaces the kernel with a fresh one. An execution under way ends with an `AbortError`. */
  async reset(): Promise<void> {
    if (this.#state.is !== "closed") {
      this.#replace(new DOMException("The kernel was reset", "AbortError"));
    }
    try {
      await this.#usable(); // it has just answered
    } catch {
      this.#markReported();
      await this.#usable();
    }
    this.#markReported(); // nobody counts on variables after a reset
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await (this.#disposing ??= this.#dispose());
  }

  /** Aborts when the gateway has ended, or is no longer this host's; the reason is the error to report. */
  get gatewayEnded(): AbortSignal | undefined {
    return this.#gateway?.ended;
  }

  /** Leaves the kernel to another host. Work in progress here ends with an `AbortError`. */
  async leave(): Promise<void> {
    const reason = new DOMException("The session was left to another host", "AbortError");
    const { start } = this.#state;
    this.#state = { is: "closed", reason };
    const kernel = await start?.catch(() => undefined);
    await kernel?.leave(reason);
    this.#closed.abort(reason);
    await (this.#disposing ??= Promise.resolve(this.#gateway?.[Symbol.asyncDispose]()));
  }

  async #dispose(): Promise<void> {
    const reason = new DOMException("The kernel client was closed", "AbortError");
    const { start } = this.#state;
    this.#state = { is: "closed", reason };
    this.#closed.abort(reason);
    if (start !== undefined) this.#end(start, reason);
    clearTimeout(this.#spareTimer);
    const spare = this.#takeSpare();
    if (spare !== undefined) this.#end(spare, reason);
    while (this.#endings.size > 0) await Promise.all(this.#endings);
    await this.#gateway?.[Symbol.asyncDispose]();
  }

  /** Runs code whose turn it is, and says how it ended. Never rejects. */
  async #perform(execution: AnyRun, cancelled: AbortSignal): Promise<Outcome> {
    const loss = this.#unreported;
    if (loss !== undefined) {
      // Code that counts on its variables must not run without them unnoticed.
      this.#markReported();
      return { state: "lost", failure: { error: loss.reason } };
    }
    try {
      const start = this.#usable();
      const kernel = await abortable(start, cancelled);
      this.#occupy(start, execution);
      const outcome = await execution.runIn(kernel, cancelled);
      this.#vacate(outcome.state);
      return outcome;
    } catch (error) { // there is no kernel, or it was cancelled before there was one
      return { state: cancelled.aborted ? "kept" : "lost", failure: { error } };
    }
  }

  /** Asks the kernel something between two executions. */
  async #ask(content: RequestContent, options: TypedCodeOptions): Promise<JsonObject> {
    const { timeoutMs = TYPED_CODE_TIMEOUT_MS, signal: given } = options;
    const { interruptGraceMs: graceMs = INTERRUPT_GRACE_MS } = this.#options;
    using timeout = new Deadline(timeoutMs);
    const signal = anySignal(given, timeout.signal, this.#closed.signal);
    using _turn = await this.turn(signal);
    const kernel = await abortable(this.#usable(), signal);
    return await kernel.ask(content, { signal, graceMs });
  }

  /** The current kernel, or else the next one, which is started if necessary. */
  #usable(): Promise<Kernel> {
    const state = this.#state;
    if (state.is === "closed") return Promise.reject(state.reason);
    if (state.start !== undefined) return state.start;
    // An execution must report a gateway's end before another one is started.
    if (!state.reported && this.#needsGateway) return Promise.reject(state.reason);
    const start = this.#next();
    this.#state = state.reported ? { is: "starting", start } : { ...state, start };
    return start;
  }

  /** Why variables are gone, if no execution has reported it yet. */
  get #unreported(): { readonly reason: unknown } | undefined {
    const state = this.#state;
    return state.is === "lost" && !state.reported ? state : undefined;
  }

  /** Whether the host has to start a gateway before a kernel. */
  get #needsGateway(): boolean {
    return !("url" in this.#options.gateway) && this.#gateway?.ended.aborted !== false;
  }

  // The transitions: see `State`.

  /** Starts the next kernel. */
  #next(): Promise<Kernel> {
    const toolToken = this.#options.toolToken?.(); // from now on, earlier tokens are refused
    return this.#watch(this.#startNext(toolToken, this.#takeSpare()));
  }

  #watch(start: Promise<Kernel>): Promise<Kernel> {
    start.then((kernel) => {
      this.#options.onKernel?.(kernel.reference);
      onDeath(kernel, (lifeMs) => this.#died(start, kernel.ended.reason, lifeMs));
      this.#ready(start);
    }, (error) => this.#failed(start, error));
    return start;
  }

  #ready(start: Promise<Kernel>): void {
    if (this.#state.start !== start) return;
    if (this.#state.is === "starting") this.#state = { is: "idle", start };
    this.#prepareSpare();
  }

  #failed(start: Promise<Kernel>, reason: unknown): void {
    const state = this.#state;
    if (state.start !== start) return;
    if (start === this.#attaching && reason instanceof KernelDiedError) {
      this.#state = { is: "lost", reason, reported: false, start: undefined };
      return;
    }
    if (state.is === "lost") this.#state = { ...state, start: undefined };
    else this.#state = { is: "lost", reason, reported: true, start: undefined };
  }

  #occupy(start: Promise<Kernel>, execution: AnyRun): void {
    const { is } = this.#state;
    if (is === "idle" && this.#state.start === start) {
      this.#state = { is: "busy", start, execution };
      this.#isUsed = true;
      this.#prepareSpare();
    }
  }

  #vacate(kernel: KernelState): void {
    const state = this.#state;
    if (state.is === "busy" && kernel === "kept") {
      this.#state = { is: "idle", start: state.start };
    } else if (state.is === "busy") {
      this.#log.debug("an execution did not stop when interrupted; replacing its kernel");
      this.#replace(new DOMException("The kernel was abandoned", "AbortError"));
    } else if (kernel === "lost") {
      this.#markReported();
    }
  }

  #died(start: Promise<Kernel>, reason: unknown, lifeMs: number): void {
    if (this.#state.start !== start) return; // it was given up
    this.#log.debug(`a kernel died: ${reason}`);
    this.#end(start, reason);
    // Something that keeps killing kernels must not keep this process busy.
    const isNextDue = lifeMs >= SHORT_LIFE_MS && this.#gateway?.ended.aborted === false;
    const next = isNextDue ? this.#next() : undefined;
    if (!isNextDue) this.#options.toolToken?.(); // its leftover processes lose their token
    this.#state = { is: "lost", reason, reported: false, start: next };
  }

  /** Marks a loss as reported. */
  #markReported(): void {
    const state = this.#state;
    if (state.is !== "lost" || state.reported) return;
    const { start } = state;
    if (start === undefined) {
      this.#state = { ...state, reported: true };
    } else {
      this.#state = { is: "starting", start };
      start.then(() => this.#ready(start), () => {}); // #watch() handles a failure
    }
  }

  /** Gives up the kernel for a reason, and takes the spare one or starts another. */
  #replace(reason: unknown): void {
    const { start } = this.#state;
    if (start !== undefined) this.#end(start, reason);
    this.#state = { is: "starting", start: this.#next() };
  }

  // The kernels that the transitions start and end.

  /** The spare kernel or else a new one, once earlier kernels have ended. */
  async #startNext(toolToken?: string, spare?: Promise<Kernel>): Promise<Kernel> {
    await Promise.all(this.#endings); // with the processes of their code, which could meddle
    if (spare !== undefined) {
      try {
        const kernel = await spare;
        await kernel.begin(toolToken);
        return kernel;
      } catch (error) {
        this.#log.debug(`Cannot use the spare kernel: ${messageOf(error)}`);
        this.#end(spare, error);
      }
    }
    try {
      return await this.#start(toolToken, this.#closed.signal);
    } catch (error) {
      // The gateway is of no use any more; code may have broken it.
      if (!this.#closed.signal.aborted) await this.#gateway?.end();
      throw error;
    }
  }

  /** The kernel of an earlier host. */
  async #attach(
    { kernel: reference, execution }: NonNullable<KernelHostOptions["found"]>,
    signal: AbortSignal,
  ): Promise<Kernel> {
    const gateway = await this.#openGateway(signal);
    const { startTimeoutMs = START_TIMEOUT_MS } = this.#options;
    return await Kernel.attach(reference, { gateway, log: this.#log }, {
      signal: anySignal(signal, AbortSignal.timeout(startTimeoutMs)),
      execution: execution &&
        { id: execution.id, find: (kernel) => execution.find(this, kernel) },
    });
  }

  async #start(toolToken: string | undefined, signal: AbortSignal): Promise<Kernel> {
    return await this.#startAt(await this.#openGateway(signal), { signal, toolToken });
  }

  async #startAt(
    gateway: GatewayConnection,
    { signal, toolToken }: { readonly signal: AbortSignal; readonly toolToken?: string },
  ): Promise<Kernel> {
    const { workingDir, restoreWorkingDir = false, shell = "none", installer } = this.#options;
    const { startTimeoutMs = START_TIMEOUT_MS } = this.#options;
    const { sandboxed = false } = gateway.address;
    const bootstrap = { workingDir, restoreWorkingDir, shell, sandboxed, installer, toolToken };
    return await Kernel.start({ gateway, bootstrap, startTimeoutMs, log: this.#log }, signal);
  }

  /** The gateway, or a fresh one if the host's own gateway has ended. */
  async #openGateway(signal: AbortSignal): Promise<GatewayConnection> {
    const { gateway, endGateway } = this.#options;
    if ("url" in gateway) {
      return this.#gateway ??= new GatewayConnection(gateway, { end: endGateway });
    }
    const old = this.#gateway;
    if (old !== undefined && !this.#needsGateway) return old;
    this.#gateway = undefined;
    await old?.[Symbol.asyncDispose]();
    signal.throwIfAborted();
    const own = await KernelGateway.start({ ...gateway, signal });
    const end = () => own[Symbol.asyncDispose]();
    return this.#gateway = new GatewayConnection(own, { end, owned: true });
  }

  /** Ends a kernel, also one that is yet to start. */
  #end(start: Promise<Kernel>, reason: unknown): void {
    this.#hasEnded = true;
    const ending = start.then((kernel) => {
      kernel.abandon(reason);
      return kernel[Symbol.asyncDispose]();
    }, () => {}) // it never started
      .then(() => void this.#endings.delete(ending));
    this.#endings.add(ending);
  }

  /** Prepares a second kernel, so that a reset need not wait. Nothing is lost if it fails or dies. */
  #prepareSpare(): void {
    if (this.#options.spareKernel === false || this.#state.is === "closed") return;
    if (!this.#isUsed) return; // there is nothing to reset, and the memory may never be needed
    if (this.#spare !== undefined || this.#spareTimer !== undefined) return;
    this.#spareTimer = setTimeout(() => {
      this.#spareTimer = undefined;
      this.#startSpare();
    }, HEAD_START_MS);
  }

  #startSpare(): void {
    const gateway = this.#gateway;
    if (gateway === undefined || gateway.ended.aborted) return; // the next gateway's kernel does this
    const { sandboxed, kernelsApart } = gateway.address;
    if (sandboxed === true && kernelsApart === false) return; // the code could meddle with it
    const spare = this.#spare = this.#startAt(gateway, { signal: this.#closed.signal });
    spare.then((kernel) =>
      onDeath(kernel, (lifeMs) => {
        if (this.#spare !== spare) return; // it has been taken
        this.#log.debug("The spare kernel died");
        this.#spare = undefined;
        this.#end(spare, kernel.ended.reason);
        if (lifeMs >= SHORT_LIFE_MS) this.#prepareSpare();
      }), (error) => {
      this.#log.debug(`Cannot start a spare kernel: ${messageOf(error)}`);
      if (this.#spare === spare) this.#spare = undefined;
    });
  }

  /** Hands over the spare kernel, which may still be starting. */
  #takeSpare(): Promise<Kernel> | undefined {
    const spare = this.#spare;
    this.#spare = undefined;
    return spare;
  }
}

/** Calls back when a kernel can no longer be used, with the time for which it could be. */
function onDeath({ ended }: Kernel, died: (lifeMs: number) => void): void {
  const since = performance.now();
  if (ended.aborted) died(0);
  else ended.addEventListener("abort", () => died(performance.now() - since), { once: true });
}
