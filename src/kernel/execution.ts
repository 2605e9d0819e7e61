import { anySignal } from "../async/signals.ts";
import type { KernelState, PartialResult } from "../errors.ts";
import { ChunkQueue, MAX_UNREAD, type OutputChunk } from "./chunk_queue.ts";
import type { ArtifactFolder } from "./artifact_folder.ts";
import type { InputRequest } from "./input_request.ts";
import { OutputCollector } from "./output_collector.ts";
import type { ExecutionResult } from "./outputs.ts";

/** Options of one execution. */
export interface ExecuteOptions {
  /**
   * Cancels the execution: it is interrupted, and if it does not end within the client's
   * `interruptGraceMs`, its kernel is replaced by a fresh one.
   */
  readonly signal?: AbortSignal | undefined;
  /**
   * Whether the code is added to IPython's history (`In`, `Out`, `_`).
   *
   * @default {false}
   */
  readonly storeHistory?: boolean | undefined;
  /**
   * Told what the code asks by `input()`, `getpass.getpass()` or a debugger.
   *
   * @default {undefined} asking raises an exception
   */
  readonly onInput?: ((request: InputRequest) => void) | undefined;
}

/** How an execution ended. */
export interface Outcome {
  /** Whether the kernel's variables survived it. */
  readonly state: KernelState;
  /** Why there is no result. */
  readonly failure?: { readonly error: unknown };
}

/** What an execution needs from its client. */
export interface ExecutionHost {
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
 * import type { KernelClient } from "@ipybox/ipybox";
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
