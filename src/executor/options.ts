import type { ApprovalSetting } from "../approval/policy.ts";
import type { ApprovalRequest } from "../approval/request.ts";
import type { Logger } from "../base/log.ts";
import type { InputRequest } from "../kernel/execution.ts";
import type { ExecutionResult } from "../kernel/outputs.ts";
import type { Root, SamplingHandler } from "../mcp/hooks.ts";
import type { LoginOptions } from "../mcp/oauth/login.ts";
import type { ServerParams, VariableLookup } from "../mcp/params.ts";
import type { ElicitationRequest } from "../approval/questions.ts";
import type { ResourceLimits } from "../sandbox/limits.ts";
import type { SandboxOptions } from "../sandbox/sandbox.ts";
import type { CallEvent, ServerEvent } from "../servers/events.ts";

/** Options of `CodeExecutor.start()`. */
export interface CodeExecutorOptions {
  /**
   * The code's working directory. It holds the generated Python APIs in `mcptools/` and the registry
   * of MCP servers in `.ipybox/mcp.json`. Executed code can read and write it, but for those two.
   *
   * @default {Deno.cwd()}
   */
  workspace?: string;
  /**
   * Accepts a workspace in another one, and one with others in it. The code of the outer one can write
   * to the files of the inner one, and could have put there what the host obeys.
   *
   * @default {false}
   */
  nestedWorkspace?: boolean;
  /** MCP servers by name, for this executor only, over those that the workspace has registered. */
  servers?: Readonly<Record<string, ServerParams>>;
  /**
   * Whether code runs in the OS sandbox, and how that differs from its defaults.
   *
   * @default {true}
   */
  sandbox?: boolean | SandboxOptions;
  /**
   * What one process of the executed code may take, also without the sandbox; `false` for no limits.
   * An error that comes from one of them names it.
   *
   * @default 8 GiB of memory, 1024 processes in the sandbox, files of 4 GiB, no limit of CPU time
   */
  limits?: ResourceLimits | false;
  /**
   * Which calls need approval.
   *
   * @default {{ tools: "ask", shell: "allow" }}
   */
  approval?: ApprovalSetting;
  /**
   * Gives the values of `${VAR}` in servers' parameters.
   *
   * @default {undefined} the environment, then the workspace's `.env`
   */
  variables?: VariableLookup;
  /**
   * Lets a person log in to remote MCP servers that ask for it. An execution's time limit goes on
   * meanwhile.
   *
   * @default {undefined} the call fails and says how to log in
   */
  login?: LoginOptions;
  /**
   * Answers MCP servers that ask for a model.
   *
   * @default {undefined} they are told that there is none
   */
  sampling?: SamplingHandler;
  /**
   * Where MCP servers are told to work.
   *
   * @default {undefined} they are not told
   */
  roots?: readonly Root[];
  /**
   * Whether code can start processes only by shell commands (`!cmd`, `%%bash` and the like), which
   * can be approved, and not by `subprocess`, `os.system` and so on. A guard against code that takes
   * the direct way, not a boundary: that is the sandbox. `approval` must not allow all shell commands.
   *
   * @default {false}
   */
  requireShellEscape?: boolean;
  /** Environment variables of the kernel, which inherits nothing of the host's but `PATH`. */
  kernelEnv?: Readonly<Record<string, string>>;
  /**
   * Whether code can import the packages that were installed for its workspace, by
   * `installPackages()` or `ipybox install`; with a path, also those of that workspace. Code cannot
   * change them.
   *
   * @default {true}
   */
  packages?: boolean | string;
  /**
   * The folder for image files, relative to the workspace; created with the first image.
   *
   * @default {"images"}
   */
  imagesDir?: string;
  /**
   * Whether each execution starts in the workspace again, wherever the one before went.
   *
   * @default {false}
   */
  restoreWorkingDir?: boolean;
  /**
   * How much text of one execution is kept in memory, in bytes: half of it from the start and half
   * from the end. The whole of a longer one goes to a file, which the text names.
   *
   * @default {1048576}
   */
  maxOutputBytes?: number;
  /**
   * Whether a second kernel is kept ready, so that `reset()` takes milliseconds and a kernel that
   * died is replaced at once. It costs the memory of one idle kernel, some 45 MB.
   *
   * @default {true}
   */
  spareKernel?: boolean;
  /**
   * How long a decision on an approval is waited for, in milliseconds; then the call is refused.
   *
   * @default {undefined} for ever
   */
  approvalTimeoutMs?: number;
  /**
   * Whether each request is noted in the workspace's audit log, `.ipybox/audit.jsonl`.
   *
   * @default {true}
   */
  audit?: boolean;
  /**
   * Whether decisions that a person wanted to count always, in the workspace's
   * `.ipybox/consents.json`, count here, and can be added; or those of the workspace with this path.
   *
   * @default {true}
   */
  consents?: boolean | string;
  /**
   * How long an MCP server may take to start, in milliseconds, unless its registration says.
   *
   * @default {60000}
   */
  connectTimeoutMs?: number;
  /**
   * How long a tool call may take once it is approved, in milliseconds; then it is cancelled.
   *
   * @default {undefined} for ever
   */
  callTimeoutMs?: number;
  /**
   * How many requests one MCP server is sent at once; the others wait.
   *
   * @default {64}
   */
  maxConcurrentCalls?: number;
  /**
   * How long an MCP server is kept running without a request, in milliseconds. What it keeps in its
   * memory is lost then; the next request starts it again.
   *
   * @default {3600000}
   */
  serverIdleMs?: number;
  /**
   * How long the kernel may take to start, in milliseconds.
   *
   * @default {60000}
   */
  startTimeoutMs?: number;
  /**
   * The path of a Python that has `jupyter_kernel_gateway`, `ipykernel` and `pydantic`.
   *
   * @default the environment variable `IPYBOX_PYTHON`, else the environment made by `ipybox setup`
   */
  python?: string;
  /** Gives up the start. */
  signal?: AbortSignal;
  /**
   * Told what happens.
   *
   * @default warnings and errors go to stderr
   */
  log?: Logger;
}

/** Options of `CodeExecutor.execute()`. */
export interface ExecuteOptions {
  /**
   * How long the code may run, in milliseconds. Tool calls count; waiting for approvals, and for the
   * executions before it, does not.
   *
   * @default {undefined} for ever
   */
  timeoutMs?: number;
  /** Cancels the execution, which then rejects with the signal's reason. */
  signal?: AbortSignal;
}

/** Options of `CodeExecutor.stream()`. */
export interface StreamOptions extends ExecuteOptions {
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
  /** Gives up. */
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
}

/** A tool call or a shell command waits for a decision. The time limit stands still meanwhile. */
export interface ApprovalEvent {
  /** Tells it from the other events. */
  readonly type: "approval";
  /** What is asked for; answer it by `accept()` or `reject()`. */
  readonly request: ApprovalRequest;
}

/** An MCP server asks a question. The time limit stands still meanwhile. */
export interface ElicitationEvent {
  /** Tells it from the other events. */
  readonly type: "elicitation";
  /** What is asked; answer it by `accept()`, `decline()` or `cancel()`. */
  readonly request: ElicitationRequest;
}

/** The code asks for a line. The time limit stands still meanwhile. */
export interface InputEvent {
  /** Tells it from the other events. */
  readonly type: "input";
  /** What it asks for; answer it by `answer()` or `end()`. */
  readonly request: InputRequest;
}

/** Something that whoever writes the code should know of the servers that it calls. */
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

/** An event of `CodeExecutor.stream()`; `type` tells which. */
export type ExecutionEvent =
  | ChunkEvent
  | ApprovalEvent
  | ResultEvent
  | NoteEvent
  | ElicitationEvent
  | InputEvent
  | CallEvent
  | ServerEvent;
