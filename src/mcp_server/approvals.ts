/**
 * Approvals as MCP elicitations: the forms for the client's user, and the meaning of the answers.
 *
 * One mechanism serves both protocol eras: a tool returns forms and is called again with the answers.
 * In the older era, the SDK asks the client while the request is open.
 */
import { z } from "zod";
import { ElicitationRequest } from "../approval/questions.ts";
import type { PersonRequest } from "../approval/wire.ts";
import { callLines, callOf, foreignBlock, visible, visibleCode } from "../approval/call_text.ts";
import { type ApprovalRequest, isShell } from "../approval/request.ts";
import { elicitationAnswer, type FormField } from "../mcp/questions.ts";
import { Deadline } from "../base/deadline.ts";
import type { CellDecision, CellRun } from "./cell_run.ts";
import {
  acceptedContent,
  createRequestStateCodec,
  type ElicitForm,
  type InputRequests,
  inputRequired,
  type InputRequiredResult,
  type RequestStateCodec,
  type ServerContext,
  type ServerOptions,
} from "./sdk.ts";
import { defined } from "../json/plain.ts";

/** The signed state that travels to the client and back. */
interface RoundState {
  readonly round?: string;
  readonly isLeft?: boolean;
  readonly change?: string;
  /** When the client was asked. */
  readonly askedAt?: number;
}

const confirmation = z.object({
  decision: z.enum(["allow", "deny"]).meta({ default: "allow" }),
});

/** How long a cell waits for the client to come back with answers. */
const ANSWER_TIMEOUT_MS = 10 * 60_000;
/** How long a form stays open once its client requests another cell: it was most likely closed. */
export const ABANDONED_MS = 30_000;
/** No person reads and refuses a question faster, so such a client has nobody to ask. */
const FASTEST_PERSON_MS = 400;
/** How many questions are asked at once; more would overwhelm a person. */
const MAX_AT_ONCE = 10;
/** Once questions exceed this many characters in total, no more are added. */
const MAX_TOGETHER = 512 * 1024;

/** The part of a cell that rounds use. */
export type AskingCell = Pick<
  CellRun,
  "code" | "decide" | "answer" | "moveToPage" | "cancel"
>;

/** The part of a client's request that rounds use. */
export interface RoundRequest {
  readonly mcpReq: Pick<
    ServerContext["mcpReq"],
    "envelope" | "inputResponses" | "requestState" | "signal"
  >;
}

/** A cell whose questions went to the client. */
interface Round<Cell> {
  readonly run: Cell;
  /** The requests that the user was shown; later ones are asked next. */
  readonly shown: readonly PersonRequest[];
  /** Whether the client's request is still open, so that its cancellation is noticed. */
  readonly isOpen: boolean;
  /** Whether the cell continues without answers and can be waited for again. */
  readonly isLeft: boolean;
  expiry: Deadline;
}

/** The cells that wait for the client's user. */
export class ElicitationRounds<Cell extends AskingCell = CellRun> implements Disposable {
  readonly #rounds = new Map<string, Round<Cell>>();
  readonly #codec: RequestStateCodec<RoundState> = createRequestStateCodec<RoundState>({
    key: crypto.getRandomValues(new Uint8Array(32)),
    ttlSeconds: ANSWER_TIMEOUT_MS / 1000,
  });

  /** The rounds' options for the SDK's server. */
  get serverOptions(): Pick<ServerOptions, "requestState" | "inputRequired"> {
    return {
      requestState: { verify: this.#codec.verify },
      // A cell may well need more than the default of 8 rounds.
      inputRequired: { maxRounds: 10_000, roundTimeoutMs: ANSWER_TIMEOUT_MS },
    };
  }

  /** Takes the answers in a request, and returns the cell that it continues. */
  async resume(ctx: RoundRequest): Promise<Cell | undefined> {
    const { round: id, isLeft, askedAt } = ctx.mcpReq.requestState<RoundState>() ?? {};
    if (id === undefined) return undefined;
    const round = this.#rounds.get(id);
    if (round === undefined) {
      throw new Error(
        isLeft
          ? "The approvals were not answered in time: call wait_for_cell again"
          : "The cell was stopped because its approvals were not answered in time: run it again",
      );
    }
    const { run, shown } = round;
    this.#forget(id);
    await takeAnswers(run, shown, { given: ctx.mcpReq.inputResponses, askedAt });
    return run;
  }

  /**
   * Called before a new cell starts: it replaces a waiting cell with the same code, and shortens
   * the time of others without an open request.
   */
  onNewCell(code: string): void {
    for (const [id, round] of this.#rounds) {
      if (round.isOpen || round.isLeft) continue;
      if (round.run.code === code) this.#drop(id);
      else {
        round.expiry[Symbol.dispose]();
        round.expiry = new Deadline(ABANDONED_MS, { onPassed: () => this.#drop(id) });
      }
    }
  }

  /** Asks the questions of a cell. */
  async ask(
    run: Cell,
    requests: readonly PersonRequest[],
    { ctx, isLeft = false }: { readonly ctx: RoundRequest; readonly isLeft?: boolean },
  ): Promise<InputRequiredResult> {
    const { shown, inputRequests } = formsOf(requests);
    // In the older era the request stays open while the client asks, and may be cancelled meanwhile; in
    // the newer era it ends here.
    const isOpen = ctx.mcpReq.envelope === undefined;
    const id = crypto.randomUUID();
    const expiry = new Deadline(ANSWER_TIMEOUT_MS, { onPassed: () => this.#drop(id) });
    this.#rounds.set(id, { run, shown, isOpen, isLeft, expiry });
    if (isOpen) {
      ctx.mcpReq.signal.addEventListener("abort", () => this.#drop(id), { once: true });
    }
    return inputRequired({
      inputRequests,
      requestState: await this.#codec.mint({ round: id, isLeft, askedAt: Date.now() }),
    });
  }

  /** Asks for the approval of a change, exactly as requested. */
  async confirm(
    description: string,
    ctx: RoundRequest,
  ): Promise<InputRequiredResult | boolean | "unasked"> {
    const { change, askedAt } = ctx.mcpReq.requestState<RoundState>() ?? {};
    // The state is signed, so the answer applies exactly to the request that was shown.
    if (change === description) {
      if (isUnasked(ctx.mcpReq.inputResponses?.confirm, askedAt)) return "unasked";
      const answer = acceptedContent(ctx.mcpReq.inputResponses, "confirm", confirmation);
      return answer?.decision === "allow";
    }
    const confirm = inputRequired.elicit({ message: description, requestedSchema: confirmation });
    return inputRequired({
      inputRequests: { confirm },
      requestState: await this.#codec.mint({ change: description, askedAt: Date.now() }),
    });
  }

  [Symbol.dispose](): void {
    for (const id of this.#rounds.keys()) this.#drop(id);
  }

  /** Cancels a cell that still waits for the client, unless it can be waited for again. */
  #drop(id: string): void {
    const round = this.#forget(id);
    if (round === undefined || round.isLeft) return; // it has continued already, or will
    round.run.cancel();
  }

  #forget(id: string): Round<Cell> | undefined {
    const round = this.#rounds.get(id);
    round?.expiry[Symbol.dispose]();
    this.#rounds.delete(id);
    return round;
  }
}

/** The forms of the first requests: as many as a person can review at once. */
export function formsOf(
  requests: readonly PersonRequest[],
): { readonly shown: readonly PersonRequest[]; readonly inputRequests: InputRequests } {
  const shown: PersonRequest[] = [];
  const inputRequests: InputRequests = {};
  let size = 0;
  for (const request of requests) {
    if (size > MAX_TOGETHER || shown.length === MAX_AT_ONCE) break;
    const form = formOf(request);
    inputRequests[request.id] = form;
    shown.push(request);
    size += JSON.stringify(form).length;
  }
  return { shown, inputRequests };
}

/** The form of a request, cached: clients poll, and large forms are slow to build. */
function formOf(request: PersonRequest): InputRequests[string] {
  return forms.getOrInsertComputed(
    request,
    () => request instanceof ElicitationRequest ? questionForm(request) : approvalForm(request),
  );
}

const forms = new WeakMap<PersonRequest, InputRequests[string]>();

/** A client's answers to the forms that it was sent. */
interface GivenAnswers {
  readonly given: RoundRequest["mcpReq"]["inputResponses"];
  /** When it received the forms. */
  readonly askedAt: number | undefined;
}

/** Passes the answers to a cell. Requests about which nobody was asked move to the approval page. */
export async function takeAnswers(
  run: AskingCell,
  shown: readonly PersonRequest[],
  { given, askedAt }: GivenAnswers,
): Promise<void> {
  for (const request of shown) {
    const response = given?.[request.id];
    if (request instanceof ElicitationRequest) {
      const { data: answer = { action: "cancel" as const } } = elicitationAnswer.safeParse(
        response,
      );
      // A person who dismisses a server's form has answered, if there was time to read it.
      if (answer.action !== "accept" && isTooFast(askedAt)) run.moveToPage(request, true);
      else run.answer(request, answer);
    } else if (isUnasked(response, askedAt)) run.moveToPage(request, true);
    else {
      const answer = acceptedContent(given, request.id, decisionForm(request));
      await run.decide(request, decisionsOn(request).get(answer?.decision ?? "deny") ?? "deny");
    }
  }
}

/** Whether a client answered without its user: it cancelled, or declined faster than one reads. */
function isUnasked(response: unknown, askedAt: number = Date.now()): boolean {
  const { data } = elicitationAnswer.safeParse(response);
  if (data === undefined || data.action === "cancel") return true;
  return data.action === "decline" && isTooFast(askedAt);
}

function isTooFast(askedAt: number = Date.now()): boolean {
  return Date.now() - askedAt < FASTEST_PERSON_MS;
}

function approvalForm(request: ApprovalRequest): InputRequests[string] {
  const { kind, source, changes = [], server } = request;
  const isChange = kind === "change";
  const subject = isShell(request) ? "shell command" : kind === "tool" ? "tool call" : "request";
  const about = (label: string, lines: readonly string[]) =>
    lines.length === 0 ? [] : [label, foreignBlock(lines)];
  const message = [
    ...about(`Allow this ${subject}?`, callLines(callOf(request))),
    ...about(
      "What changes:",
      isChange ? (request.description ?? "").split("\n").filter((line) => line !== "") : [],
    ),
    ...about(`Line ${source?.line} of the code:`, source ? [visibleCode(source.text)] : []),
    ...about("The whole code names:", source?.names ? [source.names.join(", ")] : []),
    ...about("Server:", server ? [server.launch] : []),
    ...about("Changed since it was allowed:", changes),
  ].join("\n\n");
  return inputRequired.elicit({ message, requestedSchema: decisionForm(request) });
}

/**
 * The choices of a form. Remembered decisions apply to any arguments of a tool, or to one command.
 */
function decisionsOn(request: ApprovalRequest): ReadonlyMap<string, CellDecision> {
  const { kind, scopes } = request;
  const calls = kind === "tool"
    ? "this tool with any arguments"
    : `exactly this ${isShell(request) ? "command" : "request"}`;
  const remembered = ["cell", "session"] as const;
  return new Map([
    ["allow once", "once"],
    ...remembered.filter((scope) => scopes.includes(scope))
      .map((scope) => [`allow ${calls} in this ${scope}`, scope] as const),
    ["deny", "deny"],
  ]);
}

function decisionForm(
  request: ApprovalRequest,
): z.ZodObject<{ decision: z.ZodEnum<Readonly<Record<string, string>>> }> {
  const words = [...decisionsOn(request).keys()];
  // The most common choice is preselected; submitting the form is still a deliberate act.
  return z.object({ decision: z.enum(words).meta({ default: words[0] }) });
}

function questionForm({ serverName, question }: ElicitationRequest): InputRequests[string] {
  const words = foreignBlock(question.message.split("\n"));
  const message = `The MCP server "${serverName}" asks:\n\n${words}`;
  switch (question.kind) {
    case "url":
      return inputRequired.elicitUrl({ message, url: question.url.href });
    case "form":
      return inputRequired.elicit({ message, requestedSchema: formSchema(question.fields) });
  }
}

type FormSchema = ElicitForm["requestedSchema"];
type FieldSchema = FormSchema["properties"][string];

/** A server's form for the client: only the checked parts, as clients of all versions spell them. */
function formSchema(fields: readonly FormField[]): FormSchema {
  return {
    type: "object",
    properties: Object.fromEntries(
      fields.map((field) => [field.name, defined(fieldSchema(field))]),
    ),
    required: fields.filter(({ required }) => required).map(({ name }) => name),
  };
}

function fieldSchema(field: FormField): FieldSchema {
  const { description } = field;
  const base = { title: visible(field.title), description: description && visible(description) };
  switch (field.type) {
    case "text": {
      const { minLength, maxLength, format } = field;
      // Many clients show it unescaped.
      const isVisible = field.default !== undefined && visible(field.default) === field.default;
      const preset = isVisible ? field.default : undefined;
      return { type: "string", ...base, minLength, maxLength, format, default: preset };
    }
    case "number":
    case "integer": {
      const { type, minimum, maximum } = field;
      return { type, ...base, minimum, maximum, default: field.default };
    }
    case "boolean":
      return { type: "boolean", ...base, default: field.default };
    case "choice":
      return {
        type: "string",
        ...base,
        enum: field.options.map(({ value }) => value),
        enumNames: field.options.map(({ title }) => visible(title)),
        default: field.options.find(({ value }) => value === field.default)?.value,
      };
    case "choices": {
      const { minItems, maxItems, options } = field;
      return {
        type: "array",
        ...base,
        items: {
          anyOf: options.map(({ value, title }) => ({ const: value, title: visible(title) })),
        },
        minItems,
        maxItems,
        default: field.default?.filter((preset) => options.some(({ value }) => value === preset)),
      };
    }
  }
}
