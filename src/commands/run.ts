import { resolve } from "node:path";
import { visible } from "../approval/call_text.ts";
import { type ApprovalPage, PageLink } from "../approval/page/page.ts";
import type { PersonRequest } from "../approval/wire.ts";
import { CodeExecutor } from "../executor/code_executor.ts";
import { runAction } from "./actions/code_action.ts";
import {
  type Command,
  type CommandIo,
  EXIT,
  parseCommandLine,
  type ParsedArgs,
  UsageError,
} from "./command.ts";
import { APPROVE, APPROVE_SHELL, executorOptions, PLACEMENT, SESSION } from "./executor_options.ts";
import { readUserFile, workspaceOf } from "./shared.ts";
import { askAtTerminal } from "./terminal/answerer.ts";

/** `ipybox run`: executes a code action. */
export const run: Command = {
  name: "run",
  summary: "Execute a code action",
  usage:
    "FILE [OPTIONS] [-- ARGS…]\n-c CODE [OPTIONS] [-- ARGS…]\n- [OPTIONS] [-- ARGS…]   (the code comes from stdin)",
  options: {
    code: { short: "c", value: "CODE", help: "Run this code instead of a file" },
    approve: APPROVE,
    "approve-shell": APPROVE_SHELL,
    page: { help: "Ask on a local web page; its one-time link is printed to stderr" },
    timeout: { value: "SECONDS", help: "Stop the code after this time, not counting approvals" },
    json: { help: "Print the result as one JSON object" },
    detach: {
      help: "Print the id of a session that continues without this command: see `ipybox attach`",
    },
    ...SESSION,
    placement: PLACEMENT,
  },
  notes: [
    "The code's stdout and stderr are passed through as they are produced. ARGS are",
    "in sys.argv; sys.exit(N) in the code sets the exit code.",
    "",
    "Examples:",
    "",
    "  ipybox run -c 'print(6 * 7)'",
    "  ipybox run analysis.py --approve allow --timeout 60",
    "  ipybox run convert.py -- people.csv --pretty",
    "  ipybox run long.py --detach",
  ].join("\n"),
  run: runCommand,
};

/** Has tracebacks of the code that is run next name its file. */
const NAME_NEXT =
  `__import__("ipybox_runtime.kernel.cell_source").kernel.cell_source.name_next(get_ipython(), __file__)`;

async function runCommand(args: readonly string[], io: CommandIo): Promise<number> {
  const parsed = parseCommandLine(run, args, { max: 1 });
  const timeoutMs = parsed.milliseconds("timeout");
  const workspace = await workspaceOf(parsed);
  const options = await executorOptions(parsed, io, workspace);
  const detach = parsed.has("detach");
  const lost = detach ? HOST_ONLY.find((name) => parsed.given(name)) : undefined;
  if (lost !== undefined) {
    throw new UsageError(
      `Options --detach and --${lost} cannot be combined: give it to \`attach\``,
    );
  }
  const { code, argv, file } = await scriptOf(parsed);
  await using executor = await CodeExecutor.start({
    ...options,
    durable: detach ? {} : undefined,
    spareKernel: false, // one execution needs no second kernel
  });
  // A separate execution, so that the lines of the code keep their numbers.
  const names = file === undefined ? "" : `; __file__ = ${JSON.stringify(file)}; ${NAME_NEXT}`;
  const setUp = `__import__("sys").argv = ${JSON.stringify(argv)}${names}`;
  for await (const event of executor.stream(setUp, { signal: io.signal })) {
    // It calls nothing. Code that the workspace's files smuggled in might.
    if (event.type === "approval") {
      await event.request.reject("No tool may be called before the code runs");
    }
  }
  if (detach) {
    const { sessionId = "" } = executor;
    await executor.detach({ code });
    io.out(`${sessionId}\n`);
    return EXIT.ok;
  }
  return await runAction(executor, code, {
    io,
    json: parsed.has("json"),
    timeoutMs,
    exits: true,
    ...askedOf(parsed, io, executor),
  });
}

/** What only counts while this command runs. */
const HOST_ONLY = ["json", "page", "timeout", "approve"] as const;

/** Who is asked what code and MCP servers ask: the person at the terminal, or at the page. */
export function askedOf(parsed: ParsedArgs, io: CommandIo, executor: CodeExecutor) {
  const person = askAtTerminal(io);
  if (!parsed.has("page")) return person;
  const page = new PageApprover(io, executor.page);
  return {
    ...person,
    decide: (request: PersonRequest) => page.decide(request),
    answer: (request: PersonRequest) => page.decide(request),
  };
}

/** The code, and the arguments that Python would give it. */
async function scriptOf(
  parsed: ParsedArgs,
): Promise<{ code: string; argv: readonly string[]; file?: string }> {
  const { rest } = parsed;
  const [file] = parsed.positional;
  const code = parsed.value("code");
  if (file !== undefined && code !== undefined) {
    throw new UsageError("Specify exactly one of FILE, -c CODE, or - (stdin)");
  }
  if (code !== undefined) return { code, argv: ["-c", ...rest] };
  if (file === undefined) {
    throw new UsageError("Specify exactly one of FILE, -c CODE, or - (stdin)");
  }
  if (file === "-") {
    return { code: await new Response(Deno.stdin.readable).text(), argv: ["-", ...rest] };
  }
  const text = await readUserFile(file);
  // Python, too, takes a byte order mark for what it is.
  return { code: text.replace(/^\uFEFF/, ""), argv: [file, ...rest], file: resolve(file) };
}

/** Asks the person at the approval page, who need not be at a terminal. */
export class PageApprover {
  readonly #io: CommandIo;
  readonly #page: ApprovalPage;
  readonly #link: PageLink;

  /** Prints a link to the page. */
  constructor(io: CommandIo, page: ApprovalPage) {
    this.#io = io;
    this.#page = page;
    this.#link = new PageLink(page, (link) => io.err(`Approvals: ${link}`));
    this.#link.refresh();
  }

  /** Leaves a request to the page, with a new link where the one before leads nowhere any more. */
  async decide(request: PersonRequest): Promise<void> {
    this.#link.refresh();
    await this.#page.decide(request);
    const response = await request.response;
    if ("action" in response) {
      if (response.action !== "accept") this.#io.err(`Not answered: ${request}`);
    } else if (!response.accepted && response.type === "approval_rejected") {
      this.#io.err(`Refused ${request}: ${visible(response.reason)}`);
    }
  }
}
