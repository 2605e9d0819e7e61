import type { ApprovalSetting } from "../approval/policy.ts";
import type { Logger } from "../log.ts";
import type { LoginOptions } from "../mcp/oauth/login.ts";
import type { Root, SamplingHandler } from "../mcp/server_hooks.ts";
import type { ServerParams, VariableLookup } from "../mcp/server_params.ts";

/** Options of `ToolRunner.start()`. */
export interface ToolRunnerOptions {
  /** The folder with `.ipybox/mcp.json` and `.env`; without it, only `servers` are known. */
  workspace?: string | undefined;
  /** Registered servers, over those of the workspace. */
  servers?: Readonly<Record<string, ServerParams>> | undefined;
  /**
   * How calls are approved.
   *
   * @default {{ tools: "ask", shell: "allow" }}
   */
  approval?: ApprovalSetting | undefined;
  /**
   * How long a decision is waited for, in milliseconds.
   *
   * @default {undefined} for ever
   */
  approvalTimeoutMs?: number | undefined;
  /**
   * Whether each request is noted in the workspace's audit log, `.ipybox/audit.jsonl`.
   *
   * @default {true}
   */
  audit?: boolean | undefined;
  /**
   * Whether decisions that a person wanted to count always, in the workspace's
   * `.ipybox/consents.json`, count here, and can be added; or those of the workspace with this path.
   *
   * @default {true}
   */
  consents?: boolean | string | undefined;
  /**
   * How long a server may take to start, in milliseconds, unless its registration says.
   *
   * @default {60000}
   */
  connectTimeoutMs?: number | undefined;
  /**
   * How long a call may take once it is approved, in milliseconds.
   *
   * @default {undefined} for ever
   */
  callTimeoutMs?: number | undefined;
  /**
   * How many requests a server is sent at once; the others wait.
   *
   * @default {64}
   */
  maxConcurrentCalls?: number | undefined;
  /**
   * How long a server is kept running without a request, in milliseconds. What it keeps in its memory
   * is lost then; the next request starts it again.
   *
   * @default {3600000}
   */
  serverIdleMs?: number | undefined;
  /**
   * Answers servers that ask for a model.
   *
   * @default {undefined} they are told that there is none
   */
  sampling?: SamplingHandler | undefined;
  /**
   * Where servers are told to work.
   *
   * @default {undefined} they are not told
   */
  roots?: readonly Root[] | undefined;
  /**
   * Gives the values of `${VAR}` in servers' parameters.
   *
   * @default {undefined} the environment, then the workspace's `.env`
   */
  variables?: VariableLookup | undefined;
  /**
   * Lets a person log in to remote servers that ask for it.
   *
   * @default {undefined} the call fails and says how to log in
   */
  login?: LoginOptions | undefined;
  /** Told what happens. Warnings and errors go to stderr by default. */
  log?: Logger | undefined;
}
