import { type Logger, silentLogger } from "../base/log.ts";
import { Mutex } from "../base/mutex.ts";
import { abortable, anySignal, Deadline, settledWithin } from "../base/signals.ts";
import { ArtifactFolder } from "../files/artifact_folder.ts";
import type { ShellGuard } from "./bootstrap.ts";
import {
  type ExecuteOptions,
  Execution,
  type Outcome,
  Running,
  type RunningOptions,
} from "./execution.ts";
import { type GatewayAddress, GatewayConnection } from "./gateway_connection.ts";
import type { KernelGatewayOptions } from "./gateway.ts";
import type { JsonObject, RequestContent } from "./jupyter.ts";
import { KernelKeeper } from "./keeper.ts";
import type { Kernel } from "./kernel.ts";
import {
  type CodeCompletions,
  codeCompletions,
  type CodeStatus,
  codeStatus,
  toCodePoints,
  TYPED_CODE_TIMEOUT_MS,
  type TypedCodeOptions,
} from "./typed_code.ts";

/** How long interrupted code may take to end before its kernel is replaced. */
const INTERRUPT_GRACE_MS = 2000;

/**
 * A running IPython kernel and its client. Disposing it ends the kernel.
 *
 * Executions run one after the other in the order in which they were asked for. A kernel that dies
 * or cannot be interrupted is replaced by a fresh one with the same set-up.
 *
 * @example
 * ```ts
 * import { KernelClient, type KernelGateway } from "@ipybox/ipybox/kernel";
 *
 * async function add(gateway: KernelGateway): Promise<string | null> {
 *   await using client = await KernelClient.start({ gateway });
 *   return (await client.execute("40 + 2").result).text; // 42
 * }
 * ```
 */
export class KernelClient implements AsyncDisposable {
  readonly #options: KernelClientOptions;
  readonly #log: Logger;
  readonly #images: ArtifactFolder;
  readonly #spill: ArtifactFolder;
  readonly #connection: GatewayConnection;
  readonly #keeper: KernelKeeper;
  readonly #turns = new Mutex();
  readonly #closed = new AbortController();
  #running: Running | undefined;
  #disposing: Promise<void> | undefined;

  private constructor(options: KernelClientOptions) {
    const { gateway, imagesDir = "images", spillDir, startTimeoutMs = 60_000, signal } = options;
    const { workingDir, restoreWorkingDir = false, spareKernel = true, shell = "none" } = options;
    this.#options = options;
    this.#log = options.log ?? silentLogger;
    this.#images = new ArtifactFolder(imagesDir);
    this.#spill = spillDir === undefined ? this.#images : new ArtifactFolder(spillDir);
    this.#connection = new GatewayConnection(gateway);
    this.#keeper = new KernelKeeper({
      gateway,
      connection: this.#connection,
      bootstrap: { restoreWorkingDir, shell, workingDir },
      log: this.#log,
      startTimeoutMs,
      signal,
      toolToken: options.toolToken,
      endGateway: options.endGateway,
      spare: spareKernel && (gateway.sandboxed !== true || gateway.kernelsApart !== false),
    });
  }

  /**
   * Starts a kernel.
   *
   * @param options The gateway to start it at, and how.
   * @returns The client, ready for code.
   * @throws {KernelStartError} The gateway cannot be reached, or the kernel cannot be set up or is
   * not ready within `startTimeoutMs`.
   * @throws {KernelDiedError} The kernel or its gateway ended meanwhile.
   * @throws {RangeError} A limit is no number from 0 on.
   */
  static async start(options: KernelClientOptions): Promise<KernelClient> {
    for (const name of ["maxOutputBytes", "interruptGraceMs", "startTimeoutMs"] as const) {
      const value = options[name] ?? 0;
      if (!(value >= 0)) throw new RangeError(`${name} must be a number from 0 on, not ${value}`);
    }
    const client = new KernelClient(options);
    try {
      await client.#keeper.current;
      return client;
    } catch (error) {
      await client[Symbol.asyncDispose]();
      throw error;
    }
  }

  /**
   * Runs code.
   *
   * @param code IPython code: Python, top-level `await`, magics and `!commands`.
   * @param options How it may be cancelled, and whether it goes into the history.
   * @returns The execution, which runs as soon as those before it have ended.
   */
  execute(code: string, options: ExecuteOptions = {}): Execution {
    const { signal, storeHistory = false, onInput } = options;
    return new Execution({
      maxOutputBytes: this.#options.maxOutputBytes ?? 1024 ** 2,
      images: this.#images,
      spill: this.#spill,
      run: (collector, cancel) => this.#run({ code, storeHistory }, { collector, onInput }, cancel),
      flush: async (collector) => {
        const running = this.#running;
        if (running?.collector === collector) await running.flush();
      },
    }, signal);
  }

  /**
   * Interrupts the execution under way, if there is one: its code sees a `KeyboardInterrupt`, which
   * it may catch and go on, unlike a cancelled one.
   */
  async interrupt(): Promise<void> {
    await this.#running?.interrupt();
  }

  /**
   * Says whether code can be run as it stands, or wants more lines.
   *
   * @param code IPython code, as far as it is typed.
   * @param options How long the answer is waited for.
   * @returns Its status, and what its next line begins with.
   * @throws {DOMException} A `TimeoutError` when the kernel was busy for longer than `timeoutMs`.
   * @throws {KernelDiedError} The kernel died meanwhile.
   *
   * @example
   * ```ts
   * import type { KernelClient } from "@ipybox/ipybox/kernel";
   *
   * async function wantsMore(client: KernelClient): Promise<boolean> {
   *   return (await client.isComplete("for x in y:")).status === "incomplete"; // true
   * }
   * ```
   */
  async isComplete(code: string, options: TypedCodeOptions = {}): Promise<CodeStatus> {
    return codeStatus(await this.#ask({ type: "is_complete_request", code }, options));
  }

  /**
   * Says what can stand at a position of code.
   *
   * @param code IPython code, as far as it is typed.
   * @param cursor The position, as an index of the string.
   * @param options How long the answer is waited for.
   * @returns The completions, and what of the code each of them replaces.
   * @throws {RangeError} `cursor` is no position between two characters of the code.
   * @throws {DOMException} A `TimeoutError` when the kernel was busy for longer than `timeoutMs`.
   * @throws {KernelDiedError} The kernel died meanwhile.
   *
   * @example
   * ```ts
   * import type { KernelClient } from "@ipybox/ipybox/kernel";
   *
   * async function complete(client: KernelClient, code: string): Promise<string[]> {
   *   const { matches, start, end } = await client.complete(code, code.length);
   *   return matches.map((match) => code.slice(0, start) + match + code.slice(end));
   * }
   * ```
   */
  async complete(
    code: string,
    cursor: number,
    options: TypedCodeOptions = {},
  ): Promise<CodeCompletions> {
    const request = { type: "complete_request", code, cursor: toCodePoints(code, cursor) } as const;
    return codeCompletions(await this.#ask(request, options), code);
  }

  /**
   * Replaces the kernel by a fresh one. An execution under way ends with an `AbortError`; those that
   * wait for their turn run in the fresh kernel.
   */
  async reset(): Promise<void> {
    this.#keeper.replace(new DOMException("The kernel was reset", "AbortError"));
    const kernel = await this.#keeper.current;
    const works = await kernel.settled().then(() => true, () => false);
    // A spare kernel may have died unnoticed, as all of them do with their gateway.
    if (!works) await (await this.#keeper.usable()).settled();
    this.#keeper.takeLoss(); // nothing that was counted on
  }

  /** Ends the kernel. An execution under way ends with an `AbortError`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await (this.#disposing ??= this.#dispose());
  }

  async #dispose(): Promise<void> {
    this.#closed.abort(new DOMException("The kernel client was closed", "AbortError"));
    await this.#keeper[Symbol.asyncDispose]();
    this.#connection[Symbol.dispose]();
  }

  /** Asks the kernel something between two executions. */
  async #ask(content: RequestContent, options: TypedCodeOptions): Promise<JsonObject> {
    const { timeoutMs = TYPED_CODE_TIMEOUT_MS, signal: given } = options;
    const { interruptGraceMs: graceMs = INTERRUPT_GRACE_MS } = this.#options;
    using timeout = new Deadline(timeoutMs);
    const signal = anySignal(given, timeout.signal, this.#closed.signal);
    using _turn = await this.#turns.acquire(signal);
    const kernel = await abortable(this.#keeper.usable(), signal);
    return await briefRequest(kernel, content, { signal, graceMs });
  }

  /** Waits for its turn, runs the code and says how it ended. */
  async #run(
    code: { code: string; storeHistory: boolean },
    parts: Pick<RunningOptions, "collector" | "onInput">,
    signal: AbortSignal,
  ): Promise<Outcome> {
    const cancelled = anySignal(signal, this.#closed.signal);
    try {
      using _turn = await this.#turns.acquire(cancelled);
      const loss = this.#keeper.takeLoss();
      // Code that counts on its variables must not run without them unnoticed.
      if (loss !== undefined) return { state: "lost", failure: { error: loss.reason } };
      const kernel = await abortable(this.#keeper.usable(), cancelled);
      const running = new Running(kernel, code, {
        ...parts,
        keeper: this.#keeper,
        graceMs: this.#options.interruptGraceMs ?? INTERRUPT_GRACE_MS,
        context: this.#options.gateway,
        log: this.#log,
      });
      this.#running = running;
      try {
        return await running.outcome(cancelled);
      } finally {
        this.#running = undefined;
      }
    } catch (error) {
      // It never began: cancelled before, or there is no kernel.
      return { state: cancelled.aborted ? "kept" : "lost", failure: { error } };
    }
  }
}

/** Options of `KernelClient.start()`. */
export interface KernelClientOptions
  extends Pick<KernelGatewayOptions, "startTimeoutMs" | "signal" | "log"> {
  /** The kernel gateway: a running `KernelGateway` is one. */
  readonly gateway: GatewayAddress;
  /**
   * The folder for image files, created with the first image. `CodeExecutor` takes it relative to the
   * workspace.
   *
   * @default {"images"}
   */
  readonly imagesDir?: string;
  /**
   * The folder for the whole text of executions whose text is too long, created with the first.
   *
   * @default the folder for images
   */
  readonly spillDir?: string;
  /**
   * Where code starts; relative to the gateway's working directory, which is also the default.
   */
  readonly workingDir?: string;
  /**
   * Whether each execution starts in its first directory again, wherever the one before went. One
   * that left it says so in its text.
   *
   * @default {false}
   */
  readonly restoreWorkingDir?: boolean;
  /**
   * What holds for shell commands. With `"approval"`, `!cmd`, `%%bash` and the like ask the tool
   * server that the gateway's kernels know; with `"escape"`, all other ways to start a process also
   * raise an exception.
   *
   * @default {"none"}
   */
  readonly shell?: ShellGuard;
  /**
   * Makes the token that code shows to the tool server, from `IPYBOX_TOOL_TOKEN`; the one before ends
   * with that. It is called as soon as a kernel is given up, before its processes have ended.
   *
   * @default {undefined} what the gateway gives to all its kernels
   */
  readonly toolToken?: () => string;
  /**
   * Ends the gateway. It is asked to where a kernel that is given up is not ended by its gateway, or
   * where no kernel can be started in its place.
   *
   * @default {undefined} such a gateway is tried again
   */
  readonly endGateway?: () => Promise<void>;
  /**
   * How much text of one execution is kept in memory, in bytes: half of it from the start and half
   * from the end. The whole of a longer one goes to a file, which the text names.
   *
   * @default {1048576}
   */
  readonly maxOutputBytes?: number;
  /**
   * How long interrupted code may take to end before its kernel is replaced. One that says that the
   * code has ended gets ten seconds more to be ready for other code.
   *
   * @default {2000}
   */
  readonly interruptGraceMs?: number;
  /**
   * Whether a second kernel is kept ready, so that `reset()` takes milliseconds and a kernel that died
   * is replaced at once. It costs the memory of one idle kernel, some 45 MB, and is started half a
   * second after the one in use.
   *
   * @default {true}
   */
  readonly spareKernel?: boolean;
}

/** How long a {@linkcode briefRequest} may take. */
interface BriefRequestOptions {
  /** Gives up. */
  readonly signal: AbortSignal;
  /** How long a kernel that is given up may take to turn to other work. */
  readonly graceMs: number;
}

/**
 * Asks an idle kernel something that it should answer at once.
 *
 * To complete `value.` it runs code of the value's class, which may take for ever: one that is given
 * up is interrupted, and the next request waits until that is over.
 */
async function briefRequest(
  kernel: Kernel,
  content: RequestContent,
  { signal, graceMs }: BriefRequestOptions,
): Promise<JsonObject> {
  const request = kernel.request(content);
  try {
    return await abortable(request.done, signal);
  } finally {
    if (!request.isIdle && !kernel.ended.aborted) {
      const settled = kernel.interrupt().then(() => request.idle).then(() => kernel.settled());
      await settledWithin(settled, graceMs);
    }
  }
}
