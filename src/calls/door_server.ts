import { acceptAll } from "../base/lasting_server.ts";
import { Semaphore } from "../base/mutex.ts";
import { settledWithin } from "../base/signals.ts";
import { type ByteStream, TcpStream } from "../base/streams.ts";
import { measureJson } from "../json/measure.ts";
import { type DoorAnswer, type DoorRequest, MAX_VALUES, Refused, tooLarge } from "./door.ts";
import { AnswerWriter, type RequestHead, RequestReader } from "./door_http.ts";

/** What a {@linkcode DoorServer} is made of. */
export interface DoorServerOptions {
  /** Answers requests; never rejects. */
  readonly handler: (request: IncomingRequest) => Promise<DoorAnswer>;
  /** Writes the body of a refusal. */
  readonly refusal: (refused: Refused) => DoorAnswer;
  /** The largest body, in bytes. */
  readonly maxBodyBytes: number;
  /**
   * How many connections there may be.
   *
   * @default {192}
   */
  readonly maxConnections?: number;
  /**
   * How long a head may take, in milliseconds.
   *
   * @default {10000}
   */
  readonly headTimeoutMs?: number;
}

const MAX_CONNECTIONS = 192;
/** How many more are told that there are too many. */
const REFUSED_CONNECTIONS = 32;
const HEAD_TIMEOUT_MS = 10_000;
/** How long a connection is kept between two requests. */
const IDLE_TIMEOUT_MS = 10 * 60_000;
/** How long requests that are being answered are waited for at the end. */
const FAREWELL_MS = 2000;

/**
 * Answers requests on connections, wherever these come from. It speaks as much of HTTP/1.1 as our own
 * client needs, and hangs up on everything else. Disposing it ends all connections.
 *
 * Its requests are answered in half the time that `Deno.serve()` takes, and need no port.
 */
export class DoorServer implements AsyncDisposable {
  readonly #options: DoorServerOptions;
  readonly #budget = new DoorBudget();
  readonly #connections = new Map<DoorConnection, Promise<void>>();
  #listener: Deno.TcpListener | undefined;
  #accepting: Promise<void> | undefined;
  #closed = false;

  /** @param options Who answers, and limits. */
  constructor(options: DoorServerOptions) {
    this.#options = options;
  }

  /** Listens on a free port of 127.0.0.1. */
  listen(): number {
    const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    this.#listener = listener;
    this.#accepting = acceptAll(
      listener,
      (connection) => void this.serve(new TcpStream(connection)),
    );
    return listener.addr.port;
  }

  /** Answers the requests that come on a connection. */
  async serve(stream: ByteStream): Promise<void> {
    const { maxConnections = MAX_CONNECTIONS, headTimeoutMs = HEAD_TIMEOUT_MS } = this.#options;
    const count = this.#connections.size;
    if (this.#closed || count >= maxConnections + REFUSED_CONNECTIONS) return stream.close();
    const isFull = count >= maxConnections && !this.#endKept();
    const connection = new DoorConnection(stream, {
      ...this.#options,
      budget: this.#budget,
      headTimeoutMs,
      idleTimeoutMs: IDLE_TIMEOUT_MS,
    });
    const served = isFull
      ? connection.refuse(new Refused(503, `There are ${maxConnections} connections already`))
      : connection.serve();
    this.#connections.set(connection, served);
    await served;
    this.#connections.delete(connection);
  }

  /** Ends all connections that there are; the requests on them are cancelled. */
  hangUp(): void {
    for (const connection of this.#connections.keys()) connection.close();
  }

  /** Lets requests be answered for a moment, then ends all connections. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    this.#listener?.close();
    await this.#accepting;
    const ended = [...this.#connections].map(async ([connection, served]) => {
      connection.end();
      if (!await settledWithin(served, FAREWELL_MS)) connection.close();
      await served;
    });
    await Promise.all(ended);
  }

  /** Ends a connection that is only kept; whoever kept it opens another. */
  #endKept(): boolean {
    for (const connection of this.#connections.keys()) {
      if (!connection.isKept) continue;
      connection.close();
      return true;
    }
    return false;
  }
}

/** What a {@linkcode DoorConnection} is made of. */
interface DoorConnectionOptions extends Omit<ExchangeOptions, "stream" | "reader"> {
  /** Answers requests; never rejects. */
  readonly handler: (request: IncomingRequest) => Promise<DoorAnswer>;
  /** How long a head may take, in milliseconds; the first one from the connection's beginning. */
  readonly headTimeoutMs: number;
  /** How long the connection is kept between two requests, in milliseconds. */
  readonly idleTimeoutMs: number;
}

/** A connection on which one request after the other is answered. */
class DoorConnection {
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
interface ExchangeOptions {
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
class Exchange implements IncomingRequest, Disposable {
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

/** Bodies and requests up to here are not counted: there are only so many connections. */
const SMALL_BODY = 1 << 16;
const SMALL_REQUEST = 1 << 20;

const BODIES = 128 * 2 ** 20;
const REQUESTS = 384 * 2 ** 20;
const ANSWERS = 256 * 2 ** 20;

/** What a request takes once it is parsed, measured: so much for each byte and for each value. */
const PER_BYTE = 3;
const PER_VALUE = 400;

/** What a request takes once it is parsed. */
export function requestCost(body: Uint8Array, values: number): number {
  return body.length * PER_BYTE + values * PER_VALUE;
}

/** Nothing was taken, so nothing has to be given back. */
const FREE: Disposable = { [Symbol.dispose]() {} };

/**
 * The memory of the host that all requests of a kernel may take together: hostile code sends many at
 * once. What would be too much waits; what nobody waits for is refused.
 */
class DoorBudget {
  readonly #bodies = new Semaphore(BODIES);
  readonly #requests = new Semaphore(REQUESTS);
  readonly #answers = new Semaphore(ANSWERS);

  /** Waits until a body may be read. */
  async forBody(length: number, signal: AbortSignal): Promise<Disposable> {
    return length <= SMALL_BODY ? FREE : await this.#bodies.acquire(signal, length);
  }

  /**
   * Waits until a body may be parsed. Who waits here has what it needs of the other shares, so those
   * who wait never wait for each other.
   */
  async forRequest(body: Uint8Array, signal: AbortSignal): Promise<Disposable> {
    if (body.length * (PER_BYTE + PER_VALUE) <= SMALL_REQUEST) return FREE;
    const { values } = measureJson(body);
    if (values > MAX_VALUES) throw new Refused(413, `The body has more than ${MAX_VALUES} values`);
    const cost = requestCost(body, values);
    return cost <= SMALL_REQUEST ? FREE : await this.#requests.acquire(signal, cost);
  }

  /** Takes what an answer needs until the code in the kernel has read it. */
  forAnswer(length: number): Disposable | undefined {
    return length <= SMALL_BODY ? FREE : this.#answers.tryAcquire(length);
  }
}
