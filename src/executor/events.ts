/**
 * What an execution tells its caller while it runs.
 *
 * @module
 */
import type { ApprovalRequest } from "../approval/request.ts";
import type { InputRequest } from "../kernel/input_request.ts";
import type { ExecutionResult } from "../kernel/outputs.ts";
import type { ElicitationRequest } from "../mcp/elicitation.ts";
import type { CallEvent, ServerEvent } from "../tool_server/server_events.ts";

/** A piece of output as it was produced. */
export interface ChunkEvent {
  /** Tells it from the other events. */
  readonly type: "chunk";
  /** Where the code wrote it. Results and displays count as stdout. */
  readonly stream: "stdout" | "stderr";
  /** The text, as it came. */
  readonly text: string;
}

/** A tool call or a shell command waits for a decision. The time limit stands still meanwhile. */
export interface ApprovalEvent {
  /** Tells it from the other events. */
  readonly type: "approval";
  /** What is asked for; answer it by `accept()` or `reject()`. */
  readonly request: ApprovalRequest;
}

/** An MCP server asks a question. The time limit stands still meanwhile. */
export interface ElicitationEvent {
  /** Tells it from the other events. */
  readonly type: "elicitation";
  /** What is asked; answer it by `accept()`, `decline()` or `cancel()`. */
  readonly request: ElicitationRequest;
}

/** The code asks for a line. The time limit stands still meanwhile. */
export interface InputEvent {
  /** Tells it from the other events. */
  readonly type: "input";
  /** What it asks for; answer it by `answer()` or `end()`. */
  readonly request: InputRequest;
}

/** Something that whoever writes the code should know of the servers that it calls. */
export interface NoteEvent {
  /** Tells it from the other events. */
  readonly type: "note";
  /** It, in a line, such as which tools a server has now that it did not have before. */
  readonly text: string;
}

/** The code has run to its end. */
export interface ResultEvent {
  /** Tells it from the other events. */
  readonly type: "result";
  /** What it produced. */
  readonly result: ExecutionResult;
}

/** An event of `CodeExecutor.stream()`; `type` tells which. */
export type ExecutionEvent =
  | ChunkEvent
  | ApprovalEvent
  | ResultEvent
  | NoteEvent
  | ElicitationEvent
  | InputEvent
  | CallEvent
  | ServerEvent;
