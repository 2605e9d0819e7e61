import {
  type ExactJson,
  type ExactObject,
  isExactObject,
  isRawNumber,
  type JsonObject,
  sealObject,
  stringifyExact,
  toExact,
  toPlain,
} from "../json/exact.ts";

/**
 * What asks for approval: a tool call, a shell command, a cell magic that runs a shell, or a request
 * for a resource, a prompt or a completion.
 */
export type ApprovalKind = "tool" | "shell" | "shell_magic" | "resource";

/** What an MCP server says of a tool's nature. Hints of a server, which nobody has checked. */
export interface ToolAnnotations {
  /** A title for people. */
  readonly title?: string | undefined;
  /** The tool changes nothing. */
  readonly readOnlyHint?: boolean | undefined;
  /** The tool may destroy things. */
  readonly destructiveHint?: boolean | undefined;
  /** Calling twice does the same as calling once. */
  readonly idempotentHint?: boolean | undefined;
  /** The tool deals with the outside world. */
  readonly openWorldHint?: boolean | undefined;
}

/** A call that may need approval. Its arguments are frozen: what is shown is what is sent. */
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
  readonly annotations?: ToolAnnotations | undefined;
  /** The tool call's id, which events of its progress carry too. */
  readonly callId?: string | undefined;
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
  }
  | {
    readonly accepted: false;
    readonly type: RefusalType;
    /** Why, in words for the code that called. */
    readonly reason: string;
  };

/** Options of {@linkcode ApprovalRequest.accept}. */
export interface AcceptOptions {
  /** Arguments to use instead of those asked for. Anything that JSON can express. */
  arguments?: Readonly<Record<string, unknown>>;
}

/** What {@linkcode ApprovalRequest} needs beside its call. */
export interface ApprovalRequestOptions {
  /** The request's id; random by default. */
  id?: string;
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
export class ApprovalRequest {
  /** A random id, used once. */
  readonly id: string;
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
  /** Settles, and never rejects, once it is decided, expired or withdrawn. */
  readonly response: Promise<ApprovalResponse>;

  readonly #call: ApprovalCall;
  readonly #onAnswer: (answer: ApprovalResponse) => Promise<boolean>;
  readonly #answered = Promise.withResolvers<ApprovalResponse>();
  readonly #withdrawn = new AbortController();
  #decided = false;

  /**
   * Made by an {@linkcode ApprovalChannel} or an `ApprovalClient`, not by hand.
   *
   * @param call The call.
   * @param options Its id and where answers go.
   */
  constructor(call: ApprovalCall, options: ApprovalRequestOptions = {}) {
    this.#call = call;
    this.#onAnswer = options.onAnswer ?? (() => Promise.resolve(true));
    this.id = options.id ?? crypto.randomUUID();
    this.kind = call.kind;
    this.serverName = call.serverName;
    this.toolName = call.toolName;
    this.toolArgs = plainObject(call.arguments);
    this.argumentsJson = stringifyExact(call.arguments);
    this.annotations = call.annotations;
    this.callId = call.callId;
    this.response = this.#answered.promise;
  }

  /** Aborts when the request is taken back: it expired, or its call ended in another way. */
  get signal(): AbortSignal {
    return this.#withdrawn.signal;
  }

  /**
   * Allows the call.
   *
   * @param options Edited arguments.
   * @returns Whether this decision counted: `false` after another one, or when it came too late.
   * @throws {TypeError} The edited arguments are not a JSON object. The request stays undecided.
   */
  async accept(options: AcceptOptions = {}): Promise<boolean> {
    const edited = options.arguments;
    const args = edited === undefined ? this.#call.arguments : sealObject(toExact(edited));
    return await this.#answer({ accepted: true, arguments: args });
  }

  /**
   * Refuses the call. The code that called gets an exception with the reason.
   *
   * @param reason Why, in words for that code.
   * @returns Whether this decision counted: `false` after another one, or when it came too late.
   */
  async reject(reason = "Rejected"): Promise<boolean> {
    return await this.#answer({ accepted: false, type: "approval_rejected", reason });
  }

  /**
   * Takes the request back. For whoever made it: an approver rejects instead.
   *
   * @param refusal What becomes of the call.
   */
  withdraw(refusal: ApprovalResponse & { accepted: false }): void {
    if (this.#decided) return;
    this.#decided = true;
    this.#answered.resolve(refusal);
    this.#withdrawn.abort(new DOMException(refusal.reason, "AbortError"));
  }

  /** The call as Python would write it, all of it, safe to print on a terminal. */
  toString(): string {
    return describeCall(this.#call);
  }

  async #answer(answer: ApprovalResponse): Promise<boolean> {
    if (this.#decided) return false;
    this.#decided = true;
    this.#answered.resolve(answer); // whoever waits need not wait for the delivery
    return await this.#onAnswer(answer);
  }
}

/**
 * Writes a call as Python would, all of it, with whatever could fool a terminal or a reader escaped.
 *
 * @param call The call.
 * @returns One line, such as `fs.write_file(path='a.txt', content='hi')`.
 */
export function describeCall(call: ApprovalCall): string {
  const named: string[] = [];
  const others: string[] = [];
  for (const [name, value] of Object.entries(call.arguments)) {
    if (IDENTIFIER.test(name)) named.push(`${name}=${literal(value)}`);
    else others.push(`${quote(name)}: ${literal(value)}`);
  }
  if (others.length > 0) named.push(`**{${others.join(", ")}}`);
  return `${plainName(call.serverName)}.${plainName(call.toolName)}(${named.join(", ")})`;
}

function plainName(name: string): string {
  return PLAIN_NAME.test(name) ? name : quote(name);
}

const IDENTIFIER = /^[A-Za-z_][A-Za-z0-9_]*$/;
const PLAIN_NAME = /^[A-Za-z0-9_./:-]+$/;
/** Quotes, backslashes, and all that is invisible or moves the cursor or turns the direction. */
const ESCAPED = /['\\]|[\p{C}\p{Zl}\p{Zp}]/gu;

function literal(value: ExactJson): string {
  if (value === null) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (typeof value === "string") return quote(value);
  if (typeof value === "number") return String(value);
  if (isRawNumber(value)) return value.rawJSON;
  if (isExactObject(value)) {
    const items = Object.entries(value).map(([name, inner]) => `${quote(name)}: ${literal(inner)}`);
    return `{${items.join(", ")}}`;
  }
  return Array.isArray(value) ? `[${value.map(literal).join(", ")}]` : "";
}

function quote(text: string): string {
  return `'${text.replace(ESCAPED, escapeCharacter)}'`;
}

function escapeCharacter(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  if (character === "'" || character === "\\") return `\\${character}`;
  if (character === "\n") return "\\n";
  if (character === "\r") return "\\r";
  if (character === "\t") return "\\t";
  if (code < 0x100) return `\\x${code.toString(16).padStart(2, "0")}`;
  if (code < 0x10000) return `\\u${code.toString(16).padStart(4, "0")}`;
  return `\\U${code.toString(16).padStart(8, "0")}`;
}

function plainObject(args: ExactObject): JsonObject {
  const plain = toPlain(args);
  return typeof plain === "object" && plain !== null && !Array.isArray(plain)
    ? plain as JsonObject // Array.isArray() does not narrow readonly arrays
    : {};
}
