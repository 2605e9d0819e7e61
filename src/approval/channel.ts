import { abortable, LONGEST_TIMER_MS } from "../base/signals.ts";
import { type Logger, silentLogger } from "../base/log.ts";
import { startSpan } from "../base/telemetry.ts";
import {
  type ApprovalCall,
  ApprovalRequest,
  type ApprovalRequestOptions,
  type ApprovalResponse,
} from "./request.ts";

/** Takes each request as it comes, and decides it now or later. */
export type Approver = (request: ApprovalRequest) => void | Promise<void>;

/** Sees each request as it comes. */
export type ApprovalWatcher = (request: ApprovalRequest) => void;

/** Options of {@linkcode ApprovalChannel}. */
export interface ApprovalChannelOptions {
  /**
   * How long a decision is waited for, in milliseconds.
   *
   * @default {undefined} for ever
   */
  timeoutMs?: number;
  /** Told of approvers that throw. */
  log?: Logger;
}

/** Options of {@linkcode ApprovalChannel.request}. */
export interface ApprovalWaitOptions extends Pick<ApprovalRequestOptions, "scopes" | "check"> {
  /** Withdraws the request when the call that needs it ends. */
  signal?: AbortSignal;
  /** Is asked instead of the approver that is attached. */
  approver?: Approver;
}

/** Options of {@linkcode ApprovalChannel.attach}. */
export interface AttachOptions {
  /**
   * Whether the approver stands for a person in another process, who may also decide on changes such
   * as registrations. The program that runs code may not: it may accept all that its code does.
   *
   * @default {false}
   */
  attended?: boolean;
}

/**
 * Brings calls that need approval to the one approver that is attached, or, while there is none, to
 * its deputy. Others may watch, and decide too: the first decision counts.
 *
 * It fails closed: without approver and deputy, when the time is up, when the one that was asked
 * leaves or throws, the call is refused, and the refusal says why.
 *
 * @example
 * ```ts
 * import { ApprovalChannel } from "@ipybox/ipybox/approval";
 *
 * const channel = new ApprovalChannel({ timeoutMs: 60_000 });
 * using _approver = channel.attach((request) => void request.reject("not today"));
 * const answer = await channel.request({
 *   kind: "shell",
 *   serverName: "ipybox",
 *   toolName: "shell",
 *   arguments: { cmd: "ls" },
 * });
 * console.error(answer.accepted); // false
 * ```
 */
export class ApprovalChannel {
  readonly #timeoutMs: number | undefined;
  readonly #log: Logger;
  /** What is undecided, and who was asked. */
  readonly #pending = new Map<ApprovalRequest, Approver>();
  readonly #counters = new Set<(pending: number) => void>();
  readonly #watchers = new Set<ApprovalWatcher>();
  #approver: Approver | undefined;
  #attended = false;
  #deputy: Approver | undefined;
  #free = Promise.withResolvers<void>();

  /**
   * Makes a channel without an approver.
   *
   * @param options The time limit and the log.
   * @throws {RangeError} The time limit is not above 0.
   */
  constructor(options: ApprovalChannelOptions = {}) {
    const { timeoutMs, log = silentLogger } = options;
    if (timeoutMs !== undefined && !(timeoutMs > 0)) {
      throw new RangeError(`Cannot use an approval timeout of ${timeoutMs} ms: it must be above 0`);
    }
    this.#timeoutMs = timeoutMs;
    this.#log = log;
  }

  /** Whether an approver is attached. */
  get attached(): boolean {
    return this.#approver !== undefined;
  }

  /** Whether an approver is attached that stands for a person in another process. */
  get attended(): boolean {
    return this.#attended;
  }

  /** How many requests wait for a decision. */
  get pending(): number {
    return this.#pending.size;
  }

  /** Calls back with the number of waiting requests whenever it changes, until disposed. */
  onPendingChange(callback: (pending: number) => void): Disposable {
    this.#counters.add(callback);
    return { [Symbol.dispose]: () => void this.#counters.delete(callback) };
  }

  /**
   * Shows each request, those that wait already too, until the returned object is disposed. Whoever
   * watches may decide as well as the one that is asked, but no call waits for it.
   *
   * @param watcher Called with each request.
   * @returns Disposing it ends the watch. Requests stay as they are.
   */
  watch(watcher: ApprovalWatcher): Disposable {
    this.#watchers.add(watcher);
    for (const request of this.#pending.keys()) this.#tell(watcher, request);
    return { [Symbol.dispose]: () => void this.#watchers.delete(watcher) };
  }

  /**
   * Makes `approver` the one who decides, until the returned object is disposed. What it was asked
   * and is undecided then is refused.
   *
   * @param approver Called with each request.
   * @param options Whether it stands for a person in another process.
   * @returns Disposing it detaches the approver.
   * @throws {Error} Another approver is attached; see {@linkcode whenFree}.
   */
  attach(approver: Approver, options: AttachOptions = {}): Disposable {
    if (this.#approver !== undefined) {
      throw new Error("Cannot attach an approver: the approval channel already has one");
    }
    this.#approver = approver;
    this.#attended = options.attended ?? false;
    this.#free = Promise.withResolvers<void>();
    return {
      [Symbol.dispose]: () => {
        if (this.#approver !== approver) return;
        this.#approver = undefined;
        this.#attended = false;
        this.#leave(approver, "Approval channel disconnected");
        this.#free.resolve();
      },
    };
  }

  /**
   * Makes `deputy` the one who is asked while no approver is attached, until the returned object is
   * disposed. What it was asked and is undecided then is refused.
   *
   * @param deputy Called with each request that has no approver.
   * @param farewell Why its requests are refused at its end, in words for the code that called.
   * @returns Disposing it detaches the deputy.
   * @throws {Error} There is another deputy.
   */
  attachDeputy(deputy: Approver, farewell: () => string): Disposable {
    if (this.#deputy !== undefined) {
      throw new Error("Cannot attach a deputy: the approval channel already has one");
    }
    this.#deputy = deputy;
    return {
      [Symbol.dispose]: () => {
        if (this.#deputy !== deputy) return;
        this.#deputy = undefined;
        this.#leave(deputy, farewell());
      },
    };
  }

  /**
   * Waits until no approver is attached.
   *
   * @param signal Ends the wait.
   */
  async whenFree(signal: AbortSignal): Promise<void> {
    while (this.attached) await abortable(this.#free.promise, signal);
  }

  /**
   * Asks for a decision.
   *
   * @param call What is to be decided.
   * @param options What withdraws the request.
   * @returns The decision, or why there is none. Never rejects.
   */
  async request(call: ApprovalCall, options: ApprovalWaitOptions = {}): Promise<ApprovalResponse> {
    using span = startSpan("approval", { attributes: { "ipybox.approval.kind": call.kind } });
    const response = await this.#ask(call, options);
    span.set({
      "ipybox.approval.decision": response.accepted ? "allow" : "deny",
      ...(response.accepted ? {} : { "ipybox.approval.refusal": response.type }),
    });
    return response;
  }

  /**
   * Refuses all that waits for a decision.
   *
   * @param reason Why, in words for the code that called.
   */
  withdrawAll(reason: string): void {
    for (const request of this.#pending.keys()) request.withdraw(unavailable(reason));
  }

  async #ask(call: ApprovalCall, options: ApprovalWaitOptions): Promise<ApprovalResponse> {
    const { signal, scopes, check } = options;
    const approver = options.approver ?? this.#approver ?? this.#deputy;
    if (signal?.aborted) return CANCELLED;
    if (approver === undefined) return unavailable("Approval channel not connected");

    const request = new ApprovalRequest(call, { scopes, check });
    const withdraw = () => request.withdraw(signal?.reason === DECIDED ? DECIDED : CANCELLED);
    signal?.addEventListener("abort", withdraw, { once: true });
    const timer = this.#expireLater(request);
    this.#change(() => this.#pending.set(request, approver));
    for (const watcher of this.#watchers) this.#tell(watcher, request);
    this.#show(request, approver);
    try {
      return await request.response;
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", withdraw);
      this.#change(() => this.#pending.delete(request));
    }
  }

  #leave(asked: Approver, reason: string): void {
    for (const [request, approver] of this.#pending) {
      if (approver === asked) request.withdraw(unavailable(reason));
    }
  }

  #expireLater(request: ApprovalRequest): ReturnType<typeof setTimeout> | undefined {
    const timeoutMs = this.#timeoutMs;
    if (timeoutMs === undefined || timeoutMs > LONGEST_TIMER_MS) return undefined;
    const reason = `No decision within ${timeoutMs / 1000} s`;
    return setTimeout(() => {
      request.withdraw({ accepted: false, type: "approval_timeout", reason });
    }, timeoutMs);
  }

  async #show(request: ApprovalRequest, approver: Approver): Promise<void> {
    try {
      await approver(request);
    } catch (error) {
      this.#log.error(`Approver failed on ${request}: ${error}`);
      request.withdraw(unavailable("Approver failed"));
    }
  }

  #tell(watcher: ApprovalWatcher, request: ApprovalRequest): void {
    try {
      watcher(request);
    } catch (error) {
      this.#log.error(`A watcher of the approval channel failed on ${request}: ${error}`);
    }
  }

  #change(apply: () => void): void {
    apply();
    for (const counter of this.#counters) counter(this.#pending.size);
  }
}

type Refusal = ApprovalResponse & { accepted: false };

const CANCELLED: Refusal = { accepted: false, type: "cancelled", reason: "The call was cancelled" };

/** What becomes of a request that is not needed any more: its signal aborts with this as the reason. */
export const DECIDED: Refusal = {
  accepted: false,
  type: "cancelled",
  reason: "An answer to another request decided this one, too",
};

function unavailable(reason: string): Refusal {
  return { accepted: false, type: "approval_unavailable", reason };
}
