import { relative, resolve } from "node:path";
import { type ApprovalPage, pageInviter } from "../approval/page/page.ts";
import type { PersonRequest } from "../approval/wire.ts";
import { type CodeExecutor, startOwn } from "../executor/code_executor.ts";
import { lstatIfPresent, readInside } from "../files/safe.ts";
import { isInside, reliablePath } from "../process/trusted_path.ts";
import { runAction, type RunActionOptions } from "./actions/code_action.ts";
import { type Command, type CommandIo, EXIT, type ParsedArgs, UsageError } from "./command.ts";
import { executorOptions, FOLLOW, PLACEMENT, SESSION } from "./executor_options.ts";
import { codeCellsOf, isNotebook } from "./notebook.ts";
import { readUserFile, workspaceOf } from "./shared.ts";
import { askAtTerminal } from "./terminal/answerer.ts";
import { picturesOf } from "./terminal/pictures.ts";

export const command: Command = {
  usage:
    "FILE [OPTIONS] [-- ARGS…]\n-c CODE [OPTIONS] [-- ARGS…]\n- [OPTIONS] [-- ARGS…]   (the code comes from stdin)",
  positional: { max: 1 },
  rest: "the script's arguments go",
  options: {
    code: { short: "c", value: "CODE", help: "Run this code instead of a file" },
    ...FOLLOW,
    detach: {
      help:
        "Run the code in a session that continues without this command, and print its id: see `ipybox attach`",
    },
    trust: { help: "Let all settings of the workspace count for this run: see `ipybox trust`" },
    ...SESSION,
    placement: PLACEMENT,
  },
  notes: [
    "The code's stdout and stderr are passed through as they are produced. ARGS are",
    "in sys.argv; sys.exit(N) in the code sets the exit code.",
    "",
    "A FILE.ipynb is a notebook: its code cells run in order until one fails. Its",
    "outputs are printed, not saved, and --timeout counts for each cell.",
    "",
    "Examples:",
    "",
    "  ipybox run -c 'print(6 * 7)'",
    "  ipybox run analysis.py --approve allow --timeout 60",
    "  ipybox run convert.py -- people.csv --pretty",
    "  ipybox run long.py --detach",
    "  ipybox run report.ipynb",
  ].join("\n"),
  run,
};

/** Makes tracebacks of the next execution name its file. */
const NAME_NEXT =
  `__import__("ipybox_runtime.kernel.cell_source").kernel.cell_source.name_next(get_ipython(), __file__)`;

async function run(parsed: ParsedArgs, io: CommandIo): Promise<number> {
  const timeoutMs = parsed.milliseconds("timeout");
  const workspace = await workspaceOf(parsed);
  const detach = parsed.has("detach");
  if (detach) parsed.refuseBeside("detach", HOST_ONLY, ": give it to `attach`");
  const pictures = picturesOf(parsed, io);
  const { code, argv, file } = await scriptOf(parsed, workspace);
  if (detach && typeof code !== "string") {
    throw new UsageError(
      "Option --detach takes no notebook: its cells run one after the other here",
    );
  }
  // After stdin was read: the questions read it, too.
  const options = await executorOptions(parsed, io, workspace);
  await using executor = await startOwn({
    ...options,
    durable: detach ? {} : undefined,
    spareKernel: false,
  });
  // A separate execution, so that the code keeps its line numbers.
  const names = file === undefined ? "" : `; __file__ = ${JSON.stringify(file)}; ${NAME_NEXT}`;
  const setUp = `__import__("sys").argv = ${JSON.stringify(argv)}${names}`;
  for await (const event of executor.stream(setUp, { signal: io.signal })) {
    // It calls nothing, but modules in the workspace might.
    if (event.type === "approval") {
      await event.request.reject("No tool may be called before the code runs");
    }
  }
  if (detach && typeof code === "string") {
    const { sessionId = "" } = executor;
    await executor.detach({ code });
    io.out(`${sessionId}\n`);
    if (io.stdoutIsTerminal && io.stderrIsTerminal) {
      io.err(`The code runs on. Come back to it with \`ipybox attach ${sessionId}\``);
    }
    return EXIT.ok;
  }
  const storeHistory = typeof code !== "string"; // numbers the cells of a notebook
  return await runAction(executor, code, {
    timeoutMs,
    storeHistory,
    pictures,
    ...followOptions(parsed, io, executor),
  });
}

/** Options that only apply while this command runs. */
const HOST_ONLY = ["json", "page", "timeout", "approve", "images"] as const;

/** How code is followed, and whether the person is asked at the terminal or on the page. */
export function followOptions(
  parsed: ParsedArgs,
  io: CommandIo,
  executor: CodeExecutor,
): RunActionOptions {
  const asked = askAtTerminal(io, "--page asks in a browser, --approve allow allows calls");
  const options = { io, json: parsed.has("json"), exits: true, ...asked };
  if (!parsed.has("page")) return options;
  const decide = askOnPage(io, executor.page);
  return { ...options, decide, answer: decide };
}

/** The code, or the cells of a notebook, and its `sys.argv`. */
async function scriptOf(
  parsed: ParsedArgs,
  workspace: string,
): Promise<{ code: string | readonly string[]; argv: readonly string[]; file?: string }> {
  const { rest } = parsed;
  const [file] = parsed.positional;
  const code = parsed.value("code");
  if ((file === undefined) === (code === undefined)) {
    throw new UsageError("Specify exactly one of FILE, -c CODE, or - (stdin)");
  }
  if (file === undefined) return { code: code ?? "", argv: ["-c", ...rest] };
  if (file === "-") {
    return { code: await new Response(Deno.stdin.readable).text(), argv: ["-", ...rest] };
  }
  const text = await readScript(file, workspace);
  const argv = [file, ...rest];
  if (isNotebook(file)) return { code: codeCellsOf(text, file), argv };
  return { code: text, argv, file: resolve(file) };
}

/** Larger scripts, and notebooks with their outputs, are not read from a workspace. */
const MAX_SCRIPT = 2 ** 28;

/**
 * Reads a script or a notebook. Follows no links where code can write: with a link, code could get hold of
 * another file of the user's.
 */
async function readScript(file: string, workspace: string): Promise<string> {
  const path = await reliablePath(file, { workspace, what: "script" });
  if (!isInside(path, workspace)) return await readUserFile(file);
  const bytes = await readInside(workspace, relative(workspace, path).split("/"), MAX_SCRIPT);
  if (bytes !== undefined) return new TextDecoder().decode(bytes); // without a byte order mark
  const info = await lstatIfPresent(path);
  throw new UsageError(
    info === undefined
      ? `No file "${file}"`
      : info.isDirectory
      ? `"${file}" is a directory, not a file`
      : `"${file}" is not a plain file of at most 256 MiB`,
  );
}

/** Asks the person at the approval page, with a new link whenever the previous one has expired. */
function askOnPage(io: CommandIo, page: ApprovalPage): (request: PersonRequest) => Promise<void> {
  const invite = pageInviter(page, (link) => io.err(`Approvals: ${link}`));
  invite();
  return async (request) => {
    invite();
    await page.decide(request);
    const response = await request.response;
    if ("action" in response && response.action !== "accept") {
      io.err(`Not answered: ${request}`); // the code itself reports calls
    }
  };
}
