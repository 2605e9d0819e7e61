import {
  CodeExecutionError,
  ConfigError,
  ExecutionTimeoutError,
  KernelDiedError,
  PackageInstallError,
} from "../../base/errors.ts";
import { abortable, anySignal, settledWithin } from "../../base/signals.ts";
import type { CodeExecutor } from "../../executor/code_executor.ts";
import type { TypedCodeOptions } from "../../kernel/typed_code.ts";
import { runAction, type RunActionOptions } from "../actions/code_action.ts";
import { type Command, parseCommandLine, table, UsageError } from "../command.ts";
import { showInstallation } from "../install.ts";
import type { RunCell } from "../notebook.ts";
import { command as servers } from "../servers.ts";
import { printable } from "../../base/log.ts";
import { terminalSize } from "../../base/terminal.ts";
import { printableEnd, printableTraceback } from "../terminal/columns.ts";
import { type EditedText, editText } from "../terminal/editor.ts";
import { command as tools } from "../tools.ts";
import type { InputHistory } from "./input_history.ts";
import { LineEditor } from "./line_editor.ts";
import { TypedKeys } from "./typed_keys.ts";

interface ReplSessionOptions
  extends
    Pick<RunActionOptions, "io" | "timeoutMs" | "decide" | "prompt" | "pictures">,
    Required<Pick<RunActionOptions, "answer">> {
  readonly workspace: string;
  readonly history: InputHistory;
  /** Whether the session may already be running code. */
  readonly resumes: boolean;
  /** Receives each cell that was run. */
  readonly onCell?: (cell: RunCell) => void;
}

/** How long code may continue after Ctrl-C before a hint is shown. */
const PATIENCE_MS = 1000;

/** How soon a second Ctrl-C must follow if the code answers the first one by asking for input. */
const AGAIN_MS = 2000;

/** How long to wait for the kernel before a hint is shown: a first completion takes a while. */
const ANSWER_PATIENCE_MS = 3000;

/** Prints the number of the next cell. */
const NEXT_NUMBER = "print(get_ipython().execution_count)";

/** Runs cells typed at a terminal, one after the other. Disposing it restores the terminal. */
export class ReplSession implements Disposable {
  readonly #options: ReplSessionOptions;
  readonly #keys: TypedKeys;
  readonly #editor: LineEditor;
  readonly #terminal = new DisposableStack();
  #started: Promise<CodeExecutor> = Promise.reject(new Error("The session has not started yet"));
  #stop = new AbortController();
  #onInterrupt: () => void = () => this.#keys.interrupt();
  #count = 1;
  #asked = false;

  constructor(options: ReplSessionOptions) {
    const { io, history } = options;
    this.#options = options;
    this.#started.catch(() => {}); // run() replaces it
    const input = this.#terminal.use(io.keys(() => this.#editor.resume()));
    this.#keys = new TypedKeys(() => input.next());
    this.#editor = new LineEditor({
      keys: this.#keys,
      history,
      write: (text) => io.errText(text),
      size: terminalSize,
      color: io.color,
      isComplete: (code) =>
        this.#help((executor, options) => executor.isComplete(code, options), {
          status: "unknown",
          indent: "",
        }),
      complete: async (code, cursor) => {
        const none = { matches: [], start: cursor, end: cursor };
        const ask = (executor: CodeExecutor, options: TypedCodeOptions) =>
          executor.complete(code, cursor, options);
        return await this.#help(ask, none) ?? none;
      },
      edit: (code) => this.#edit(code),
    });
    this.#terminal.use(io.onInterrupt(() => this.#onInterrupt()));
    const refresh = () => this.#editor.refresh();
    Deno.addSignalListener("SIGWINCH", refresh);
    this.#terminal.defer(() => Deno.removeSignalListener("SIGWINCH", refresh));
  }

  /** Lets others write to the terminal, above the code that is being typed. */
  aside(write: () => void): void {
    this.#editor.aside(write);
  }

  async run(started: Promise<CodeExecutor>): Promise<void> {
    const { io, history } = this.#options;
    this.#started = started;
    const failed = new AbortController();
    started.then(({ sessionEnded }) => {
      sessionEnded?.addEventListener("abort", () => failed.abort(sessionEnded.reason));
    }).catch((error: unknown) => failed.abort(error));
    const signal = anySignal(io.signal, failed.signal);
    if (this.#options.resumes) await this.#interruptible(() => this.#resume());
    for (;;) {
      const code = await this.#editor.read(`In [${this.#count}]: `, signal);
      if (code === undefined || /^(exit|quit)(\(\))?$|^:q(uit)?$/.test(code)) return;
      if (code === "") continue;
      await history.add(code).catch((error: unknown) => io.err(`Not kept: ${error}`));
      await this.#interruptible(() =>
        code.startsWith(":") ? this.#obey(code) : this.#runCell(code)
      );
    }
  }

  [Symbol.dispose](): void {
    this.#terminal.dispose();
  }

  /** Runs something that Ctrl-C cancels. {@linkcode #runCell} replaces this with its own handling. */
  async #interruptible(act: () => Promise<void>): Promise<void> {
    this.#stop = new AbortController();
    const before = this.#onInterrupt;
    this.#onInterrupt = () => this.#stop.abort(new DOMException("Ctrl-C", "AbortError"));
    try {
      await act();
    } catch (error) {
      if (error !== this.#stop.signal.reason) throw error;
    } finally {
      this.#onInterrupt = before;
    }
  }

  /** Asks about the typed code. A time limit would run incomplete code on a busy machine. */
  async #help<T>(
    ask: (executor: CodeExecutor, options: TypedCodeOptions) => Promise<T>,
    otherwise: T,
  ): Promise<T | undefined> {
    const { io } = this.#options;
    let answer: T | undefined;
    await this.#interruptible(async () => {
      const signal = anySignal(this.#stop.signal, io.signal);
      const executor = await this.#executor();
      try {
        const asked = abortable(ask(executor, { signal, timeoutMs: Infinity }), signal);
        if (!await settledWithin(asked, ANSWER_PATIENCE_MS)) {
          this.aside(() =>
            io.err("The kernel has not answered yet. Press Ctrl-C to stop waiting.")
          );
        }
        answer = await asked;
      } catch (error) {
        if (signal.aborted) throw error;
        answer = otherwise;
      }
    });
    if (answer === undefined) this.aside(() => io.err("Cancelled"));
    return answer;
  }

  /** Lets the person edit code in their editor, which handles Ctrl-C meanwhile. */
  async #edit(code: string): Promise<EditedText> {
    const { io } = this.#options;
    const before = this.#onInterrupt;
    this.#onInterrupt = () => {};
    try {
      const text = code === "" ? "" : `${code}\n`;
      const options = { name: "cell.py", signal: io.signal };
      const edited = await io.lend(() => editText(text, options));
      return "text" in edited
        ? { text: edited.text.replace(/\r\n?/g, "\n").replace(/\n$/, "") }
        : edited;
    } finally {
      this.#onInterrupt = before;
    }
  }

  async #executor(): Promise<CodeExecutor> {
    const { io } = this.#options;
    const waited = await settledWithin(this.#started, PATIENCE_MS);
    if (!waited) this.aside(() => io.err("The kernel is starting…"));
    return await abortable(this.#started, anySignal(this.#stop.signal, io.signal));
  }

  async #obey(line: string): Promise<void> {
    const { io, workspace } = this.#options;
    const [, name = "", after = ""] = /^:\s*(\S*)([^]*)$/.exec(line.trimEnd()) ?? [];
    const rest = after.trimStart();
    const run = async (command: Command, args: readonly string[]) => {
      const parsed = parseCommandLine(name, command, ["--workspace", workspace, ...args]);
      await command.run(parsed, io);
    };
    const executor = await this.#executor();
    try {
      switch (name) {
        case "help":
        case "h":
        case "?":
        case "":
          io.err(
            [COMMANDS, KEYS].map((rows) => table(rows, terminalSize().columns).join("\n"))
              .join("\n\n"),
          );
          break;
        case "reset":
          await executor.reset();
          io.err("The kernel was restarted; variables are lost.");
          this.#count = 1;
          break;
        case "servers":
          await run(servers, []);
          break;
        case "tools":
          await run(tools, rest === "" ? [] : [rest]);
          break;
        case "install":
          await this.#install(executor, rest.split(/\s+/).filter((word) => word !== ""));
          break;
        default:
          io.err(`No command :${name}: see :help`);
      }
    } catch (error) {
      if (!(error instanceof UsageError || error instanceof ConfigError)) throw error;
      io.err(printable(error.message));
    }
  }

  /** Installs packages for the next cells. */
  async #install(executor: CodeExecutor, requirements: readonly string[]): Promise<void> {
    const { io } = this.#options;
    if (requirements.length === 0) throw new UsageError("Specify packages: :install PACKAGE…");
    try {
      const signal = anySignal(this.#stop.signal, io.signal);
      await showInstallation(
        (onLine) => executor.installPackages(requirements, { signal, onLine }),
        { io, verbose: false },
      );
    } catch (error) {
      if (!(error instanceof TypeError || error instanceof PackageInstallError)) throw error;
      io.err(printable(error.message));
    }
  }

  /** Follows a cell whose end nobody has seen, if any, and continues the kernel's numbering. */
  async #resume(): Promise<void> {
    const { io, decide } = this.#options;
    const executor = await this.#executor();
    if (executor.unfinished !== undefined) await this.#runCell(undefined);
    const signal = anySignal(this.#stop.signal, io.signal);
    try {
      for await (const event of executor.stream(NEXT_NUMBER, { signal })) {
        if (event.type === "approval") void decide(event.request);
        else if (event.type === "result") this.#count = Number(event.result.text) || this.#count;
      }
    } catch (error) {
      if (!(error instanceof CodeExecutionError)) throw error; // code has replaced `print` or the like
    }
  }

  /** Runs a cell, or waits for the one that the session is already running. */
  async #runCell(code: string | undefined): Promise<void> {
    const { io, timeoutMs, pictures, decide, answer, prompt, onCell } = this.#options;
    const executor = await this.#executor();
    const interrupts = new Interrupts(executor, (text) => io.err(text));
    this.#onInterrupt = () => interrupts.next();
    this.#asked = false;
    try {
      await runAction(executor, code, {
        io,
        timeoutMs,
        pictures,
        storeHistory: true,
        onOutputs: (outputs) => {
          if (code !== undefined) onCell?.({ code, outputs, count: this.#count });
        },
        resultLabel: code === undefined
          ? undefined
          : io.color
          ? `\x1b[31mOut[${this.#count}]:\x1b[0m`
          : `Out[${this.#count}]:`,
        decide: async (request) => {
          this.#asked = true;
          await decide(request);
        },
        answer: async (request) => {
          this.#asked = true;
          await answer(request);
        },
        prompt: async (request) => {
          this.#asked = true;
          interrupts.asked();
          await prompt?.(request);
        },
      });
    } catch (error) {
      if (io.signal.aborted) throw error;
      if (executor.sessionEnded?.aborted) throw executor.sessionEnded.reason;
      this.#report(error);
    } finally {
      interrupts.end();
      // Input for a question that was then withdrawn is not code.
      if (this.#asked) this.#keys.drop();
    }
    if (code !== undefined) this.#count++;
    if (executor.state === "lost") {
      io.err("The kernel was restarted; variables are lost.");
      this.#count = 1;
    } else if (interrupts.count > 0) io.err("Interrupted; the variables are kept.");
  }

  #report(error: unknown): void {
    const { io } = this.#options;
    const isRaised = error instanceof CodeExecutionError;
    const isEnd = error instanceof ExecutionTimeoutError || error instanceof KernelDiedError;
    if (!isRaised && !isEnd) throw error;
    io.errText(`${isRaised ? printableTraceback(error, io.color) : printableEnd(error)}\n`);
  }
}

/** The effect of Ctrl-C on a cell, stronger each time. */
class Interrupts {
  /** How often Ctrl-C was pressed. */
  count = 0;
  readonly #executor: CodeExecutor;
  readonly #say: (text: string) => void;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #over = false;
  #stage = 0;
  #last = 0;
  #hasAsked = false;

  constructor(executor: CodeExecutor, say: (text: string) => void) {
    this.#executor = executor;
    this.#say = say;
  }

  /** The code asks for input: the next Ctrl-C counts as the first one again, unless it follows quickly. */
  asked(): void {
    clearTimeout(this.#timer);
    this.#hasAsked = true;
  }

  next(): void {
    if (this.#over) return;
    const now = performance.now();
    if (this.#hasAsked && now - this.#last > AGAIN_MS) this.#stage = 0;
    this.#hasAsked = false;
    this.#last = now;
    this.count++;
    this.#stage++;
    clearTimeout(this.#timer);
    if (this.#stage === 1) {
      this.#watch(this.#executor.interrupt());
      this.#timer = setTimeout(
        () =>
          this.#say(
            "Still running. Press Ctrl-C again to stop it, restarting the kernel if necessary.",
          ),
        PATIENCE_MS,
      );
    } else if (this.#stage === 2) {
      this.#watch(this.#executor.cancel());
    } else this.#watch(this.#executor.reset());
  }

  end(): void {
    this.#over = true;
    clearTimeout(this.#timer);
  }

  #watch(interrupted: Promise<unknown>): void {
    interrupted.catch((error: unknown) => {
      if (!this.#over) this.#say(`Cannot interrupt the cell: ${printable(String(error))}`);
    });
  }
}

/** The session commands. Python code never begins with a colon. */
const COMMANDS: readonly (readonly [form: string, help: string])[] = [
  [":help", "Show this help"],
  [":reset", "Restart the kernel: variables are lost, and MCP servers stop"],
  [":servers", "List the registered MCP servers"],
  [":tools [QUERY]", "List or search tools"],
  [":install PACKAGE…", "Install Python packages for the workspace's code"],
  [":quit", "End the session, as Ctrl-D does"],
];

const KEYS: readonly (readonly [keys: string, help: string])[] = [
  ["Enter", "Run the code when it is complete; an empty line ends a block"],
  ["Alt-Enter, Ctrl-J", "Insert a line break"],
  ["Ctrl-X Ctrl-E", "Edit the code in the editor that VISUAL or EDITOR names"],
  ["Up, Down, Ctrl-R", "Browse or search the history"],
  ["Tab", "Complete; at the start of a line, indent"],
  ["Ctrl-C", "Interrupt the cell; again, stop it, restarting the kernel if necessary"],
  ["NAME?, NAME??", "Show an object's documentation or source"],
];
