import { onAbort } from "../base/signals.ts";
import { CodeExecutionError, ExecutionTimeoutError } from "../base/errors.ts";
import { attachOwn } from "../executor/code_executor.ts";
import { findSession, refuseOfClient } from "../executor/durable.ts";
import { runAction } from "./actions/code_action.ts";
import type { Command, CommandIo, ParsedArgs } from "./command.ts";
import { executorOptions, FOLLOW } from "./executor_options.ts";
import { followOptions } from "./run.ts";
import { onlyDetached } from "./sessions.ts";
import { picturesOf } from "./terminal/pictures.ts";

export const command: Command = {
  usage: "[ID] [OPTIONS]",
  positional: { max: 1 },
  options: {
    ...FOLLOW,
    end: { help: "End the session once its code has ended" },
    verbose: { short: "v", help: "Log to stderr" },
  },
  notes: [
    "Prints the code's output since it began, follows it, and asks you its questions.",
    "Without ID, attaches to your only detached session. Tool calls of a session wait",
    "while no program is attached. sys.exit(N) in the code sets the exit code. If the",
    "code has already ended, its result is printed again.",
    "",
    "Ctrl-C leaves the session running. If another program is attached, it is",
    "detached.",
    "",
    "Examples:",
    "",
    "  ipybox attach",
    "  ipybox attach 3f2a9c01d4e8 --json --end",
  ].join("\n"),
  run,
};

async function run(parsed: ParsedArgs, io: CommandIo): Promise<number> {
  const timeoutMs = parsed.milliseconds("timeout");
  const pictures = picturesOf(parsed, io);
  const id = parsed.positional[0] ?? await onlyDetached(io);
  const record = await findSession(id);
  const { workspace } = record;
  refuseOfClient(record);
  const options = await executorOptions(parsed, io, workspace);
  const executor = await attachOwn(id, options);
  let leaving: Promise<void> | undefined;
  const leave = () => leaving ??= executor.detach();
  const close = async () => {
    if (parsed.has("end")) await executor[Symbol.asyncDispose]();
    else io.err(`Session ${id} stays: \`ipybox sessions end ${id}\` ends it`);
  };
  using _interrupt = onAbort(io.signal, () => void leave());
  try {
    const options = { timeoutMs, pictures, ...followOptions(parsed, io, executor) };
    const code = await runAction(executor, undefined, options);
    await close();
    return code;
  } catch (error) {
    if (!io.signal.aborted) {
      const hasEnded = error instanceof CodeExecutionError ||
        error instanceof ExecutionTimeoutError;
      if (hasEnded || parsed.has("end")) await close();
      throw error;
    }
    await leave();
    io.err(`ipybox: session ${id} continues`);
    return io.signal.reason.exitCode;
  } finally {
    await leave();
  }
}
