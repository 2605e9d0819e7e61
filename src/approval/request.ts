import {
  type ExactObject,
  type JsonObject,
  sealObject,
  stringifyExact,
  toExact,
  toPlain,
} from "../json/exact.ts";
import type { ToolAnnotations } from "../mcp/tools.ts";
import { describeCall, requestId } from "./call_text.ts";
import { Question, type Refusal } from "./question_queue.ts";

/**
 * The subject of an approval request: a tool call, a shell command, a cell magic that runs a shell,
 * or a request for a resource, a prompt or a completion. Servers' questions (`"elicitation"`) are
 * only subject to policies: the person answers or declines them directly. Changes of the setup
 * (`"change"`), such as a server's registration, are only requested on the approval page.
 */
export type ApprovalKind =
  | "tool"
  | "shell"
  | "shell_magic"
  | "resource"
  | "elicitation"
  | "change";

/** Whether a call runs a shell command. Other calls may have an argument `cmd`, too. */
export function isShell({ kind }: { readonly kind: ApprovalKind }): boolean {
  return kind === "shell" || kind === "shell_magic";
}

/** A call that may need approval. Its arguments are frozen: exactly what is shown is sent. */
export interface ApprovalCall {
  /** The subject of the request. */
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
  /** The server's hints about the tool. */
  readonly annotations?: ToolAnnotations;
  /** The names of the arguments that the tool takes, if its server declares all of them. */
  readonly parameters?: ReadonlySet<string>;
  /** The tool call's id, which its progress events contain too. */
  readonly callId?: string;
  /** The server's unchecked display name for the tool. */
  readonly title?: string;
  /** The server's unchecked description of the tool. */
  readonly description?: string;
  /** The server that would be called. */
  readonly server?: CallServer;
  /** The calling line, according to the calling code. */
  readonly source?: CallSource;
  /** The changes that invalidated an earlier consent; absent if there are none. */
  readonly changes?: readonly string[];
  /** When it was first requested, if the code has repeated the request since. */
  readonly askedAt?: Date | undefined;
}

/** The server of a call. */
export interface CallServer {
  /**
   * How it is started or reached: its command line or URL, with `${VAR}` as registered and without
   * other values that may be secret.
   */
  readonly launch: string;
}

/**
 * The line of the running code that made the call. The text is the host's copy; the line number
 * comes from the code in the kernel, which may lie.
 */
export interface CallSource {
  /** The line's number, from 1. */
  readonly line: number;
  /** The line. */
  readonly text: string;
  /** The tools that the code names, such as `"github.create_issue"`. It may call others. */
  readonly names?: readonly string[];
  /** The whole code, from the host's copy; for long code, the beginning and its length. */
  readonly code?: string;
}

/**
 * How long a decision is remembered: until the requesting execution ends, until the tool server is
 * reset or stopped, or until `ipybox policy forget` removes it.
 */
export type RememberScope = "cell" | "session" | "always";

/**
 * The calls that a decision applies to: all calls of the tool, calls that match the request's
 * pattern, or calls with exactly these arguments.
 */
export type RememberMatch = "tool" | "pattern" | "arguments";

/** How to remember a decision. */
export interface Remember {
  /** How long to remember it. */
  readonly scope: RememberScope;
  /** The calls that it applies to. */
  readonly match: RememberMatch;
}

/** The answer to a request. */
export type ApprovalResponse =
  | {
    readonly accepted: true;
    /** The arguments to use: those of the request, or edited ones. */
    readonly arguments: ExactObject;
    /** How to remember the decision. */
    readonly remember?: Remember;
  }
  | (Refusal & {
    /** How to remember the decision. */
    readonly remember?: Remember;
  });

/** The reason that the calling code gets if an approver gave none. */
export const NO_REASON = "no reason was given";

/** Options of {@linkcode ApprovalRequest.accept}. */
export interface AcceptOptions {
  /** Arguments to use instead: anything that JSON can express and the tool's schema allows. */
  arguments?: Readonly<Record<string, unknown>>;
  /** Also allows later calls without asking. If arguments were edited, the edited ones are remembered. */
  remember?: Remember;
}

/** Options of {@linkcode ApprovalRequest.reject}. */
export interface RejectOptions {
  /** Also refuses later calls without asking. */
  remember?: Remember;
}

/** Options of {@linkcode ApprovalRequest} besides its call. */
export interface ApprovalRequestOptions {
  /** The request's id; by default random and bound to the call. */
  id?: string;
  /**
   * For how long a decision can be remembered.
   *
   * @default {[]} for this call only
   */
  scopes?: readonly RememberScope[];
  /** The pattern that a decision can be remembered for, in words. */
  pattern?: string | undefined;
  /** Returns the problem with edited arguments, if any. */
  check?: ((edited: ExactObject) => string | undefined) | undefined;
  /** Passes an answer on, for example to another process. Returns whether it came in time. */
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
  /** A unique random id that ends with a hash of the call. */
  override readonly id: string;
  /** The subject of the request. */
  readonly kind: ApprovalKind;
  /** The registered server; `"ipybox"` for shell commands. */
  readonly serverName: string;
  /**
   * The tool's name as the server knows it; `"shell"` or `"shell_magic"` for shell commands;
   * `"resources/read"`, `"prompts/get"` or `"completion/complete"` for resources.
   */
  readonly toolName: string;
  /** The arguments, frozen. Integers that a double cannot represent are `bigint`s. */
  readonly toolArgs: JsonObject;
  /** The arguments as the JSON text that is sent. */
  readonly argumentsJson: string;
  /** The server's hints about the tool, if any. They prove nothing. */
  readonly annotations: ToolAnnotations | undefined;
  /** The tool call's id, which its progress events contain too; absent for shell commands. */
  readonly callId: string | undefined;
  /** The server's unchecked display name for the tool. */
  readonly title: string | undefined;
  /** The server's unchecked description of the tool. */
  readonly description: string | undefined;
  /** The server that would be called; absent for shell commands. */
  readonly server: CallServer | undefined;
  /** The calling line, as reported by the calling code, which may lie. */
  readonly source: CallSource | undefined;
  /** The changes that invalidated an earlier consent; absent if there are none. */
  readonly changes: readonly string[] | undefined;
  /** When the call was first requested, if this is not the first time, as after a restart. */
  readonly askedAt: Date | undefined;
  /** For how long a decision can be remembered. */
  readonly scopes: readonly RememberScope[];
  /**
   * The calls that a decision with `match: "pattern"` applies to, such as "any `path` below
   * /data/reports (other arguments: any)"; absent if there is no such match. It contains texts of the
   * calling code.
   */
  readonly pattern: string | undefined;

  readonly #call: ApprovalCall;
  readonly #onAnswer: (answer: ApprovalResponse) => Promise<boolean>;
  readonly #check: (edited: ExactObject) => string | undefined;

  /**
   * Created by an {@linkcode ApprovalChannel} or an `ApprovalClient`; not for direct construction.
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
    this.toolArgs = toPlain(call.arguments);
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
    this.pattern = options.pattern;
  }

  /**
   * Allows the call.
   *
   * @param options Edited arguments, and how to remember the decision.
   * @returns Whether this decision counted: `false` after another one, or if it came too late.
   * @throws {TypeError} The edited arguments are not a JSON object or not allowed here, or the decision
   * cannot be remembered this way. The request stays undecided.
   */
  async accept(options: AcceptOptions = {}): Promise<boolean> {
    const { arguments: edited, remember } = options;
    const args = edited === undefined ? this.#call.arguments : this.#checked(edited);
    return await this.#answer({ accepted: true, arguments: args, ...this.#memory(remember) });
  }

  /**
   * Refuses the call. The calling code gets an exception with the reason.
   *
   * @param reason The reason, in words for the calling code.
   * @param options How to remember the decision.
   * @returns Whether this decision counted: `false` after another one, or if it came too late.
   * @throws {TypeError} The decision cannot be remembered this way. The request stays undecided.
   */
  async reject(reason = NO_REASON, options: RejectOptions = {}): Promise<boolean> {
    const type = "approval_rejected";
    return await this.#answer({
      accepted: false,
      type,
      reason,
      ...this.#memory(options.remember),
    });
  }

  /**
   * Withdraws the request, as when its call ends or nobody can be asked. An approver rejects instead.
   *
   * @param refusal The reason, and the error of the call.
   */
  override withdraw(refusal: Refusal): void {
    this.takeBack(refusal, refusal.reason);
  }

  /** The complete call as Python would write it, safe to print on a terminal. */
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
    const matches = ["tool", ...(this.pattern === undefined ? [] : ["pattern"]), "arguments"];
    if (!matches.includes(match)) {
      const fix = matches.map((known) => JSON.stringify(known)).join(" or ");
      throw new TypeError(`Unknown match ${JSON.stringify(match)}: use ${fix}`);
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
