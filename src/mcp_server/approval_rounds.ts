/**
 * Approvals as MCP elicitations: what is asked of the client's user, and what the answers mean.
 *
 * One mechanism serves both protocol eras: a tool returns what it needs to know and is called again
 * with the answers. In the older era the SDK asks the client meanwhile.
 *
 * @module
 */
import { z } from "zod";
import type { ApprovalMode } from "../approval/policy.ts";
import type { ApprovalRequest } from "../approval/request.ts";
import type { CellRun } from "./cell_run.ts";
import {
  acceptedContent,
  CLIENT_CAPABILITIES_META_KEY,
  createRequestStateCodec,
  type InputRequests,
  inputRequired,
  type InputRequiredResult,
  type RequestStateCodec,
  type SdkMcpServer,
  type ServerContext,
  type ServerOptions,
} from "./sdk.ts";

/** What travels to the client and back, signed. */
interface RoundState {
  readonly run?: string;
  readonly registration?: string;
}

const once = z.object({ decision: z.enum(["allow", "deny"]) });
const forCell = z.object({
  decision: z.enum(["allow once", "allow this tool in this cell", "deny"]),
});

/** The part of the capabilities that each request of the newer era carries. */
const declaredElicitation = z.object({ elicitation: z.record(z.string(), z.unknown()).optional() });

/** How long a cell whose approvals went to the client waits to be asked for again. */
const ANSWER_TIMEOUT_MS = 10 * 60_000;

/** A cell whose approvals went to the client. */
interface Round {
  readonly run: CellRun;
  /** The requests that the user was shown. Those that have come since are asked for next. */
  readonly shown: readonly string[];
  readonly expiry: ReturnType<typeof setTimeout>;
}

/** The cells that wait for approvals, and the words in which these are asked for. */
export class ApprovalRounds implements Disposable {
  readonly #rounds = new Map<string, Round>();
  readonly #codec: RequestStateCodec<RoundState> = createRequestStateCodec<RoundState>({
    key: crypto.getRandomValues(new Uint8Array(32)),
    ttlSeconds: ANSWER_TIMEOUT_MS / 1000,
  });

  /** @param mode What becomes of calls. */
  constructor(readonly mode: ApprovalMode) {}

  /** What the SDK's server needs to know of the rounds. */
  get serverOptions(): Pick<ServerOptions, "requestState" | "inputRequired"> {
    return {
      requestState: { verify: this.#codec.verify },
      // A cell may well make more calls than the default of 8 rounds.
      inputRequired: { maxRounds: 10_000, roundTimeoutMs: ANSWER_TIMEOUT_MS },
    };
  }

  /** Whether the client can show its user a form. */
  canAsk(server: SdkMcpServer, ctx: ServerContext): boolean {
    const envelope: Readonly<Record<string, unknown>> = ctx.mcpReq.envelope ?? {};
    const declared = declaredElicitation.safeParse(envelope[CLIENT_CAPABILITIES_META_KEY]);
    const elicitation = declared.success
      ? declared.data.elicitation
      : server.server.getClientCapabilities()?.elicitation;
    // A client of the first versions declares an empty object, which means forms.
    return elicitation !== undefined && ("form" in elicitation || !("url" in elicitation));
  }

  /** The cell that this request goes on with, its answers taken, or `undefined` for a new one. */
  async resume(ctx: ServerContext): Promise<CellRun | undefined> {
    const id = ctx.mcpReq.requestState<RoundState>()?.run;
    if (id === undefined) return undefined;
    const round = this.#rounds.get(id);
    if (round === undefined) {
      throw new Error("This cell's approvals have expired, and it was stopped: run it again");
    }
    clearTimeout(round.expiry);
    this.#rounds.delete(id);
    const { run, shown } = round;
    for (const key of shown) {
      const answer = acceptedContent(ctx.mcpReq.inputResponses, key, forCell)?.decision;
      const decision = answer === "allow once"
        ? "once"
        : answer === "allow this tool in this cell"
        ? "cell"
        : "deny";
      await run.decide(key, decision);
    }
    return run;
  }

  /** Asks for the approval of the calls that a cell waits for. */
  async ask(
    run: CellRun,
    requests: readonly ApprovalRequest[],
    ctx: ServerContext,
  ): Promise<InputRequiredResult> {
    const inputRequests: InputRequests = {};
    for (const request of requests) {
      inputRequests[request.id] = inputRequired.elicit({
        message: `Allow this tool call?\n\n${request}`,
        requestedSchema: forCell,
      });
    }
    const expiry = setTimeout(() => this.#drop(run), ANSWER_TIMEOUT_MS);
    this.#rounds.set(run.id, { run, expiry, shown: requests.map(({ id }) => id) });
    // In the older era the request stays open while the client asks, and may be cancelled meanwhile;
    // in the newer one it ends here.
    if (ctx.mcpReq.envelope === undefined) {
      ctx.mcpReq.signal.addEventListener("abort", () => this.#drop(run), { once: true });
    }
    return inputRequired({
      inputRequests,
      requestState: await this.#codec.mint({ run: run.id }),
    });
  }

  /**
   * Asks for the approval of a server registration, exactly as it was asked for.
   *
   * @param description What would be started or reached, and all its parameters.
   * @param ctx The request.
   * @returns What to answer the client, or whether it is approved.
   */
  async askToRegister(
    description: string,
    ctx: ServerContext,
  ): Promise<InputRequiredResult | boolean> {
    // The state is signed: the answer counts for exactly what was shown.
    if (ctx.mcpReq.requestState<RoundState>()?.registration === description) {
      return acceptedContent(ctx.mcpReq.inputResponses, "register", once)?.decision === "allow";
    }
    return inputRequired({
      inputRequests: {
        register: inputRequired.elicit({ message: description, requestedSchema: once }),
      },
      requestState: await this.#codec.mint({ registration: description }),
    });
  }

  [Symbol.dispose](): void {
    for (const { run } of this.#rounds.values()) this.#drop(run);
  }

  /** Ends a cell that still waits for the client. */
  #drop(run: CellRun): void {
    const round = this.#rounds.get(run.id);
    if (round === undefined) return; // it went on meanwhile
    clearTimeout(round.expiry);
    this.#rounds.delete(run.id);
    run.cancel(new DOMException("Its approvals were not answered", "AbortError"));
  }
}
