import { foreignBlock, MAX_SHOWN_BYTES } from "../approval/call_text.ts";
import type { ApprovalCall, ApprovalRequest, ApprovalResponse } from "../approval/request.ts";
import { onAbort } from "../base/signals.ts";
import { sealObject, toExact } from "../json/exact.ts";
import type { ElicitationRounds, RoundRequest } from "./approvals.ts";
import type { PageAsker } from "./page_asker.ts";
import type { InputRequiredResult } from "./sdk.ts";

/** A settings file of the workspace that does not count yet. */
export interface UnacceptedSetting {
  /** The file, relative to the workspace. */
  readonly file: string;
  /** The content that would count, or has changed: other people's text under ipybox's headings. */
  readonly parts: readonly { readonly heading: string; readonly lines: readonly string[] }[];
  readonly question: string;
  /** Whether the user has refused the file's current content. */
  readonly isRefused: boolean;
  /** Records the answer. */
  answer(isAccepted: boolean): Promise<void>;
}

/** How a start asks, and the end of its wait. */
interface Asking {
  readonly asker: PageAsker;
  readonly signal: AbortSignal;
}

/** A client's request that waits for a start. */
interface WaitingRequest {
  readonly ctx: RoundRequest;
  readonly rounds: Pick<ElicitationRounds, "confirm">;
  /** Whether the client can show forms. */
  readonly hasForms: boolean;
  readonly progress: { keep(): void };
}

/** The question that a start waits for. */
interface OpenQuestion extends Omit<Asking, "signal"> {
  readonly text: string;
  readonly request: ApprovalRequest;
  /** The open request of the older era whose client asks its user. */
  asking?: AbortSignal;
}

/**
 * Asks about a workspace's settings before a kernel starts with them. While the start waits, requests that
 * need the kernel show the question to their client's user, or leave it to the approval page.
 */
export class SettingQuestions {
  #open: OpenQuestion | undefined;
  #asked = Promise.withResolvers<void>();

  /** Asks about settings, one after the other; returns those that still do not count. */
  async ask(settings: readonly UnacceptedSetting[], asking: Asking): Promise<UnacceptedSetting[]> {
    const others: UnacceptedSetting[] = [];
    for (const setting of settings) {
      const response = await this.#askAbout(setting, asking);
      if (response?.accepted) {
        await setting.answer(true);
        continue;
      }
      others.push(setting);
      if (response?.type === "approval_rejected") await setting.answer(false);
    }
    return others;
  }

  async #askAbout(
    setting: UnacceptedSetting,
    { asker, signal }: Asking,
  ): Promise<ApprovalResponse | undefined> {
    const text = questionText(setting);
    if (setting.isRefused || text.length > MAX_SHOWN_BYTES) return undefined;
    const response = await asker.page.ask(callOf(setting), {
      signal,
      approver: (request) => this.#wait({ text, request, asker }),
    });
    signal.throwIfAborted();
    return response;
  }

  /** Keeps a question open until it is answered. */
  async #wait(question: OpenQuestion): Promise<void> {
    this.#open = question;
    this.#asked.resolve();
    await question.request.response;
    this.#open = undefined;
    this.#asked = Promise.withResolvers();
  }

  /** Waits for a start. Returns the question for the client's user, if the start waits for one. */
  async during(
    start: Promise<unknown>,
    { ctx, rounds, hasForms, progress }: WaitingRequest,
  ): Promise<InputRequiredResult | undefined> {
    const started = start.then(() => "over", () => "over");
    const { envelope, signal } = ctx.mcpReq;
    for (;;) {
      if (await Promise.race([started, this.#asked.promise]) === "over") return undefined;
      const open = this.#open;
      if (open === undefined) continue;
      const { request, asker, asking } = open;
      if (asking !== undefined && asking !== signal && !asking.aborted) {
        const gone = Promise.withResolvers<void>();
        using _abort = onAbort(asking, gone.resolve);
        await Promise.race([request.response, gone.promise]);
        continue;
      }
      if (hasForms && envelope === undefined) open.asking = signal; // it stays open meanwhile
      const answer = hasForms ? await rounds.confirm(open.text, ctx) : "unasked";
      if (typeof answer === "object") {
        progress.keep();
        return answer;
      }
      if (answer === true) await request.accept();
      else if (answer === false) await request.reject();
      else if (asker.page.state !== "away") await asker.decide(request, hasForms);
      else request.withdraw({ accepted: false, type: "approval_unavailable", reason: "No page" });
      await request.response;
    }
  }
}

function questionText({ parts, question }: UnacceptedSetting): string {
  const shown = parts.map(({ heading, lines }) => `${heading}:\n\n${foreignBlock(lines)}`);
  return [...shown, question].join("\n\n");
}

function callOf({ file, parts }: UnacceptedSetting): ApprovalCall {
  return {
    kind: "change",
    serverName: "ipybox",
    toolName: "accept_settings",
    arguments: sealObject(toExact({ file })),
    description: parts.flatMap(({ heading, lines }) => [`${heading}:`, ...lines]).join("\n"),
  };
}
