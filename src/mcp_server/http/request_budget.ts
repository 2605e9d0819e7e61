import { z } from "zod";
import { Mutex, Semaphore } from "../../base/mutex.ts";
import { RateLimit } from "../../base/rate_limit.ts";
import { settledWithin } from "../../base/signals.ts";
import { Refused } from "../../calls/door.ts";
import { requestCost } from "../../calls/door_server.ts";
import { measureJson } from "../../json/measure.ts";
import { untilSent } from "./answers.ts";

/** The memory for the requests of all clients, and for their unread responses. */
const REQUESTS = 512 * 2 ** 20;
const ANSWERS = 256 * 2 ** 20;
/** The least share of an owner. */
const LEAST_SHARE = 64 * 2 ** 20;
/** What a file in small pieces takes, mostly in buffers of the HTTP server. */
const FILE_BYTES = 8 * 2 ** 20;
/** How many small pieces of files an owner may send; each takes time, however small it is. */
const PIECES_PER_SECOND = 1000;
const PIECES_AT_ONCE = 10_000;
/** How many JSON values an owner's requests may have, because the SDK is slow. A call has about 30. */
const VALUES_PER_SECOND = 10_000;
const VALUES_AT_ONCE = 50_000;
/** The cost of any request, in values, and the bytes that cost as much as one value. */
const VALUES_OF_REQUEST = 200;
const BYTES_OF_VALUE = 2500;
/** How many of an owner's requests are handled at a time; those of others wait behind them. */
const TURNS = 16;
/** A request of this size takes two turns, and so on. */
const TURN_BYTES = 2 ** 20;
/** How long a request keeps its turns unless its response begins earlier. Only cells take longer. */
const HANDLING_MS = 100;

/** A request whose response can be large. */
const reading = z.object({ method: z.literal("resources/read") });

/** How many reads of resources an owner may have pending. */
const MAX_READS = 64;
/** The memory that must be free before one is read. Most take less. */
const READ_BYTES = 32 * 2 ** 20;
/** The longest turn: a request whose id is used twice never gets a response. */
const TURN_MS = 60_000;

export interface AnswerOptions {
  readonly owner: string;
  /** Its content; `undefined` if the client only listens. */
  readonly message: unknown;
  /** The length of the body that it came in. */
  readonly length: number;
  /** Aborts when its client disconnects. */
  readonly signal: AbortSignal;
}

/**
 * The host's memory for requests, from the first byte of the body to the response, and for responses
 * until they are read. Each owner has an equal share, so that none can lock out the others. What does
 * not fit is rejected.
 */
export class RequestBudget {
  readonly #requests: Shares;
  readonly #answers: Shares;
  readonly #reads = new Map<string, Reads>();
  readonly #pieces = new Map<string, RateLimit>();
  readonly #values = new Map<string, RateLimit>();
  readonly #turns = new Map<string, Semaphore>();

  constructor(owners: number) {
    this.#requests = new Shares(REQUESTS, owners);
    this.#answers = new Shares(ANSWERS, owners);
  }

  /** Reserves memory for a body while it arrives. */
  forBody(owner: string, length: number): Disposable {
    return this.#requests.take(owner, length);
  }

  /** Reserves memory for a request; one with many values waits, so that others are not delayed. */
  async forRequest(owner: string, body: Uint8Array, signal: AbortSignal): Promise<Disposable> {
    const { values } = measureJson(body);
    using taken = new DisposableStack();
    taken.use(this.#requests.take(owner, requestCost(body, values)));
    await this.#charge(owner, values + valuesOf(body.length), signal);
    return taken.move();
  }

  /** Waits until a request of this length may be handled beside the owner's others. */
  async turn(owner: string, length: number, signal: AbortSignal): Promise<Disposable> {
    const turns = this.#turns.getOrInsertComputed(owner, () => new Semaphore(TURNS));
    return await turns.acquire(signal, 1 + Math.floor(length / TURN_BYTES));
  }

  /** Counts the cost of a request, and waits while the owner exceeds its rate. */
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

  /** Reserves memory for a file transfer. */
  forFile(owner: string): Disposable {
    return this.#requests.take(owner, FILE_BYTES);
  }

  /**
   * Answers a message and counts how much of the response is unread. If that becomes too much, the
   * response is cut off.
   *
   * An owner's resources are read one by one, because reading briefly takes several times their size.
   */
  async answer(options: AnswerOptions, produce: () => Promise<Response>): Promise<Response> {
    const { owner, message, length, signal } = options;
    const isReading = reading.safeParse(message).success;
    const reads = isReading ? this.#reads.getOrInsertComputed(owner, () => new Reads()) : undefined;
    using _reading = await reads?.turn();
    if (isReading) this.#answers.take(owner, READ_BYTES)[Symbol.dispose]();
    await this.#charge(owner, VALUES_OF_REQUEST, signal);
    using handling = new DisposableStack();
    const turn = handling.use(await this.turn(owner, length, signal));
    const limit = setTimeout(() => turn[Symbol.dispose](), HANDLING_MS);
    handling.defer(() => clearTimeout(limit));
    const response = await produce();
    if (response.body === null) return response;
    const ahead = new ReadAhead(response.body, {
      came: (bytes) => this.#limitOf(owner).charge(valuesOf(bytes)), // the next request waits
      take: (bytes) => this.#answers.take(owner, bytes),
    });
    const handled = handling.move();
    ahead.begun.catch(() => {}).then(() => handled.dispose());
    if (isReading && await settledWithin(ahead.begun, TURN_MS)) await ahead.begun;
    return untilSent(new Response(ahead.rest, response), { use: ahead });
  }

  /** The rate limit for small pieces of an owner's files. */
  piecesOf(owner: string): RateLimit {
    return this.#pieces.getOrInsertComputed(
      owner,
      () => new RateLimit(PIECES_PER_SECOND, PIECES_AT_ONCE),
    );
  }
}

/** How many values take as long as so many bytes. */
function valuesOf(bytes: number): number {
  return Math.floor(bytes / BYTES_OF_VALUE);
}

/** The turns in which an owner's resources are read. */
class Reads {
  readonly #places = new Semaphore(MAX_READS);
  readonly #turns = new Mutex();

  /** Waits for a turn. It is not known when a waiting client disconnects, so only so many may wait. */
  async turn(): Promise<Disposable> {
    using taken = new DisposableStack();
    if (taken.use(this.#places.tryAcquire()) === undefined) {
      throw new Refused(429, `${MAX_READS} of your requests to read resources are pending`);
    }
    taken.use(await this.#turns.acquire());
    return taken.move();
  }
}

/** Memory that is shared equally among owners. */
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

/** Responses are sent in pieces; the HTTP server holds some of them, which are not counted. */
const PIECE_BYTES = 1 << 16;
/** The cost of a piece besides its bytes. */
const PIECE_COST = 1024;

/** What happens to the bytes of a response. */
interface ReadAheadOptions {
  /** Is told how many have come. */
  readonly came: (bytes: number) => void;
  /** Reserves memory for unread bytes; throws if there are too many. */
  readonly take: (bytes: number) => Disposable;
}

/** A response that is read ahead of its client, because the SDK buffers any amount without saying how much. */
class ReadAhead implements Disposable {
  /** The response for the client. */
  readonly rest: ReadableStream<Uint8Array<ArrayBuffer>>;
  /** Resolves when its first part has arrived and fits. */
  readonly begun: Promise<void>;
  readonly #reader: ReadableStreamDefaultReader<Uint8Array<ArrayBuffer>>;
  readonly #options: ReadAheadOptions;
  readonly #beginning = Promise.withResolvers<void>();
  #unread: Disposable | undefined;

  constructor(answer: ReadableStream<Uint8Array<ArrayBuffer>>, options: ReadAheadOptions) {
    this.#reader = answer.getReader();
    this.#options = options;
    this.begun = this.#beginning.promise;
    this.begun.catch(() => {}); // the client sees the error, too
    this.rest = new ReadableStream({
      start: (controller) => this.#read(controller),
      cancel: (reason) => this.#reader.cancel(reason),
    }, { highWaterMark: 0, size: ({ length }) => length + PIECE_COST });
  }

  /** Releases the memory of unread bytes. */
  [Symbol.dispose](): void {
    this.#unread?.[Symbol.dispose]();
  }

  async #read(controller: ReadableStreamDefaultController<Uint8Array<ArrayBuffer>>): Promise<void> {
    try {
      for (;;) {
        const { done, value } = await this.#reader.read();
        if (done) break;
        this.#options.came(value.length);
        this[Symbol.dispose](); // part of that may have been read
        this.#unread = this.#options.take(
          value.length + PIECE_COST - (controller.desiredSize ?? 0),
        );
        for (let at = 0; at < value.length; at += PIECE_BYTES) {
          // A view would keep the whole buffer alive until it is sent.
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
