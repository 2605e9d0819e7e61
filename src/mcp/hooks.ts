import type { ElicitationAnswer, ElicitationQuestion } from "./questions.ts";
import type { ContentBlock } from "./results.ts";

/** A log message that a server sends to its client. */
export interface ServerLogMessage {
  /** The syslog severity, such as `"info"` or `"error"`. */
  readonly level: string;
  /** The part of the server that logs it. */
  readonly logger?: string;
  /** The message: text or any other JSON value. */
  readonly data: unknown;
}

/** A folder or file that servers should work in. */
export interface Root {
  /** Its `file:` URI. */
  readonly uri: string;
  /** A display name. */
  readonly name?: string;
}

/** A server's request for a completion from a model. */
export interface SamplingRequest {
  /** The registered server. */
  readonly serverName: string;
  /** The checked parameters of `sampling/createMessage`, in the protocol's own names. */
  readonly params: Readonly<Record<string, unknown>>;
  /** Aborts when the server cancels the request. */
  readonly signal: AbortSignal;
}

/** A model's completion. */
export interface SamplingResult {
  /** The model that answered. */
  readonly model: string;
  /** The role of the message. */
  readonly role: "assistant" | "user";
  /** A block of text, an image or audio. */
  readonly content: ContentBlock;
  /** Why the model stopped. */
  readonly stopReason?: string;
}

/** Answers servers' requests with a model. A rejection is sent to the server as an error. */
export type SamplingHandler = (request: SamplingRequest) => Promise<SamplingResult>;

/** How a client reacts to a server's unprompted messages. None of them is trusted. */
export interface ServerHooks {
  /** Receives the server's log messages. Without it, the server is not asked to log. */
  readonly onLog?: (message: ServerLogMessage) => void;
  /** Called when the server has started or has been reached. */
  readonly onStarted?: () => void;
  /** Called when the server's list of tools has changed. */
  readonly onToolsChanged?: () => void;
  /** Asks a person. Without it, the server's questions are declined. */
  readonly elicit?:
    | ((question: ElicitationQuestion, signal: AbortSignal) => Promise<ElicitationAnswer>)
    | undefined;
  /** Asks a model. Without it, the client does not offer sampling. */
  readonly sample?: SamplingHandler;
  /** Where the server should work. Without it, the client does not offer roots. */
  readonly roots?: readonly Root[];
}

/** Options of {@linkcode McpConnection.listTools}. */
export interface ListToolsOptions {
  /** Waits until the list stays unchanged for this long: some servers add tools after the handshake. */
  settleMs?: number;
  /** Cancels the request. */
  signal?: AbortSignal;
}

/** The progress of a call, as its server reports it. */
export interface ToolProgress {
  /** The amount done so far, which only grows. */
  readonly progress: number;
  /** The total amount, if the server knows it. */
  readonly total?: number;
  /** A description of the current step. */
  readonly message?: string;
}

/** Options of {@linkcode McpConnection.callTool}. */
export interface CallToolOptions {
  /** Cancels the call, at the server too. */
  signal?: AbortSignal;
  /** The time limit of the call, in milliseconds; none by default. */
  timeoutMs?: number;
  /** Receives the progress that the server reports. */
  onProgress?: (progress: ToolProgress) => void;
}
