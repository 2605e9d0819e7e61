import type { ByteStream } from "../net/byte_stream.ts";
import { AnswerWriter } from "./answer_writer.ts";
import { type DoorAnswer, Refused } from "./door.ts";
import { Exchange, type ExchangeOptions, type IncomingRequest } from "./exchange.ts";
import type { RequestHead } from "./request_head.ts";
import { RequestReader } from "./request_reader.ts";

/** What a {@linkcode DoorConnection} is made of. */
export interface DoorConnectionOptions extends Omit<ExchangeOptions, "stream" | "reader"> {
  /** Answers requests; never rejects. */
  readonly handler: (request: IncomingRequest) => Promise<DoorAnswer>;
  /** How long a head may take, in milliseconds; the first one from the connection's beginning. */
  readonly headTimeoutMs: number;
  /** How long the connection is kept between two requests, in milliseconds. */
  readonly idleTimeoutMs: number;
}

/** A connection on which one request after the other is answered. */
export class DoorConnection {
  readonly #stream: ByteStream;
  readonly #options: DoorConnectionOptions;
  readonly #reader: RequestReader;
  #exchange: Exchange | undefined;
  #kept = false;
  #ending = false;

  constructor(stream: ByteStream, options: DoorConnectionOptions) {
    this.#stream = stream;
    this.#options = options;
    this.#reader = new RequestReader(stream);
    stream.closed.then(() => this.#exchange?.abandon());
  }

  /** Whether it is only kept for a next request: who closes it then, loses none. */
  get isKept(): boolean {
    return this.#kept;
  }

  /** Answers requests until no more come. Never rejects. */
  async serve(): Promise<void> {
    const { headTimeoutMs, idleTimeoutMs } = this.#options;
    await this.#untilGone(async () => {
      let isOpen = await this.#reader.begin(headTimeoutMs);
      while (isOpen) {
        if (!await this.#answerNext()) return await this.#farewell();
        this.#kept = !this.#ending;
        isOpen = this.#kept && await this.#reader.begin(idleTimeoutMs);
        this.#kept = false;
      }
    });
  }

  /** Refuses whatever comes. Never rejects. */
  async refuse(refused: Refused): Promise<void> {
    await this.#untilGone(async () => {
      await this.#refuse(refused);
      await this.#farewell();
    });
  }

  /** Ends the connection once the request that is being answered, if there is one, has its answer. */
  end(): void {
    this.#ending = true;
    if (this.#exchange === undefined) this.close();
  }

  /** Ends the connection at once. */
  close(): void {
    this.#kept = false;
    this.#stream.close();
  }

  /** Answers one request, and tells whether another may follow. */
  async #answerNext(): Promise<boolean> {
    const { headTimeoutMs, handler } = this.#options;
    let head: RequestHead;
    try {
      head = await this.#reader.readHead(headTimeoutMs);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      await this.#refuse(error);
      return false;
    }
    using exchange = new Exchange(head, {
      ...this.#options,
      stream: this.#stream,
      reader: this.#reader,
    });
    this.#exchange = exchange;
    try {
      return await exchange.finish(await handler(exchange));
    } finally {
      this.#exchange = undefined;
    }
  }

  async #refuse(refused: Refused): Promise<void> {
    const answer = this.#options.refusal(refused);
    const body = new TextEncoder().encode(answer.text);
    await new AnswerWriter(this.#stream).end(answer, body, false);
  }

  /** Hangs up after an answer. What was sent meanwhile is read, else the answer would be lost. */
  async #farewell(): Promise<void> {
    await this.#stream.end();
    await this.#reader.discard();
  }

  async #untilGone(run: () => Promise<void>): Promise<void> {
    try {
      await run();
    } catch {
      // The other side is gone. A request that was under way has been told.
    } finally {
      this.#stream.close();
      this.#reader[Symbol.dispose]();
    }
  }
}
