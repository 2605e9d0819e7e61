/**
 * Jupyter's wire format: the only module that imports `@jupyterlab/services`.
 *
 * Only the library's message half is used. Its `KernelConnection` writes to stdout (`console.debug`
 * does in Deno, and stdout belongs to MCP and to results), throws from an event handler when the
 * kernel sends a malformed message, which would let executed code end the host, reconnects silently
 * with random delays where a loss must be an error immediately, and reads environment variables when it
 * is imported.
 *
 * @module
 */
import { createMessage, type IMessage } from "@jupyterlab/services/lib/kernel/messages.js";
import { serialize } from "@jupyterlab/services/lib/kernel/serialize.js";
import { validateMessage } from "@jupyterlab/services/lib/kernel/validate.js";
import { onAbort, settledWithin } from "../base/signals.ts";
import { isRecord } from "../json/exact.ts";
import { beginWork } from "../base/stalls.ts";
import { checkJson, JsonLimitError } from "../json/measure.ts";

/** The WebSocket subprotocol with binary messages, whose text is not escaped twice. */
export const KERNEL_PROTOCOL = "v1.kernel.websocket.jupyter.org";

/** The requests that are sent. */
export type RequestContent =
  | {
    readonly type: "kernel_info_request";
    /** With `"shell"`, the default, it waits for the code that runs. */
    readonly channel?: "shell" | "control";
  }
  | {
    readonly type: "execute_request";
    readonly code: string;
    readonly silent: boolean;
    readonly storeHistory: boolean;
    /** Whether somebody answers the code's questions. */
    readonly allowStdin: boolean;
    /** Expressions to evaluate afterwards, by name; the reply contains the results. */
    readonly expressions?: Readonly<Record<string, string>>;
  }
  | { readonly type: "is_complete_request"; readonly code: string }
  | {
    readonly type: "complete_request";
    readonly code: string;
    /** The position, in code points. */
    readonly cursor: number;
  };

/** The parts of a received message that are used. Its content has not been checked. */
export interface JupyterMessage {
  readonly channel: string;
  readonly type: string;
  /** The request that this message belongs to; `undefined` for the gateway's own messages. */
  readonly parentId: string | undefined;
  /** The session of that request's client. */
  readonly parentSession: string | undefined;
  readonly content: JsonObject;
}

/** A JSON object of unchecked values. */
export type JsonObject = Readonly<Record<string, unknown>>;

/** Makes the message of a request. */
export function encodeRequest(
  request: RequestContent,
  session: string,
  id?: string,
): { id: string; data: string | ArrayBuffer } {
  const message = messageOf(request, session);
  if (id !== undefined) message.header.msg_id = id;
  return { id: message.header.msg_id, data: serialize(message, KERNEL_PROTOCOL) };
}

/** As the answer to a question of code, the kernel treats this as the end of the input. */
export const END_OF_INPUT = "\x04";

/** Makes the message that answers a question of code. */
export function encodeInputReply(value: string, session: string): string | ArrayBuffer {
  const content = { status: "ok", value } as const;
  const message = createMessage({ channel: "stdin", msgType: "input_reply", session, content });
  return serialize(message, KERNEL_PROTOCOL);
}

function messageOf(request: RequestContent, session: string): IMessage {
  const common = { channel: "shell", session } as const;
  switch (request.type) {
    case "kernel_info_request": {
      const { type: msgType, channel = "shell" } = request;
      return { ...createMessage({ ...common, msgType, content: {} }), channel };
    }
    case "is_complete_request":
      return createMessage({ ...common, msgType: request.type, content: { code: request.code } });
    case "complete_request": {
      const { type: msgType, code, cursor } = request;
      return createMessage({ ...common, msgType, content: { code, cursor_pos: cursor } });
    }
    case "execute_request":
      return createMessage({
        ...common,
        msgType: request.type,
        content: {
          code: request.code,
          silent: request.silent,
          store_history: request.storeHistory,
          user_expressions: { ...request.expressions },
          allow_stdin: request.allowStdin,
          // Otherwise the kernel aborts the requests that follow a failed one for a moment.
          stop_on_error: false,
        },
      });
  }
}

/** The limit on a message's values: parsing more blocks the event loop, and takes too much memory. */
const MAX_VALUES = 250_000;
/** The limit on a header's values. */
const MAX_HEADER_VALUES = 1000;

/** Reads a message, which code may have forged. The content of one with too many values is dropped. */
export function decodeMessage(data: ArrayBuffer): JupyterMessage {
  const { channel, header, parent, content: bytes } = partsOf(data);
  const head = parseJson(header, MAX_HEADER_VALUES);
  if (!isRecord(head)) throw new TypeError("A message's header is not an object");
  const { type, content } = contentOf(bytes, head.msg_type);
  const message: unknown = {
    channel: decoder.decode(channel),
    header: { ...head, msg_type: type },
    parent_header: parseJson(parent, MAX_HEADER_VALUES),
    metadata: {},
    content,
  };
  requireMessage(message);
  const parentHeader: unknown = message.parent_header;
  const { msg_id: id, session }: JsonObject = isRecord(parentHeader) ? parentHeader : {};
  if (!isRecord(content)) throw new TypeError("A message's content is not an object");
  return {
    channel: message.channel,
    type: message.header.msg_type,
    parentId: textIn(id),
    parentSession: textIn(session),
    content,
  };
}

/** The library declares the unchecked parameter of its check as a message. */
function requireMessage(message: unknown): asserts message is IMessage {
  validateMessage(message as IMessage);
}

/** The content, or, if that has too many values, a text that says so. */
function contentOf(bytes: Uint8Array, type: unknown): { type: unknown; content: unknown } {
  try {
    return { type, content: parseJson(bytes, MAX_VALUES) };
  } catch (error) {
    if (!(error instanceof JsonLimitError)) throw error;
    const text = `[ipybox: output omitted: ${error.message}]\n`;
    return {
      type: typeof type === "string" && OUTPUT.has(type) ? "stream" : type,
      content: { name: "stderr", text },
    };
  }
}

const OUTPUT: ReadonlySet<string> = new Set([
  "display_data",
  "error",
  "execute_result",
  "stream",
  "update_display_data",
]);

const decoder = new TextDecoder();

function parseJson(bytes: Uint8Array, maxValues: number): unknown {
  beginWork(`a message of a kernel (${bytes.length} bytes)`);
  checkJson(bytes, maxValues);
  return JSON.parse(decoder.decode(bytes));
}

/** The bytes of a message's parts, without its binary buffers. */
function partsOf(
  data: ArrayBuffer,
): Record<"channel" | "header" | "parent" | "content", Uint8Array> {
  const view = new DataView(data);
  const part = (index: number) => {
    const from = Number(view.getBigUint64(8 * (index + 1), true));
    const to = Number(view.getBigUint64(8 * (index + 2), true));
    if (from > to || to > data.byteLength) {
      throw new RangeError("A message's offsets are out of range");
    }
    return new Uint8Array(data, from, to - from);
  };
  if (view.getBigUint64(0, true) < 6n) throw new RangeError("A message has too few parts");
  return { channel: part(0), header: part(1), parent: part(2), content: part(4) };
}

function textIn(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

/** The time limit for a closing handshake: then the socket is abandoned. */
const CLOSE_TIMEOUT_MS = 1000;

/** The open WebSocket of a kernel's channels. */
export class KernelSocket implements AsyncDisposable {
  /** Resolves when the socket is closed, with the reason as far as it is known. */
  readonly closed: Promise<string>;
  readonly #socket: WebSocket;

  private constructor(socket: WebSocket, closed: Promise<string>) {
    this.#socket = socket;
    this.closed = closed;
  }

  /** Waits until a socket is open. */
  static async open(
    socket: WebSocket,
    onMessage: (data: ArrayBuffer) => void,
    signal: AbortSignal,
  ): Promise<KernelSocket> {
    const opened = Promise.withResolvers<void>();
    const closed = Promise.withResolvers<string>();
    let failure = "";
    socket.onopen = () => opened.resolve();
    socket.onerror = (event) => {
      if (event instanceof ErrorEvent) failure = event.message;
    };
    socket.onclose = (event) => {
      const reason = event.reason || failure || `WebSocket closed with code ${event.code}`;
      closed.resolve(reason);
      opened.reject(new Error(`Cannot connect to the kernel: ${reason}`));
    };
    socket.onmessage = ({ data }) => {
      if (data instanceof ArrayBuffer) onMessage(data);
    };
    using _abort = onAbort(signal, () => {
      opened.reject(signal.reason);
      socket.close();
    });
    const kernelSocket = new KernelSocket(socket, closed.promise);
    try {
      await opened.promise;
      if (socket.protocol !== KERNEL_PROTOCOL) {
        throw new Error(
          `The kernel gateway does not speak ${KERNEL_PROTOCOL}; use jupyter_server 2 or newer`,
        );
      }
      return kernelSocket;
    } catch (error) {
      await kernelSocket[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** Sends a message. It is dropped once the socket is closed, which {@linkcode closed} reports. */
  send(data: string | ArrayBuffer): void {
    if (this.#socket.readyState === WebSocket.OPEN) this.#socket.send(data);
  }

  /** Whether everything was sent. */
  get isDrained(): boolean {
    return this.#socket.bufferedAmount === 0;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#socket.onmessage = null;
    this.#socket.close();
    await settledWithin(this.closed, CLOSE_TIMEOUT_MS);
  }
}

/** The callbacks of a request. */
export interface RequestListeners {
  /** Takes messages on iopub except the status, also late ones of threads of earlier requests. */
  readonly onOutput?: (message: JupyterMessage) => void;
  /** Takes the code's questions. */
  readonly onInput?: (content: JsonObject) => void;
}

/**
 * A request to a kernel. It ends with the reply *and* `idle`, in either order: otherwise output
 * would be lost.
 */
export class KernelRequest {
  readonly #listeners: RequestListeners;
  readonly #begun = Promise.withResolvers<void>();
  /** Resolves when the kernel runs the code, so that interrupts reach it. */
  readonly begun: Promise<void> = this.#begun.promise;
  readonly #idle = Promise.withResolvers<void>();
  /** Resolves when the kernel is idle again; after an interrupt also without a reply. */
  readonly idle: Promise<void> = this.#idle.promise;
  readonly #reply = Promise.withResolvers<JsonObject>();
  /** Resolves with the reply's content after reply and idle; rejects if the kernel ends first. */
  readonly done: Promise<JsonObject>;

  #isIdle = false;

  /** @param listeners Receive its replies. */
  constructor(listeners: RequestListeners = {}) {
    this.#listeners = listeners;
    this.done = Promise.all([this.#reply.promise, this.#idle.promise]).then(([reply]) => reply);
    for (const promise of [this.done, this.begun, this.idle]) {
      promise.catch(() => {}); // each caller waits for some of them
    }
  }

  /** Whether {@linkcode idle} has resolved. */
  get isIdle(): boolean {
    return this.#isIdle;
  }

  /** Whether a listener takes its output, and more may arrive. */
  get takesOutput(): boolean {
    return this.#listeners.onOutput !== undefined && !this.#isIdle;
  }

  /** Takes a message that belongs to this request. */
  receive(message: JupyterMessage): void {
    const { channel, type, content } = message;
    if (channel === "shell" || channel === "control") {
      this.#reply.resolve(content);
    } else if (channel === "iopub" && type === "status") {
      if (content.execution_state === "idle") {
        this.#isIdle = true;
        this.#begun.resolve();
        this.#idle.resolve();
      }
    } else if (channel === "iopub") {
      if (type === "execute_input") this.#begun.resolve();
      this.#listeners.onOutput?.(message);
    }
  }

  /** Takes a question of its code. */
  ask(content: JsonObject): boolean {
    const { onInput } = this.#listeners;
    if (onInput === undefined || this.#isIdle) return false;
    onInput(content);
    return true;
  }

  /** Fails the request with the reason why the kernel will not answer. */
  fail(reason: unknown): void {
    this.#begun.reject(reason);
    this.#idle.reject(reason);
    this.#reply.reject(reason);
  }
}
