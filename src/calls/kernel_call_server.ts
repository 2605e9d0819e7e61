import { joinBytes } from "../base/bytes.ts";
import { acceptAll } from "../base/http_server.ts";
import { Semaphore } from "../base/mutex.ts";
import { settledWithin } from "../base/signals.ts";
import { beginWork } from "../base/stalls.ts";
import { type ByteStream, SocketStream } from "../base/streams.ts";
import { randomToken, sameToken } from "../base/tokens.ts";
import { measureJson } from "../json/measure.ts";
import { MAX_VALUES, Refused, tooLarge } from "./http_checks.ts";
import { type CallHead, parseHead, refusedText } from "./wire.ts";

/** Options of {@linkcode KernelCallServer}. */
export interface KernelCallServerOptions {
  /** Answers a call with JSON that has no line breaks, or throws {@linkcode Refused}. */
  readonly handler: (call: IncomingCall) => Promise<string>;
  /** The largest body, in bytes. */
  readonly maxBodyBytes: number;
  /** The maximum number of concurrent streams; 192 by default. */
  readonly maxStreams?: number;
  /** The token of a kernel that is already running. */
  readonly token?: string | undefined;
}

/** A call, as its handler sees it. */
export interface IncomingCall {
  /** Its first line. */
  readonly head: CallHead;
  /** Aborts when the caller has gone; with {@linkcode LOST} unless the caller cancelled. */
  readonly signal: AbortSignal;
  /** Reads and parses the body. Its memory counts until the call is answered. */
  readBody<T>(parse: (body: Uint8Array) => T): Promise<T>;
  /** Sends JSON ahead of the answer. A caller that does not read fast enough misses some. */
  push(json: string): void;
}

/** Aborts calls whose stream ended: in a durable session, the caller may ask again. */
export const LOST = new DOMException("The connection to the caller was lost", "AbortError");

const MAX_STREAMS = 192;
/** How many streams beyond the maximum get a refusal; further ones are closed. */
const REFUSED_STREAMS = 32;
/** How long disposal waits for calls that are being answered. */
const FAREWELL_MS = 2000;

/**
 * Answers calls on streams. A call is a line of JSON that names the call and the size of the body,
 * followed by the body. It is answered with lines of JSON; the last one is the answer. The next call
 * may follow on the same stream, which takes a quarter less time than on a new one. Any other input
 * ends the stream, and the end of the stream cancels the call. Disposing the server ends all streams.
 *
 * Each kernel has its own token: an earlier kernel's is refused, even if a process of that kernel
 * survived.
 */
export class KernelCallServer implements AsyncDisposable {
  readonly #options: KernelCallServerOptions;
  readonly #memory = new CallMemory();
  readonly #streams = new Map<CallStream, Promise<void>>();
  #listener: Deno.TcpListener | undefined;
  #accepting: Promise<void> | undefined;
  #token: string;
  #closed = false;

  constructor(options: KernelCallServerOptions) {
    this.#options = options;
    this.#token = options.token ?? randomToken();
  }

  /** The token that every call must carry. */
  get token(): string {
    return this.#token;
  }

  /** Listens on a free port of 127.0.0.1. */
  listen(): number {
    const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    this.#listener = listener;
    this.#accepting = acceptAll(
      listener,
      (connection) => void this.serve(new SocketStream(connection)),
    );
    return listener.addr.port;
  }

  /** Answers the calls on a stream. Never rejects. */
  async serve(stream: ByteStream): Promise<void> {
    const { maxStreams = MAX_STREAMS } = this.#options;
    const count = this.#streams.size;
    if (this.#closed || count >= maxStreams + REFUSED_STREAMS) return stream.close();
    const isFull = count >= maxStreams && !this.#endKept();
    const calls = new CallStream(stream, {
      ...this.#options,
      memory: this.#memory,
      isToken: (given) => sameToken(given, this.#token),
    });
    const served = calls.serve(
      isFull ? new Refused(503, `Too many connections: the limit is ${maxStreams}`) : undefined,
    );
    this.#streams.set(calls, served);
    await served;
    this.#streams.delete(calls);
  }

  /** Creates a new token for a new kernel, and ends all streams, which cancels their calls. */
  renew(): string {
    this.#token = randomToken();
    for (const stream of this.#streams.keys()) stream.close();
    return this.#token;
  }

  /** Ends all streams without answers and accepts no more. Their calls are {@linkcode LOST}. */
  cut(): void {
    this.#closed = true;
    for (const stream of this.#streams.keys()) stream.close();
  }

  /** Waits a moment for calls that are being answered, then ends all streams. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    this.#listener?.close();
    await this.#accepting;
    const ended = [...this.#streams].map(async ([stream, served]) => {
      stream.end();
      if (!await settledWithin(served, FAREWELL_MS)) stream.close();
      await served;
    });
    await Promise.all(ended);
  }

  /** Ends an idle stream; its owner opens another one for the next call. */
  #endKept(): boolean {
    for (const stream of this.#streams.keys()) {
      if (!stream.isKept) continue;
      stream.close();
      return true;
    }
    return false;
  }
}

/** Options of {@linkcode CallStream}. */
interface CallStreamOptions extends KernelCallServerOptions {
  /** The memory limit that all calls share. */
  readonly memory: CallMemory;
  /** Whether a token is the current kernel's. */
  readonly isToken: (given: string) => boolean;
}

/** A stream on which calls are answered one after the other. */
class CallStream {
  readonly #stream: ByteStream;
  readonly #options: CallStreamOptions;
  readonly #incoming: Incoming;
  readonly #outgoing: Outgoing;
  #call: ServedCall | undefined;
  #kept = false;
  #ending = false;

  constructor(stream: ByteStream, options: CallStreamOptions) {
    this.#stream = stream;
    this.#options = options;
    this.#incoming = new Incoming(stream);
    this.#outgoing = new Outgoing(stream);
    stream.closed.then(() => this.#call?.abandon(LOST));
  }

  /** Whether the stream is idle: closing it loses no call. */
  get isKept(): boolean {
    return this.#kept;
  }

  /** Answers calls until the stream ends, or refuses the first one. Never rejects. */
  async serve(refused?: Refused): Promise<void> {
    try {
      const offence = refused ?? await this.#answerAll();
      if (offence === undefined) return;
      await this.#outgoing.write(lineOf(refusedText(offence)));
      await this.#stream.end();
      await this.#incoming.discard(); // unread input would reset the connection before the caller reads
    } catch {
      // The caller is gone, and its call has been cancelled.
    } finally {
      this.#stream.close();
    }
  }

  /** Ends the stream, after the answer to a call that has arrived completely. */
  end(): void {
    this.#ending = true;
    if (this.#call?.hasCome !== true) this.close();
  }

  /** Ends the stream immediately. */
  close(): void {
    this.#kept = false;
    this.#stream.close();
  }

  /** Answers calls while they arrive. A refusal that it returns ends the stream. */
  async #answerAll(): Promise<Refused | undefined> {
    const parts = { ...this.#options, incoming: this.#incoming, outgoing: this.#outgoing };
    try {
      do {
        this.#kept = false;
        const line = await this.#incoming.line();
        if (line === undefined) return undefined;
        const head = parseHead(line);
        if (!this.#options.isToken(head.token)) throw new Refused(401, "Wrong token");
        using call = new ServedCall(head, parts);
        this.#call = call;
        await call.answer();
        this.#call = undefined;
        this.#kept = !this.#ending;
      } while (this.#kept && await this.#incoming.more());
      return undefined;
    } catch (error) {
      if (error instanceof Refused) return error;
      throw error;
    }
  }
}

/** Options of {@linkcode ServedCall}. */
interface ServedCallOptions extends CallStreamOptions {
  readonly incoming: Incoming;
  readonly outgoing: Outgoing;
}

/** One call on a stream. Disposing it releases its memory. */
class ServedCall implements IncomingCall, Disposable {
  readonly head: CallHead;
  readonly signal: AbortSignal;

  readonly #options: ServedCallOptions;
  readonly #gone = new AbortController();
  #share: Disposable | undefined;
  #offence: Refused | undefined;
  #state: "coming" | "whole" | "answered" = "coming";

  constructor(head: CallHead, options: ServedCallOptions) {
    this.head = head;
    this.signal = this.#gone.signal;
    this.#options = options;
  }

  /** Whether the whole call has arrived. */
  get hasCome(): boolean {
    return this.#state !== "coming";
  }

  async readBody<T>(parse: (body: Uint8Array) => T): Promise<T> {
    const { incoming, memory, maxBodyBytes } = this.#options;
    const { size } = this.head;
    if (size > maxBodyBytes) throw tooLarge(maxBodyBytes);
    using _body = await memory.forBody(size, this.signal);
    const body = await incoming.bytes(size).catch((error) => {
      if (!(error instanceof Refused)) this.abandon(LOST);
      throw error;
    });
    this.#state = "whole";
    this.#watch();
    this.signal.throwIfAborted();
    this.#share = await memory.forCall(body, this.signal);
    beginWork(`a call of code (${body.length} bytes)`);
    return parse(body);
  }

  push(json: string): void {
    if (this.#state === "whole" && !this.signal.aborted) this.#options.outgoing.push(lineOf(json));
  }

  /** Answers. Throws {@linkcode Refused} if no other call may follow on the stream. */
  async answer(): Promise<void> {
    const { handler, memory, outgoing } = this.#options;
    const answer = await handler(this).catch((error) => {
      if (error instanceof Refused && this.hasCome) return refusedText(error);
      throw error;
    });
    if (this.#offence !== undefined) throw this.#offence;
    this.signal.throwIfAborted();
    if (!this.hasCome) {
      throw new Error("Cannot skip an unread body: it would be read as the next call");
    }
    this.#state = "answered"; // further input is the next call
    const line = lineOf(answer);
    using share = memory.forAnswer(line.length);
    if (share === undefined) {
      throw new Refused(503, "Too many large answers are unread; this one was dropped");
    }
    await outgoing.write(line);
  }

  /** Aborts the call: its caller has gone. */
  abandon(reason: DOMException): void {
    this.#gone.abort(reason);
  }

  [Symbol.dispose](): void {
    this.#share?.[Symbol.dispose]();
  }

  /** Notices when the caller leaves or sends more before it has the answer. */
  async #watch(): Promise<void> {
    const { incoming } = this.#options;
    const more = incoming.hasMore || await incoming.more().catch(() => false);
    if (this.#state !== "whole") return;
    if (more) this.#offence = new Refused(400, "Wait for the answer before the next call");
    this.abandon(more ? new DOMException("The caller has gone", "AbortError") : LOST);
  }
}

/** The limit on unread lines ahead of an answer, in bytes. */
const MAX_UNREAD = 1 << 20;

const encoder = new TextEncoder();

function lineOf(json: string): Uint8Array {
  return encoder.encode(`${json}\n`);
}

/** Writes lines to a stream, one after the other. */
class Outgoing {
  readonly #stream: ByteStream;
  #last: Promise<void> | undefined;
  #unread = 0;

  constructor(stream: ByteStream) {
    this.#stream = stream;
  }

  /** Sends a line ahead of an answer, unless too much is unread. */
  push(line: Uint8Array): void {
    if (this.#unread + line.length > MAX_UNREAD) return;
    this.#unread += line.length;
    // If writing fails, the caller is gone, which reading notices.
    this.write(line).then(() => this.#unread -= line.length, () => {});
  }

  write(line: Uint8Array): Promise<void> {
    this.#last = this.#last === undefined
      ? this.#stream.write(line)
      : this.#last.then(() => this.#stream.write(line));
    return this.#last;
  }
}

/** The longest first line of a call, in bytes. */
export const MAX_HEAD = 4096;
const LINE_FEED = 10;
/** The most input to read and discard. */
const DISCARD_BYTES = 2 ** 28;

const NOTHING = new Uint8Array(0);

/**
 * Reads input from a stream: no more than asked for. There is no time limit: slow code only
 * occupies one of its own streams.
 */
class Incoming {
  readonly #stream: ByteStream;
  #rest: Uint8Array = NOTHING;
  #reading: Promise<boolean> | undefined;

  constructor(stream: ByteStream) {
    this.#stream = stream;
  }

  /** Whether there is input that was not taken yet. */
  get hasMore(): boolean {
    return this.#rest.length > 0;
  }

  /** Waits for input that was not taken yet; `false` at the end of the stream. */
  more(): Promise<boolean> {
    if (this.hasMore) return Promise.resolve(true);
    return this.#reading ??= this.#read();
  }

  /** Reads a line; `undefined` if none arrives. */
  async line(): Promise<Uint8Array | undefined> {
    for (let line = NOTHING;;) {
      const end = this.#rest.indexOf(LINE_FEED);
      const part = this.#take(end === -1 ? this.#rest.length : end);
      if (line.length + part.length > MAX_HEAD) {
        throw new Refused(431, `The first line exceeds ${MAX_HEAD} bytes`);
      }
      line = joinBytes(line, part);
      if (end !== -1) {
        this.#take(1);
        return line;
      }
      if (await this.more()) continue;
      if (line.length === 0) return undefined;
      throw cutOff();
    }
  }

  /** Reads exactly `size` bytes. */
  async bytes(size: number): Promise<Uint8Array> {
    if (this.#rest.length >= size) return this.#take(size);
    const whole = new Uint8Array(size);
    for (let length = 0;;) {
      const part = this.#take(size - length);
      whole.set(part, length);
      length += part.length;
      if (length === size) return whole;
      if (!await this.more()) throw cutOff();
    }
  }

  /** Reads and drops input until the other side ends the stream. */
  async discard(): Promise<void> {
    for (let size = 0; size < DISCARD_BYTES && await this.more();) {
      size += this.#take(Infinity).length;
    }
  }

  #take(length: number): Uint8Array {
    const part = this.#rest.subarray(0, length);
    this.#rest = part.length === this.#rest.length ? NOTHING : this.#rest.subarray(length);
    return part;
  }

  async #read(): Promise<boolean> {
    try {
      const came = await this.#stream.read();
      this.#rest = came ?? NOTHING;
      return came !== null;
    } finally {
      this.#reading = undefined;
    }
  }
}

function cutOff(): Error {
  return new Error("The stream ended in the middle of a call");
}

/** Smaller bodies and requests are not counted: the number of streams limits them. */
const SMALL_BODY = 1 << 16;
const SMALL_REQUEST = 1 << 20;

const BODIES = 128 * 2 ** 20;
const REQUESTS = 384 * 2 ** 20;
const ANSWERS = 256 * 2 ** 20;

/** The measured memory of a parsed request, for each byte and for each value. */
const PER_BYTE = 3;
const PER_VALUE = 400;

/** A share of nothing, which need not be returned. */
const FREE: Disposable = { [Symbol.dispose]() {} };

/** The limit on host memory for all calls of a kernel together. Further ones wait; answers are refused. */
class CallMemory {
  readonly #bodies = new Semaphore(BODIES);
  readonly #requests = new Semaphore(REQUESTS);
  readonly #answers = new Semaphore(ANSWERS);

  /** Waits until a body may be read. */
  async forBody(length: number, signal: AbortSignal): Promise<Disposable> {
    return length <= SMALL_BODY ? FREE : await this.#bodies.acquire(signal, length);
  }

  /**
   * Waits until a body may be parsed, while holding all other shares, so that calls never deadlock.
   */
  async forCall(body: Uint8Array, signal: AbortSignal): Promise<Disposable> {
    if (body.length * (PER_BYTE + PER_VALUE) <= SMALL_REQUEST) return FREE;
    const { values } = measureJson(body);
    if (values > MAX_VALUES) throw new Refused(413, `The body has more than ${MAX_VALUES} values`);
    const cost = body.length * PER_BYTE + values * PER_VALUE;
    if (cost <= SMALL_REQUEST) return FREE;
    return await this.#requests.acquire(signal, cost);
  }

  /** Reserves memory for an answer, until the code in the kernel has read it. */
  forAnswer(length: number): Disposable | undefined {
    return length <= SMALL_BODY ? FREE : this.#answers.tryAcquire(length);
  }
}
