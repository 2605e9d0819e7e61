import {
  KernelDiedError,
  KernelStartError,
  OutcomeLostError,
  ProcessError,
} from "../base/errors.ts";
import { messageOf } from "../base/message_of.ts";
import type { Logger } from "../base/log.ts";
import { stage } from "../base/stages.ts";
import { Deadline } from "../base/deadline.ts";
import { abortable, anySignal, settledWithin } from "../base/signals.ts";
import {
  beginCode,
  bootstrapCode,
  type BootstrapConfig,
  inspectionAnswer,
  inspectionCode,
} from "./bootstrap.ts";
import type { GatewayConnection } from "./gateway_connection.ts";
import {
  decodeMessage,
  encodeInputReply,
  encodeRequest,
  END_OF_INPUT,
  type JsonObject,
  type JupyterMessage,
  KernelRequest,
  KernelSocket,
  type RequestContent,
  type RequestListeners,
} from "./jupyter.ts";
import { formatBytes } from "./text.ts";
import { deathHint, describeExit, exitStatus, lastWords } from "./traceback.ts";

/** Options of {@linkcode Kernel.start}. */
interface KernelOptions {
  readonly gateway: GatewayConnection;
  readonly bootstrap: BootstrapConfig;
  readonly startTimeoutMs: number;
  readonly log: Logger;
}

/** A kernel that an earlier host started. */
export interface KernelReference {
  readonly id: string;
  /** The session of its requests. */
  readonly session: string;
}

/** How many attempts are made to start a kernel whose process ends while it starts. */
const MAX_ATTEMPTS = 3;

/** A request that may have been sent before the kernel listened is repeated after this time. */
const HANDSHAKE_RETRY_MS = 1000;

/** The time limit for a shutdown; the gateway kills a kernel that does not end by itself. */
const DELETE_TIMEOUT_MS = 15_000;

/** How long to wait for a flush while code keeps the kernel busy. */
const FLUSH_TIMEOUT_MS = 1000;

/** The time limit for the gateway to say whether a kernel died: a machine out of memory is slow. */
const DOUBT_TIMEOUT_MS = 5000;

/** A kernel's process ended while it started. Another program may have taken one of its ports. */
class UnansweredError extends Error {}

/** The time limit for a spare kernel to get ready for code. */
const BEGIN_TIMEOUT_MS = 5000;

/** One running IPython kernel, set up and reachable. Disposing it ends the kernel. */
export class Kernel implements AsyncDisposable {
  /** The facts that the next host needs to attach to it. */
  readonly reference: KernelReference;
  readonly #options: Pick<KernelOptions, "gateway" | "log">;
  /**
   * The session of requests about code being typed: their output, even late, belongs to no
   * execution.
   */
  readonly #asideSession: string = crypto.randomUUID();
  readonly #requests = new Map<string, KernelRequest>();
  readonly #end = new AbortController();
  /** Aborts when the kernel can no longer be used; the reason is the error to report. */
  readonly ended: AbortSignal = this.#end.signal;
  readonly #late = new LateOutput();
  #stderrBefore: string;
  #asking = false;
  #socket: KernelSocket | undefined;

  private constructor(
    reference: KernelReference,
    options: Pick<KernelOptions, "gateway" | "log">,
  ) {
    this.reference = reference;
    this.#options = options;
    this.#stderrBefore = options.gateway.address.stderrTail ?? "";
    const { ended } = options.gateway; // then so has each of its kernels
    const onEnd = () => this.abandon(ended.reason);
    if (ended.aborted) onEnd();
    ended.addEventListener("abort", onEnd, { once: true, signal: this.#end.signal });
  }

  /** Starts a kernel and sets it up, within a time limit. */
  static async start(options: KernelOptions, signal: AbortSignal): Promise<Kernel> {
    const { gateway, startTimeoutMs } = options;
    const timeout = new AbortController();
    const given = anySignal(timeout.signal, signal);
    using _deadline = new Deadline(startTimeoutMs, {
      onPassed: () => {
        const message = `The kernel was not ready within ${startTimeoutMs / 1000} s. If this ` +
          "machine is slow or busy, try again (programs: increase startTimeoutMs); otherwise run `ipybox doctor`";
        timeout.abort(startError(gateway, message));
      },
    });
    try {
      given.throwIfAborted();
      gateway.ended.throwIfAborted();
      return await Kernel.#startAtLast(options, given);
    } catch (error) {
      throw given.aborted ? error : await explain(gateway, error);
    }
  }

  /**
   * Starts a kernel, and tries again if it ended during its start: the next one gets other ports.
   */
  static async #startAtLast(options: KernelOptions, signal: AbortSignal): Promise<Kernel> {
    for (let attempt = 1;; attempt++) {
      try {
        return await Kernel.#startOnce(options, signal);
      } catch (error) {
        const isFinal = signal.aborted || attempt === MAX_ATTEMPTS;
        if (isFinal || !(error instanceof UnansweredError)) throw error;
        options.log.debug(`a kernel could not be started, trying again: ${error.message}`);
      }
    }
  }

  static async #startOnce(options: KernelOptions, signal: AbortSignal): Promise<Kernel> {
    using _stage = stage("start the kernel");
    await using stack = new AsyncDisposableStack();
    const id = await createKernel(options, signal);
    const kernel = stack.use(new Kernel({ id, session: crypto.randomUUID() }, options));
    const ready = anySignal(signal, kernel.ended);
    await kernel.#connect(ready);
    await abortable(kernel.#setUp(options.bootstrap), ready);
    options.log.debug(`kernel ${kernel.reference.id} is ready`);
    stack.move();
    return kernel;
  }

  /** Attaches to an earlier host's kernel. The messages of its last execution are repeated from the first. */
  static async attach(
    reference: KernelReference,
    options: Pick<KernelOptions, "gateway" | "log">,
    { signal, execution }: { readonly signal: AbortSignal; readonly execution?: FoundExecution },
  ): Promise<Kernel> {
    const { gateway } = options;
    const kernel = new Kernel(reference, options);
    const request = execution?.find(kernel);
    if (execution && request) kernel.#requests.set(execution.id, request);
    try {
      if (!await gateway.knowsKernel(reference.id, signal)) throw diedAlone(gateway);
      await kernel.#connect(anySignal(signal, kernel.ended));
    } catch (error) {
      // Its gateway may not have noticed yet.
      const reason = error instanceof UnansweredError ? diedAlone(gateway, error) : error;
      kernel.abandon(reason);
      throw reason;
    }
    if (request !== undefined) kernel.#follow(request);
    return kernel;
  }

  /** Leaves it to the next host: no more of its messages are delivered here. */
  async leave(reason: unknown): Promise<void> {
    this.abandon(reason);
    await this.#socket?.[Symbol.asyncDispose]();
  }

  /**
   * Fails a request that never reached the kernel or whose end was lost, once a later one is
   * answered.
   */
  #follow(request: KernelRequest): void {
    const forget = () => {
      for (const [id, known] of this.#requests) if (known === request) this.#requests.delete(id);
    };
    request.done.then(forget, forget);
    // Its reply and its idle status each follow the execution's, on two channels.
    this.request({ type: "kernel_info_request" }).done.then(() => {
      request.fail(
        new OutcomeLostError(
          "The end of the execution was lost while no program was attached; variables are kept",
        ),
      );
    }, () => {}); // the kernel has ended, and the request rejects
  }

  get gateway(): GatewayConnection {
    return this.#options.gateway;
  }

  request(
    content: RequestContent,
    listeners: RequestListeners = {},
    knownId?: string,
  ): KernelRequest {
    const aside = content.type === "complete_request" || content.type === "is_complete_request";
    const session = aside ? this.#asideSession : this.reference.session;
    const { id, data } = encodeRequest(content, session, knownId);
    const request = new KernelRequest(listeners);
    if (this.ended.aborted) {
      request.fail(this.ended.reason);
      return request;
    }
    this.#requests.set(id, request);
    const { onOutput } = listeners;
    if (onOutput !== undefined) this.#late.take().forEach(onOutput);
    const forget = () => this.#requests.delete(id);
    request.done.then(forget, forget);
    this.#socket?.send(data);
    return request;
  }

  /**
   * Makes a request that an idle kernel should answer immediately.
   *
   * Completing `value.` runs code of the value's class, which may never end. A request that is given
   * up is interrupted, and the next one waits up to `graceMs` until that is over.
   */
  async ask(
    content: RequestContent,
    { signal, graceMs }: { readonly signal: AbortSignal; readonly graceMs: number },
  ): Promise<JsonObject> {
    const request = this.request(content);
    try {
      return await abortable(request.done, signal);
    } finally {
      if (!request.isIdle && !this.ended.aborted) {
        const settled = this.interrupt().then(() => request.idle).then(() => this.settled());
        await settledWithin(settled, graceMs);
      }
    }
  }

  /** Inspects code that is about to run, and returns its findings as JSON. */
  async inspect(code: string, signal: AbortSignal): Promise<string> {
    const request = this.request(silently("", { look: inspectionCode(code) }));
    return inspectionAnswer(await abortable(request.done, signal));
  }

  /** Answers an input request of the code. */
  reply(value: string): void {
    this.#socket?.send(encodeInputReply(value, this.reference.session));
  }

  /** Interrupts the running code; resolves when the signal has been sent. */
  async interrupt(): Promise<void> {
    await this.gateway.interruptKernel(this.reference.id, this.ended);
    // An idle event loop, as in `await asyncio.sleep(60)`, does not notice the signal until something
    // else wakes it.
    this.request({ type: "kernel_info_request" });
  }

  /** Resolves when earlier messages are handled: a late interrupt hits this and not the next code. */
  async settled(): Promise<void> {
    await this.request({ type: "kernel_info_request" }).idle;
  }

  /** Resolves when the output so far has arrived: a control request flushes it. Code may keep the kernel busy. */
  async flush(): Promise<void> {
    const { idle } = this.request({ type: "kernel_info_request", channel: "control" });
    await settledWithin(idle, FLUSH_TIMEOUT_MS);
  }

  /** Reinitializes a spare kernel: code in the previous kernel could write to its folder. */
  async begin(toolToken: string | undefined): Promise<void> {
    this.#stderrBefore = this.gateway.address.stderrTail ?? ""; // with the previous kernel's
    const code = beginCode(toolToken);
    await this.#runSilently(code, "Cannot hand over the kernel", BEGIN_TIMEOUT_MS);
  }

  /** Gives up the kernel: everything under way fails with `reason`. */
  abandon(reason: unknown): void {
    if (this.ended.aborted) return;
    this.#end.abort(reason);
    for (const request of this.#requests.values()) request.fail(reason);
    this.#requests.clear();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    using _stage = stage("end the kernel");
    this.abandon(new DOMException("The kernel was closed", "AbortError"));
    await this.#socket?.[Symbol.asyncDispose]();
    // Also if it was reported dead: its own code may have sent the report, to survive.
    if (await deleteKernel(this.#options, this.reference.id)) return;
    await this.gateway.end().catch((error: unknown) => {
      this.#options.log.error(
        `Cannot stop a kernel gateway that does not stop its kernels: ${messageOf(error)}`,
      );
    });
  }

  async #connect(signal: AbortSignal): Promise<void> {
    const { gateway } = this;
    try {
      this.#socket = await KernelSocket.open(
        gateway.openChannels(this.reference.id, this.reference.session),
        (data) => this.#receive(data),
        signal,
      );
    } catch (cause) {
      // The gateway reports that the kernel has ended, but may still list it.
      const isGone = /\b410\b/.test(messageOf(cause));
      if (signal.aborted || (!isGone && await gateway.knowsKernel(this.reference.id, signal))) {
        throw cause;
      }
      throw new UnansweredError("its process ended before it answered", { cause });
    }
    this.#socket.closed.then((reason) => this.#lost(reason));
  }

  async #setUp(bootstrap: BootstrapConfig): Promise<void> {
    // The first request may be lost, as the gateway's subscription to iopub takes its time.
    for (;;) {
      const { done } = this.request({ type: "kernel_info_request" });
      if (await settledWithin(done, HANDSHAKE_RETRY_MS)) break;
    }
    await this.#runSilently(bootstrapCode(bootstrap), "Cannot set up the kernel");
  }

  /** Runs ipybox's own code. */
  async #runSilently(code: string, failure: string, timeoutMs = Infinity): Promise<void> {
    const { done } = this.request(silently(code));
    if (timeoutMs !== Infinity && !await settledWithin(done, timeoutMs)) {
      throw new Error(`${failure}: it did not answer within ${timeoutMs / 1000} s`);
    }
    const reply = await done;
    if (reply.status === "ok") return;
    throw new Error(
      `${failure}: ${reply.ename}: ${reply.evalue}; ` +
        "the gateway's PYTHONPATH must contain ipybox_runtime",
    );
  }

  #receive(data: ArrayBuffer): void {
    let message: JupyterMessage;
    try {
      message = decodeMessage(data);
    } catch (error) {
      // Executed code can send anything; ignore anything but messages.
      this.#options.log.debug(
        `kernel ${this.reference.id} sent no Jupyter message: ${messageOf(error)}`,
      );
      return;
    }
    try {
      this.#take(message, data.byteLength);
    } catch (error) {
      // An error in an event handler would end the process, and with it all other kernels.
      this.#options.log.error(
        `Cannot accept a message from kernel ${this.reference.id}: ${messageOf(error)}`,
      );
    }
  }

  #take(message: JupyterMessage, size: number): void {
    const { type, content, parentId } = message;
    const request = parentId === undefined ? undefined : this.#requests.get(parentId);
    if (message.channel === "stdin") this.#takeQuestion(message, request);
    else if (request !== undefined) request.receive(message);
    else if (type === "status" && isDeath(content.execution_state)) this.#doubt(content);
    else if (message.parentSession === this.reference.session && isOutput(message)) {
      const running = this.#requests.values().find(({ takesOutput }) => takesOutput);
      if (running !== undefined) running.receive(message);
      else this.#late.add(message, size);
    }
  }

  /** Passes on an input request. If nobody answers, the code must not wait forever. */
  #takeQuestion({ type, content }: JupyterMessage, request: KernelRequest | undefined): void {
    if (type !== "input_request" || request?.ask(content)) return;
    if (this.#socket?.isDrained) this.reply(END_OF_INPUT); // there may be many forged ones
  }

  /** Asks the gateway whether the kernel died, as a message says: executed code can forge that. */
  async #doubt(content: JsonObject): Promise<void> {
    if (this.#asking) return;
    this.#asking = true;
    const timeout = AbortSignal.timeout(DOUBT_TIMEOUT_MS);
    let runs: boolean;
    try {
      runs = await this.gateway.knowsKernel(this.reference.id, timeout);
    } catch (error) {
      return await this.#lost(
        `cannot tell from its gateway whether it is running: ${messageOf(error)}`,
      );
    }
    if (!runs) return this.#die(content);
    const message = "The kernel was stopped and its variables are lost: it was reported dead, " +
      "but was still running";
    const evidence = { exitCode: null, signal: null, stderrTail: this.#stderr() };
    this.abandon(new KernelDiedError(message, evidence));
  }

  /** The gateway confirmed that the kernel's process ended. */
  #die(content: JsonObject): void {
    const evidence = { ...exitStatus(content.returncode), stderrTail: this.#stderr() };
    const outOfMemory = content.oom_killer === true && evidence.signal === "SIGKILL";
    const how = outOfMemory
      ? "the system killed it (SIGKILL) because memory ran out"
      : evidence.exitCode === null && evidence.signal === null
      ? "it may have run out of memory, crashed, or been killed by its own code"
      : describeExit(evidence);
    const { limits } = this.gateway.address;
    const hint = limits === undefined ? undefined : deathHint({ ...evidence, outOfMemory }, limits);
    const message = `The kernel died and its variables are lost: ${how}`;
    this.abandon(
      new KernelDiedError(hint === undefined ? message : `${message}\n${hint}`, evidence),
    );
  }

  /** The stderr of the gateway and its kernels since this kernel started. */
  #stderr(): string {
    return lastWords(this.#stderrBefore, this.gateway.address.stderrTail ?? "");
  }

  /** The connection broke: the gateway ended, or it closed the socket. */
  async #lost(reason: string): Promise<void> {
    if (this.ended.aborted) return;
    const death = await this.gateway.death();
    const unknown = { exitCode: null, signal: null, stderrTail: this.#stderr() };
    const message = `The connection to the kernel was lost (${reason})`;
    this.abandon(death ?? new KernelDiedError(message, unknown));
  }
}

/** An execution that an earlier host began, whose messages are still to come. */
interface FoundExecution {
  readonly id: string;
  /** Makes the request that receives them. */
  readonly find: (kernel: Kernel) => KernelRequest;
}

/** Runs ipybox's own code in the kernel, without a trace in the session. */
function silently(code: string, expressions: Readonly<Record<string, string>> = {}) {
  return {
    type: "execute_request",
    code,
    silent: true,
    storeHistory: false,
    allowStdin: false,
    expressions,
  } as const;
}

function startError(
  { address: { stderrTail = "" } }: GatewayConnection,
  message: string,
  cause?: unknown,
): KernelStartError {
  return new KernelStartError(message, { exitCode: null, signal: null, stderrTail }, { cause });
}

/** The error for a kernel that ended while no host was attached. */
function diedAlone(
  { address: { stderrTail = "" } }: GatewayConnection,
  cause?: unknown,
): KernelDiedError {
  const message = "The kernel died while no program was attached, and its variables are lost";
  return new KernelDiedError(message, { exitCode: null, signal: null, stderrTail }, undefined, {
    cause,
  });
}

/** Why a kernel could not be started: if the gateway ended, that explains a failed request better. */
async function explain(gateway: GatewayConnection, error: unknown): Promise<unknown> {
  const death = await gateway.death();
  if (death !== undefined) return death;
  if (error instanceof ProcessError) return error; // it died, and says how
  return startError(gateway, `The kernel could not be started: ${messageOf(error)}`, error);
}

/** Asks the gateway to start a process, and ends it if nobody waits for it any more. */
async function createKernel(options: KernelOptions, signal: AbortSignal): Promise<string> {
  signal.throwIfAborted();
  const giveUp = new AbortController();
  const creating = options.gateway.createKernel(giveUp.signal);
  try {
    return await abortable(creating, signal);
  } catch (error) {
    if (signal.aborted) await deleteKernel(options, creating, giveUp);
    throw error;
  }
}

/** Has the gateway end a process, even a starting one. Never rejects; resolves with whether it did. */
async function deleteKernel(
  { gateway, log }: Pick<KernelOptions, "gateway" | "log">,
  id: string | Promise<string>,
  giveUp: AbortController = new AbortController(),
): Promise<boolean> {
  using _deadline = new Deadline(DELETE_TIMEOUT_MS, { onPassed: () => giveUp.abort() });
  try {
    await gateway.deleteKernel(await id, giveUp.signal);
    return true;
  } catch (error) {
    log.debug(`a kernel could not be deleted: ${messageOf(error)}`);
    return false;
  }
}

function isDeath(state: unknown): boolean {
  return state === "restarting" || state === "dead";
}

/** The limit on messages kept between two executions, in bytes. */
const MAX_BYTES = 1024 ** 2;

/** The output of threads between executions. The next one gets it, as a terminal would show it there. */
class LateOutput {
  #messages: JupyterMessage[] = [];
  #bytes = 0;
  #leftOut = 0;

  /** Keeps a message, of a size in bytes. */
  add(message: JupyterMessage, size: number): void {
    if (this.#bytes + size > MAX_BYTES) {
      this.#leftOut += size;
      return;
    }
    this.#bytes += size;
    this.#messages.push(message);
  }

  take(): JupyterMessage[] {
    const messages = this.#messages;
    if (this.#leftOut > 0) messages.push(note(this.#leftOut));
    this.#messages = [];
    this.#bytes = this.#leftOut = 0;
    return messages;
  }
}

/** Whether a message is output that makes sense without its execution. */
function isOutput({ channel, type }: JupyterMessage): boolean {
  return channel === "iopub" && ["stream", "display_data", "update_display_data"].includes(type);
}

function note(bytes: number): JupyterMessage {
  const text = `[ipybox: ${formatBytes(bytes)} of output between executions omitted]\n`;
  return {
    channel: "iopub",
    type: "stream",
    parentId: undefined,
    parentSession: undefined,
    content: { name: "stderr", text },
  };
}
