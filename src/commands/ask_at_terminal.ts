import { Mutex } from "../async/mutex.ts";
import type { RunActionOptions } from "./code_action.ts";
import type { CommandIo } from "./command.ts";
import { TerminalAnswerer } from "./terminal_answerer.ts";
import { TerminalApprover } from "./terminal_approver.ts";
import { TerminalPrompter } from "./terminal_prompter.ts";

/**
 * Has the person at the terminal asked whatever code and MCP servers ask, one thing after the other.
 */
export function askAtTerminal(
  io: CommandIo,
): Required<Pick<RunActionOptions, "decide" | "answer" | "prompt">> {
  const turns = new Mutex();
  const approver = new TerminalApprover(io, "--approve allow", turns);
  const prompter = new TerminalPrompter(io, turns);
  const answerer = new TerminalAnswerer(io, turns);
  return {
    decide: (request) => approver.decide(request),
    answer: (request) => answerer.answer(request),
    prompt: io.interactive ? (request) => prompter.prompt(request) : undefined,
  };
}
