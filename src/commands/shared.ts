/**
 * Options and small steps that several commands share.
 *
 * @module
 */
import { join, resolve } from "node:path";
import { type ApprovalMode, type ApprovalPolicy, approvalPolicy } from "../approval/policy.ts";
import type { ApprovalCall } from "../approval/request.ts";
import { readDotenv } from "../mcp/dotenv_file.ts";
import { checkServerName } from "../mcp/server_name.ts";
import { loadPolicy } from "../policy/policy_file.ts";
import type { SandboxOptions } from "../sandbox/sandbox.ts";
import { type OptionSpec, type ParsedArgs, UsageError } from "./command.ts";

/** `--workspace DIR`, an option of every command that works on one. */
export const WORKSPACE: OptionSpec = {
  value: "DIR",
  help: "The workspace: the code's working directory, which holds mcptools/ (default: .)",
};

/** `--python PATH`, an option of every command that runs code. */
export const PYTHON: OptionSpec = {
  value: "PATH",
  help: "The Python that runs the code (default: the one made by `ipybox setup`)",
};

/** `--verbose`, an option of every command that runs code. */
export const VERBOSE: OptionSpec = { short: "v", help: "Say on stderr what happens" };

/** `--approve MODE`, an option of every command that makes tool calls. */
export const APPROVE: OptionSpec = {
  value: "MODE|FILE",
  help:
    "Tool calls: ask at the terminal, allow or deny all, or a policy file (default: ask, with the workspace's and your own policy)",
};

/** `--approve-shell MODE`, an option of commands that run code. */
export const APPROVE_SHELL: OptionSpec = {
  value: "MODE",
  help:
    "Shell commands such as !ls: ask, allow or deny all (default: allow, or what the policy says)",
};

/** What the command line and the policy files say of approvals. */
export interface CommandApproval {
  /** What becomes of tool calls. */
  readonly tools: ApprovalMode;
  /** What becomes of requests for resources. */
  readonly resources: ApprovalMode;
  /** What becomes of shell commands. */
  readonly shell: ApprovalMode;
  /** The policy that counts instead, where there is one. */
  readonly policy?: ApprovalPolicy;
}

/**
 * What the command line says of approvals. Policy files count where it does not say allow or deny.
 *
 * @throws {UsageError} If it is no mode and no file.
 * @throws {ConfigError} If a file is no policy.
 */
export async function approvalOf(args: ParsedArgs, workspace: string): Promise<CommandApproval> {
  const approve = args.value("approve") ?? "ask";
  const shell = args.value("approve-shell");
  const modes = { shell: modeOf(shell ?? "allow", "approve-shell") };
  if (approve === "allow" || approve === "deny") {
    return { tools: approve, resources: approve, ...modes };
  }
  if (approve !== "ask" && !/[./]/.test(approve)) modeOf(approve, "approve");
  const file = approve === "ask" ? undefined : resolve(approve);
  const policy = await loadPolicy({ workspace, file });
  const asking = { tools: "ask", resources: "ask", ...modes } as const;
  if (policy === undefined) return asking;
  if (shell === undefined) return { ...asking, policy };
  const shellPolicy = approvalPolicy({ shell: modes.shell });
  const isShell = ({ kind }: ApprovalCall) => kind === "shell" || kind === "shell_magic";
  return {
    ...asking,
    policy: {
      redact: policy.redact,
      decide: (call) => (isShell(call) ? shellPolicy : policy).decide(call),
    },
  };
}

function modeOf(mode: string, option: string): ApprovalMode {
  if (mode === "ask" || mode === "allow" || mode === "deny") return mode;
  const file = option === "approve" ? ", or a policy file such as policy.json" : "";
  throw new UsageError(`Option --${option} takes ask, allow or deny${file}: received "${mode}"`);
}

/**
 * The variables for the kernel: those named `KERNEL_ENV_X`, as `X`. The environment's come before
 * those of the workspace's `.env`.
 */
export async function kernelEnvOf(workspace: string): Promise<Record<string, string>> {
  const prefix = "KERNEL_ENV_";
  const file = await readDotenv(workspace);
  return Object.fromEntries(
    Object.entries({ ...file, ...Deno.env.toObject() })
      .filter(([name]) => name.startsWith(prefix) && name.length > prefix.length)
      .map(([name, value]) => [name.slice(prefix.length), value]),
  );
}

/** The options about the sandbox, of every command that runs code. */
export const SANDBOX: Readonly<Record<string, OptionSpec>> = {
  "no-sandbox": { help: "Run without the OS sandbox: the code can do all that you can" },
  "sandbox-config": {
    value: "FILE",
    help: "Settings added to the sandbox's own, such as allowed domains",
  },
};

/**
 * What the command line says of the sandbox.
 *
 * @throws {UsageError} If it contradicts itself.
 */
export function sandboxOf(args: ParsedArgs): boolean | SandboxOptions {
  const config = args.value("sandbox-config");
  if (config === undefined) return !args.has("no-sandbox");
  if (args.has("no-sandbox")) {
    throw new UsageError("Options --no-sandbox and --sandbox-config contradict each other");
  }
  return { config: resolve(config) };
}

/**
 * The workspace that the command line names, as an absolute path.
 *
 * @throws {UsageError} If it is no directory.
 */
export async function workspaceOf(args: ParsedArgs): Promise<string> {
  const workspace = resolve(args.value("workspace") ?? ".");
  const info = await Deno.stat(workspace).catch((error: unknown) => {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  });
  if (info === undefined) {
    throw new UsageError(`Workspace "${workspace}" does not exist: create it or name another`);
  }
  if (!info.isDirectory) throw new UsageError(`Workspace "${workspace}" is not a directory`);
  return await Deno.realPath(workspace);
}

/**
 * Checks a server's name that the command line gives, before it becomes a path.
 *
 * @throws {UsageError} If it cannot be a server's name.
 */
export function requireServerName(name: string): void {
  try {
    checkServerName(name);
  } catch (error) {
    if (error instanceof TypeError) throw new UsageError(error.message, { cause: error });
    throw error;
  }
}

/**
 * Reads a file that the command line names.
 *
 * @throws {UsageError} If it is not there, is a directory, or may not be read.
 */
export async function readUserFile(path: string): Promise<string> {
  try {
    if ((await Deno.stat(path)).isDirectory) {
      throw new UsageError(`"${path}" is a directory, not a file`);
    }
    return await Deno.readTextFile(path);
  } catch (cause) {
    if (cause instanceof Deno.errors.NotFound) throw new UsageError(`No file "${path}"`, { cause });
    if (cause instanceof Deno.errors.PermissionDenied) {
      throw new UsageError(`File "${path}" may not be read`, { cause });
    }
    throw cause;
  }
}

/** The folder of the generated Python APIs. */
export function mcptoolsOf(workspace: string): string {
  return join(workspace, "mcptools");
}
