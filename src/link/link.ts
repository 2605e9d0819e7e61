import { z } from "zod";
import { joinBytes } from "../base/bytes.ts";
import { Deadline } from "../base/deadline.ts";
import { acceptAll } from "../base/http_server.ts";
import { type ByteStream, joinStreams, SocketStream } from "../base/streams.ts";
import type { ExitStatus } from "../process/managed_process.ts";
import { creditOf, encodeFrame, type Frame, FrameDecoder, FrameType, LinkError } from "./frame.ts";
import { LinkStream, type StreamOwner } from "./link_stream.ts";

/** How many streams may be open concurrently. */
const MAX_STREAMS = 256;

/** How many bytes may wait to be sent before connections are no longer read. */
const CONGESTED = 1 << 20;

/** The limit on bytes that wait to be sent. Only a launcher that stops reading reaches it. */
const MAX_OUTBOX = 64 << 20;

/** The memory of a waiting frame beside its bytes. The other side can ask for any number of small ones. */
const FRAME_COST = 512;

/** The most bytes in one write. */
const MAX_BATCH = 1 << 18;

/** Options of {@linkcode Link.open}. */
interface LinkOptions {
  /** The launcher's stdin and stdout, which the link now owns. */
  pipes: ByteStream;
  /**
   * Handles a stream that is opened from inside; without a handler, none may be opened. The promise
   * resolves once nothing is left of the work for the stream, which counts as open until then.
   */
  accept?: (stream: ByteStream) => Promise<void>;
  /** The interval of heartbeats, in milliseconds; three without an answer break the link. */
  beatMs?: number | undefined;
}

/** How long to keep listening to a launcher that no longer reads. */
const LAST_WORDS_MS = 2000;

/** The number of unanswered heartbeats after which the launcher is given up. */
const MAX_UNHEARD = 3;

/**
 * The host's end of the link: streams in both directions over a child's stdin and stdout.
 *
 * Everything it receives is hostile input. Any violation of the protocol breaks the link.
 */
export class Link implements AsyncDisposable {
  /** The launcher's first message, any JSON value. Rejects if the link ends before it. */
  readonly ready: Promise<unknown>;
  /** The exit status of the launcher's program, or `null` if the link ended without one. */
  readonly exit: Promise<ExitStatus | null>;
  /** Resolves when the link has ended. Rejects if it broke. */
  readonly closed: Promise<void>;

  readonly #options: LinkOptions;
  readonly #pipes: ByteStream;
  readonly #ready = Promise.withResolvers<unknown>();
  readonly #exit = Promise.withResolvers<ExitStatus | null>();
  readonly #streams = new Map<number, LinkStream>();
  readonly #uses = new Set<Promise<void>>();
  readonly #owner: StreamOwner;
  #isReady = false;
  #unheard = 0;
  #beat: ReturnType<typeof setInterval> | undefined;
  #lastWords: Deadline | undefined;
  #ended = false;
  #failure: LinkError | undefined;
  #nextStream = 2;
  #lastPeerStream = -1;
  #outbox: Uint8Array[] = [];
  #outboxSize = 0;
  #flushing: Promise<void> | undefined;
  #drained: PromiseWithResolvers<void> | undefined;

  private constructor(options: LinkOptions) {
    this.#options = options;
    this.#pipes = options.pipes;
    this.#owner = {
      send: (frame) => this.#send(frame),
      uncongested: () => this.#drained?.promise,
      over: (stream) => this.#streams.delete(stream.id),
    };
    this.ready = this.#ready.promise;
    this.exit = this.#exit.promise;
    this.closed = this.#run();
    for (const promise of [this.ready, this.closed]) promise.catch(() => {}); // not everyone awaits both
  }

  /** Takes over a child's stdin and stdout. */
  static open(options: LinkOptions): Link {
    return new Link(options);
  }

  /** Sends the launcher its program to start. */
  start(spec: unknown): void {
    this.#send(encodeFrame(FrameType.START, 0, new TextEncoder().encode(JSON.stringify(spec))));
  }

  /**
   * Forwards a connection to the launcher's program. If the link has ended or has too many
   * streams, the connection is closed.
   */
  connect(connection: ByteStream): void {
    if (!this.#open((stream) => joinStreams(stream, connection))) connection.close();
  }

  /**
   * Starts one of the launcher's programs and returns its stdin and stdout as a stream; closing the
   * stream ends it. `undefined` if there are too many streams.
   */
  startProgram(name: string): ByteStream | undefined {
    let program: ByteStream | undefined;
    this.#open((stream) => {
      program = stream;
      return stream.closed;
    }, new TextEncoder().encode(name));
    return program;
  }

  #open(use: (stream: ByteStream) => Promise<void>, program?: Uint8Array): boolean {
    if (this.#ended || this.#streams.size >= MAX_STREAMS) return false;
    const id = this.#nextStream;
    this.#nextStream += 2;
    this.#send(encodeFrame(FrameType.OPEN, id, program));
    this.#add(id, use);
    return true;
  }

  /** Ends all streams and the two pipes. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#end();
    await this.closed.catch(() => {}); // `closed` reports a link that broke before
    await this.#flushing;
    while (this.#uses.size > 0) await Promise.all(this.#uses);
  }

  async #run(): Promise<void> {
    const decoder = new FrameDecoder();
    try {
      while (true) {
        const bytes = await this.#pipes.read();
        this.#unheard = 0;
        if (bytes === null || this.#ended) break;
        for (const frame of decoder.push(bytes)) this.#receive(frame);
      }
      if (this.#failure !== undefined) throw this.#failure;
      if (decoder.pending > 0 && !this.#ended) {
        throw new LinkError("The link ended in the middle of a frame");
      }
    } finally {
      this.#end();
    }
  }

  #receive(frame: Frame): void {
    switch (frame.type) {
      case FrameType.READY:
        if (this.#isReady) throw new LinkError("The link carried a second READY");
        this.#isReady = true;
        this.#keepAlive();
        return this.#ready.resolve(parseJson(frame.payload));
      case FrameType.EXIT:
        return this.#exit.resolve(parseExit(frame.payload));
      case FrameType.START:
        throw new LinkError("The link carried a START from inside");
      case FrameType.OPEN:
        return this.#accept(frame.stream);
      case FrameType.DATA:
        return this.#find(frame)?.receive(frame.payload);
      case FrameType.EOF:
        return this.#find(frame)?.receiveEnd();
      case FrameType.WIN:
        return this.#find(frame)?.receiveCredit(creditOf(frame));
      case FrameType.RST:
        return this.#find(frame)?.abandon();
      case FrameType.BEAT:
        return; // a sign of life, nothing else
      default: // used only between host and supervisor
        throw new LinkError(`The link carried a frame of type ${frame.type} from inside`);
    }
  }

  /** Keeps the connection from being idle, and ends it if the other side gives no sign of life. */
  #keepAlive(): void {
    const { beatMs } = this.#options;
    if (beatMs === undefined) return;
    this.#beat = setInterval(() => {
      if (++this.#unheard <= MAX_UNHEARD) return this.#send(encodeFrame(FrameType.BEAT, 0));
      const seconds = MAX_UNHEARD * beatMs / 1000;
      this.#failure = new LinkError(`There was no sign of life for ${seconds} s`);
      this.#end();
    }, beatMs);
  }

  /** The stream of a frame; `undefined` if it was closed while the frame was in flight. */
  #find(frame: Frame): LinkStream | undefined {
    const id = frame.stream;
    const known = id % 2 === 0 ? id > 0 && id < this.#nextStream : id <= this.#lastPeerStream;
    if (!known) {
      throw new LinkError(`The link carried a frame for stream ${id}, which never existed`);
    }
    return this.#streams.get(id);
  }

  #accept(id: number): void {
    const { accept } = this.#options;
    if (accept === undefined || id % 2 === 0 || id <= this.#lastPeerStream) {
      throw new LinkError(`The link must not open stream ${id}`);
    }
    this.#lastPeerStream = id;
    // Unfinished work of closed streams counts too, so that opening and resetting gains nothing.
    if (this.#uses.size >= MAX_STREAMS) return this.#send(encodeFrame(FrameType.RST, id));
    this.#add(id, accept);
  }

  #add(id: number, use: (stream: ByteStream) => Promise<void>): void {
    const stream = new LinkStream(id, this.#owner);
    this.#streams.set(id, stream);
    const used = use(stream).catch(() => {}) // the handler reports its failures
      .then(() => {
        stream.close();
        this.#uses.delete(used);
      });
    this.#uses.add(used);
  }

  #send(bytes: Uint8Array): void {
    if (this.#ended || this.#lastWords !== undefined) return;
    this.#outbox.push(bytes);
    this.#outboxSize += bytes.length + FRAME_COST;
    if (this.#outboxSize > MAX_OUTBOX) {
      this.#failure = new LinkError("The launcher does not read its input");
      return this.#end();
    }
    if (this.#outboxSize > CONGESTED) this.#drained ??= Promise.withResolvers();
    this.#flushing ??= this.#flush();
  }

  /** Writes the pending frames. Frames that arrive during a write go into the next one. */
  async #flush(): Promise<void> {
    try {
      while (this.#outbox.length > 0) {
        const parts = this.#takeBatch();
        const batch = parts.length === 1 && parts[0] || joinBytes(...parts);
        await this.#pipes.write(batch);
        this.#outboxSize -= batch.length + parts.length * FRAME_COST;
        if (this.#outboxSize <= CONGESTED) {
          this.#drained?.resolve();
          this.#drained = undefined;
        }
      }
    } catch {
      this.#stopSending();
    } finally {
      this.#flushing = undefined;
    }
  }

  /**
   * Stops sending to a launcher that no longer reads. Its last frames, such as `EXIT`, are still
   * read.
   */
  #stopSending(): void {
    if (this.#ended) return;
    this.#lastWords = new Deadline(LAST_WORDS_MS, { onPassed: () => this.#end() });
    this.#clearOutbox();
  }

  #clearOutbox(): void {
    this.#outbox = [];
    this.#outboxSize = 0;
    this.#drained?.resolve();
    this.#drained = undefined;
  }

  #takeBatch(): Uint8Array[] {
    let count = 0;
    let size = 0;
    for (; count < this.#outbox.length; count++) {
      size += this.#outbox[count]?.length ?? 0;
      if (count > 0 && size > MAX_BATCH) break;
    }
    return this.#outbox.splice(0, count);
  }

  #end(): void {
    clearInterval(this.#beat);
    this.#lastWords?.[Symbol.dispose]();
    if (this.#ended) return;
    this.#ended = true;
    this.#clearOutbox();
    for (const stream of [...this.#streams.values()]) stream.abandon();
    this.#ready.reject(new LinkError("The link ended before the launcher was ready"));
    this.#exit.resolve(null);
    this.#pipes.close();
  }
}

const exitSchema = z.object({
  code: z.number().int().nullable(),
  signal: z.string().regex(/^SIG[A-Z0-9]{1,12}$/).nullable(),
});

function parseJson(payload: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder().decode(payload));
  } catch (cause) {
    throw new LinkError("The link carried text that is not JSON", { cause });
  }
}

function parseExit(payload: Uint8Array): ExitStatus {
  const exit = exitSchema.safeParse(parseJson(payload));
  if (!exit.success) throw new LinkError("The link carried a malformed EXIT");
  return { exitCode: exit.data.code, signal: exit.data.signal };
}

/**
 * A loopback port of the host whose connections go through a link. Disposing it closes the port; open
 * connections stay.
 */
export class LinkPort implements AsyncDisposable {
  readonly #listener: Deno.TcpListener;
  readonly #accepting: Promise<void>;

  private constructor(link: Link) {
    this.#listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    this.#accepting = acceptAll(
      this.#listener,
      (connection) => link.connect(new SocketStream(connection)),
    );
  }

  /** Listens on a free port of 127.0.0.1. */
  static open(link: Link): LinkPort {
    return new LinkPort(link);
  }

  /** The port's number. */
  get number(): number {
    return this.#listener.addr.port;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      this.#listener.close();
    } catch {
      // It has already failed and closed.
    }
    await this.#accepting;
  }
}
