import type { ApprovalRequest } from "../approval/request.ts";
import { Mutex } from "../async/mutex.ts";
import { anySignal } from "../async/signals.ts";
import type { CommandIo } from "./command.ts";

/** Asks the person at the terminal about one call after the other. */
export class TerminalApprover {
  readonly #io: CommandIo;
  readonly #toAllow: string;
  readonly #turns = new Mutex();

  /**
   * @param io The terminal, if there is one.
   * @param toAllow The option that allows calls where nobody can be asked.
   */
  constructor(io: CommandIo, toAllow: string) {
    this.#io = io;
    this.#toAllow = toAllow;
  }

  /** Decides a call. Without a terminal nobody can be asked, and it is refused. */
  async decide(request: ApprovalRequest): Promise<void> {
    const signal = anySignal(request.signal, this.#io.signal);
    if (!this.#io.interactive) {
      this.#io.err(`Refused ${request}: no terminal to ask at (${this.#toAllow} allows calls)`);
      await request.reject("there is no terminal to ask at");
      return;
    }
    using _turn = await this.#turns.acquire();
    if (signal.aborted) return;
    const answer = await this.#io.ask(`Allow ${request}? [y/N] `, signal);
    if (answer === null) {
      // Withdrawn or interrupted, or the terminal has no more to say.
      if (!signal.aborted) await request.reject("nobody answers at the terminal");
    } else if (/^\s*y(es)?\s*$/i.test(answer)) await request.accept();
    else await request.reject("the user said no");
  }
}
