import type { ByteStream } from "../net/byte_stream.ts";

/** How much is read at once. */
const CHUNK = 1 << 16;
/** Up to this many bytes it is cheaper to copy what was read than to get a new buffer. */
const SMALL = 1 << 13;

/**
 * The standard input and output of a process as a stream of bytes. What it writes waits in its pipe
 * until it is read, so that a process that nobody reads waits too.
 */
export class ProcessPipes implements ByteStream {
  readonly closed: Promise<void>;
  /** Resolves when the output has been read to its end, or nobody will read it any more. */
  readonly outputEnded: Promise<void>;

  readonly #command: string;
  readonly #input: WritableStreamDefaultWriter<Uint8Array>;
  readonly #output: ReadableStreamBYOBReader;
  readonly #gone = Promise.withResolvers<void>();
  readonly #ended = Promise.withResolvers<void>();
  #buffer: Uint8Array<ArrayBuffer> | undefined;
  #wasRead = false;

  constructor(command: string, child: Deno.ChildProcess) {
    this.#command = command;
    this.#input = child.stdin.getWriter();
    this.#input.closed.catch(() => {}); // each write reports its own failure
    this.#output = child.stdout.getReader({ mode: "byob" });
    this.closed = this.#gone.promise;
    this.outputEnded = this.#ended.promise;
  }

  /** Whether anybody has begun to read the output. */
  get wasRead(): boolean {
    return this.#wasRead;
  }

  async read(): Promise<Uint8Array | null> {
    this.#wasRead = true;
    const given = this.#buffer ?? new Uint8Array(CHUNK);
    this.#buffer = undefined; // the stream takes it
    const { value, done } = await this.#output.read(given).catch(() => ENDED);
    if (done || value === undefined) {
      this.#ended.resolve();
      return null;
    }
    if (value.length > SMALL) return value;
    this.#buffer = new Uint8Array(value.buffer);
    return value.slice();
  }

  async write(bytes: Uint8Array): Promise<void> {
    try {
      await this.#input.write(bytes);
    } catch (cause) {
      throw new Error(`Cannot write to ${this.#command}: its stdin is closed`, { cause });
    }
  }

  end(): Promise<void> {
    this.#input.close().catch(() => {}); // already closed, or the process no longer reads
    return Promise.resolve();
  }

  close(): void {
    this.end();
    this.#ended.resolve();
    this.#output.cancel().catch(() => {}); // there may be nothing to cancel
    this.#gone.resolve();
  }

  /** Gives up what waits to be written, because the process has ended. */
  dropInput(): void {
    this.#input.abort().catch(() => {}); // nobody reads it any more
  }
}

/** A pipe that fails has ended: the other side is gone. */
const ENDED: { readonly value?: undefined; readonly done: true } = { done: true };
