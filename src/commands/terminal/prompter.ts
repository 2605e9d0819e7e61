import { visible } from "../../approval/call_text.ts";
import type { Mutex } from "../../base/mutex.ts";
import { anySignal } from "../../base/signals.ts";
import type { InputRequest } from "../../kernel/execution.ts";
import { END_OF_INPUT } from "../../kernel/jupyter.ts";
import type { CommandIo } from "../command.ts";
import { terminalSize, widthOf } from "../../base/terminal.ts";
import { foreignText } from "../foreign_rows.ts";

/** The most lines of the code's prompt to show before its last one. */
const MAX_LINES = 20;

/** The minimum width for the input after the code's prompt. */
const ROOM = 20;

/** Asks for the input of code. Its prompt follows ours, so it cannot ask in the name of ipybox. */
export async function promptAtTerminal(
  request: InputRequest,
  { io, turns }: { readonly io: CommandIo; readonly turns: Mutex },
): Promise<void> {
  const signal = anySignal(request.signal, io.signal);
  using _turn = await turns.acquire();
  if (signal.aborted) return;
  const { before, label, words } = promptOf(request, terminalSize().columns);
  io.errText(before);
  const typed = await io.enter({ label, words, isSecret: request.isPassword }, signal);
  request.answer(typed ?? END_OF_INPUT, "terminal"); // has no effect if it was withdrawn
}

/** The rows before the input line, and the beginning of that line. */
function promptOf(
  { prompt, isPassword }: InputRequest,
  columns: number,
): { before: string; label: string; words: string } {
  const label = isPassword ? "Code asks (your input is hidden): " : "Code asks: ";
  const lines = prompt.split("\n");
  const last = visible(lines.at(-1) ?? "");
  const fits = widthOf(label + last) + ROOM <= columns;
  if (fits) lines.pop();
  const left = lines.length - MAX_LINES;
  const shown = left > 0 ? lines.slice(left) : lines;
  const before = (left > 0 ? `  … ${left} lines before\n` : "") +
    (shown.length === 0 ? "" : foreignText(shown.join("\n"), columns));
  return { before, label, words: fits ? last : "" };
}
