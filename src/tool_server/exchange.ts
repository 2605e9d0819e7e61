import type { ByteStream } from "../net/byte_stream.ts";
import { AnswerWriter } from "./answer_writer.ts";
import { type DoorAnswer, type DoorRequest, Refused, tooLarge } from "./door.ts";
import type { DoorBudget } from "./door_budget.ts";
import type { RequestHead } from "./request_head.ts";
import type { RequestReader } from "./request_reader.ts";

/** A request at a door, as whoever answers it sees it. */
export interface IncomingRequest extends DoorRequest {
  /** The path, as it was sent, with the query. */
  readonly target: string;
  /** Aborts when whoever asked has gone. */
  readonly signal: AbortSignal;
  /** Reads the body and parses it. Its memory is counted until the request is answered. */
  readBody<T>(parse: (body: Uint8Array) => T): Promise<T>;
  /** Sends a line that comes before the answer. Whoever does not read misses some. */
  tell(line: string): void;
}

/** What an {@linkcode Exchange} is made of. */
export interface ExchangeOptions {
  /** The connection. */
  readonly stream: ByteStream;
  /** What reads from it. */
  readonly reader: RequestReader;
  /** The memory that all requests share. */
  readonly budget: DoorBudget;
  /** The largest body, in bytes. */
  readonly maxBodyBytes: number;
  /** Writes a refusal. */
  readonly refusal: (refused: Refused) => DoorAnswer;
}

const encoder = new TextEncoder();

/** One request on a connection, and its answer. Disposing it gives back its memory. */
export class Exchange implements IncomingRequest, Disposable {
  readonly method: string;
  readonly target: string;
  readonly headers: ReadonlyMap<string, string>;
  readonly signal: AbortSignal;

  readonly #options: ExchangeOptions;
  readonly #head: RequestHead;
  readonly #gone = new AbortController();
  readonly #writer: AnswerWriter;
  #share: Disposable | undefined;
  #isRead: boolean;
  #offence: Refused | undefined;
  #answering = false;

  constructor(head: RequestHead, options: ExchangeOptions) {
    this.method = head.method;
    this.target = head.target;
    this.headers = head.headers;
    this.signal = this.#gone.signal;
    this.#options = options;
    this.#head = head;
    this.#writer = new AnswerWriter(options.stream);
    this.#isRead = head.length === 0;
  }

  async readBody<T>(parse: (body: Uint8Array) => T): Promise<T> {
    const { reader, budget, maxBodyBytes } = this.#options;
    const { length } = this.#head;
    if (length > maxBodyBytes) throw tooLarge(maxBodyBytes);
    using _body = await budget.forBody(length, this.signal);
    const body = await reader.readBody(length);
    this.#isRead = true;
    this.#watch();
    this.#share = await budget.forRequest(body, this.signal);
    return parse(body);
  }

  tell(line: string): void {
    if (!this.#answering && !this.signal.aborted) this.#writer.tell(line);
  }

  /** Says that whoever asked has gone. */
  abandon(): void {
    this.#gone.abort(new DOMException("The caller has gone", "AbortError"));
  }

  /** Answers. */
  async finish(given: DoorAnswer): Promise<boolean> {
    if (this.signal.aborted && this.#offence === undefined) return false;
    this.#answering = true; // what comes from here on is the next request
    const { refusal, budget } = this.#options;
    const answer = this.#offence === undefined ? given : refusal(this.#offence);
    const keep = this.#head.keep && this.#isRead && this.#offence === undefined;
    const body = encoder.encode(answer.text);
    using share = budget.forAnswer(body.length);
    if (share === undefined) {
      const full = refusal(new Refused(503, "Too many large answers are unread; this one is lost"));
      await this.#writer.end(full, encoder.encode(full.text), keep);
    } else {
      await this.#writer.end(answer, body, keep);
    }
    return keep;
  }

  [Symbol.dispose](): void {
    this.#share?.[Symbol.dispose]();
  }

  /** Notices when the caller leaves, or does not wait for the answer. */
  async #watch(): Promise<void> {
    const more = await this.#options.reader.peek();
    if (this.#answering) return;
    if (more) this.#offence = new Refused(400, "Wait for the answer before the next request");
    this.abandon();
  }
}
