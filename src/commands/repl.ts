import { basename, dirname, join, resolve } from "node:path";
import { startOwn } from "../executor/code_executor.ts";
import { startNamed } from "../executor/named_sessions.ts";
import { type Logger, stderrLogger } from "../base/log.ts";
import { PinnedFolder } from "../files/pinned_folder.ts";
import { ifPresent, replaceFile } from "../files/safe.ts";
import { ServerRegistry } from "../servers/registry.ts";
import { askAtTerminal } from "./terminal/answerer.ts";
import { type Command, type CommandIo, EXIT, type ParsedArgs, UsageError } from "./command.ts";
import {
  APPROVE,
  APPROVE_SHELL,
  executorOptions,
  PLACEMENT,
  SESSION,
  sessionNameOf,
  TIMEOUT,
} from "./executor_options.ts";
import { printable } from "./terminal/columns.ts";
import { IMAGES, picturesOf } from "./terminal/pictures.ts";
import { historyPath, InputHistory } from "./repl/input_history.ts";
import { ReplSession } from "./repl/session.ts";
import { isNotebook, notebookOf, type RunCell } from "./notebook.ts";
import { workspaceOf } from "./shared.ts";

export const command: Command = {
  usage: "[OPTIONS]",
  options: {
    approve: APPROVE,
    "approve-shell": APPROVE_SHELL,
    timeout: TIMEOUT,
    images: IMAGES,
    session: {
      value: "NAME",
      help: "Continue the session of this name, or begin it; it outlives this command for a day",
    },
    save: {
      value: "FILE.ipynb",
      help: "At the end, save the cells and their outputs as a new notebook",
    },
    ...SESSION,
    placement: PLACEMENT,
  },
  notes: [
    "Cells share variables. Enter runs a complete cell, Ctrl-C interrupts it, Tab",
    "completes, NAME? shows documentation, :help lists the rest, Ctrl-D exits.",
    "",
    "Input is saved in ~/.local/state/ipybox/history (or below $XDG_STATE_HOME).",
    "",
    "Example:",
    "",
    "  ipybox repl --workspace project --approve ask",
    "  ipybox repl --session analysis",
    "  ipybox repl --save analysis.ipynb",
  ].join("\n"),
  run,
};

async function run(parsed: ParsedArgs, io: CommandIo): Promise<number> {
  const timeoutMs = parsed.milliseconds("timeout");
  if (!io.interactive || Deno.env.get("TERM") === "dumb") {
    throw new UsageError(
      "A session needs a terminal: use `ipybox run -` to run code from stdin",
    );
  }
  const name = await sessionNameOf(parsed);
  const workspace = await workspaceOf(parsed);
  const options = {
    ...await executorOptions(parsed, io, workspace),
    installer: "session",
  } as const;
  const { names } = await ServerRegistry.open({ workspace });
  io.err(
    [
      `ipybox in ${printable(workspace)}`,
      `sandbox ${options.sandbox === false ? "off" : "on"}`,
      `${names.length} server${names.length === 1 ? "" : "s"}`,
      ":help",
    ].join(" · "),
  );
  await using parts = new AsyncDisposableStack();
  const notebook = await notebookAt(parsed.value("save"));
  if (notebook !== undefined) parts.use(notebook.folder);
  const cells: RunCell[] = [];
  // Restored before waiting for the end, so that Ctrl-C works then.
  using session = new ReplSession({
    io,
    workspace,
    history: await openHistory(workspace, io),
    timeoutMs,
    resumes: name !== undefined,
    onCell: notebook && ((cell) => cells.push(cell)),
    pictures: picturesOf(parsed, io),
    ...askAtTerminal(io),
  });
  const ending = new AbortController();
  const log = asideOf(session, parsed.has("verbose"));
  const signal = AbortSignal.any([io.signal, ending.signal]);
  const started = name === undefined
    ? startOwn({ ...options, log, signal })
    : startNamed(name, { ...options, log, signal }).then(({ executor }) => executor);
  parts.defer(async () => {
    ending.abort();
    const executor = await started.catch(() => undefined); // the session reported it
    if (name === undefined) await executor?.[Symbol.asyncDispose]();
    else await executor?.detach();
  });
  try {
    await session.run(started);
  } finally {
    if (notebook !== undefined && cells.length > 0) {
      await replaceFile(join(notebook.folder.path, notebook.name), notebookOf(cells), 0o644);
      io.err(`Saved as ${printable(notebook.path)}`);
    }
  }
  if (name !== undefined) {
    io.err(`Session ${name} continues; \`ipybox sessions\` lists and ends it`);
  }
  return EXIT.ok;
}

/** The path of a new notebook. Its folder is held open, so that code cannot replace it. */
async function notebookAt(path: string | undefined) {
  if (path === undefined) return undefined;
  if (!isNotebook(path)) {
    throw new UsageError(`Option --save takes the name of a new FILE.ipynb: received "${path}"`);
  }
  const file = resolve(path);
  if (await ifPresent(Deno.lstat(file)) !== undefined) {
    throw new UsageError(`"${path}" exists: save to another file, or remove this one`);
  }
  const folder = await ifPresent(Deno.realPath(dirname(file)));
  if (folder === undefined) {
    throw new UsageError(`Cannot save "${path}": there is no folder "${dirname(file)}"`);
  }
  return { path: file, name: basename(file), folder: PinnedFolder.open(folder) };
}

/** The history of earlier sessions, or only of this one if it cannot be saved. */
async function openHistory(workspace: string, io: CommandIo): Promise<InputHistory> {
  try {
    const path = await historyPath(workspace);
    if (path !== undefined) return await InputHistory.open(path);
    io.err("Input will not be saved: the history folder is in the workspace, or does not exist.");
  } catch (error) {
    io.err(`Input will not be saved: ${printable(String(error))}`);
  }
  return await InputHistory.open(undefined);
}

/** A logger that writes above the code that is being typed. */
function asideOf(session: ReplSession, verbose: boolean): Logger {
  // Messages below the log level must not redraw the line.
  const { debug, info, warn, error } = stderrLogger(verbose ? "debug" : "info");
  const aside = (write: (message: string) => void) => (message: string): void =>
    session.aside(() => write(message));
  return {
    debug: verbose ? aside(debug) : debug,
    info: aside(info),
    warn: aside(warn),
    error: aside(error),
  };
}
