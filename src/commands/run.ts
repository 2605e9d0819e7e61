import { CodeExecutor } from "../executor/code_executor.ts";
import {
  type Command,
  type CommandIo,
  parseCommandLine,
  type ParsedArgs,
  UsageError,
} from "./command.ts";
import { askAtTerminal } from "./ask_at_terminal.ts";
import { runAction } from "./code_action.ts";
import { APPROVE, APPROVE_SHELL, EXECUTOR, executorOptions } from "./executor_options.ts";
import { PageApprover } from "./page_approver.ts";
import { readUserFile, workspaceOf } from "./shared.ts";

/** `ipybox run`: executes a code action. */
export const run: Command = {
  name: "run",
  summary: "Execute a code action",
  usage: "FILE [OPTIONS]\n-c CODE [OPTIONS]\n- [OPTIONS]   (the code comes from stdin)",
  options: {
    code: { short: "c", value: "CODE", help: "The code itself, instead of a file" },
    approve: APPROVE,
    "approve-shell": APPROVE_SHELL,
    page: { help: "Ask on a local web page; its link, good for one visit, goes to stderr" },
    timeout: { value: "SECONDS", help: "Stop the code after this time, approvals excluded" },
    json: { help: "Print the outcome as one JSON object" },
    ...EXECUTOR,
  },
  notes: [
    "The code's output goes to stdout and its stderr to stderr, as they are produced.",
    "sys.exit(N) in the code is the exit code.",
    "",
    "Examples:",
    "",
    "  ipybox run -c 'print(6 * 7)'",
    "  ipybox run analysis.py --approve allow --timeout 60",
  ].join("\n"),
  run: runCommand,
};

async function runCommand(args: readonly string[], io: CommandIo): Promise<number> {
  const parsed = parseCommandLine(run, args, { max: 1 });
  const timeoutMs = parsed.milliseconds("timeout");
  const workspace = await workspaceOf(parsed);
  const options = await executorOptions(parsed, io, workspace);
  const code = await codeOf(parsed);
  await using executor = await CodeExecutor.start({
    ...options,
    spareKernel: false, // one execution needs no second kernel
  });
  const { decide, answer } = askAtTerminal(io);
  const page = parsed.has("page") ? new PageApprover(io, executor.page) : undefined;
  return await runAction(executor, code, {
    io,
    json: parsed.has("json"),
    timeoutMs,
    exits: true,
    decide: page === undefined ? decide : (request) => page.decide(request),
    answer,
  });
}

async function codeOf(parsed: ParsedArgs): Promise<string> {
  const [file] = parsed.positional;
  const code = parsed.value("code");
  if ((file === undefined) === (code === undefined)) {
    throw new UsageError("Give the code by a FILE, by -c CODE, or by - for stdin");
  }
  if (code !== undefined) return code;
  if (file === "-") return await new Response(Deno.stdin.readable).text();
  return await readUserFile(file ?? "");
}
