import { LineSplitter } from "../base/bytes.ts";
import type { ProcessEvidence } from "../base/errors.ts";
import { settledWithin, turn } from "../base/signals.ts";
import type { ByteStream } from "../base/streams.ts";
import { ManagedProcess, type ManagedProcessOptions } from "../process/managed_process.ts";
import {
  checkMessage,
  MAX_MESSAGE_BYTES,
  parseLine,
  type RequestId,
  tooLong,
  UnusableMessageError,
} from "./message.ts";
import type { JSONRPCMessage, Transport } from "./sdk.ts";

/** Options of {@linkcode StdioTransport}. */
type StdioTransportOptions = Omit<ManagedProcessOptions, "inputGraceMs" | "termGraceMs">;

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

  /** @param options The process that {@linkcode start} starts. */
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
    const lines = new LineSplitter(MAX_MESSAGE_BYTES, () => {
      throw tooLong(); // which ends the connection: the message's reader must not keep waiting
    });
    try {
      for (let chunk = await pipes.read(); chunk !== null; chunk = await pipes.read()) {
        let isLater = false;
        for (const line of lines.add(chunk)) {
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
