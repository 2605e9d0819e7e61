/**
 * Jupyter's wire format: the one import of `@jupyterlab/services`.
 *
 * Only the library's message half is used. Its `KernelConnection` writes to stdout (`console.debug`
 * does in Deno, and stdout belongs to MCP and to results), throws from an event handler when the
 * kernel sends a malformed message, which would let executed code end the host, reconnects silently
 * with random delays where a loss must be an error at once, and reads environment variables when it
 * is imported.
 *
 * @module
 */
import { createMessage, type IMessage } from "@jupyterlab/services/lib/kernel/messages.js";
import { deserialize, serialize } from "@jupyterlab/services/lib/kernel/serialize.js";
import { validateMessage } from "@jupyterlab/services/lib/kernel/validate.js";

/** The WebSocket subprotocol in which a message is binary and its text is not escaped twice. */
export const KERNEL_PROTOCOL = "v1.kernel.websocket.jupyter.org";

/** The requests we send. */
export type RequestContent =
  | {
    readonly type: "kernel_info_request";
    /**
     * Whether it waits for the code that runs.
     *
     * @default {"shell"} it does
     */
    readonly channel?: "shell" | "control";
  }
  | {
    readonly type: "execute_request";
    readonly code: string;
    readonly silent: boolean;
    readonly storeHistory: boolean;
  }
  | { readonly type: "is_complete_request"; readonly code: string }
  | {
    readonly type: "complete_request";
    readonly code: string;
    /** Where, in code points. */
    readonly cursor: number;
  };

/** The parts of a received message that we use. Its content is still to be checked. */
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
): { id: string; data: string | ArrayBuffer } {
  const message = messageOf(request, session);
  return { id: message.header.msg_id, data: serialize(message, KERNEL_PROTOCOL) };
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
          user_expressions: {},
          allow_stdin: false,
          // Else the kernel refuses the requests that follow a failed one for a moment.
          stop_on_error: false,
        },
      });
  }
}

/**
 * Reads a message, which executed code may have forged.
 *
 * @param data What the socket received.
 * @returns The message.
 * @throws {Error} It is no Jupyter message.
 */
export function decodeMessage(data: ArrayBuffer): JupyterMessage {
  const message = deserialize(data, KERNEL_PROTOCOL);
  validateMessage(message);
  const parent: unknown = message.parent_header;
  const header: JsonObject = isObject(parent) ? parent : {};
  const content: unknown = message.content;
  if (!isObject(content)) throw new TypeError("A message's content is not an object");
  return {
    channel: message.channel,
    type: message.header.msg_type,
    parentId: textIn(header.msg_id),
    parentSession: textIn(header.session),
    content,
  };
}

function textIn(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

/** Whether a value is a JSON object. */
export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
