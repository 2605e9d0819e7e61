import type { DurableOptions } from "./durable.ts";
import type { CheckReport } from "../check/report.ts";
import type { PersonDesks } from "../approval/page/desk.ts";
import type { ApprovalRequest } from "../approval/request.ts";
import type { ToolRunnerOptions } from "../calls/runner.ts";
import type { Installer } from "../kernel/bootstrap.ts";
import type { KernelClientOptions } from "../kernel/client.ts";
import type { KernelGatewayOptions } from "../kernel/gateway.ts";
import type { InputRequest } from "../kernel/execution.ts";
import type { ExecutionResult } from "../kernel/outputs.ts";
import type { ElicitationRequest } from "../approval/questions.ts";
import type { CallEvent, ServerEvent } from "../servers/events.ts";

/**
 * Options of `CodeExecutor.start()`: for tool calls ({@linkcode ToolRunnerOptions}), for the sandbox
 * and its limits ({@linkcode KernelGatewayOptions}), for the kernel ({@linkcode KernelClientOptions}),
 * and a few more.
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
   * The code's working directory. It contains the generated Python APIs in `mcptools/` and the registry
   * of MCP servers in `.ipybox/mcp.json`. Executed code can read and write everything but these two.
   *
   * @default {Deno.cwd()}
   */
  workspace?: string;
  /**
   * Whether code can start processes only with shell commands (`!cmd`, `%%bash` and the like), which
   * can be approved, and not with `subprocess`, `os.system` and so on. This guards against code that
   * takes a shortcut; the security boundary is the sandbox. `approval` must not allow all shell
   * commands.
   *
   * @default {false}
   */
  requireShellEscape?: boolean;
  /**
   * Whether code can import the packages that `installPackages()` or `ipybox install` installed for its
   * workspace; with a path, also those of the workspace there. Code cannot change them.
   *
   * @default {true}
   */
  packages?: boolean | string;
  /**
   * Whether code is checked before it runs: for undefined names, and for calls and results of generated
   * functions that do not match their tools. With `"block"`, code that is certain to fail raises that
   * error without running; with `"warn"`, it runs and a note reports the problem.
   *
   * A check takes a few milliseconds. Code that cannot be checked within 300 ms runs unchecked.
   *
   * @default {"block"}
   */
  check?: CheckMode;
  /**
   * The path of a Python that has `jupyter_kernel_gateway`, `ipykernel` and `pydantic`. With a
   * placement, its path there; the default is the image's Python, or `python3`.
   *
   * @default the environment variable `IPYBOX_PYTHON`, else the environment made by `ipybox setup`
   */
  python?: string;
  /**
   * Lets the session outlive this process: its kernel keeps running when the process exits or is
   * killed, and `CodeExecutor.attach()` continues it. Disposing the executor ends it.
   *
   * @default {undefined} the session ends with this process
   */
  durable?: DurableOptions;
  /**
   * When MCP servers are started: `"with-kernel"` starts those that the user registered beside the kernel,
   * in the background, a few at a time; one that requires a login asks for it then. With `"on-call"`, the
   * first call of a server waits for its start. A registered server keeps running either way, and a reset
   * restarts those that were running.
   *
   * @default {"on-call"}
   */
  startServers?: "with-kernel" | "on-call";
  /**
   * How the reader of the code's output installs packages.
   *
   * @internal
   * @default {"method"}
   */
  installer?: Installer;
  /**
   * How the text names a file of a display, by its path.
   *
   * @internal
   * @default that path
   */
  shownPath?: (path: string) => string;
  /**
   * Looks for other sessions, which pages name in place of the workspace's.
   *
   * @internal
   */
  elsewhere?: PersonDesks["elsewhere"];
}

/** Options of `CodeExecutor.attach()`. All others were fixed when the session was started. */
export type AttachOptions = Omit<
  CodeExecutorOptions,
  | "durable"
  | "kernelEnv"
  | "limits"
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
  /** Code to start before detaching. The next process gets its result from `resume()`. */
  readonly code?: string;
}

/** What happens to code that is certain to fail. */
export type CheckMode = "off" | "warn" | "block";

/** Options of `CodeExecutor.execute()`. */
export interface ExecuteOptions {
  /**
   * How long the code may run, in milliseconds. Tool calls count; waiting for approvals, for the start
   * of an MCP server or for earlier executions does not.
   *
   * @default {undefined} no limit
   */
  timeoutMs?: number;
  /** Cancels the execution, which then rejects with the signal's reason. */
  signal?: AbortSignal;
  /**
   * Whether a call is approved. It is asked about each call that the executor's `approval` option and
   * remembered decisions leave open, and about the start of servers that the user has not registered.
   * If it throws, the execution is cancelled and rejects with that error.
   *
   * @default every call is approved; the start of servers that the user has not registered is not
   */
  approve?: (request: ApprovalRequest) => boolean | Promise<boolean>;
}

/** Options of `CodeExecutor.stream()`. */
export interface StreamOptions extends Omit<ExecuteOptions, "approve"> {
  /**
   * The id of the execution, by which a process that attaches to a durable session recognizes it: see
   * `CodeExecutor.unfinishedId`. Letters, digits, `-` and `_`; unique for each execution.
   *
   * @default {undefined} a random id
   */
  id?: string;
  /**
   * Whether output is delivered as events while it is produced.
   *
   * If the loop pauses, for example while a person decides, events beyond 16 MiB of unread ones are
   * dropped, and a chunk says how much. The result is not affected.
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
   * Whether questions of MCP servers are delivered as events, for the loop to answer. Otherwise they
   * wait for an approval page, or are declined if none is open or expected.
   *
   * @default {false}
   */
  elicitations?: boolean;
  /**
   * Whether questions of the code (`input()`, `getpass.getpass()`, a debugger) are delivered as events,
   * for the loop to answer. Otherwise asking raises an exception.
   *
   * @default {false}
   */
  inputs?: boolean;
  /**
   * Whether the beginning and the end of each call are delivered as events, with the decision.
   *
   * @default {false}
   */
  calls?: boolean;
}

/** Options of `CodeExecutor.installPackages()`. */
export interface InstallPackagesOptions {
  /** Cancels the installation. */
  signal?: AbortSignal;
  /** Called with each line of the installer's output. */
  onLine?: (line: string) => void;
}

/** Options of `CodeExecutor.registerServer()`. */
export interface RegisterServerOptions {
  /** Cancels the registration. */
  signal?: AbortSignal;
}

// The events of an execution.

/** A piece of output. */
export interface ChunkEvent {
  /** The type of the event. */
  readonly type: "chunk";
  /** The stream that the code wrote to. Results and displays count as stdout. */
  readonly stream: "stdout" | "stderr";
  /** The text. */
  readonly text: string;
  /** Whether it is the value of the code, which IPython shows as `Out[N]`. */
  readonly isResult?: boolean;
}

/** A tool call or a shell command waits for a decision. The time limit is paused until then. */
export interface ApprovalEvent {
  /** The type of the event. */
  readonly type: "approval";
  /** The request; answer it with `accept()` or `reject()`. */
  readonly request: ApprovalRequest;
}

/** An MCP server asks a question. The time limit is paused until it is answered. */
export interface ElicitationEvent {
  /** The type of the event. */
  readonly type: "elicitation";
  /** The question; answer it with `accept()`, `decline()` or `cancel()`. */
  readonly request: ElicitationRequest;
}

/** The code asks for a line of input. The time limit is paused until it is answered. */
export interface InputEvent {
  /** The type of the event. */
  readonly type: "input";
  /** The question; answer it with `answer()` or `end()`. */
  readonly request: InputRequest;
}

/** The result of checking code before it runs: the tools that it names, and its problems. */
export interface CheckEvent {
  /** The type of the event. */
  readonly type: "check";
  /** The result. */
  readonly report: CheckReport;
}

/** A note for the author of the code. */
export interface NoteEvent {
  /** The type of the event. */
  readonly type: "note";
  /** The note, for example that the tools of a server changed. */
  readonly text: string;
}

/** The code has run to its end. */
export interface ResultEvent {
  /** The type of the event. */
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
