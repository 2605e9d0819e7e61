import {
  CodeExecutionError,
  KernelDiedError,
  type KernelState,
  type PartialResult,
} from "../base/errors.ts";
import { abortable, anySignal, settledWithin } from "../base/signals.ts";
import { visibleLine } from "../base/terminal.ts";
import type { ArtifactFolder } from "../files/artifact_folder.ts";
import { END_OF_INPUT, type JsonObject, KernelRequest, type RequestListeners } from "./jupyter.ts";
import type { Kernel } from "./kernel.ts";
import { type CollectorOptions, OutputCollector } from "./output_collector.ts";
import type { ExecutionResult } from "./outputs.ts";
import { ChunkQueue, MAX_UNREAD, type OutputChunk } from "./spill_file.ts";

/** Options of one execution. */
export interface ExecuteOptions {
  /**
   * Cancels the execution: its code is interrupted, and if it does not end within the client's
   * `interruptGraceMs`, the kernel is replaced with a fresh one.
   */
  readonly signal?: AbortSignal;
  /**
   * Whether the code is added to IPython's history (`In`, `Out`, `_`).
   *
   * @default {false}
   */
  readonly storeHistory?: boolean;
  /**
   * Receives questions that the code asks with `input()`, `getpass.getpass()` or a debugger.
   *
   * @default {undefined} asking raises an exception in the code
   */
  readonly onInput?: (request: InputRequest) => void;
}

/** How an execution ended. */
export interface Outcome {
  /** Whether the kernel's variables survived. */
  readonly state: KernelState;
  /** The reason if there is no result. */
  readonly failure?: { readonly error: unknown };
}

/**
 * One run of code in a kernel: iterate over it for text as it is produced, or await `result`.
 *
 * It runs whether or not you iterate. Leaving the loop cancels it. A loop that does not keep up misses
 * what exceeds 16 MiB of unread text, and a chunk says so; the result is complete.
 *
 * @example
 * ```ts
 * import type { KernelClient } from "@ipybox/ipybox/kernel";
 *
 * async function show(client: KernelClient): Promise<void> {
 *   const execution = client.execute("print('hello')\n1 + 1");
 *   for await (const { stream, text } of execution) console.error(stream, text);
 *   console.error((await execution.result).text); // hello\n2
 * }
 * ```
 */
export interface Execution extends AsyncIterable<OutputChunk> {
  /**
   * The output of the code.
   *
   * Rejects with a {@linkcode CodeExecutionError} when the code raised an exception, with the
   * reason of the signal when it was cancelled, and with a {@linkcode KernelDiedError} when its
   * kernel died.
   */
  readonly result: Promise<ExecutionResult>;
  /** Whether the kernel's variables survived, known when the execution has ended. */
  readonly state: Promise<KernelState>;

  /**
   * Returns the output so far, which helps when `result` rejects with anything but a
   * {@linkcode CodeExecutionError}.
   *
   * @returns Text, images and outputs so far.
   */
  partial(): PartialResult;

  /**
   * Resolves when everything that the code has written to stdout and stderr so far has arrived; it can
   * arrive a moment later than the code's tool calls. Never rejects.
   */
  flush(): Promise<void>;

  /**
   * Cancels the execution, as its signal would. Does nothing if it has ended.
   *
   * @param reason The error that `result` rejects with.
   * @returns Whether the kernel's variables survived.
   */
  cancel(reason?: unknown): Promise<KernelState>;

  /**
   * Iterates over the text as it is produced; at the end, throws what `result` rejects with. Leaving
   * the loop early cancels the execution and waits until it has ended.
   */
  [Symbol.asyncIterator](): AsyncGenerator<OutputChunk, void, undefined>;
}

/** Options of {@linkcode Run}. */
interface RunParts extends ExecuteOptions {
  /** The id of its request, with which another host can find it; a new one by default. */
  readonly id?: string;
  readonly code: string;
  readonly maxOutputBytes: number;
  readonly images: ArtifactFolder;
  /** As in {@linkcode CollectorOptions}. */
  readonly shownPath?: CollectorOptions["shownPath"];
  /** The time limit for interrupted code to end, in milliseconds. */
  readonly graceMs: number;
  /** Aborts when the kernel's host is closed. */
  readonly closed: AbortSignal;
  /** Whether to queue text for a reader, which is the default. */
  readonly chunks?: boolean;
}

/** The kernel that runs the code. */
interface Running {
  readonly kernel: Kernel;
  readonly request: KernelRequest;
}

/** The time limit for a kernel to be ready for other code once its interrupted code has ended. */
const IDLE_GRACE_MS = 10_000;

/** Code that waits for a kernel, runs or has ended, with its output. `KernelHost` decides when it runs. */
export class Run<Extra = never> implements AsyncIterable<OutputChunk | Extra> {
  /** The result of the code; rejects without one. */
  readonly result: Promise<ExecutionResult>;
  /** Whether the kernel's variables survived; resolves when the code has ended. */
  readonly state: Promise<KernelState>;
  readonly id: string;
  /** Aborts when it is cancelled. */
  readonly signal: AbortSignal;
  /** The events for the reader, as far as there is room. */
  readonly events: ChunkQueue<Extra>;
  readonly #parts: RunParts;
  readonly #collector: OutputCollector;
  readonly #cancel = new AbortController();
  readonly #outcome = Promise.withResolvers<Outcome>();
  readonly #interrupts: Promise<void>[] = [];
  #running: Running | undefined;
  #found: KernelRequest | undefined;
  readonly #sent = Promise.withResolvers<KernelRequest>();
  /** The last question of the code. */
  #question: InputRequest | undefined;
  #ended = false;

  constructor(parts: RunParts) {
    const { maxOutputBytes, images, shownPath, chunks = true } = parts;
    this.#parts = parts;
    this.id = parts.id ?? crypto.randomUUID();
    this.signal = anySignal(parts.signal, this.#cancel.signal, parts.closed);
    this.events = new ChunkQueue(Math.max(MAX_UNREAD, maxOutputBytes));
    this.#collector = new OutputCollector({
      maxOutputBytes,
      images,
      shownPath,
      onText: (stream, text, file) => {
        if (chunks) this.events.push(stream, text, file);
      },
    });
    this.state = this.#outcome.promise.then(({ state }) => state);
    this.result = this.#outcome.promise.then(({ failure }) => this.#finish(failure));
    this.result.catch(() => {}); // callers that only iterate or cancel do not await it
  }

  /** The output so far. */
  partial(): PartialResult {
    return this.#collector.partial();
  }

  /** Resolves when everything that the code has written so far has arrived. Never rejects. */
  async flush(): Promise<void> {
    if (!this.#ended) await this.#running?.kernel.flush();
  }

  /** Cancels the code; resolves with whether the kernel's variables survived. */
  cancel(
    reason: unknown = new DOMException("The execution was cancelled", "AbortError"),
  ): Promise<KernelState> {
    this.#cancel.abort(reason);
    return this.state;
  }

  /** Whether an error is just the effect of {@linkcode cancel}. */
  isCancellation(error: unknown): boolean {
    return this.#cancel.signal.aborted && error === this.#cancel.signal.reason;
  }

  /** The events until the end. Leaving the loop cancels the code and waits for its end. */
  async *[Symbol.asyncIterator](): AsyncGenerator<OutputChunk | Extra, void, undefined> {
    try {
      for (;;) {
        const event = await this.events.next();
        if (event === undefined) break;
        yield event;
      }
      await this.result;
    } finally {
      if (!this.#ended) await this.cancel();
    }
  }

  /**
   * Runs the code in an idle kernel. After the outcome `"lost"`, the code may still run: end its
   * kernel.
   */
  async runIn(kernel: Kernel, cancelled: AbortSignal): Promise<Outcome> {
    const { code, storeHistory = false, onInput } = this.#parts;
    const collector = this.#collector;
    try {
      const request = this.#found ?? kernel.request(
        {
          type: "execute_request",
          silent: false,
          allowStdin: onInput !== undefined,
          code,
          storeHistory,
        },
        this.#listeners(kernel),
        this.id,
      );
      this.#running = { kernel, request };
      this.#sent.resolve(request);
      const reply = await abortable(request.done, cancelled);
      collector.addPayload(reply.payload);
      const state = this.#interrupts.length === 0 ? "kept" : await this.#settle(this.#running);
      if (reply.status === "ok") return { state };
      const { ename, evalue, traceback } = collector.raisedIn(reply);
      const produced = collector.partial();
      const error = new CodeExecutionError(ename, evalue, traceback.join("\n"), produced);
      return { state, failure: { error } };
    } catch (error) {
      if (cancelled.aborted && this.#running !== undefined) {
        this.interrupt().catch(() => {}); // #settle() waits for it
        return { state: await this.#settle(this.#running), failure: { error } };
      }
      const own = error instanceof KernelDiedError ? error.with(collector.partial()) : error;
      return { state: "lost", failure: { error: own } };
    } finally {
      this.#question?.withdraw("The code has ended");
    }
  }

  /** Takes over an execution that an earlier host began: {@linkcode runIn} sends no request then. */
  find(kernel: Kernel): KernelRequest {
    return this.#found = new KernelRequest(this.#listeners(kernel));
  }

  /** Resolves when the kernel has begun to run the code, or the code has ended. */
  async begun(): Promise<void> {
    const begun = this.#sent.promise.then((request) => request.begun);
    await Promise.race([begun, this.#outcome.promise]);
  }

  #listeners(kernel: Kernel): RequestListeners {
    const { onInput } = this.#parts;
    return {
      onOutput: (message) => this.#collector.add(message),
      onInput: onInput && ((content) => onInput(this.#ask(content, kernel))),
    };
  }

  /** Whether it has ended. */
  get isOver(): boolean {
    return this.#ended;
  }

  /** Settles the outcome. The first call counts. */
  end(outcome: Outcome): void {
    this.#outcome.resolve(outcome);
  }

  /** Interrupts the code once it has begun: an idle kernel ignores interrupts. */
  interrupt(): Promise<void> {
    this.#question?.withdraw("The code was interrupted");
    const interrupted = this.#interruptOnceBegun();
    this.#interrupts.push(interrupted);
    return interrupted;
  }

  async #interruptOnceBegun(): Promise<void> {
    if (this.#running === undefined) return;
    const { kernel, request } = this.#running;
    await request.begun;
    if (!request.isIdle) await kernel.interrupt();
  }

  /** Replaces the open question: code waits for one answer at a time. */
  #ask(content: JsonObject, kernel: Kernel): InputRequest {
    this.#question?.withdraw("The code asked again");
    const question = inputQuestion(content);
    return this.#question = new InputRequest(question, (value) => kernel.reply(value));
  }

  /** Waits until the execution is over and none of its interrupts can reach the next one, or gives up. */
  async #settle(running: Running): Promise<KernelState> {
    const { graceMs } = this.#parts;
    const { request } = running;
    const kept = this.#untilSettled(running).then(() => true, () => false);
    if (!await settledWithin(kept, graceMs / 2) && !request.isIdle) {
      // Code that was just about to wait in C has not noticed the signal.
      this.interrupt().catch(() => {}); // #untilSettled() waits for it
    }
    if (await settledWithin(kept, graceMs / 2) && await kept) return "kept";
    // Once the code has ended, the kernel answers sooner or later: keep its variables on a busy
    // machine.
    if (request.isIdle && await settledWithin(kept, IDLE_GRACE_MS) && await kept) return "kept";
    return "lost";
  }

  /** Resolves when the execution is over and the kernel has handled all its interrupts. */
  async #untilSettled({ kernel, request }: Running): Promise<void> {
    await Promise.all(this.#interrupts);
    await request.idle;
    await Promise.all(this.#interrupts); // one more may have been sent
    await kernel.settled();
  }

  #finish(failure: Outcome["failure"]): ExecutionResult {
    this.#ended = true;
    using _collector = this.#collector;
    try {
      if (failure !== undefined) throw failure.error;
      return this.#collector.partial(); // this may add messages
    } finally {
      this.events.end();
    }
  }
}

/** A question of the code. */
export interface InputQuestion {
  /** The code's own, unchecked words; only the end of a long text. */
  readonly prompt: string;
  /** Whether to hide the answer while it is typed. */
  readonly isPassword: boolean;
}

/** How a question of code ended, without the answer. */
export interface InputEnd {
  /** `"decline"` for the end of input, `"cancel"` if the question was withdrawn. */
  readonly action: "accept" | "decline" | "cancel";
  /** The side that answered, or `"cancelled"`. */
  readonly by: "application" | "terminal" | "cancelled";
  /** Why it was withdrawn. */
  readonly reason?: string;
}

/** The longest prompt that is shown, in characters. */
const MAX_PROMPT = 2000;

/** Reads an input request, which code may have forged. */
function inputQuestion(content: Readonly<Record<string, unknown>>): InputQuestion {
  const { prompt, password } = content;
  const text = typeof prompt === "string" ? prompt : "";
  const shown = text.length > MAX_PROMPT ? `…${text.slice(-MAX_PROMPT)}` : text;
  return { prompt: shown, isPassword: password === true };
}

/**
 * A question from executed code to the person at the application, asked through `input()`,
 * `getpass.getpass()` or a debugger. The code waits for the answer. The first one counts; later
 * ones change nothing.
 *
 * @example
 * ```ts
 * import type { InputRequest } from "@ipybox/ipybox";
 *
 * function answer(request: InputRequest): void {
 *   if (request.isPassword) request.end(); // raises EOFError
 *   else request.answer(prompt(`The code asks: ${request}`) ?? "");
 * }
 * ```
 */
export class InputRequest implements InputQuestion {
  /** The code's own, unchecked words; only the end of a long text. */
  readonly prompt: string;
  /** Whether to hide the answer while it is typed. */
  readonly isPassword: boolean;
  readonly #reply: (value: string) => void;
  readonly #closed = Promise.withResolvers<InputEnd>();
  /** Resolves with how the question ended: answered, declined or withdrawn. */
  readonly closed: Promise<InputEnd> = this.#closed.promise;
  readonly #withdrawn = new AbortController();
  /** Aborts when the question is withdrawn: the code was interrupted, has ended or asks again. */
  readonly signal: AbortSignal = this.#withdrawn.signal;
  #isOpen = true;

  /**
   * Created by ipybox; not for direct construction.
   *
   * @param question The question of the code.
   * @param reply Sends the answer.
   */
  constructor(question: InputQuestion, reply: (value: string) => void) {
    this.prompt = question.prompt;
    this.isPassword = question.isPassword;
    this.#reply = reply;
  }

  /**
   * Answers the question.
   *
   * @param text A line, without its line break.
   * @param by Where it was answered; for the audit log.
   * @returns Whether this answer counted: `false` after another one, or if it came too late.
   */
  answer(text: string, by: "application" | "terminal" = "application"): boolean {
    if (!this.#close({ action: text === END_OF_INPUT ? "decline" : "accept", by })) return false;
    this.#reply(text);
    return true;
  }

  /**
   * Declines to answer, like Ctrl-D: the code sees an `EOFError`.
   *
   * @returns Whether this counted.
   */
  end(): boolean {
    return this.answer(END_OF_INPUT);
  }

  /**
   * Withdraws the question, on behalf of the side that passed it on.
   *
   * @param reason Why.
   */
  withdraw(reason: string): void {
    if (!this.#close({ action: "cancel", by: "cancelled", reason })) return;
    this.#withdrawn.abort(new DOMException(reason, "AbortError"));
  }

  /** The code's words, safe to print on a terminal. */
  toString(): string {
    return visibleLine(this.prompt);
  }

  #close(end: InputEnd): boolean {
    if (!this.#isOpen) return false;
    this.#isOpen = false;
    this.#closed.resolve(end);
    return true;
  }
}
