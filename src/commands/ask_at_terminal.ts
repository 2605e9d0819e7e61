import { Mutex } from "../async/mutex.ts";
import type { RunActionOptions } from "./code_action.ts";
import type { CommandIo } from "./command.ts";
import { TerminalAnswerer } from "./terminal_answerer.ts";
import { TerminalApprover } from "./terminal_approver.ts";

/**
 * Has the person at the terminal asked whatever code and MCP servers ask, one thing after the other.
 *
 * @param io The terminal, if there is one.
 * @returns Who decides on calls, and who answers questions.
 */
export function askAtTerminal(
  io: CommandIo,
): Required<Pick<RunActionOptions, "decide" | "answer">> {
  const turns = new Mutex();
  const approver = new TerminalApprover(io, "--approve allow", turns);
  const answerer = new TerminalAnswerer(io, turns);
  return {
    decide: (request) => approver.decide(request),
    answer: (request) => answerer.answer(request),
  };
}
