import type { ElicitationAnswer, ElicitationQuestion } from "./questions.ts";
import type { ContentBlock } from "./results.ts";

/** A message that a server logs for its client. */
export interface ServerLogMessage {
  /** How grave it is, in the words of syslog, such as `"info"` or `"error"`. */
  readonly level: string;
  /** The part of the server that says it. */
  readonly logger?: string;
  /** What it says: text or any other JSON value. */
  readonly data: unknown;
}

/** A folder or file that servers should work in. */
export interface Root {
  /** Its `file:` address. */
  readonly uri: string;
  /** Its name for people. */
  readonly name?: string;
}

/** A server's request for a model's answer. */
export interface SamplingRequest {
  /** The registered server. */
  readonly serverName: string;
  /** The parameters of `sampling/createMessage`, checked, in the protocol's own names. */
  readonly params: Readonly<Record<string, unknown>>;
  /** Aborts when the server takes it back. */
  readonly signal: AbortSignal;
}

/** A model's answer. */
export interface SamplingResult {
  /** The model that answered. */
  readonly model: string;
  /** Who speaks. */
  readonly role: "assistant" | "user";
  /** What it says: a block of text, an image or audio. */
  readonly content: ContentBlock;
  /** Why it ended there. */
  readonly stopReason?: string;
}

/** Answers servers' requests with a model. A rejection is sent to the server as an error. */
export type SamplingHandler = (request: SamplingRequest) => Promise<SamplingResult>;

/** What a server may tell and ask its client without being called. None of it is to be trusted. */
export interface ServerHooks {
  /** Receives the server's log messages. Without it, the server is not asked to log. */
  readonly onLog?: (message: ServerLogMessage) => void;
  /** Called when the server was started or reached. */
  readonly onStarted?: () => void;
  /** Called when the server's list of tools has changed. */
  readonly onToolsChanged?: () => void;
  /** Asks a person. Without it, the server's questions are declined. */
  readonly elicit?:
    | ((question: ElicitationQuestion, signal: AbortSignal) => Promise<ElicitationAnswer>)
    | undefined;
  /** Asks a model. Without it, the server sees no sampling capability. */
  readonly sample?: SamplingHandler;
  /** Where the server is to work. Without it, the server is not told. */
  readonly roots?: readonly Root[];
}

/** Options of {@linkcode McpConnection.listTools}. */
export interface ListToolsOptions {
  /**
   * Waits until the server has said for this long that its list changed, because some servers add
   * tools after the handshake.
   *
   * @default {0}
   */
  settleMs?: number;
  /** Cancels it. */
  signal?: AbortSignal;
}

/** How far a call is, as its server reports it. */
export interface ToolProgress {
  /** How much is done. It only grows. */
  readonly progress: number;
  /** The total amount, if the server knows it. */
  readonly total?: number;
  /** What is being done, in words. */
  readonly message?: string;
}

/** Options of {@linkcode McpConnection.callTool}. */
export interface CallToolOptions {
  /** Cancels the call, at the server too. */
  signal?: AbortSignal;
  /** The longest time that the call may take, in milliseconds; none by default. */
  timeoutMs?: number;
  /** Receives the progress that the server reports. */
  onProgress?: (progress: ToolProgress) => void;
}
