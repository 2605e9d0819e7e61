import type { ApprovalGate } from "../approval/gate.ts";
import type { CallObserver } from "../approval/observed_call.ts";
import type { ApprovalCall, ApprovalKind } from "../approval/request.ts";
import type { Logger } from "../base/log.ts";
import { type ExactObject, sealObject, toExact } from "../json/exact.ts";
import type { ServerHooks } from "../mcp/hooks.ts";
import type { ElicitationQuestion } from "../mcp/questions.ts";
import type { ToolChanges } from "./changes.ts";
import {
  declined,
  type ElicitationChannel,
  type ElicitationSource,
  type EndedQuestion,
} from "../approval/questions.ts";

/** The server reports the progress of a running tool call. */
export interface ProgressEvent {
  /** The type of the event. */
  readonly type: "progress";
  /** The call's id; approvals of the same call carry it too. */
  readonly callId: string;
  /** The registered server. */
  readonly serverName: string;
  /** The tool's name as the server knows it. */
  readonly toolName: string;
  /** How much is done. */
  readonly progress: number;
  /** The total amount, if the server knows it. */
  readonly total?: number;
  /** The current work. */
  readonly message?: string;
}

/** An MCP server logs something. The text comes from the server and is not verified. */
export interface LogEvent {
  /** The type of the event. */
  readonly type: "log";
  /** The running call, if there is exactly one on that server. */
  readonly callId?: string;
  /** The registered server. */
  readonly serverName: string;
  /** The syslog severity, such as `"info"` or `"error"`. */
  readonly level: string;
  /** The part of the server that logs it. */
  readonly logger?: string;
  /** The message: text or any other JSON value. */
  readonly data: unknown;
}

/** An MCP server's tools have changed since its Python API was generated. */
export interface ToolsChangedEvent {
  /** The type of the event. */
  readonly type: "tools_changed";
  /** The registered server. A `CodeExecutor` updates its API, and then emits a note. */
  readonly serverName: string;
}

/** Reports of MCP servers while they work. */
export type ServerEvent = ProgressEvent | LogEvent | ToolsChangedEvent;

/** A tool call, a resource request or a shell command has begun. */
export interface CallStartedEvent {
  /** The type of the event. */
  readonly type: "call_started";
  /** The call's id; its approval and its progress carry it too. */
  readonly callId: string;
  /** The kind of call. */
  readonly kind: ApprovalKind;
  /** The registered server; `"ipybox"` for shell commands. */
  readonly serverName: string;
  /** The tool's name as the server knows it. */
  readonly toolName: string;
}

/** A tool call, a resource request or a shell command has ended, successfully or not. */
export interface CallEndedEvent {
  /** The type of the event. */
  readonly type: "call_ended";
  /** The call's id. */
  readonly callId: string;
  /** The decision; absent if the call failed before it. */
  readonly decision?: "allow" | "deny";
  /** Who decided (`"policy"`, `"consent"`, `"approver"`), or why nobody did. */
  readonly by?: string;
  /** The rule, or the approver's reason. */
  readonly reason?: string;
  /** How it ended: `"ok"`, `"approved"` for a shell command, or the type of the error. */
  readonly status: string;
  /** The total duration, in milliseconds. */
  readonly durationMs: number;
  /** The part of it that the decision took, in milliseconds. */
  readonly waitMs?: number;
}

/** The beginning or the end of a call. */
export type CallEvent = CallStartedEvent | CallEndedEvent;

/** Forwards the reports of servers to watchers, and knows which calls are running. */
export class ServerEvents {
  readonly #watchers = new Set<(event: ServerEvent) => void>();
  readonly #followers = new Set<(event: CallEvent) => void>();
  readonly #calls = new Map<string, Set<string>>();

  /** Whether there are watchers. */
  get watched(): boolean {
    return this.#watchers.size > 0;
  }

  /**
   * Calls back with each event until disposed.
   *
   * @param watcher Called with each event. It must not throw.
   * @returns Disposing it ends the calls.
   */
  watch(watcher: (event: ServerEvent) => void): Disposable {
    this.#watchers.add(watcher);
    return { [Symbol.dispose]: () => void this.#watchers.delete(watcher) };
  }

  /**
   * Notifies all watchers.
   *
   * @param event What happened.
   */
  tell(event: ServerEvent): void {
    for (const watcher of this.#watchers) watcher(event);
  }

  /**
   * Calls back with the beginning and the end of each call until disposed.
   *
   * @param follower Called with each event. It must not throw.
   * @returns Disposing it ends the calls.
   */
  followCalls(follower: (event: CallEvent) => void): Disposable {
    this.#followers.add(follower);
    return { [Symbol.dispose]: () => void this.#followers.delete(follower) };
  }

  /**
   * Notifies all followers of calls.
   *
   * @param event What happened.
   */
  tellCall(event: CallEvent): void {
    for (const follower of this.#followers) follower(event);
  }

  /**
   * Records that a call is running until disposed.
   *
   * @param serverName The registered server.
   * @param callId The call's id.
   * @returns Dispose it when the call has ended.
   */
  track(serverName: string, callId: string): Disposable {
    const calls = this.#calls.get(serverName) ?? new Set();
    this.#calls.set(serverName, calls.add(callId));
    return { [Symbol.dispose]: () => void calls.delete(callId) };
  }

  /** The id of the call that is running on a server, if there is exactly one. */
  onlyCall(serverName: string): string | undefined {
    const calls = this.#calls.get(serverName);
    return calls?.size === 1 ? [...calls][0] : undefined;
  }
}

/** Forwards the beginning and the end of each call to the application. */
export function callEvents(events: ServerEvents): CallObserver {
  return {
    begun({ id: callId, call: { kind, serverName, toolName } }) {
      events.tellCall({ type: "call_started", callId, kind, serverName, toolName });
    },
    ended({ id: callId, decision: decided, status = "error", durationMs = 0, waitMs }) {
      const { decision, by, reason } = decided ?? {};
      const type = "call_ended";
      events.tellCall({ type, callId, decision, by, reason, status, durationMs, waitMs });
    },
  };
}

/** Options of {@linkcode serverHooks}. */
interface ServerHooksOptions {
  readonly sampling?: ServerHooks["sample"];
  readonly roots?: ServerHooks["roots"];
  /** Receives logs and changed tools. */
  readonly events: ServerEvents;
  /** Receives changed tools, and servers that start. */
  readonly changes: ToolChanges;
  /** Asks questions of servers. */
  readonly elicitations: ElicitationChannel;
  /** Decides which questions the policy declines. */
  readonly gate: ApprovalGate;
  /** Records questions when they have ended. */
  readonly trail: { asked(question: EndedQuestion): void } | undefined;
  /** Receives the reasons for unanswered questions. */
  readonly log: Logger;
}

/** Forwards what a server reports and asks, to the application and to the person who answers. */
export function serverHooks(serverName: string, options: ServerHooksOptions): ServerHooks {
  const { events, changes, sampling, roots, elicitations, gate, log, trail } = options;
  return {
    sample: sampling,
    roots,
    elicit: async (question, signal) => {
      const source = { serverName, callId: events.onlyCall(serverName) };
      const call = questionCall(source, question);
      const time = new Date();
      const denial = gate.judge(call);
      const { answer, end } = denial === undefined
        ? await elicitations.ask(source, question, signal)
        : declined("policy", denial.reason ?? "Denied by the approval policy");
      if (end.reason !== undefined) {
        log.debug(`No answer to a question from MCP server "${serverName}": ${end.reason}`);
      }
      const noted = { ...call, kind: "elicitation", arguments: notedArguments(call) } as const;
      trail?.asked({ ...noted, ...end, time });
      return answer;
    },
    onLog: (message) => {
      const callId = events.onlyCall(serverName);
      events.tell({ type: "log", serverName, callId, ...message });
    },
    onStarted: () => changes.started(serverName),
    onToolsChanged: () => {
      changes.add(serverName);
      events.tell({ type: "tools_changed", serverName });
    },
  };
}

/** The arguments to record: only the origin of a URL, because the rest may be a one-time link. */
function notedArguments({ arguments: args }: ApprovalCall): ExactObject {
  return typeof args.url === "string" ? { ...args, url: new URL(args.url).origin } : args;
}

/** A server's question in the form that policies judge. */
function questionCall(source: ElicitationSource, question: ElicitationQuestion): ApprovalCall {
  const { kind: mode, message } = question;
  const args = question.kind === "url"
    ? { mode, message, url: question.url.href }
    : { mode, message, fields: question.fields.map(({ name }) => name) };
  return {
    kind: "elicitation",
    serverName: source.serverName,
    toolName: "elicitation/create",
    arguments: sealObject(toExact(args)),
    callId: source.callId,
  };
}
