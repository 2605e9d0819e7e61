import {
  CodeExecutionError,
  KernelDiedError,
  type KernelState,
  type PartialResult,
} from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import { abortable, anySignal, settledWithin } from "../base/signals.ts";
import type { ArtifactFolder } from "../files/artifact_folder.ts";
import type { JsonObject, KernelRequest } from "./jupyter.ts";
import type { KernelKeeper } from "./keeper.ts";
import type { Kernel } from "./kernel.ts";
import { OutputCollector } from "./output_collector.ts";
import type { ExecutionResult } from "./outputs.ts";
import { ChunkQueue, MAX_UNREAD, type OutputChunk } from "./spill_file.ts";
import { failureHint, type HintContext, type Raised } from "./traceback.ts";

/** Options of one execution. */
export interface ExecuteOptions {
  /**
   * Cancels the execution: it is interrupted, and if it does not end within the client's
   * `interruptGraceMs`, its kernel is replaced by a fresh one.
   */
  readonly signal?: AbortSignal;
  /**
   * Whether the code is added to IPython's history (`In`, `Out`, `_`).
   *
   * @default {false}
   */
  readonly storeHistory?: boolean;
  /**
   * Told what the code asks by `input()`, `getpass.getpass()` or a debugger.
   *
   * @default {undefined} asking raises an exception
   */
  readonly onInput?: (request: InputRequest) => void;
}

/** How an execution ended. */
export interface Outcome {
  /** Whether the kernel's variables survived it. */
  readonly state: KernelState;
  /** Why there is no result. */
  readonly failure?: { readonly error: unknown };
}

/** What an execution needs from its client. */
interface ExecutionHost {
  readonly maxOutputBytes: number;
  readonly images: ArtifactFolder;
  readonly spill: ArtifactFolder;
  /** Runs the code; never rejects. */
  run(collector: OutputCollector, signal: AbortSignal): Promise<Outcome>;
  /** Resolves when what the code has written so far is in its collector. */
  flush(collector: OutputCollector): Promise<void>;
}

/**
 * One run of code in a kernel: text as it is produced by iterating, the whole by `result`.
 *
 * It runs whether or not anybody iterates. Leaving the loop cancels it. A loop that does not keep up
 * does not get what comes on top of 16 MiB of unread text, and is told so by a chunk; the result has
 * all.
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
export class Execution implements AsyncIterable<OutputChunk> {
  /**
   * What the code produced.
   *
   * Rejects with a {@linkcode CodeExecutionError} when the code raised an exception, with the
   * reason of the signal when it was cancelled, and with a {@linkcode KernelDiedError} when its
   * kernel died.
   */
  readonly result: Promise<ExecutionResult>;
  /** Whether the kernel's variables survived, known when the execution has ended. */
  readonly state: Promise<KernelState>;
  readonly #host: ExecutionHost;
  readonly #collector: OutputCollector;
  readonly #chunks: ChunkQueue;
  readonly #cancel = new AbortController();
  #ended = false;

  /** @internal */
  constructor(host: ExecutionHost, signal: AbortSignal | undefined) {
    this.#chunks = new ChunkQueue(Math.max(MAX_UNREAD, host.maxOutputBytes));
    this.#host = host;
    this.#collector = new OutputCollector({
      maxOutputBytes: host.maxOutputBytes,
      images: host.images,
      spill: host.spill,
      onText: (stream, text) => this.#chunks.push(stream, text),
    });
    const outcome = host.run(this.#collector, anySignal(signal, this.#cancel.signal));
    this.state = outcome.then(({ state }) => state);
    this.result = outcome.then(({ failure }) => this.#finish(failure));
    this.result.catch(() => {}); // who only iterates, or only cancels, does not wait for it
  }

  /**
   * What was produced so far: of use when `result` rejects with something that is no
   * {@linkcode CodeExecutionError}.
   *
   * @returns Text, images and outputs up to now.
   */
  partial(): PartialResult {
    return this.#collector.partial();
  }

  /**
   * Resolves when what the code has written to stdout and stderr so far has been received, which
   * may otherwise come a moment later than the tool calls that it makes. Never rejects.
   */
  async flush(): Promise<void> {
    await this.#host.flush(this.#collector);
  }

  /**
   * Cancels the execution, as its signal would. Does nothing after its end.
   *
   * @param reason What `result` rejects with.
   * @returns Whether the kernel's variables survived.
   */
  cancel(
    reason: unknown = new DOMException("The execution was cancelled", "AbortError"),
  ): Promise<KernelState> {
    this.#cancel.abort(reason);
    return this.state;
  }

  /**
   * Iterates over the text as it is produced, and throws at the end what `result` rejects with.
   * Leaving the loop before its end cancels the execution and waits until that is done.
   */
  async *[Symbol.asyncIterator](): AsyncGenerator<OutputChunk, void, undefined> {
    try {
      for (;;) {
        const chunk = await this.#chunks.next();
        if (chunk === undefined) break;
        yield chunk;
      }
      await this.result;
    } finally {
      if (!this.#ended) await this.cancel();
    }
  }

  #finish(failure: Outcome["failure"]): ExecutionResult {
    this.#ended = true;
    using _collector = this.#collector;
    try {
      if (failure !== undefined) throw failure.error;
      return this.#collector.partial(); // which may say something
    } finally {
      this.#chunks.end();
    }
  }
}

/** What {@linkcode Running} code needs. */
export interface RunningOptions {
  /** Takes its output. */
  readonly collector: OutputCollector;
  /** Has the kernel, and replaces it where the code does not end. */
  readonly keeper: KernelKeeper;
  /** How long the code may take to end once it is interrupted. */
  readonly graceMs: number;
  /** What may have been the reason of an error. */
  readonly context: HintContext;
  /** Answers what the code asks; without it, asking raises. */
  readonly onInput: ((request: InputRequest) => void) | undefined;
  /** Told of a kernel that is given up. */
  readonly log: Logger;
}

/** How long a kernel whose interrupted code has ended may take to be ready for other code. */
const IDLE_GRACE_MS = 10_000;

/** Code that a kernel runs: how it is interrupted, and how it ends. */
export class Running {
  /** What takes its output. */
  readonly collector: OutputCollector;
  readonly #kernel: Kernel;
  readonly #options: RunningOptions;
  readonly #request: KernelRequest;
  readonly #interrupts: Promise<void>[] = [];
  /** What the code asked last. */
  #question: InputRequest | undefined;

  /** Sends the code to a kernel. */
  constructor(
    kernel: Kernel,
    code: { readonly code: string; readonly storeHistory: boolean },
    options: RunningOptions,
  ) {
    const { collector, onInput } = options;
    this.collector = collector;
    this.#kernel = kernel;
    this.#options = options;
    this.#request = kernel.request(
      { type: "execute_request", silent: false, allowStdin: onInput !== undefined, ...code },
      {
        onOutput: (message) => collector.add(message),
        onInput: onInput && ((content) => onInput(this.#ask(content))),
      },
    );
  }

  /** Resolves when what the code has written so far is in its collector. */
  flush(): Promise<void> {
    return this.#kernel.flush();
  }

  /** Interrupts the code, but never before it has begun: an idle kernel ignores interrupts. */
  interrupt(): Promise<void> {
    this.#question?.withdraw("The code was interrupted");
    const interrupted = this.#request.begun.then(() => {
      return this.#request.isIdle ? undefined : this.#kernel.interrupt();
    });
    this.#interrupts.push(interrupted);
    return interrupted;
  }

  /** Waits for the end. */
  async outcome(cancelled: AbortSignal): Promise<Outcome> {
    const { collector, keeper, context } = this.#options;
    try {
      const reply = await abortable(this.#request.done, cancelled);
      collector.addPayload(reply.payload);
      const state = this.#interrupts.length === 0 ? "kept" : await this.#settle();
      if (reply.status === "ok") return { state };
      return {
        state,
        failure: { error: codeError(collector.raisedIn(reply), collector.partial(), context) },
      };
    } catch (error) {
      if (cancelled.aborted) {
        this.interrupt().catch(() => {}); // #settle() waits for it
        return { state: await this.#settle(), failure: { error } };
      }
      keeper.takeLoss(); // it is told here
      const own = error instanceof KernelDiedError ? error.with(collector.partial()) : error;
      return { state: "lost", failure: { error: own } };
    } finally {
      this.#question?.withdraw("The code has ended");
    }
  }

  /** What the code asks now: it waits for one answer at a time. */
  #ask(content: JsonObject): InputRequest {
    this.#question?.withdraw("The code asks anew");
    return this.#question = new InputRequest(
      inputQuestion(content),
      (value) => this.#kernel.reply(value),
    );
  }

  /**
   * Waits until the execution is over and none of its interrupts can reach the next one. A kernel
   * that cannot get there in time is replaced.
   */
  async #settle(): Promise<KernelState> {
    const { keeper, graceMs, log } = this.#options;
    const kept = this.#untilSettled().then(() => true, () => false);
    if (!await settledWithin(kept, graceMs / 2) && !this.#request.isIdle) {
      // A few in a thousand of the interrupts that come just as the code begins get lost inside.
      this.interrupt().catch(() => {}); // #untilSettled() waits for it
    }
    if (await settledWithin(kept, graceMs / 2) && await kept) return "kept";
    // Code that has ended leaves a kernel that answers, if late: a busy machine must not cost variables.
    if (this.#request.isIdle && await settledWithin(kept, IDLE_GRACE_MS) && await kept) {
      return "kept";
    }
    if (!this.#kernel.ended.aborted) {
      log.debug("an interrupted execution goes on; its kernel is replaced");
      keeper.replace(new DOMException("The kernel was given up", "AbortError"));
    }
    keeper.takeLoss(); // it is told here
    return "lost";
  }

  /** Resolves when the execution is over and all its interrupts have been seen by the kernel. */
  async #untilSettled(): Promise<void> {
    await Promise.all(this.#interrupts);
    await this.#request.idle;
    await Promise.all(this.#interrupts); // one more may have been sent
    await this.#kernel.settled();
  }
}

/** Makes the error of code that raised an exception. */
function codeError(
  raised: Raised,
  produced: PartialResult,
  context: HintContext,
): CodeExecutionError {
  const { ename, evalue } = raised;
  let traceback = raised.traceback.join("\n");
  const hint = failureHint({ ename, evalue, traceback }, context);
  if (hint !== undefined) traceback += `\n${hint}`;
  return new CodeExecutionError(ename, evalue, traceback, produced);
}

/** What code asks for. */
export interface InputQuestion {
  /** The code's own words, which nobody has checked; of long ones the end. */
  readonly prompt: string;
  /** Whether the answer is not to be shown as it is typed. */
  readonly isPassword: boolean;
}

/** More than a person reads before typing a line. */
const MAX_PROMPT = 2000;

/** What the kernel takes for the end of all input. */
export const END_OF_INPUT = "\x04";

/** Reads what code asks for, which it may have forged. */
function inputQuestion(content: Readonly<Record<string, unknown>>): InputQuestion {
  const { prompt, password } = content;
  const text = typeof prompt === "string" ? prompt : "";
  const shown = text.length > MAX_PROMPT ? `…${text.slice(-MAX_PROMPT)}` : text;
  return { prompt: shown, isPassword: password === true };
}

/**
 * A question of executed code to the person at the application, by `input()`, `getpass.getpass()` or a
 * debugger. The code waits for the answer. The first one counts; later ones change nothing.
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
  /** The code's own words, which nobody has checked; of long ones the end. */
  readonly prompt: string;
  /** Whether the answer is not to be shown as it is typed. */
  readonly isPassword: boolean;
  readonly #reply: (value: string) => void;
  readonly #closed = Promise.withResolvers<void>();
  readonly #withdrawn = new AbortController();
  #isOpen = true;

  /**
   * Made by ipybox, not by hand.
   *
   * @param question What is asked.
   * @param reply Sends the answer.
   */
  constructor(question: InputQuestion, reply: (value: string) => void) {
    this.prompt = question.prompt;
    this.isPassword = question.isPassword;
    this.#reply = reply;
  }

  /** Aborts when the question is taken back: the code was interrupted, has ended or asks anew. */
  get signal(): AbortSignal {
    return this.#withdrawn.signal;
  }

  /** Resolves once the question is answered or taken back. */
  get closed(): Promise<void> {
    return this.#closed.promise;
  }

  /**
   * Answers.
   *
   * @param text A line, without its end.
   * @returns Whether this answer counted: `false` after another one, or when it came too late.
   */
  answer(text: string): boolean {
    if (!this.#close()) return false;
    this.#reply(text);
    return true;
  }

  /**
   * Says that there is no answer, as Ctrl-D does: the code sees an `EOFError`.
   *
   * @returns Whether this counted.
   */
  end(): boolean {
    return this.answer(END_OF_INPUT);
  }

  /**
   * Takes the question back. For whoever passed it on.
   *
   * @param reason Why.
   */
  withdraw(reason: string): void {
    if (this.#close()) this.#withdrawn.abort(new DOMException(reason, "AbortError"));
  }

  /** The code's words, safe to print on a terminal. */
  toString(): string {
    return this.prompt.replace(UNPRINTABLE, " ").trim();
  }

  #close(): boolean {
    if (!this.#isOpen) return false;
    this.#isOpen = false;
    this.#closed.resolve();
    return true;
  }
}

/** What is invisible, moves the cursor or turns the direction. */
const UNPRINTABLE = /[\p{C}\p{Zl}\p{Zp}]+/gu;
