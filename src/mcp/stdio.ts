import { ByteBuffer } from "../base/bytes.ts";
import type { ProcessEvidence } from "../base/errors.ts";
import { mayRead } from "../base/permission.ts";
import { settledWithin, turn } from "../base/signals.ts";
import type { ByteStream } from "../base/streams.ts";
import {
  ManagedProcess,
  type ManagedProcessOptions,
  SERVER_MARK,
} from "../process/managed_process.ts";
import {
  checkMessage,
  checkSize,
  MAX_MESSAGE_BYTES,
  parseLine,
  type RequestId,
  UnusableMessageError,
} from "./message.ts";
import type { JSONRPCMessage, Transport } from "./sdk.ts";

/** Options of {@linkcode StdioTransport}. */
interface StdioTransportOptions
  extends Omit<ManagedProcessOptions, "inputGraceMs" | "termGraceMs"> {
  /** The largest message to accept, in bytes; 64 MiB by default. */
  maxMessageBytes?: number;
}

/** The time limit for a server to exit after its stdin is closed. */
const INPUT_GRACE_MS = 500;
/** The time limit for its exit after SIGTERM. */
const TERM_GRACE_MS = 1500;

/**
 * Talks to an MCP server over the pipes of a process that it starts.
 *
 * The SDK's own transport does not kill stubborn servers under Deno, leaves the children of
 * wrappers such as `npx` behind, stops at messages of 10 MiB, reads in quadratic time, and needs
 * permission for the whole environment.
 */
export class StdioTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;

  readonly #options: StdioTransportOptions;
  readonly #encoder = new TextEncoder();
  readonly #decoder = new TextDecoder();
  /** The requests without an answer, by the text of their ids. */
  readonly #waiting = new Map<string, RequestId>();
  #process: ManagedProcess | undefined;
  #reading: Promise<void> | undefined;
  #failure: Error | undefined;
  #closed = false;
  #swept: Promise<void> | undefined;
  readonly #mark: string = crypto.randomUUID();

  /** @param options What {@linkcode start} starts. */
  constructor(options: StdioTransportOptions) {
    this.#options = options;
  }

  /** The process id. From this and `stderr`, the SDK concludes that this is not an HTTP transport. */
  get pid(): number | null {
    return this.#process?.pid ?? null;
  }

  /** Only the SDK's own transport has a stream here; see {@linkcode evidence}. */
  get stderr(): null {
    return null;
  }

  /** Why the transport itself ended the connection, if it did. */
  get failure(): Error | undefined {
    return this.#failure;
  }

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
      process.exited.then(() => process.stop()); // everything it has written is still read
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
    if ("method" in message && "id" in message) this.#waiting.set(String(message.id), message.id);
    if ("method" in message && message.method === "notifications/cancelled") {
      this.#waiting.delete(String(message.params?.requestId));
    }
    await this.#process.pipes.write(this.#encoder.encode(JSON.stringify(message) + "\n"));
  }

  /** Stops the process and everything in its process group. */
  async close(): Promise<void> {
    this.#end();
    if (this.#process === undefined) return;
    await this.#process.stop();
    await this.#reading;
    await (this.#swept ??= killOrphans(this.#mark));
  }

  /** Sends SIGTERM immediately, for a server that never answered and so has nothing to finish. */
  async abort(): Promise<void> {
    this.#process?.signal("SIGTERM");
    await this.close();
  }

  /** Ends the connection because of the server's behavior. */
  fail(error: Error): void {
    if (this.#closed) return;
    this.#failure = error;
    this.onerror?.(error);
    this.#end();
    this.#process?.pipes.close(); // a server that continues writing would wait for a reader
    this.#process?.stop(); // never rejects; close() waits for it
  }

  /** How the process ended, once it has. */
  async evidence(): Promise<ProcessEvidence | undefined> {
    const process = this.#process;
    if (process === undefined || !await settledWithin(process.exited, TERM_GRACE_MS)) {
      return undefined;
    }
    return { ...await process.exited, stderrTail: process.stderrTail };
  }

  /** The end of its stderr output. */
  get stderrTail(): string {
    return this.#process?.stderrTail ?? "";
  }

  async #read(pipes: ByteStream): Promise<void> {
    const lines = new LineSplitter(this.#options.maxMessageBytes);
    try {
      for (let chunk = await pipes.read(); chunk !== null; chunk = await pipes.read()) {
        let isLater = false;
        for (const line of lines.push(chunk)) {
          // The SDK handles a notification a moment later but a response immediately: without this,
          // progress that arrives together with its call's response would belong to an unknown call.
          if (isLater) await turn();
          isLater = true;
          for (const message of this.#parse(line)) this.#deliver(message);
        }
      }
      // Nothing more can be answered, even if the process is still running.
      this.#end();
    } catch (error) {
      this.fail(error instanceof Error ? error : new Error(String(error)));
    }
    this.#process?.stop(); // never rejects; close() waits for it
  }

  #parse(line: Uint8Array): readonly JSONRPCMessage[] {
    checkMessage(line);
    const text = this.#decoder.decode(line);
    if (text.trim() === "") return [];
    try {
      return parseLine(text, this.#waiting);
    } catch (error) {
      if (error instanceof UnusableMessageError) throw error;
      const shown = JSON.stringify(text.slice(0, 120));
      this.onerror?.(new Error(`An MCP server wrote a line that is not a message: ${shown}`));
      return [];
    }
  }

  #deliver(message: JSONRPCMessage): void {
    if (!("method" in message)) this.#waiting.delete(String(message.id));
    this.onmessage?.(message);
  }

  #end(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.onclose?.(); // rejects pending calls now, before the process has ended
  }
}

/** Splits chunks into lines, in linear time. */
class LineSplitter {
  readonly #maxBytes: number;
  readonly #begun = new ByteBuffer();

  constructor(maxBytes: number = MAX_MESSAGE_BYTES) {
    this.#maxBytes = maxBytes;
  }

  /** Throwing ends the connection: the message's reader must not keep waiting. */
  *push(chunk: Uint8Array): Generator<Uint8Array> {
    let start = 0;
    for (let end = chunk.indexOf(10); end !== -1; end = chunk.indexOf(10, start)) {
      this.#begin(chunk.subarray(start, end));
      start = end + 1;
      yield this.#begun.take();
    }
    if (start < chunk.length) this.#begin(chunk.subarray(start));
  }

  #begin(part: Uint8Array): void {
    checkSize(this.#begun.length + part.length, this.#maxBytes);
    this.#begun.add(part);
  }
}

/** The time limit for the search, since a server may start processes faster than they are found. */
const LONGEST_MS = 2000;

/** The time that killed processes get to exit before the next search. */
const ROUND_MS = 5;

/**
 * Kills the processes that a server left behind, even in other process groups, and waits for their
 * exit, because they may still write. They are found by an environment variable, which processes
 * inherit unless they remove it.
 *
 * Works only where `/proc` exists and Deno's permissions allow it. A server in the sandbox leaves
 * no processes behind.
 */
async function killOrphans(mark: string): Promise<void> {
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
    return []; // not permitted
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
