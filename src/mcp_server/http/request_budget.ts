import { z } from "zod";
import { Mutex, Semaphore } from "../../base/mutex.ts";
import { RateLimit } from "../../base/rate_limit.ts";
import { settledWithin } from "../../base/signals.ts";
import { Refused } from "../../calls/door.ts";
import { requestCost } from "../../calls/door_server.ts";
import { measureJson } from "../../json/measure.ts";
import { untilSent } from "./answers.ts";

/** What the requests of all clients may take together, and what their unread answers may. */
const REQUESTS = 512 * 2 ** 20;
const ANSWERS = 256 * 2 ** 20;
/** The least of that that each owner may. */
const LEAST_SHARE = 64 * 2 ** 20;
/** What a file takes that comes in small pieces, most of it in buffers of the HTTP server. */
const FILE_BYTES = 8 * 2 ** 20;
/** How many small pieces of files an owner may send: each costs a step, however small it is. */
const PIECES_PER_SECOND = 1000;
const PIECES_AT_ONCE = 10_000;
/** How many values an owner's requests may have: the SDK takes long for each. A call has some 30. */
const VALUES_PER_SECOND = 10_000;
const VALUES_AT_ONCE = 50_000;
/** As many values take as long as a request does, whatever is in it, and one as long as so many bytes. */
const VALUES_OF_REQUEST = 200;
const BYTES_OF_VALUE = 2500;
/** How many of an owner's requests are handled at a time, while those of others wait behind them. */
const TURNS = 16;
/** One as long as this takes two turns, and so on. */
const TURN_BYTES = 2 ** 20;
/** How long a request has its turns, unless its answer begins before. What takes longer is a cell. */
const HANDLING_MS = 100;

/** A request for what can be large. */
const reading = z.object({ method: z.literal("resources/read") });

/** How many of an owner's resources may be read or wait for their turn. */
const MAX_READS = 64;
/** The room that has to be there before one is read. Most of those that are sent take less. */
const READ_BYTES = 32 * 2 ** 20;
/** How long a turn lasts at most: the answer to a request whose id is used twice never comes. */
const TURN_MS = 60_000;

/** A message that is to be answered. */
export interface AnswerOptions {
  /** Whose it is. */
  readonly owner: string;
  /** What it says; `undefined` where the client only listens. */
  readonly message: unknown;
  /** How long the body is in which it came. */
  readonly length: number;
  /** Aborts when its client has gone. */
  readonly signal: AbortSignal;
}

/**
 * The memory of the host that requests may take, from the first byte of a body until they are answered,
 * and answers until they are read. Each owner has an equal share, so that none can keep others out. What
 * does not fit is refused.
 */
export class RequestBudget {
  readonly #requests: Shares;
  readonly #answers: Shares;
  readonly #reads = new Map<string, Reads>();
  readonly #pieces = new Map<string, RateLimit>();
  readonly #values = new Map<string, RateLimit>();
  readonly #turns = new Map<string, Semaphore>();

  /** @param owners How many there are. */
  constructor(owners: number) {
    this.#requests = new Shares(REQUESTS, owners);
    this.#answers = new Shares(ANSWERS, owners);
  }

  /** Takes what a body needs while it comes. */
  forBody(owner: string, length: number): Disposable {
    return this.#requests.take(owner, length);
  }

  /**
   * Takes what a request needs once its body is parsed, and waits while the owner's requests have more
   * values than others would be answered beside.
   */
  async forRequest(owner: string, body: Uint8Array, signal: AbortSignal): Promise<Disposable> {
    const { values } = measureJson(body);
    using taken = new DisposableStack();
    taken.use(this.#requests.take(owner, requestCost(body, values)));
    await this.#charge(owner, values + valuesOf(body.length), signal);
    return taken.move();
  }

  /** Waits until so long a request of an owner may be handled beside the owner's others. */
  async turn(owner: string, length: number, signal: AbortSignal): Promise<Disposable> {
    const turns = this.#turns.getOrInsertComputed(owner, () => new Semaphore(TURNS));
    return await turns.acquire(signal, 1 + Math.floor(length / TURN_BYTES));
  }

  /** Counts what a request costs, and waits while it is more than others would be answered beside. */
  async #charge(owner: string, values: number, signal: AbortSignal): Promise<void> {
    const limit = this.#limitOf(owner);
    limit.charge(values);
    await limit.settled(signal);
  }

  #limitOf(owner: string): RateLimit {
    return this.#values.getOrInsertComputed(
      owner,
      () => new RateLimit(VALUES_PER_SECOND, VALUES_AT_ONCE),
    );
  }

  /** Takes what a file needs while it comes or goes. */
  forFile(owner: string): Disposable {
    return this.#requests.take(owner, FILE_BYTES);
  }

  /**
   * Has a message answered, and counts what the client has not read of the answer. Where that becomes too
   * much, the answer ends.
   *
   * An owner's resources are read one after the other: for a moment each takes several times its size.
   */
  async answer(options: AnswerOptions, produce: () => Promise<Response>): Promise<Response> {
    const { owner, message, length, signal } = options;
    const isReading = reading.safeParse(message).success;
    using _reading = isReading ? await this.#readsOf(owner).turn() : undefined;
    if (isReading) this.#answers.take(owner, READ_BYTES)[Symbol.dispose]();
    await this.#charge(owner, VALUES_OF_REQUEST, signal);
    using handling = new Handling(await this.turn(owner, length, signal));
    const response = await produce();
    if (response.body === null) return response;
    const ahead = new ReadAhead(response.body, {
      came: (bytes) => this.#limitOf(owner).charge(valuesOf(bytes)), // the next request waits
      take: (bytes) => this.#answers.take(owner, bytes),
    });
    handling.until(ahead.begun);
    if (isReading && await settledWithin(ahead.begun, TURN_MS)) await ahead.begun;
    return untilSent(new Response(ahead.rest, response), { use: ahead });
  }

  /** Gives the limit of how many small pieces all files of an owner may come in. */
  piecesOf(owner: string): RateLimit {
    return this.#pieces.getOrInsertComputed(
      owner,
      () => new RateLimit(PIECES_PER_SECOND, PIECES_AT_ONCE),
    );
  }

  #readsOf(owner: string): Reads {
    return this.#reads.getOrInsertComputed(owner, () => new Reads());
  }
}

/** How many values take as long as so many bytes. */
function valuesOf(bytes: number): number {
  return Math.floor(bytes / BYTES_OF_VALUE);
}

/** A request's turn, which ends after a while in any case. */
class Handling implements Disposable {
  readonly #turn: Disposable;
  readonly #limit: ReturnType<typeof setTimeout>;
  #later = false;

  constructor(turn: Disposable) {
    this.#turn = turn;
    this.#limit = setTimeout(() => turn[Symbol.dispose](), HANDLING_MS);
  }

  /** Ends with the beginning of the answer, no longer when disposed. */
  until(begun: Promise<void>): void {
    this.#later = true;
    const end = () => this.#end();
    begun.then(end, end);
  }

  [Symbol.dispose](): void {
    if (!this.#later) this.#end();
  }

  #end(): void {
    clearTimeout(this.#limit);
    this.#turn[Symbol.dispose]();
  }
}

/** The turns in which an owner's resources are read. */
class Reads {
  readonly #places = new Semaphore(MAX_READS);
  readonly #turns = new Mutex();

  /** Waits for a turn. Nobody says when a client that waits has gone, so that only so many may. */
  async turn(): Promise<Disposable> {
    using taken = new DisposableStack();
    if (taken.use(this.#places.tryAcquire()) === undefined) {
      throw new Refused(429, `${MAX_READS} of your requests to read resources are pending`);
    }
    taken.use(await this.#turns.acquire());
    return taken.move();
  }
}

/** Memory of which each owner has an equal share. */
class Shares {
  readonly #all: Semaphore;
  readonly #share: number;
  readonly #shares = new Map<string, Semaphore>();

  constructor(total: number, owners: number) {
    this.#all = new Semaphore(total);
    this.#share = Math.max(LEAST_SHARE, Math.floor(total / owners));
  }

  take(owner: string, bytes: number): Disposable {
    using taken = new DisposableStack();
    const own = this.#shares.getOrInsertComputed(owner, () => new Semaphore(this.#share));
    if (taken.use(own.tryAcquire(bytes)) === undefined) {
      throw new Refused(429, "Your pending requests use too much memory: read their answers");
    }
    if (taken.use(this.#all.tryAcquire(Math.min(bytes, this.#share))) === undefined) {
      throw new Refused(
        503,
        "The pending requests of all clients use too much memory: try again later",
      );
    }
    return taken.move();
  }
}

/** Answers are sent in pieces: the HTTP server holds some, which nobody counts. */
const PIECE_BYTES = 1 << 16;
/** What a piece takes besides its bytes. */
const PIECE_COST = 1024;

/** What is done with what comes of an answer. */
interface ReadAheadOptions {
  /** Hears how much has come. */
  readonly came: (bytes: number) => void;
  /** Takes what is unread; it throws where that is too much. */
  readonly take: (bytes: number) => Disposable;
}

/** An answer that is read ahead of its client: the SDK holds any amount of it, and does not say how much. */
class ReadAhead implements Disposable {
  /** The answer for the client. */
  readonly rest: ReadableStream<Uint8Array<ArrayBuffer>>;
  /** Resolves when its first part is there and fits. */
  readonly begun: Promise<void>;
  readonly #reader: ReadableStreamDefaultReader<Uint8Array<ArrayBuffer>>;
  readonly #options: ReadAheadOptions;
  readonly #beginning = Promise.withResolvers<void>();
  #unread: Disposable | undefined;

  constructor(answer: ReadableStream<Uint8Array<ArrayBuffer>>, options: ReadAheadOptions) {
    this.#reader = answer.getReader();
    this.#options = options;
    this.begun = this.#beginning.promise;
    this.begun.catch(() => {}); // the client sees it, too
    this.rest = new ReadableStream({
      start: (controller) => this.#read(controller),
      cancel: (reason) => this.#reader.cancel(reason),
    }, { highWaterMark: 0, size: ({ length }) => length + PIECE_COST });
  }

  /** Gives back what is unread. */
  [Symbol.dispose](): void {
    this.#unread?.[Symbol.dispose]();
  }

  async #read(controller: ReadableStreamDefaultController<Uint8Array<ArrayBuffer>>): Promise<void> {
    try {
      for (;;) {
        const { done, value } = await this.#reader.read();
        if (done) break;
        this.#options.came(value.length);
        this[Symbol.dispose](); // a part of that may have been read
        this.#unread = this.#options.take(
          value.length + PIECE_COST - (controller.desiredSize ?? 0),
        );
        for (let at = 0; at < value.length; at += PIECE_BYTES) {
          // A view of the same buffer would keep all of that until it is sent.
          controller.enqueue(value.slice(at, at + PIECE_BYTES));
        }
        this.#beginning.resolve();
      }
      this.#beginning.resolve();
      controller.close();
    } catch (error) {
      this[Symbol.dispose]();
      this.#beginning.reject(error);
      await this.#reader.cancel(error);
      throw error;
    }
  }
}
