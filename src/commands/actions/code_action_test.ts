import { assert, assertEquals, assertMatch } from "@std/assert";
import { commandIo } from "../../../tests/support/command_io.ts";
import type { CommandIo } from "../command.ts";
import { OutputPrinter } from "./code_action.ts";

/** What a terminal shows. */
function terminal(): { shown: string; io: CommandIo } {
  const show = (text: string) => void (terminal.shown += text);
  const err = (line: string) => show(`${line}\n`);
  const io = commandIo({ out: show, err, errText: show, stdoutIsTerminal: false });
  const terminal = { shown: "", io };
  return terminal;
}

Deno.test("output that comes during a question waits, but not without a bound", () => {
  const seen = terminal();
  const printer = new OutputPrinter(seen.io);
  const print = (text: string) => printer.print({ type: "chunk", stream: "stdout", text });
  print("before\n");
  printer.hold();
  print("during\n");
  assertEquals(seen.shown, "before\n");
  for (let count = 0; count < 40; count++) print("x".repeat(2 ** 20));
  print("late\n");
  printer.release();
  assert(seen.shown.startsWith("before\nduring\nxxx"));
  assert(seen.shown.length < 17 * 2 ** 20, `${seen.shown.length}`);
  assertMatch(seen.shown.slice(-100), /x\n\[ipybox: \d{8} characters .* were dropped\]\n$/);
  const before = seen.shown.length;
  printer.hold();
  print("again\n");
  printer.release();
  assertEquals(seen.shown.slice(before), "again\n");
});
