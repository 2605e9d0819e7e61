import { callName, visible, visibleCode } from "../../approval/call_text.ts";
import {
  type AcceptOptions,
  type ApprovalRequest,
  isShell,
  type Remember,
  type RememberScope,
} from "../../approval/request.ts";
import { anySignal } from "../../base/signals.ts";
import { details, type ShownRequest, summary } from "./approval_text.ts";
import type { CommandIo } from "../command.ts";
import { marked } from "../foreign_rows.ts";
import { editArguments } from "./edit_arguments.ts";
import { terminalSize } from "../../base/terminal.ts";

/** Asks the person at the terminal about a call. */
export class ApprovalDialogue {
  readonly #io: CommandIo;
  readonly #request: ApprovalRequest;
  readonly #signal: AbortSignal;
  /** How many others wait meanwhile. */
  readonly #others: () => number;
  #edited: Readonly<Record<string, unknown>> | undefined;
  #argumentsJson: string;
  #over = false;

  constructor(io: CommandIo, request: ApprovalRequest, others: () => number) {
    this.#io = io;
    this.#request = request;
    this.#signal = anySignal(request.signal, io.signal);
    this.#others = others;
    this.#argumentsJson = request.argumentsJson;
  }

  async run(): Promise<void> {
    if (this.#signal.aborted) return;
    let shown = summary(this.#shown());
    while (!this.#over) {
      const line = await this.#ask(shown + this.#question());
      if (line === undefined) return;
      shown = "";
      const answer = parseAnswer(line);
      switch (answer?.key) {
        case "y":
          if (await this.#accept({})) return;
          break;
        case "n":
          if (await this.#refuse(answer)) return;
          break;
        case "c":
        case "s":
        case "a":
          if (await this.#allowLater(answer)) return;
          break;
        case "e":
          if (!this.#isEditable) {
            this.#io.err(this.#help());
            break;
          }
          await this.#edit(answer.rest);
          shown = summary(this.#shown());
          break;
        case "d":
          shown = details(this.#shown());
          break;
        case undefined:
          this.#io.err(this.#help());
      }
    }
  }

  #shown(): ShownRequest {
    const argumentsJson = this.#argumentsJson;
    const { color } = this.#io;
    return { request: this.#request, argumentsJson, columns: terminalSize().columns, color };
  }

  /** Whether arguments can be edited: a change is made as requested or not at all. */
  get #isEditable(): boolean {
    return this.#request.kind !== "change";
  }

  #question(): string {
    const others = this.#others();
    const more = others === 0 ? "" : ` (${others} more waiting)`;
    const title = isShell(this.#request) ? "Run it?" : "Allow?";
    const { scopes } = this.#request;
    const keys = [
      "[y]es",
      "[n]o",
      ...(scopes.includes("cell") ? ["[c]ell"] : []),
      ...(scopes.includes("always") ? ["[a]lways"] : []),
      ...(scopes.includes("session") ? ["[s]ession"] : []),
      ...(this.#isEditable ? ["[e]dit"] : []),
      "[d]etails",
    ];
    const { columns } = terminalSize();
    const long = `${title}${more} ${keys.join(" ")}`;
    const short = `${title}${more} [${keys.map((key) => key[1]).join("/")}/?]`;
    const question = long.length + 1 < columns ? long : short;
    const explained = `${question}, then Enter: `;
    return explained.length < columns ? explained : `${question} `;
  }

  #help(): string {
    const { scopes } = this.#request;
    return [
      "y  allow this call",
      "n  refuse it; n REASON tells the code why",
      ...scopes.map((scope) => `${KEYS[scope]}  allow such calls ${SCOPES[scope]}`),
      ...scopes.map((scope) => `n${KEYS[scope]} refuse such calls ${SCOPES[scope]}`),
      ...(this.#isEditable ? ["e  edit the arguments"] : []),
      "d  show everything, including the server's description",
      "Ctrl-C  cancel the code",
    ].map((line) => `  ${line}`).join("\n");
  }

  /** The next line; `undefined` once there is nothing left to decide. */
  async #ask(question: string): Promise<string | undefined> {
    const line = await this.#io.ask(question, this.#signal);
    if (line !== null) return line.trim();
    this.#over = true;
    // Withdrawn, interrupted, or the end of input.
    if (!this.#signal.aborted) {
      await this.#request.reject("the question was closed at the terminal");
    }
    return undefined;
  }

  /** Whether the call was accepted: arguments that the tool rejects leave the question open. */
  async #accept(options: AcceptOptions): Promise<boolean> {
    try {
      await this.#request.accept({ ...options, arguments: this.#edited });
      return true;
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
      this.#io.err(visible(error.message));
      return false;
    }
  }

  async #refuse({ scope, rest }: Answer): Promise<boolean> {
    const remember = await this.#remember("Refuse", scope);
    if (remember === null) return false;
    const reason = rest || await this.#ask("Why? (Enter for no reason) ");
    if (reason === undefined) return true;
    await this.#request.reject(reason || "the user gave no reason", { remember });
    return true;
  }

  async #allowLater({ scope, rest }: Answer): Promise<boolean> {
    const remember = await this.#remember("Allow", scope, rest);
    if (remember === null) return false;
    if (!await this.#accept({ remember })) return false;
    if (scope === "always") this.#io.err("Remembered. `ipybox policy forget` undoes it.");
    return true;
  }

  /** How to remember a decision; `null` if the person changed their mind. */
  async #remember(
    verb: string,
    scope: RememberScope | undefined,
    match = "",
  ): Promise<Remember | undefined | null> {
    if (scope === undefined) return undefined;
    if (!this.#request.scopes.includes(scope)) {
      this.#io.err(`Decisions cannot be remembered ${SCOPES[scope]} here.`);
      return null;
    }
    const what = isShell(this.#request) ? "every shell command" : callName(this.#request);
    const [any, exact] = isShell(this.#request)
      ? ["[a]ny", "[e]xactly this one"]
      : ["with [a]ny arguments", "[e]xactly these"];
    const { pattern } = this.#request;
    const rows = pattern === undefined
      ? []
      : ["Pattern:", ...marked(visibleCode(pattern), terminalSize().columns), ""];
    const middle = pattern === undefined ? "" : ", this [p]attern";
    // A pattern must be seen before it can be accepted.
    const shown = pattern !== undefined && (match === "p" || match === "pattern") ? "" : match;
    const answer = shown || await this.#ask(
      rows.join("\n") + `${verb} ${what} ${SCOPES[scope]}: ${any}${middle}, or ${exact}? `,
    );
    if (answer === "a" || answer === "any") return { scope, match: "tool" };
    if (pattern !== undefined && (answer === "p" || answer === "pattern")) {
      return { scope, match: "pattern" };
    }
    if (answer === "e" || answer === "exactly") return { scope, match: "arguments" };
    if (answer === undefined) return null;
    const isPattern = answer === "p" || answer === "pattern";
    this.#io.err(`${isPattern ? "No pattern fits these arguments. " : ""}No decision made.`);
    return null;
  }

  async #edit(which: string): Promise<void> {
    const edited = await editArguments(
      { request: this.#request, argumentsJson: this.#argumentsJson },
      { which, signal: this.#signal, io: this.#io },
    );
    if ("problem" in edited) this.#io.err(`Not changed: ${visible(edited.problem)}`);
    else ({ arguments: this.#edited, argumentsJson: this.#argumentsJson } = edited);
  }
}

interface Answer {
  readonly key: "y" | "n" | "c" | "s" | "a" | "e" | "d";
  readonly scope: RememberScope | undefined;
  readonly rest: string;
}

const KEYS = { cell: "c", session: "s", always: "a" } as const;
const SCOPES = { cell: "in this cell", session: "in this session", always: "always" } as const;
const SCOPE_OF_KEY: Readonly<Record<string, RememberScope>> = {
  c: "cell",
  s: "session",
  a: "always",
};

function parseAnswer(line: string): Answer | undefined {
  const words = /^(y|yes|n|no|n[csa]|[csa]|cell|session|always|e|edit|d|details)(?:\s([^]*))?$/i;
  const [, word = "", after = ""] = words.exec(line) ?? [];
  const rest = after.trimStart();
  const [first = "", second = ""] = word.toLowerCase();
  switch (first) {
    case "e":
      return { key: first, scope: undefined, rest };
    case "y":
    case "d":
      return rest === "" ? { key: first, scope: undefined, rest } : undefined;
    case "c":
    case "s":
    case "a":
      return { key: first, scope: SCOPE_OF_KEY[first], rest };
    case "n":
      return { key: first, scope: SCOPE_OF_KEY[second], rest };
    default:
      return undefined;
  }
}
