import { describeCall } from "../approval/call_text.ts";
import type { ApprovalChannel } from "../approval/channel.ts";
import { Consents } from "../approval/consents.ts";
import { ApprovalGate, type AuthorizeOptions } from "../approval/gate.ts";
import type { ApprovalPolicy } from "../approval/policy.ts";
import type { ElicitationSource } from "../approval/questions.ts";
import type { ApprovalCall, CallSource } from "../approval/request.ts";
import { redactArguments } from "../approval/audit/redact.ts";
import { type ExactObject, isExactObject, sealObject, toExact } from "../json/exact.ts";
import type { Logger } from "../base/log.ts";
import { checkArguments } from "../mcp/arguments_check.ts";
import { type CatalogMethod, checkCatalogParams } from "../mcp/catalog.ts";
import type { ElicitationQuestion } from "../mcp/questions.ts";
import type { Tool } from "../mcp/tools.ts";
import type { ServerParams } from "../mcp/params.ts";
import type { ConsentFile } from "../approval/rules/consent_file.ts";
import { launchText, serverFacets, toolFacets } from "../servers/facets.ts";

/** What {@linkcode Approvals} are made of. */
export interface ApprovalsOptions {
  /** Says which calls need asking. */
  readonly policy: ApprovalPolicy;
  /** Where they are asked about. */
  readonly channel: ApprovalChannel;
  /** Keeps the decisions that count always; without it none does. */
  readonly consentFile: ConsentFile | undefined;
  /** Told what cannot be remembered. */
  readonly log: Logger;
}

/** What withdraws a request, and who is told of the decision. */
export type DecisionOptions = Pick<AuthorizeOptions, "signal" | "onDecision">;

/** More of a description than a person would read. */
const MAX_DESCRIPTION = 20_000;
/** More of a line than helps to find it. */
const MAX_LINE = 500;
/** Of more lines than people write, only the first ones are found. */
const MAX_LINES = 100_000;

/** Decides on calls: what is shown of each, what a decision is bound to, and how edits are checked. */
export class Approvals {
  readonly #policy: ApprovalPolicy;
  readonly #gate: ApprovalGate;
  readonly #consents: Consents;
  #code: string | undefined;
  /** Where the lines of the code start, found once: each request names a line. */
  #lineStarts: readonly number[] | undefined;

  /** @param options The policy, the channel, and what is remembered. */
  constructor(options: ApprovalsOptions) {
    const { policy, channel, consentFile, log } = options;
    this.#policy = policy;
    this.#consents = new Consents({
      store: consentFile,
      describe: (call) => {
        const args = redactArguments(call.arguments, { names: policy.redact });
        return describeCall({ ...call, arguments: isExactObject(args) ? args : {} });
      },
      log,
    });
    this.#gate = new ApprovalGate(policy, channel, this.#consents);
  }

  /** Refuses a call that the policy denies whatever else is known of it. */
  refuseDenied(call: ApprovalCall, onDecision: AuthorizeOptions["onDecision"]): void {
    this.#gate.refuseDenied(call, onDecision);
  }

  /** Decides a tool call. */
  async authorizeTool(
    call: ApprovalCall,
    target: { readonly params: ServerParams; readonly tool: Tool | undefined },
    options: DecisionOptions,
  ): Promise<ExactObject> {
    const { params, tool } = target;
    return await this.#gate.authorize({
      ...call,
      annotations: tool?.annotations,
      title: tool?.title ?? tool?.annotations?.title,
      description: tool && shortened(tool.description, MAX_DESCRIPTION),
      server: { launch: launchText(params) },
    }, {
      ...options,
      facets: () => [...serverFacets(params), ...toolFacets(tool)],
      check: (edited) => tool && checkArguments(tool.inputSchema, edited),
    });
  }

  /** Decides a request for a resource, a prompt or a completion. */
  async authorizeCatalog(
    call: ApprovalCall,
    target: { readonly params: ServerParams; readonly method: CatalogMethod },
    options: DecisionOptions,
  ): Promise<ExactObject> {
    const { params, method } = target;
    return await this.#gate.authorize({ ...call, server: { launch: launchText(params) } }, {
      ...options,
      facets: () => serverFacets(params),
      check: (edited) => problemOf(() => checkCatalogParams(method, edited)),
    });
  }

  /** Decides a shell command. */
  async authorizeShell(call: ApprovalCall, options: DecisionOptions): Promise<ExactObject> {
    return await this.#gate.authorize(call, options);
  }

  /** Decides whether a server is started that the person has not registered. */
  async authorizeStart(call: ApprovalCall, options: DecisionOptions): Promise<void> {
    const check = () => "it is started as it is registered, or not at all";
    await this.#gate.authorize(call, { ...options, check });
  }

  /** Tells whether a server's question is to be declined without asking. */
  refusalOf(source: ElicitationSource, question: ElicitationQuestion): string | undefined {
    const { mode, reason } = this.#policy.decide(questionCall(source, question));
    return mode === "deny" ? reason ?? "Denied by the approval policy" : undefined;
  }

  /** Begins an execution. */
  enterCell(code: string): Disposable {
    this.#code = code;
    this.#lineStarts = undefined;
    const cell = this.#consents.enterCell();
    return {
      [Symbol.dispose]: () => {
        this.#code = undefined;
        this.#lineStarts = undefined;
        cell[Symbol.dispose]();
      },
    };
  }

  /** Gives a line of the code that is executed. */
  sourceAt(line: number): CallSource | undefined {
    if (this.#code === undefined) return undefined;
    this.#lineStarts ??= lineStarts(this.#code);
    const [start, next] = [this.#lineStarts[line - 1], this.#lineStarts[line]];
    if (start === undefined || next === undefined) return undefined;
    const length = next - 1 - start;
    const text = this.#code.slice(start, start + Math.min(length, MAX_LINE));
    return { line, text: length > MAX_LINE ? `${text}… (${length} characters)` : text };
  }

  /** Forgets what was decided for the session, and reads again what counts always. */
  async reset(): Promise<void> {
    await this.#consents.reset();
  }
}

/** A server's question as policies see it. */
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

/** Where each line starts, and where one would start after the last. */
function lineStarts(code: string): number[] {
  const starts = [0];
  while (starts.length <= MAX_LINES) {
    const end = code.indexOf("\n", starts.at(-1));
    if (end < 0) {
      starts.push(code.length + 1);
      break;
    }
    starts.push(end + 1);
  }
  return starts;
}

function shortened(text: string | undefined, max: number): string | undefined {
  if (text === undefined || text.length <= max) return text;
  return `${text.slice(0, max)}… (${text.length} characters)`;
}

function problemOf(check: () => unknown): string | undefined {
  try {
    check();
    return undefined;
  } catch (error) {
    if (error instanceof TypeError) return error.message;
    throw error;
  }
}
