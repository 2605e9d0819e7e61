/**
 * Every error class that a caller may want to catch.
 *
 * Bad options are `TypeError`s or `RangeError`s; an aborted operation rejects with its signal's
 * reason. The classes here carry the known facts about the failure as data.
 *
 * @module
 */
import type { ExecutionResult, Output, OutputImage, WholeText } from "../kernel/outputs.ts";

/** Facts about a child process that ended or failed to start. */
export interface ProcessEvidence {
  /** Its exit code, or `null` when a signal ended it or it still runs. */
  readonly exitCode: number | null;
  /** The signal that ended it, such as `"SIGKILL"`, or `null`. */
  readonly signal: string | null;
  /** The end of its stderr, without terminal escapes. */
  readonly stderrTail: string;
}

/** Something this machine lacks, and the command that provides it. */
export class EnvironmentNotReadyError extends Error {
  /** The name of the class. */
  override readonly name: string = "EnvironmentNotReadyError";

  /**
   * Created by ipybox, for callers to catch.
   *
   * @param message What is missing.
   * @param fix The command or the step that fixes it.
   * @param options The cause, if any.
   */
  constructor(message: string, readonly fix: string, options?: ErrorOptions) {
    super(message, options);
  }
}

/** The OS sandbox cannot be started or failed its self-test. No code ran. */
export class SandboxUnavailableError extends EnvironmentNotReadyError {
  /** The name of the class. */
  override readonly name: string = "SandboxUnavailableError";
}

/** Python packages could not be installed or removed. */
export class PackageInstallError extends Error {
  /** The name of the class. */
  override readonly name: string = "PackageInstallError";

  /**
   * Created by ipybox, for callers to catch.
   *
   * @param message Which packages.
   * @param output The last 16 KiB of the installer's output.
   */
  constructor(message: string, readonly output: string) {
    super(message);
  }
}

/** A child process ended or failed to do its work. */
export class ProcessError extends Error implements ProcessEvidence {
  /** The name of the class. */
  override readonly name: string = "ProcessError";
  /** Its exit code, or `null` when a signal ended it or it still runs. */
  readonly exitCode: number | null;
  /** The signal that ended it, such as `"SIGKILL"`, or `null`. */
  readonly signal: string | null;
  /** The end of its stderr, without terminal escapes. */
  readonly stderrTail: string;

  /**
   * Created by ipybox, for callers to catch.
   *
   * @param message What happened.
   * @param evidence The process's exit and stderr; its last lines become part of the message.
   * @param options The cause, if any.
   */
  constructor(message: string, evidence: ProcessEvidence, options?: ErrorOptions) {
    super(withTail(message, evidence.stderrTail), options);
    this.exitCode = evidence.exitCode;
    this.signal = evidence.signal;
    this.stderrTail = evidence.stderrTail;
  }
}

/** The kernel gateway did not start. */
export class GatewayStartError extends ProcessError {
  /** The name of the class. */
  override readonly name: string = "GatewayStartError";
}

/** A kernel could not be started or set up, or was not ready within `startTimeoutMs`. No code ran. */
export class KernelStartError extends ProcessError {
  /** The name of the class. */
  override readonly name: string = "KernelStartError";
}

/** An execution's output before it failed. */
export type PartialResult = ExecutionResult;

/** The output of code that has none. */
export const NO_OUTPUT: PartialResult = { text: null, images: [], html: [], outputs: [] };

/** Whether the kernel's variables survived an interruption. */
export type KernelState = "kept" | "lost";

/** The kernel, or the gateway it runs under, died. Variables are lost; the next execution works. */
export class KernelDiedError extends ProcessError implements PartialResult {
  /** The name of the class. */
  override readonly name: string = "KernelDiedError";
  /** The kernel's variables are always lost. */
  readonly state: KernelState = "lost";
  /** The text so far, as in `ExecutionResult.text`. */
  readonly text: string | null;
  /** The images so far. */
  readonly images: readonly OutputImage[];
  /** The HTML so far, as in `ExecutionResult.html`. */
  readonly html: readonly string[];
  /** All outputs so far, in order. */
  readonly outputs: readonly Output[];
  /** The file with the full text, if `text` is cut. */
  readonly wholeText: WholeText | undefined;
  readonly #message: string;

  /**
   * Created by ipybox, for callers to catch.
   *
   * @param message What happened.
   * @param evidence The process's exit and stderr; its last lines become part of the message.
   * @param partial What was produced before the death.
   * @param options The cause, if any.
   */
  constructor(
    message: string,
    evidence: ProcessEvidence,
    partial: PartialResult = NO_OUTPUT,
    options?: ErrorOptions,
  ) {
    super(message, evidence, options);
    this.#message = message;
    this.text = partial.text;
    this.images = partial.images;
    this.html = partial.html;
    this.outputs = partial.outputs;
    this.wholeText = partial.wholeText;
  }

  /**
   * Creates the same error for one of the executions that the kernel's death ended.
   *
   * @param partial What that execution had produced.
   * @returns A new error.
   */
  with(partial: PartialResult): KernelDiedError {
    return new KernelDiedError(this.#message, this, partial, { cause: this.cause });
  }
}

/** The durable session ended: a person ended it, or its time ran out. */
export class SessionEndedError extends KernelDiedError {}

/** Another program has attached to the durable session, which continues without this one. */
export class SessionTakenError extends KernelDiedError {
  /** The name of the class. */
  override readonly name: string = "SessionTakenError";

  /**
   * Creates the same error for one of the running executions.
   *
   * @param partial What that execution had produced.
   * @returns A new error.
   */
  override with(partial: PartialResult): SessionTakenError {
    return new SessionTakenError(this.message, this, partial, { cause: this.cause });
  }
}

/** The outcome of an execution was lost while no program was attached to its durable session. */
export class OutcomeLostError extends Error {
  /** The name of the class. */
  override readonly name: string = "OutcomeLostError";
}

/** The executed code raised an exception. The fields are those of Jupyter's `error` message. */
export class CodeExecutionError extends Error implements PartialResult {
  /** The name of the class. */
  override readonly name: string = "CodeExecutionError";
  /** The text so far, as in `ExecutionResult.text`. */
  readonly text: string | null;
  /** The images so far. */
  readonly images: readonly OutputImage[];
  /** The HTML so far, as in `ExecutionResult.html`. */
  readonly html: readonly string[];
  /** All outputs so far, in order. */
  readonly outputs: readonly Output[];
  /** The file with the full text, if `text` is cut. */
  readonly wholeText: WholeText | undefined;

  /**
   * Created by ipybox, for callers to catch.
   *
   * @param ename The class name of the exception.
   * @param evalue The exception's message.
   * @param traceback The traceback as plain text, without frames of ipybox.
   * @param partial What was produced before the exception.
   */
  constructor(
    readonly ename: string,
    readonly evalue: string,
    readonly traceback: string,
    partial: PartialResult = NO_OUTPUT,
  ) {
    super(`${ename}: ${evalue}\n${traceback}`);
    this.text = partial.text;
    this.images = partial.images;
    this.html = partial.html;
    this.outputs = partial.outputs;
    this.wholeText = partial.wholeText;
  }
}

/** An execution took longer than its `timeoutMs`, not counting approvals and starts of MCP servers. */
export class ExecutionTimeoutError extends Error implements PartialResult {
  /** The name of the class. */
  override readonly name: string = "ExecutionTimeoutError";
  /** The text so far, as in `ExecutionResult.text`. */
  readonly text: string | null;
  /** The images so far. */
  readonly images: readonly OutputImage[];
  /** The HTML so far, as in `ExecutionResult.html`. */
  readonly html: readonly string[];
  /** All outputs so far, in order. */
  readonly outputs: readonly Output[];
  /** The file with the full text, if `text` is cut. */
  readonly wholeText: WholeText | undefined;

  /**
   * Created by ipybox, for callers to catch.
   *
   * @param timeoutMs The limit that was exceeded, in milliseconds.
   * @param state Whether the kernel's variables survived.
   * @param partial What was produced before the timeout.
   */
  constructor(
    readonly timeoutMs: number,
    readonly state: KernelState,
    partial: PartialResult = NO_OUTPUT,
  ) {
    const seconds = (timeoutMs / 1000).toFixed(2);
    super(`Code execution exceeded timeout of ${seconds}s (approval wait excluded)`);
    this.text = partial.text;
    this.images = partial.images;
    this.html = partial.html;
    this.outputs = partial.outputs;
    this.wholeText = partial.wholeText;
  }
}

/** A file or an option of the user is invalid. */
export class ConfigError extends Error {
  /** The name of the class. */
  override readonly name: string = "ConfigError";
}

/** An MCP server could not be reached or started, or it stopped answering. */
export class McpConnectionError extends ProcessError {
  /** The name of the class. */
  override readonly name: string = "McpConnectionError";

  /**
   * Created by ipybox, for callers to catch.
   *
   * @param serverName The server's registered name.
   * @param message What happened.
   * @param evidence What is known of the server's process; empty for a remote server.
   * @param options The cause, if any.
   */
  constructor(
    readonly serverName: string,
    message: string,
    evidence: Partial<ProcessEvidence> = {},
    options?: ErrorOptions,
  ) {
    super(message, { exitCode: null, signal: null, stderrTail: "", ...evidence }, options);
  }
}

/** A remote MCP server requires a login, or more access than the current login grants. */
export class McpLoginRequiredError extends McpConnectionError {
  /** The name of the class. */
  override readonly name: string = "McpLoginRequiredError";

  /**
   * Created by ipybox, for callers to catch.
   *
   * @param serverName The server's registered name.
   * @param what What the server requires.
   * @param fix The command that logs in.
   */
  constructor(serverName: string, readonly what: string, readonly fix: string) {
    super(serverName, `MCP server "${serverName}" ${what}: run \`${fix}\``);
  }
}

/** The type of a tool call's failure. The kernel receives the same identifiers. */
export type ToolErrorType =
  | "tool_error"
  | "protocol_error"
  | "invalid_arguments"
  | "approval_rejected"
  | "approval_timeout"
  | "approval_unavailable"
  | "tool_timeout"
  | "server_died"
  | "server_unreachable"
  | "login_required"
  | "unknown_server"
  | "cancelled"
  | "outcome_unknown"
  | "tool_server_error";

/** Facts about a failed tool call. */
export interface ToolCallErrorDetails {
  /** Why an approver or a policy refused the call. */
  readonly reason?: string;
  /** The JSON-RPC error code that the server sent. */
  readonly code?: number;
  /** The JSON-RPC error data that the server sent. */
  readonly data?: unknown;
  /** The exit code of the server's process. */
  readonly exitCode?: number | null;
  /** The signal that ended the server's process. */
  readonly signal?: string | null;
}

/** A tool call failed. `type` says why. */
export class ToolCallError extends Error {
  /** The name of the class. */
  override readonly name: string = "ToolCallError";

  /**
   * Creates the error.
   *
   * @param type What went wrong.
   * @param message What went wrong. Executed code can read it.
   * @param details More about the failure. Executed code can read it.
   * @param options The cause, which executed code does not see.
   */
  constructor(
    readonly type: ToolErrorType,
    message: string,
    readonly details: ToolCallErrorDetails = {},
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/** Appends the last lines of a process's stderr to a message, without those of JavaScript's stack. */
function withTail(message: string, stderrTail: string): string {
  const lines = stderrTail.split("\n").filter((line) => !/^\s*$|^\s+at /.test(line)).slice(-8);
  return lines.length === 0
    ? message
    : `${message}\nLast lines of its stderr:\n  ${lines.join("\n  ")}`;
}
