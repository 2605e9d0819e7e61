import {
  type ExactObject,
  type JsonObject,
  sealObject,
  stringifyExact,
  toExact,
  toPlain,
} from "../json/exact.ts";
import { describeCall, requestId } from "./call_text.ts";
import { Question } from "./desk.ts";

/**
 * What asks for approval: a tool call, a shell command, a cell magic that runs a shell, or a request
 * for a resource, a prompt or a completion. The question of a server (`"elicitation"`) is only judged
 * by policies: the person who is asked answers it or declines. A change of the setup (`"change"`), such as a
 * server's registration, is only asked about on the approval page.
 */
export type ApprovalKind =
  | "tool"
  | "shell"
  | "shell_magic"
  | "resource"
  | "elicitation"
  | "change";

/** What an MCP server says of a tool's nature. Hints of a server, which nobody has checked. */
export interface ToolAnnotations {
  /** A title for people. */
  readonly title?: string;
  /** The tool changes nothing. */
  readonly readOnlyHint?: boolean;
  /** The tool may destroy things. */
  readonly destructiveHint?: boolean;
  /** Calling twice does the same as calling once. */
  readonly idempotentHint?: boolean;
  /** The tool deals with the outside world. */
  readonly openWorldHint?: boolean;
}

/** A call that may need approval. Its arguments are frozen: exactly what is shown is sent. */
export interface ApprovalCall {
  /** What asks. */
  readonly kind: ApprovalKind;
  /** The registered server; `"ipybox"` for shell commands. */
  readonly serverName: string;
  /**
   * The tool's name as the server knows it; `"shell"` or `"shell_magic"` for shell commands;
   * `"resources/read"`, `"prompts/get"` or `"completion/complete"` for resources.
   */
  readonly toolName: string;
  /** The arguments, sealed. */
  readonly arguments: ExactObject;
  /** What the server says of the tool. */
  readonly annotations?: ToolAnnotations;
  /** The tool call's id, which events of its progress carry too. */
  readonly callId?: string;
  /** What the server calls the tool for people. Its text, which nobody has checked. */
  readonly title?: string;
  /** What the server says of the tool. Its text, which nobody has checked. */
  readonly description?: string;
  /** The server that would be called. */
  readonly server?: CallServer;
  /** The calling line, if the calling code tells the truth. */
  readonly source?: CallSource;
  /** The changes that made an earlier consent lapse; absent if there are none. */
  readonly changes?: readonly string[];
  /** When it was first asked about, where that was before: the code has asked again since. */
  readonly askedAt?: Date | undefined;
}

/** The server of a call. */
export interface CallServer {
  /**
   * How it is started or reached: its command line or its URL, with `${VAR}` as it was registered and
   * other values that may be secret left out.
   */
  readonly launch: string;
}

/**
 * The line of the running code that called. The text is the host's own copy; which line it is, the
 * code in the kernel says, and may lie.
 */
export interface CallSource {
  /** The line's number, from 1. */
  readonly line: number;
  /** The line. */
  readonly text: string;
  /**
   * The tools that the whole code names, such as `"github.create_issue"`: what it says of itself. It
   * may call others.
   */
  readonly names?: readonly string[];
  /** The whole code, the host's own copy. Of long code, the beginning and its length. */
  readonly code?: string;
}

/**
 * How long a decision counts: until the execution that asked ends, until the tool server is reset or
 * stopped, or until it is taken back by `ipybox policy forget`.
 */
export type RememberScope = "cell" | "session" | "always";

/** What a decision counts for: each call of the tool, or only calls with exactly these arguments. */
export type RememberMatch = "tool" | "arguments";

/** How a decision is remembered. */
export interface Remember {
  /** How long. */
  readonly scope: RememberScope;
  /** For which calls. */
  readonly match: RememberMatch;
}

/** Why a call was refused: by a decision, by time, for want of an approver, or by its own end. */
export type RefusalType =
  | "approval_rejected"
  | "approval_timeout"
  | "approval_unavailable"
  | "cancelled";

/** How a request was answered. */
export type ApprovalResponse =
  | {
    readonly accepted: true;
    /** The arguments to use: those of the request, or edited ones. */
    readonly arguments: ExactObject;
    /** How the decision is remembered. */
    readonly remember?: Remember;
  }
  | {
    readonly accepted: false;
    readonly type: RefusalType;
    /** Why, in words for the code that called. */
    readonly reason: string;
    /** How the decision is remembered. */
    readonly remember?: Remember;
  };

/** A call that is refused, and why. */
export type Refusal = ApprovalResponse & { readonly accepted: false };

/** Options of {@linkcode ApprovalRequest.accept}. */
export interface AcceptOptions {
  /**
   * Arguments to use instead of those asked for: anything that JSON can express and the tool's schema
   * allows.
   */
  arguments?: Readonly<Record<string, unknown>>;
  /** Also allows later calls without asking. If arguments were edited, the edited ones are remembered. */
  remember?: Remember;
}

/** Options of {@linkcode ApprovalRequest.reject}. */
export interface RejectOptions {
  /** Refuses later calls too, without asking. */
  remember?: Remember;
}

/** What {@linkcode ApprovalRequest} needs in addition to its call. */
export interface ApprovalRequestOptions {
  /** The request's id; by default one that is random and bound to the call. */
  id?: string;
  /**
   * How long a decision can be remembered.
   *
   * @default {[]} for this call only
   */
  scopes?: readonly RememberScope[];
  /** Returns the problem with edited arguments, if any. */
  check?: ((edited: ExactObject) => string | undefined) | undefined;
  /** Carries an answer on, such as to another process. Returns whether it came in time. */
  onAnswer?: (answer: ApprovalResponse) => Promise<boolean>;
}

/**
 * A call that waits for a decision. The first decision counts; later ones change nothing.
 *
 * @example
 * ```ts
 * import type { ApprovalRequest } from "@ipybox/ipybox";
 *
 * async function decide(request: ApprovalRequest): Promise<void> {
 *   console.error(`${request}`); // github.search_repositories(query='ipybox')
 *   if (request.annotations?.readOnlyHint) await request.accept();
 *   else await request.reject("only reading is allowed here");
 * }
 * ```
 */
export class ApprovalRequest extends Question<ApprovalResponse> {
  /** A random id, used once, that ends with a hash of the call. */
  override readonly id: string;
  /** What asks. */
  readonly kind: ApprovalKind;
  /** The registered server; `"ipybox"` for shell commands. */
  readonly serverName: string;
  /**
   * The tool's name as the server knows it; `"shell"` or `"shell_magic"` for shell commands;
   * `"resources/read"`, `"prompts/get"` or `"completion/complete"` for resources.
   */
  readonly toolName: string;
  /** The arguments, frozen. An integer that no double holds is a `bigint`. */
  readonly toolArgs: JsonObject;
  /** The arguments as the JSON text that is sent. */
  readonly argumentsJson: string;
  /** What the server says of the tool, if it says anything. Hints, never proof. */
  readonly annotations: ToolAnnotations | undefined;
  /** The tool call's id, which events of its progress carry too; absent for shell commands. */
  readonly callId: string | undefined;
  /** What the server calls the tool for people. Its text, which nobody has checked. */
  readonly title: string | undefined;
  /** What the server says of the tool. Its text, which nobody has checked. */
  readonly description: string | undefined;
  /** The server that would be called; absent for shell commands. */
  readonly server: CallServer | undefined;
  /** The line that called. A hint of the code that calls, never proof. */
  readonly source: CallSource | undefined;
  /** The changes that made an earlier consent lapse; absent if there are none. */
  readonly changes: readonly string[] | undefined;
  /** When the call was first asked about, if this is not the first time, as after a restart. */
  readonly askedAt: Date | undefined;
  /** How long a decision can be remembered. */
  readonly scopes: readonly RememberScope[];

  readonly #call: ApprovalCall;
  readonly #onAnswer: (answer: ApprovalResponse) => Promise<boolean>;
  readonly #check: (edited: ExactObject) => string | undefined;

  /**
   * Made by an {@linkcode ApprovalChannel} or an `ApprovalClient`; not for direct construction.
   *
   * @param call The call.
   * @param options Its id, and the recipient of the answer.
   */
  constructor(call: ApprovalCall, options: ApprovalRequestOptions = {}) {
    super();
    this.#call = call;
    this.#onAnswer = options.onAnswer ?? (() => Promise.resolve(true));
    this.#check = options.check ?? (() => undefined);
    this.id = options.id ?? requestId(call);
    this.kind = call.kind;
    this.serverName = call.serverName;
    this.toolName = call.toolName;
    this.toolArgs = plainObject(call.arguments);
    this.argumentsJson = stringifyExact(call.arguments);
    this.annotations = call.annotations;
    this.callId = call.callId;
    this.title = call.title;
    this.description = call.description;
    this.server = call.server;
    this.source = call.source;
    this.changes = call.changes;
    this.askedAt = call.askedAt;
    this.scopes = options.scopes ?? [];
  }

  /**
   * Allows the call.
   *
   * @param options Edited arguments, and how the decision is remembered.
   * @returns Whether this decision counted: `false` after another one, or when it came too late.
   * @throws {TypeError} The edited arguments are not a JSON object or do not match the tool's schema, or the
   * decision cannot be remembered so. The request stays undecided.
   */
  async accept(options: AcceptOptions = {}): Promise<boolean> {
    const { arguments: edited, remember } = options;
    const args = edited === undefined ? this.#call.arguments : this.#checked(edited);
    return await this.#answer({ accepted: true, arguments: args, ...this.#memory(remember) });
  }

  /**
   * Refuses the call. The code that called gets an exception with the reason.
   *
   * @param reason Why, in words for that code.
   * @param options How the decision is remembered.
   * @returns Whether this decision counted: `false` after another one, or when it came too late.
   * @throws {TypeError} The decision cannot be remembered so. The request stays undecided.
   */
  async reject(reason = "no reason was given", options: RejectOptions = {}): Promise<boolean> {
    const type = "approval_rejected";
    return await this.#answer({
      accepted: false,
      type,
      reason,
      ...this.#memory(options.remember),
    });
  }

  /**
   * Takes the request back. Only the code that asked does this; an approver rejects instead.
   *
   * @param refusal What becomes of the call.
   */
  override withdraw(refusal: Refusal): void {
    this.takeBack(refusal, refusal.reason);
  }

  /** The call as Python would write it, all of it, safe to print on a terminal. */
  override toString(): string {
    return describeCall(this.#call);
  }

  #checked(edited: Readonly<Record<string, unknown>>): ExactObject {
    const args = sealObject(toExact(edited));
    const problem = this.#check(args);
    if (problem === undefined) return args;
    const name = `${this.serverName}.${this.toolName}`;
    throw new TypeError(`Invalid arguments for ${name}: ${problem}`);
  }

  #memory(remember: Remember | undefined): { remember?: Remember } {
    if (remember === undefined) return {};
    const { scope, match } = remember;
    if (match !== "tool" && match !== "arguments") {
      throw new TypeError(`Unknown match ${JSON.stringify(match)}: use "tool" or "arguments"`);
    }
    if (this.scopes.includes(scope)) return { remember: { scope, match } };
    const fix = this.scopes.length === 0
      ? "it applies to this call only"
      : `use ${this.scopes.join(", ")}`;
    throw new TypeError(`Cannot remember this decision for ${JSON.stringify(scope)}: ${fix}`);
  }

  async #answer(answer: ApprovalResponse): Promise<boolean> {
    // The response settles before its delivery.
    return this.settle(answer) && await this.#onAnswer(answer);
  }
}

function plainObject(args: ExactObject): JsonObject {
  const plain = toPlain(args);
  return typeof plain === "object" && plain !== null && !Array.isArray(plain)
    ? plain as JsonObject // Array.isArray() does not narrow readonly arrays
    : {};
}
