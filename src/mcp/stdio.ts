import { ByteBuffer } from "../base/bytes.ts";
import type { ProcessEvidence } from "../base/errors.ts";
import { mayRead } from "../base/permission.ts";
import { FairTurns, settledWithin } from "../base/signals.ts";
import type { ByteStream } from "../base/streams.ts";
import { measureJson } from "../json/measure.ts";
import { ManagedProcess, SERVER_MARK } from "../process/managed_process.ts";
import type { ProgramPath } from "../process/program.ts";
import {
  checkMessage,
  checkSize,
  hostRoom,
  type IncomingMessage,
  MAX_MESSAGE_BYTES,
  parseMessage,
  UnusableMessageError,
} from "./message.ts";
import type { JSONRPCMessage, Transport } from "./sdk.ts";

/** Options of {@linkcode StdioTransport}. */
interface StdioTransportOptions {
  /** The program. */
  command: ProgramPath;
  /** Its arguments. */
  args?: readonly string[];
  /** Its whole environment. */
  env: Readonly<Record<string, string>>;
  /** Its working directory. */
  cwd?: string;
  /**
   * The longest message that is taken, in bytes.
   *
   * @default {134217728}
   */
  maxMessageBytes?: number;
  /**
   * For whom messages come: see {@linkcode MessageRoom}.
   *
   * @default {Object} nobody else
   */
  owner?: object;
  /** Called with every line that it writes to stderr. */
  onStderr?: (line: string) => void;
}

/** How long a server is given to end by itself once its stdin has ended. */
const INPUT_GRACE_MS = 500;
/** How long it is given after SIGTERM. */
const TERM_GRACE_MS = 1500;

/**
 * Talks to an MCP server over the pipes of a process that it starts.
 *
 * The SDK's own does not kill stubborn servers under Deno, leaves the children of wrappers such as
 * `npx` behind, ends at messages of 10 MiB, reads in quadratic time, and needs the whole environment.
 */
export class StdioTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;

  readonly #options: StdioTransportOptions;
  readonly #encoder = new TextEncoder();
  readonly #decoder = new TextDecoder();
  #process: ManagedProcess | undefined;
  #reading: Promise<void> | undefined;
  #failure: Error | undefined;
  #closed = false;
  #swept: Promise<void> | undefined;
  readonly #mark: string = crypto.randomUUID();

  /** @param options What to start. Nothing is started yet. */
  constructor(options: StdioTransportOptions) {
    this.#options = options;
  }

  /** The process's id. The SDK tells by it, and by `stderr`, that this is no HTTP transport. */
  get pid(): number | null {
    return this.#process?.pid ?? null;
  }

  /** The SDK's own transport has the stream here; ours keeps what came, see {@linkcode evidence}. */
  get stderr(): null {
    return null;
  }

  /** Why the transport itself ended the connection, if it did. */
  get failure(): Error | undefined {
    return this.#failure;
  }

  /** Starts the process. */
  start(): Promise<void> {
    if (this.#process !== undefined) {
      return Promise.reject(new Error("Cannot start an MCP server: it has already been started"));
    }
    try {
      const process = ManagedProcess.spawn({
        ...this.#options,
        env: { ...this.#options.env, [SERVER_MARK]: this.#mark },
        inputGraceMs: INPUT_GRACE_MS,
        termGraceMs: TERM_GRACE_MS,
      });
      this.#process = process;
      this.#reading = this.#read(process.pipes);
      process.exited.then(() => process.stop()); // what it has written is read to its end
      return Promise.resolve();
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /** Sends one message as a line. */
  async send(message: JSONRPCMessage): Promise<void> {
    if (this.#closed || this.#process === undefined) {
      throw new Error("Cannot write to an MCP server that is not running");
    }
    await this.#process.pipes.write(this.#encoder.encode(JSON.stringify(message) + "\n"));
  }

  /** Stops the process, and whatever it has started in its group. */
  async close(): Promise<void> {
    this.#end();
    if (this.#process === undefined) return;
    await this.#process.stop();
    await this.#reading;
    await (this.#swept ??= killStragglers(this.#mark));
  }

  /** Asks the process to end immediately: it never answered, so it has nothing to bring to an end. */
  async abort(): Promise<void> {
    this.#process?.signal("SIGTERM");
    await this.close();
  }

  /** Ends the connection because of what the server does. */
  fail(error: Error): void {
    if (this.#closed) return;
    this.#failure = error;
    this.onerror?.(error);
    this.#end();
    this.#process?.pipes.close(); // a server that continues writing would wait for a reader
    this.#process?.stop(); // never rejects; close() waits for it
  }

  /** What is known of the process once it has ended. */
  async evidence(): Promise<ProcessEvidence | undefined> {
    const process = this.#process;
    if (process === undefined || !await settledWithin(process.exited, TERM_GRACE_MS)) {
      return undefined;
    }
    return { ...await process.exited, stderrTail: process.stderrTail };
  }

  /** The last part of what it wrote to stderr. */
  get stderrTail(): string {
    return this.#process?.stderrTail ?? "";
  }

  async #read(pipes: ByteStream): Promise<void> {
    const { maxMessageBytes = MAX_MESSAGE_BYTES, owner = this } = this.#options;
    using incoming = hostRoom.begin(owner);
    const { dropped } = incoming;
    dropped.addEventListener("abort", () => this.fail(dropped.reason), { once: true });
    const lines = new LineSplitter(incoming, maxMessageBytes);
    const turns = new FairTurns();
    try {
      for (let chunk = await pipes.read(); chunk !== null; chunk = await pipes.read()) {
        for (const line of lines.push(chunk)) {
          await turns.giveWay(); // also from a server that writes without end
          const message = this.#parse(line);
          if (message === undefined) continue;
          this.onmessage?.(message);
          // The SDK handles a notification a moment later, but a response immediately: progress that
          // comes with the response of its call would be of an unknown call.
          if (!("id" in message)) await Promise.resolve();
        }
      }
      // Nothing more can be answered, even if the process lives on.
      this.#end();
    } catch (error) {
      this.fail(error instanceof Error ? error : new Error(String(error)));
    }
    this.#process?.stop(); // never rejects; close() waits for it
  }

  #parse(line: Uint8Array): JSONRPCMessage | undefined {
    const measure = measureJson(line);
    checkMessage(measure); // which ends the connection: the reader of the message must not keep waiting
    const text = this.#decoder.decode(line);
    if (text.trim() === "") return undefined;
    try {
      return parseMessage(text, measure);
    } catch (error) {
      if (error instanceof UnusableMessageError) throw error;
      const shown = JSON.stringify(text.slice(0, 120));
      this.onerror?.(new Error(`An MCP server wrote a line that is not a message: ${shown}`));
      return undefined;
    }
  }

  #end(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.onclose?.(); // rejects the calls in flight now, not when the process is gone
  }
}

/** Splits chunks into lines, in time that is linear in their size. */
class LineSplitter {
  readonly #incoming: IncomingMessage;
  readonly #maxBytes: number;
  readonly #begun = new ByteBuffer();

  constructor(incoming: IncomingMessage, maxBytes: number) {
    this.#incoming = incoming;
    this.#maxBytes = maxBytes;
  }

  *push(chunk: Uint8Array): Generator<Uint8Array> {
    let start = 0;
    for (let end = chunk.indexOf(10); end !== -1; end = chunk.indexOf(10, start)) {
      const last = chunk.subarray(start, end);
      start = end + 1;
      if (this.#begun.length === 0) {
        yield last;
        continue;
      }
      this.#begin(last);
      yield this.#begun.take();
      this.#incoming.end();
    }
    if (start < chunk.length) this.#begin(chunk.subarray(start));
  }

  #begin(part: Uint8Array): void {
    this.#incoming.add(part.length);
    checkSize(this.#incoming.bytes, this.#maxBytes);
    this.#begun.add(part);
  }
}

/** A server that starts processes faster than they are found must not hold up the end. */
const LONGEST_MS = 2000;

/** How long a process that was killed is given to end before it is looked for again. */
const ROUND_MS = 5;

/**
 * Kills what a server has started and left behind, also in separate process groups, and waits for
 * its end: until then it may still write. It is known by a variable of the environment, which every
 * process inherits unless it takes care not to.
 *
 * Only where `/proc` is, and as far as Deno's permissions go: a server in the sandbox leaves nothing
 * behind in any case.
 */
async function killStragglers(mark: string): Promise<void> {
  if (Deno.build.os !== "linux") return;
  for (const start = performance.now(); performance.now() - start < LONGEST_MS;) {
    const pids = await findMarked(`${SERVER_MARK}=${mark}`);
    if (pids.length === 0) return;
    for (const pid of pids) kill(pid);
    await new Promise((resolve) => setTimeout(resolve, ROUND_MS));
  }
}

async function findMarked(mark: string): Promise<number[]> {
  if (!mayRead("/proc")) return [];
  const found: number[] = [];
  try {
    for await (const { name } of Deno.readDir("/proc")) {
      if (/^\d+$/.test(name) && await hasMark(name, mark)) found.push(Number(name));
    }
  } catch {
    return []; // not allowed to look
  }
  return found;
}

async function hasMark(pid: string, mark: string): Promise<boolean> {
  try {
    const environment = await Deno.readTextFile(`/proc/${pid}/environ`);
    return environment.split("\0").includes(mark); // a zombie has none
  } catch (error) {
    if (error instanceof Deno.errors.NotCapable) throw error;
    return false; // it has ended, or is another user's
  }
}

function kill(pid: number): void {
  try {
    Deno.kill(pid, "SIGKILL");
  } catch {
    // it has ended, or Deno's permissions do not allow it
  }
}
