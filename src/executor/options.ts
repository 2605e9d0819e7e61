import type { TrustSetting } from "../files/own_entries.ts";
import type { ApprovalSetting } from "../approval/policy.ts";
import type { AuditLog } from "../approval/audit/log.ts";
import type { ApprovalPage } from "../approval/page/page.ts";
import type { ElicitationRequest } from "../approval/questions.ts";
import type { ApprovalRequest } from "../approval/request.ts";
import type { Logger } from "../base/log.ts";
import type { CheckReport } from "../check/report.ts";
import type { Installer } from "../kernel/bootstrap.ts";
import type { InputRequest } from "../kernel/execution.ts";
import type { ExecutionResult } from "../kernel/outputs.ts";
import type { Root, SamplingHandler } from "../mcp/hooks.ts";
import type { LoginOptions } from "../mcp/oauth/login.ts";
import type { VariableLookup } from "../mcp/params.ts";
import type { Placement } from "../place/placement.ts";
import type { ResourceLimits } from "../sandbox/limits.ts";
import type { SandboxOptions } from "../sandbox/sandbox.ts";
import type { CallEvent, ServerEvent } from "../servers/events.ts";
import type { GivenServers } from "../servers/registry.ts";

/** Options of `CodeExecutor.start()`. */
export interface CodeExecutorOptions {
  /**
   * The code's working directory. It contains the generated Python APIs in `mcptools/` and the registry
   * of MCP servers in `.ipybox/mcp.json`. Executed code can read and write everything but these two.
   *
   * @default {Deno.cwd()}
   */
  workspace?: string;
  /**
   * Which settings in the workspace count: its `.env` and its registered servers. With
   * `"recorded"`, the settings that the user made or accepted on this machine, for example with
   * `ipybox trust`. With `"all"`, the settings at the start; nothing is recorded.
   *
   * @default {"recorded"}
   */
  trust?: TrustSetting;
  /** MCP servers by name; they take precedence over the workspace's registered ones. */
  servers?: GivenServers;
  /**
   * Which calls need approval.
   *
   * @default {{ tools: "ask", shell: "allow" }}
   */
  approval?: ApprovalSetting;
  /**
   * How long to wait for a decision on a call, in milliseconds; then it is refused.
   *
   * @default {undefined} forever
   */
  approvalTimeoutMs?: number;
  /**
   * Whether to use and extend the user's permanent decisions for the workspace.
   *
   * @default {true}
   */
  consents?: boolean;
  /**
   * Whether to write each request to the workspace's audit log; or the log to write to, which stays
   * open.
   *
   * @default {true}
   */
  audit?: boolean | AuditLog;
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
   * The time limit for a tool call once it is approved, in milliseconds; then it is cancelled.
   *
   * @default {undefined} forever
   */
  callTimeoutMs?: number;
  /**
   * The time limit for an MCP server to start and answer, in milliseconds, unless its parameters
   * set one.
   *
   * @default {60000} 180000 for `npx`, `uvx` and the like, which may have to download it
   */
  connectTimeoutMs?: number;
  /**
   * How long an MCP server keeps running without requests, in milliseconds. Stopping it loses its
   * in-memory state; the next request starts it again.
   *
   * @default {3600000}
   */
  serverIdleMs?: number;
  /**
   * Provides the values of `${VAR}` in servers' parameters.
   *
   * @default {undefined} the environment, then the workspace's `.env`
   */
  variables?: VariableLookup;
  /**
   * Lets a person log in to remote servers that require it. The login counts toward no time limit.
   *
   * @default {undefined} such a server cannot be used, and the error says how to log in
   */
  login?: LoginOptions;
  /**
   * Answers MCP servers that ask for a model.
   *
   * @default {undefined} servers see no sampling capability
   */
  sampling?: SamplingHandler;
  /**
   * The folders that MCP servers should work in.
   *
   * @default {undefined} servers see no roots capability
   */
  roots?: readonly Root[];
  /**
   * Where kernels run: in a container, or on another machine. Approvals, secrets and MCP servers stay
   * on this one.
   *
   * @default {undefined} on this machine, in its sandbox
   */
  placement?: Placement;
  /**
   * Whether code runs in the OS sandbox, and how that differs from its defaults.
   *
   * @default {true}
   */
  sandbox?: boolean | SandboxOptions;
  /**
   * The limits of one process of the executed code, also without the sandbox; `false` for no limits.
   * An error that comes from one of them names it.
   *
   * @default 8 GiB of memory, 1024 processes in the sandbox, no limit of files or CPU time
   */
  limits?: ResourceLimits | false;
  /**
   * The path of a Python that has `jupyter_kernel_gateway`, `ipykernel` and `pydantic`. With a
   * placement, its path there; the default is the image's Python, or `python3`.
   *
   * @default the environment variable `IPYBOX_PYTHON`, else the environment made by `ipybox setup`
   */
  python?: string;
  /**
   * Whether code can import the packages that `installPackages()` or `ipybox install` installed for its
   * workspace, and the packages of `ipybox setup --data`. Code cannot change them.
   *
   * @default {true}
   */
  packages?: boolean;
  /**
   * Environment variables of the kernel. From the host, it inherits `PATH` and, on this machine,
   * the variables for the user's name, the time zone, the language and Git's author.
   */
  kernelEnv?: Readonly<Record<string, string>>;
  /**
   * The folder for files of displays, such as images, relative to the workspace. It is created with the
   * first file.
   *
   * @default {"images"}
   */
  imagesDir?: string;
  /**
   * How much text of one execution is kept in memory, in bytes: half of it from the start and half
   * from the end. A longer text is written to a file, which the kept text names.
   *
   * @default {1048576}
   */
  maxOutputBytes?: number;
  /**
   * Whether each execution starts in the initial directory again, wherever the previous one went.
   * An execution that leaves it says so in its text. It applies to the kernels that this program
   * starts.
   *
   * @default {false}
   */
  restoreWorkingDir?: boolean;
  /**
   * Lets the session outlive this process: its kernel keeps running when the process exits or is
   * killed, and `CodeExecutor.attach()` continues it. Disposing the executor ends it.
   *
   * @default {undefined} the session ends with this process
   */
  durable?: DurableOptions;
  /**
   * When MCP servers are started: `"with-kernel"` starts the servers that the user registered
   * alongside the kernel, in the background, a few at a time; a server that requires a login asks
   * for it then. With `"on-call"`, the first call of a server waits for its start. A registered
   * server keeps running either way, and a reset restarts the servers that were running.
   *
   * @default {"on-call"}
   */
  startServers?: "with-kernel" | "on-call";
  /**
   * The time limit for the gateway and for the kernel to start, each in milliseconds.
   *
   * @default {60000}
   */
  startTimeoutMs?: number;
  /** Cancels the start. */
  signal?: AbortSignal;
  /**
   * Receives log messages, such as warnings about weaker protection.
   *
   * @default {stderrLogger()}
   */
  log?: Logger;
}

// The groups of these options, by the part of ipybox that they are for. A new option is added to one.

/** For the place where code runs. */
export type PlaceOptions = Pick<
  CodeExecutorOptions,
  "kernelEnv" | "limits" | "placement" | "sandbox" | "signal" | "startTimeoutMs"
>;

/** For the gate before each call. */
export type ApprovalOptions = Pick<
  CodeExecutorOptions,
  "approval" | "approvalTimeoutMs" | "audit" | "consents"
>;

/** For MCP servers: which ones exist, and how they are started and called. */
export type ServersOptions = Pick<
  CodeExecutorOptions,
  | "callTimeoutMs"
  | "connectTimeoutMs"
  | "login"
  | "roots"
  | "sampling"
  | "serverIdleMs"
  | "servers"
  | "trust"
  | "variables"
>;

/** For the Python that runs code, and its output. */
export type PythonOptions = Pick<
  CodeExecutorOptions,
  | "check"
  | "imagesDir"
  | "maxOutputBytes"
  | "packages"
  | "python"
  | "requireShellEscape"
  | "restoreWorkingDir"
>;

/** How long a durable session lasts. */
export interface DurableOptions {
  /**
   * How long it waits for a program to attach, in milliseconds.
   *
   * @default {86400000} a day
   */
  readonly idleMs?: number;
  /**
   * How long it lasts in total, in milliseconds.
   *
   * @default {604800000} a week
   */
  readonly maxMs?: number;
  /** Its name: letters, digits, `.`, `_` and `-`. Names are unique in a workspace. */
  readonly name?: string;
}

/** Options that only ipybox's own programs set. */
export interface OwnOptions {
  /** The workspace of a session's folder: its permanent decisions count, and its packages, too. */
  parentWorkspace?: string;
  /** Whether a second kernel is kept ready for a reset, or a death of the first; `true` by default. */
  spareKernel?: boolean;
  /** How the reader of the code's output installs packages; `"method"` by default. */
  installer?: Installer;
  /** Returns how the text names the file of a display, given its path; by default, the path. */
  shownPath?: (path: string) => string;
  /**
   * Called once the approval page exists, before a kernel starts, the sandbox's settings are read
   * and a call is decided. Returns the kernel's variables, in place of `kernelEnv`.
   */
  beforeKernel?: ((page: ApprovalPage) => Promise<CodeExecutorOptions["kernelEnv"]>) | undefined;
}

/** The options of an executor of ipybox's own programs. */
export interface OwnExecutorOptions extends CodeExecutorOptions, OwnOptions {}

/** Options of `CodeExecutor.attach()`. All others were fixed when the session was started. */
export type AttachOptions = Omit<
  CodeExecutorOptions,
  | "durable"
  | "kernelEnv"
  | "limits"
  | "placement"
  | "sandbox"
  | "workspace"
>;

/** Options of `CodeExecutor.resume()`. */
export type ResumeOptions = Omit<StreamOptions, "id" | "storeHistory">;

/** Options of `CodeExecutor.detach()`. */
export interface DetachOptions {
  /** Code to start before detaching. The next process gets its result from `resume()`. */
  readonly code?: string;
}

/** How to treat code that is certain to fail. */
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
   * Returns whether a call is approved. Called for each call that the executor's `approval` option
   * and remembered decisions leave open, and for the start of servers that the user has not
   * registered. If it throws, the execution is cancelled and rejects with that error.
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
   * The types of events to deliver in addition to those that are always delivered:
   *
   * - `"chunk"`: output while it is produced. If the loop pauses, for example while a person decides,
   *   chunks beyond 16 MiB of unread events are dropped, and a chunk says how much. The result is not
   *   affected.
   * - `"call_started"`, `"call_ended"`: the beginning and the end of each call, with the decision.
   * - `"elicitation"`: questions of MCP servers, for the loop to answer. Otherwise they wait for an
   *   approval page, or are declined if none is open or expected.
   * - `"input"`: questions of the code (`input()`, `getpass.getpass()`, a debugger), for the loop to
   *   answer. Otherwise asking raises an exception.
   *
   * @default {[]}
   */
  events?: readonly OptionalEvent[];
  /**
   * Whether the code is added to IPython's history (`In`, `Out`, `_`).
   *
   * @default {false}
   */
  storeHistory?: boolean;
}

/** The type of an event that `CodeExecutor.stream()` delivers on request only. */
export type OptionalEvent = "chunk" | "call_started" | "call_ended" | "elicitation" | "input";

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

/** These options, and those that ipybox itself adds. */
export interface OwnRegisterOptions extends RegisterServerOptions {
  /** The settings of the server's sandbox that a person saw when they agreed; only these are used. */
  seen?: { readonly settings: string | undefined };
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
  /**
   * The path in the text, if this is the line of a display that became a file instead, such as
   * `[plotly figure: /ws/images/7f3a2b1c.html]`. Code cannot set it. The file exists once the code has ended.
   */
  readonly file?: string;
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
  /** Its output. */
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
