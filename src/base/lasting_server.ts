import type { Logger } from "./log.ts";
import { pause } from "./signals.ts";
import { joinStreams, SocketStream } from "./streams.ts";

/** Options of {@linkcode LastingServer}. */
interface LastingServerOptions {
  readonly hostname: string;
  /** 0 for any free port. */
  readonly port: number;
  readonly handler: Deno.ServeHandler;
  /** Receives failures. */
  readonly log: Logger;
  /**
   * A folder that only this user can enter, for a socket.
   *
   * @default {undefined} other users of the machine can take over the port
   */
  readonly folder?: string | undefined;
}

/**
 * How long a connection has to close after a body was refused. The rest of the body holds its descriptor,
 * and once it is given up, Deno reads all that still comes of it.
 */
const CLOSE_MS = 1000;

/** The pause between attempts to listen: nothing announces that descriptors are free again. */
const RETRY_MS = 500;

/**
 * An HTTP server that survives what makes `Deno.serve()` stop: a failure to accept a connection, as
 * when the process runs out of descriptors or the user out of epoll watches. Anyone who reaches the
 * port can cause that, including code in a sandbox.
 *
 * When `Deno.serve()` stops, it gives up its port. Another user could take that, and would receive the
 * clients' tokens. So it serves on a Unix socket, and connections to the port are forwarded there.
 *
 * Open connections stay open. Disposing the server closes them.
 */
export class LastingServer implements AsyncDisposable {
  readonly #options: LastingServerOptions;
  readonly #cut = new AbortController();
  readonly #ended: Promise<void>;
  readonly #port: Forwarding | undefined;
  #listens = 0;
  #server: Deno.HttpServer;

  constructor(options: LastingServerOptions) {
    const { hostname, port, folder } = options;
    this.#options = options;
    this.#server = this.#listen(port);
    try {
      this.#port = folder === undefined
        ? undefined
        : new Forwarding(Deno.listen({ hostname, port }), () => this.#socket);
    } catch (error) {
      this.#cut.abort();
      throw error;
    }
    this.#ended = this.#last();
  }

  /** The address that it listens on. */
  get addr(): Deno.NetAddr {
    const addr = this.#port?.addr ?? this.#server.addr;
    if ("port" in addr && "hostname" in addr) return addr;
    throw new Error("It listens on a socket only");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // Not shutdown(): it waits for clients, and nothing can disconnect them afterwards.
    this.#cut.abort();
    await this.#port?.[Symbol.asyncDispose]();
    await this.#ended;
  }

  /** The current socket. Each has another name, as its file stays when it is closed. */
  get #socket(): string {
    return `${this.#options.folder}/${this.#listens}`;
  }

  #listen(port: number): Deno.HttpServer {
    const { hostname, folder } = this.#options;
    const handler: Deno.ServeHandler = async (request, info) => {
      const response = await this.#options.handler(request, info);
      if (response.status >= 400 && request.bodyUsed) this.#dropRest(request.body, info.completed);
      return response;
    };
    const common = { signal: this.#cut.signal, onListen() {} };
    if (folder === undefined) return Deno.serve({ ...common, hostname, port }, handler);
    this.#listens++;
    return Deno.serve({ ...common, path: this.#socket }, handler);
  }

  /** Gives up what was left of a refused body once its response is sent and its connection closed. */
  async #dropRest(rest: ReadableStream | null, sent: Promise<void>): Promise<void> {
    await sent.catch(() => {}); // its client has gone
    await pause(CLOSE_MS, this.#cut.signal).catch(() => {});
    await rest?.cancel().catch(() => {}); // it was read
  }

  async #last(): Promise<void> {
    const { log } = this.#options;
    const { hostname, port } = this.addr;
    for (;;) {
      const startedAt = performance.now();
      const error = await this.#server.finished.then(() => undefined, (error: unknown) => error);
      if (this.#cut.signal.aborted) return;
      log.error(`Cannot accept connections on ${hostname}:${port}: ${error}`);
      if (performance.now() - startedAt < RETRY_MS && await this.#isCutWithin(RETRY_MS)) return;
      if (!await this.#again(port)) return;
    }
  }

  /** Listens again; `false` if the server is disposed first. */
  async #again(port: number): Promise<boolean> {
    for (let failures = 0;; failures++) {
      try {
        this.#server = this.#listen(port);
        return true;
      } catch (error) {
        if (failures === 0) this.#options.log.error(`Cannot listen on port ${port}: ${error}`);
        if (await this.#isCutWithin(RETRY_MS)) return false;
      }
    }
  }

  async #isCutWithin(ms: number): Promise<boolean> {
    return await pause(ms, this.#cut.signal).then(() => false, () => true);
  }
}

/** Forwards the connections to a port. Disposing it closes them. */
class Forwarding implements AsyncDisposable {
  readonly #listener: Deno.TcpListener;
  readonly #socket: () => string;
  readonly #accepting: Promise<void>;
  readonly #open = new Map<ClientStream, Promise<void>>();

  /**
   * @param listener The port.
   * @param socket The path of the socket that they are forwarded to.
   */
  constructor(listener: Deno.TcpListener, socket: () => string) {
    this.#listener = listener;
    this.#socket = socket;
    this.#accepting = acceptAll(listener, (connection) => {
      const stream = new ClientStream(connection);
      const forwarded = this.#forward(stream).finally(() => this.#open.delete(stream));
      this.#open.set(stream, forwarded);
    });
  }

  get addr(): Deno.NetAddr {
    return this.#listener.addr;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#listener.close();
    await this.#accepting;
    const open = [...this.#open];
    for (const [stream] of open) stream.close();
    await Promise.all(open.map(([, forwarded]) => forwarded));
  }

  /** Forwards a connection to its end. Never rejects. */
  async #forward(client: ClientStream): Promise<void> {
    try {
      await joinStreams(client, new SocketStream(await this.#connect()));
    } catch {
      client.close(); // nothing listens for the moment
    }
  }

  /** Connects to the socket. Unlike a port, it refuses more while a thousand wait to be accepted. */
  async #connect(): Promise<Deno.UnixConn> {
    for (;;) {
      try {
        return await Deno.connect({ transport: "unix", path: this.#socket() });
      } catch (error) {
        if (!(error instanceof Deno.errors.WouldBlock)) throw error;
        await pause(ACCEPT_RETRY_MS);
      }
    }
  }
}

/** How HTTP/2 begins. No method of HTTP/1.1 that is served begins so. */
const HTTP_2 = "PR";

/**
 * A client's connection. It is closed where the server closes it, also if the client keeps it, and where
 * it speaks HTTP/2: of that, Deno keeps a million frames of a byte for each connection, in 200 MiB.
 */
class ClientStream extends SocketStream {
  #begun = "";
  readonly #requests = new RequestFraming();

  override async read(): Promise<Uint8Array | null> {
    const bytes = await super.read();
    const missing = HTTP_2.length - this.#begun.length;
    if (missing > 0 && bytes !== null) {
      this.#begun += String.fromCharCode(...bytes.subarray(0, missing));
      if (this.#begun === HTTP_2) throw new Error("HTTP/2 is not served");
    }
    if (bytes !== null && !this.#requests.accept(bytes)) {
      await this.write(REFUSAL);
      throw new Error("Not a request that is served");
    }
    return bytes;
  }

  override async end(): Promise<void> {
    await super.end();
    this.close();
  }
}

const REFUSAL = new TextEncoder().encode(
  "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: text/plain\r\n\r\n" +
    "This request is not served: if its body is chunked, declare its Content-Length instead\n",
);

/** The most bytes of a head or of trailers, and of the line before a chunk. */
const MAX_HEAD = 1 << 16;
const MAX_SIZE_LINE = 1024;
/** The most empty lines before a head; some clients end a body with one. */
const MAX_BLANKS = 8;
/** Up to this many chunks of a body may be small. */
const MAX_CHUNKS = 64;
const SMALL_CHUNK = 4096;

/** The header of a body's length, and the limit: more could not be counted exactly. */
const CONTENT_LENGTH = /^content-length:[ \t]*(\d+)[ \t]*\r?\n$/i;
const MAX_LENGTH = 1e15;

/** The part of a request that comes next. */
type FramingState = "head" | "body" | "size" | "chunk" | "trailers";

/**
 * Follows the requests of a connection, and finds bodies in small chunks: for each, Deno moves all that has
 * arrived, and after a refusal it does so for all that is left, without a turn for anything else.
 *
 * @see {@link https://www.rfc-editor.org/rfc/rfc9112.html#section-7.1}
 */
export class RequestFraming {
  #state: FramingState = "head";
  /** What has come of a line. */
  #line = "";
  /** The bytes of a head, of trailers or of the line before a chunk so far. */
  #length = 0;
  /** What the head says about the body. */
  #isChunked = false;
  #declared = 0;
  /** The bytes that are left of a body or a chunk. */
  #left = 0;
  #chunks = 0;
  #chunkBytes = 0;
  /** The empty lines before a head, each of which takes as long as any other. */
  #blanks = 0;

  /** Follows the next bytes; `false` once a request cannot be accepted. */
  accept(bytes: Uint8Array): boolean {
    for (let at = 0; at < bytes.length;) {
      if (this.#state === "body" || this.#state === "chunk") {
        const skipped = Math.min(this.#left, bytes.length - at);
        at += skipped;
        this.#left -= skipped;
        if (this.#left === 0) this.#begin(this.#state === "body" ? "head" : "size");
        continue;
      }
      const lineFeed = bytes.indexOf(LINE_FEED, at);
      const end = lineFeed === -1 ? bytes.length : lineFeed + 1;
      this.#length += end - at;
      if (this.#length > (this.#state === "size" ? MAX_SIZE_LINE : MAX_HEAD)) return false;
      this.#line += latin1.decode(bytes.subarray(at, end));
      at = end;
      if (lineFeed === -1) continue;
      const line = this.#line;
      this.#line = "";
      const isFine = this.#state === "size"
        ? this.#takeSize(line)
        : this.#takeLine(line, this.#state);
      if (!isFine) return false;
    }
    return true;
  }

  /** Takes a line of a head or of trailers; an empty one ends them. */
  #takeLine(line: string, state: "head" | "trailers"): boolean {
    if (/^\r?\n$/.test(line)) {
      const isBefore = state === "head" && this.#length === line.length;
      this.#blanks = isBefore ? this.#blanks + 1 : 0;
      if (this.#blanks > MAX_BLANKS) return false;
      if (state === "trailers" || !this.#isChunked && this.#declared === 0) this.#begin("head");
      else this.#begin(this.#isChunked ? "size" : "body");
    } else if (state === "head") {
      if (line.startsWith("CONNECT ")) return false; // its body is read as the next request
      this.#isChunked ||= /^transfer-encoding:/i.test(line);
      if (/^content-length:/i.test(line)) {
        const length = Number(CONTENT_LENGTH.exec(line)?.[1]);
        if (!(length < MAX_LENGTH)) return false;
        this.#declared ||= length;
      }
    }
    return true;
  }

  #takeSize(line: string): boolean {
    const digits = /^[ \t]*([0-9a-f]{1,12})[ \t]*(?:;|\r?\n)/i.exec(line)?.[1];
    if (digits === undefined) return false;
    const size = parseInt(digits, 16);
    this.#begin(size === 0 ? "trailers" : "chunk");
    if (size === 0) return true;
    this.#left = size + "\r\n".length;
    this.#chunkBytes += size;
    return ++this.#chunks <= MAX_CHUNKS || this.#chunkBytes >= this.#chunks * SMALL_CHUNK;
  }

  #begin(state: FramingState): void {
    this.#state = state;
    this.#length = 0;
    if (state === "body") this.#left = this.#declared;
    if (state === "head") {
      [this.#isChunked, this.#declared, this.#chunks, this.#chunkBytes] = [false, 0, 0, 0];
    }
  }
}

const LINE_FEED = 10;
const latin1 = new TextDecoder("latin1");

/** How long to wait after a failed accept: nothing announces that descriptors are free again. */
const ACCEPT_RETRY_MS = 100;

/** Accepts connections until the listener is closed, also after descriptors were exhausted. */
export async function acceptAll(
  listener: Deno.TcpListener,
  take: (connection: Deno.TcpConn) => void,
): Promise<void> {
  for (;;) {
    try {
      take(await listener.accept());
    } catch (error) {
      if (error instanceof Deno.errors.BadResource) return; // closed
      if (error instanceof Deno.errors.ConnectionAborted) continue; // the client disconnected first
      await pause(ACCEPT_RETRY_MS);
    }
  }
}
