import type { JsonObject, JupyterMessage } from "./jupyter.ts";

/** Who hears of what a request leads to. */
export interface RequestListeners {
  /**
   * Takes each message on iopub, besides the status, and what threads and tasks of earlier requests
   * have said since those ended.
   */
  readonly onOutput?: (message: JupyterMessage) => void;
  /** Takes what the code asks. */
  readonly onInput?: ((content: JsonObject) => void) | undefined;
}

/**
 * A request that a kernel works on.
 *
 * It is over at its reply on the shell channel *and* the kernel's `idle` on iopub, which come in
 * either order: who stops at the reply loses output.
 */
export class KernelRequest {
  readonly #listeners: RequestListeners;
  readonly #begun = Promise.withResolvers<void>();
  readonly #idle = Promise.withResolvers<void>();
  readonly #reply = Promise.withResolvers<JsonObject>();
  /** Resolves with the reply's content at reply and idle; rejects when the kernel ends before. */
  readonly done: Promise<JsonObject>;

  #isIdle = false;

  /** @param listeners Who hears of what it leads to. */
  constructor(listeners: RequestListeners = {}) {
    this.#listeners = listeners;
    this.done = Promise.all([this.#reply.promise, this.#idle.promise]).then(([reply]) => reply);
    for (const promise of [this.done, this.begun, this.idle]) {
      promise.catch(() => {}); // each caller waits for some of them
    }
  }

  /** Resolves when the kernel runs the code, from when on an interrupt reaches it. */
  get begun(): Promise<void> {
    return this.#begun.promise;
  }

  /** Resolves when the kernel has turned to other work, in an interruption also without a reply. */
  get idle(): Promise<void> {
    return this.#idle.promise;
  }

  /** Whether {@linkcode idle} has resolved. */
  get isIdle(): boolean {
    return this.#isIdle;
  }

  /** Whether somebody takes its output, and it may still come. */
  get takesOutput(): boolean {
    return this.#listeners.onOutput !== undefined && !this.#isIdle;
  }

  /** Takes a message that belongs to this request. */
  receive(message: JupyterMessage): void {
    const { channel, type, content } = message;
    if (channel === "shell" || channel === "control") {
      this.#reply.resolve(content);
    } else if (channel === "iopub" && type === "status") {
      if (content.execution_state === "idle") {
        this.#isIdle = true;
        this.#begun.resolve();
        this.#idle.resolve();
      }
    } else if (channel === "iopub") {
      if (type === "execute_input") this.#begun.resolve();
      this.#listeners.onOutput?.(message);
    }
  }

  /** Takes what its code asks. */
  ask(content: JsonObject): boolean {
    const { onInput } = this.#listeners;
    if (onInput === undefined || this.#isIdle) return false;
    onInput(content);
    return true;
  }

  /** Ends the request with the reason why the kernel will not answer any more. */
  fail(reason: unknown): void {
    this.#begun.reject(reason);
    this.#idle.reject(reason);
    this.#reply.reject(reason);
  }
}
