import type { DurableOptions } from "./durable.ts";
import type { CheckReport } from "../check/report.ts";
import type { ApprovalRequest } from "../approval/request.ts";
import type { ToolRunnerOptions } from "../calls/runner.ts";
import type { KernelClientOptions } from "../kernel/client.ts";
import type { KernelGatewayOptions } from "../kernel/gateway.ts";
import type { InputRequest } from "../kernel/execution.ts";
import type { ExecutionResult } from "../kernel/outputs.ts";
import type { ElicitationRequest } from "../approval/questions.ts";
import type { CallEvent, ServerEvent } from "../servers/events.ts";

/**
 * Options of `CodeExecutor.start()`: for its tool calls ({@linkcode ToolRunnerOptions}), for the
 * sandbox and its limits ({@linkcode KernelGatewayOptions}), for the kernel in it
 * ({@linkcode KernelClientOptions}), and a few that belong to none of these.
 */
export interface CodeExecutorOptions extends
  ToolRunnerOptions,
  Omit<
    KernelGatewayOptions,
    "python" | "workspace" | "packages" | "kernelDoor" | "kernelToken" | "log"
  >,
  Pick<
    KernelClientOptions,
    "imagesDir" | "restoreWorkingDir" | "maxOutputBytes" | "spareKernel"
  > {
  /**
   * The code's working directory. It holds the generated Python APIs in `mcptools/` and the registry
   * of MCP servers in `.ipybox/mcp.json`. Executed code can read and write it, but for those two.
   *
   * @default {Deno.cwd()}
   */
  workspace?: string;
  /**
   * Whether code can start processes only by shell commands (`!cmd`, `%%bash` and the like), which
   * can be approved, and not by `subprocess`, `os.system` and so on. A guard against code that takes
   * the direct way, not a boundary: that is the sandbox. `approval` must not allow all shell commands.
   *
   * @default {false}
   */
  requireShellEscape?: boolean;
  /**
   * Whether code can import the packages that were installed for its workspace, by
   * `installPackages()` or `ipybox install`; with a path, also those of that workspace. Code cannot
   * change them.
   *
   * @default {true}
   */
  packages?: boolean | string;
  /**
   * Whether code is checked before it runs: for names that nothing has set, and for calls and results
   * of generated functions that do not fit their tools. With `"block"`, code that is certain to fail
   * ends with that error, and nothing of it has run; with `"warn"` it runs, and a note says so.
   *
   * A check takes some milliseconds. Code that cannot be checked within 300 ms runs unchecked.
   *
   * @default {"block"}
   */
  check?: CheckMode;
  /**
   * The path of a Python that has `jupyter_kernel_gateway`, `ipykernel` and `pydantic`. With a
   * placement, its path there: by default the one of the image, or `python3`.
   *
   * @default the environment variable `IPYBOX_PYTHON`, else the environment made by `ipybox setup`
   */
  python?: string;
  /**
   * Has the session outlive this process: its kernel runs on when the process ends or is killed, and
   * `CodeExecutor.attach()` continues it. Disposing the executor ends it.
   *
   * @default {undefined} the session ends with this process, however that ends
   */
  durable?: DurableOptions;
}

/** Options of `CodeExecutor.attach()`: what holds for the session was said when it was started. */
export type AttachOptions = Omit<
  CodeExecutorOptions,
  | "durable"
  | "kernelEnv"
  | "limits"
  | "nestedWorkspace"
  | "placement"
  | "restoreWorkingDir"
  | "sandbox"
  | "spareKernel"
  | "workspace"
>;

/** Options of `CodeExecutor.resume()`. */
export type ResumeOptions = Omit<StreamOptions, "id" | "signal" | "storeHistory">;

/** Options of `CodeExecutor.detach()`. */
export interface DetachOptions {
  /** Code that is begun before, and goes on. The next process has its result by `resume()`. */
  readonly code?: string;
}

/** What becomes of code that is certain to fail. */
export type CheckMode = "off" | "warn" | "block";

/** Options of `CodeExecutor.execute()`. */
export interface ExecuteOptions {
  /**
   * How long the code may run, in milliseconds. Tool calls count; waiting for approvals, and for the
   * executions before it, does not.
   *
   * @default {undefined} forever
   */
  timeoutMs?: number;
  /** Cancels the execution, which then rejects with the signal's reason. */
  signal?: AbortSignal;
}

/** Options of `CodeExecutor.stream()`. */
export interface StreamOptions extends ExecuteOptions {
  /**
   * An id of the execution, by which a program that attaches to a durable session knows it again: see
   * `CodeExecutor.unfinishedId`. Letters, digits, `-` and `_`; another one for each execution.
   *
   * @default {undefined} one that is random
   */
  id?: string;
  /**
   * Whether pieces of output come as events as they are produced.
   *
   * A loop that pauses, as while a person decides, does not get what comes on top of 16 MiB of unread
   * events, and is told by a chunk how much that is. The result is not affected.
   *
   * @default {false}
   */
  chunks?: boolean;
  /**
   * Whether the code is added to IPython's history (`In`, `Out`, `_`).
   *
   * @default {false}
   */
  storeHistory?: boolean;
  /**
   * Whether questions of MCP servers come as events, to be answered. Otherwise they wait for an
   * approval page, or are declined if none is open or expected.
   *
   * @default {false}
   */
  elicitations?: boolean;
  /**
   * Whether what the code asks by `input()`, `getpass.getpass()` or a debugger comes as events, to be
   * answered. Otherwise asking raises an exception.
   *
   * @default {false}
   */
  inputs?: boolean;
  /**
   * Whether the beginning and the end of each call come as events, with what was decided.
   *
   * @default {false}
   */
  calls?: boolean;
}

/** Options of `CodeExecutor.installPackages()`. */
export interface InstallPackagesOptions {
  /** Stops the installation. */
  signal?: AbortSignal;
  /** Receives each line that the installer writes. */
  onLine?: (line: string) => void;
}

/** Options of `CodeExecutor.registerServer()`. */
export interface RegisterServerOptions {
  /** Cancels it. */
  signal?: AbortSignal;
}

// What an execution tells its caller while it runs.

/** A piece of output as it was produced. */
export interface ChunkEvent {
  /** Tells it from the other events. */
  readonly type: "chunk";
  /** Where the code wrote it. Results and displays count as stdout. */
  readonly stream: "stdout" | "stderr";
  /** The text, as it came. */
  readonly text: string;
  /** Whether it is the value of the code, which IPython shows as `Out[N]`. */
  readonly isResult?: boolean;
}

/** A tool call or a shell command waits for a decision. The time limit is paused until then. */
export interface ApprovalEvent {
  /** Tells it from the other events. */
  readonly type: "approval";
  /** What is asked for; answer it by `accept()` or `reject()`. */
  readonly request: ApprovalRequest;
}

/** An MCP server asks a question. The time limit is paused until it is answered. */
export interface ElicitationEvent {
  /** Tells it from the other events. */
  readonly type: "elicitation";
  /** What is asked; answer it by `accept()`, `decline()` or `cancel()`. */
  readonly request: ElicitationRequest;
}

/** The code asks for a line. The time limit is paused until it is answered. */
export interface InputEvent {
  /** Tells it from the other events. */
  readonly type: "input";
  /** What it asks for; answer it by `answer()` or `end()`. */
  readonly request: InputRequest;
}

/** What the check found before code runs: the tools that it names, and what may be wrong with it. */
export interface CheckEvent {
  /** Tells it from the other events. */
  readonly type: "check";
  /** What was found. */
  readonly report: CheckReport;
}

/** Something that the code's author should know about the servers it calls. */
export interface NoteEvent {
  /** Tells it from the other events. */
  readonly type: "note";
  /** It, in a line, such as which tools a server has now that it did not have before. */
  readonly text: string;
}

/** The code has run to its end. */
export interface ResultEvent {
  /** Tells it from the other events. */
  readonly type: "result";
  /** What it produced. */
  readonly result: ExecutionResult;
}

/** An event of `CodeExecutor.stream()`; see `type`. */
export type ExecutionEvent =
  | ChunkEvent
  | ApprovalEvent
  | CheckEvent
  | ResultEvent
  | NoteEvent
  | ElicitationEvent
  | InputEvent
  | CallEvent
  | ServerEvent;
