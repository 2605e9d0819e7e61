import type { ApprovalRequest } from "../approval/request.ts";
import { Mutex } from "../async/mutex.ts";
import { anySignal } from "../async/signals.ts";
import type { CommandIo } from "./command.ts";
import { printable } from "./printable.ts";

/** Asks the person at the terminal about one call after the other. */
export class TerminalApprover {
  readonly #io: CommandIo;
  readonly #toAllow: string;
  readonly #turns: Mutex;

  /**
   * @param io The terminal, if there is one.
   * @param toAllow The option that allows tool calls where nobody can be asked.
   * @param turns Keeps others from asking at the same time.
   */
  constructor(io: CommandIo, toAllow: string, turns: Mutex = new Mutex()) {
    this.#io = io;
    this.#toAllow = toAllow;
    this.#turns = turns;
  }

  /** Decides a call. Without a terminal nobody can be asked, and it is refused. */
  async decide(request: ApprovalRequest): Promise<void> {
    const signal = anySignal(request.signal, this.#io.signal);
    if (!this.#io.interactive) {
      const allow = isShell(request)
        ? "--approve-shell allow allows commands"
        : `${this.#toAllow} allows calls`;
      this.#io.err(`Refused ${request}: no terminal to ask at (${allow})`);
      await request.reject("there is no terminal to ask at");
      return;
    }
    using _turn = await this.#turns.acquire();
    if (signal.aborted) return;
    const answer = await this.#io.ask(question(request), signal);
    if (answer === null) {
      // Withdrawn or interrupted, or the terminal has no more to say.
      if (!signal.aborted) await request.reject("nobody answers at the terminal");
    } else if (/^\s*y(es)?\s*$/i.test(answer)) await request.accept();
    else await request.reject("the user said no");
  }
}

/** Whether it is about a shell command. Other calls may have an argument `cmd`, too. */
function isShell({ kind }: ApprovalRequest): boolean {
  return kind === "shell" || kind === "shell_magic";
}

/** A call is one line; a shell command is shown as it is, since people read it as such. */
function question(request: ApprovalRequest): string {
  const { cmd, program } = request.toolArgs;
  if (!isShell(request) || typeof cmd !== "string") return `Allow ${request}? [y/N] `;
  const by = typeof program === "string" ? ` by ${printable(program)}` : "";
  // The mark in front of each line tells the command from what ipybox says.
  const lines = cmd.replace(/\n$/, "").split("\n").map((line) => `  | ${printable(line)}`);
  return `Run${by}:\n${lines.join("\n")}\nAllow? [y/N] `;
}
