import { resolve } from "node:path";
import { type ApprovalMode, type ApprovalPolicy, approvalPolicy } from "../approval/policy.ts";
import { isShell } from "../approval/request.ts";
import type { CodeExecutorOptions, OwnExecutorOptions } from "../executor/options.ts";
import type { TrustSetting } from "../files/own_entries.ts";
import { readDotenv } from "../mcp/env.ts";
import { messageOf } from "../base/message_of.ts";
import type { Logger } from "../base/log.ts";
import { loadPolicy } from "../approval/rules/file.ts";
import { bindsWorkspace, parsePlacement, type Placement } from "../place/placement.ts";
import type { ResourceLimits } from "../sandbox/limits.ts";
import type { SandboxOptions } from "../sandbox/sandbox.ts";
import { useNamedFile } from "../sandbox/named_file.ts";
import { type CommandIo, type OptionSpec, type ParsedArgs, UsageError } from "./command.ts";
import { WORKSPACE } from "./shared.ts";
import { IMAGES } from "./terminal/pictures.ts";

/** `--approve MODE`, an option of every command that makes tool calls. */
export const APPROVE: OptionSpec = {
  value: "MODE|FILE",
  choices: ["ask", "allow", "deny"],
  help:
    "Tool calls: ask at the terminal, allow or deny all, reads (allow tools that only read, as their server claims), or a policy file (default: ask, unless the workspace's or your own policy decides)",
};

const SHELL_MODES = ["ask", "allow", "deny"] as const;

/** `--approve-shell MODE`, an option of commands that run code. */
export const APPROVE_SHELL: OptionSpec = {
  value: "MODE",
  choices: SHELL_MODES,
  help:
    "Shell commands such as !ls: ask, allow or deny all (default: allow, unless a policy decides)",
};

/** `--timeout SECONDS`, an option of commands that run code. */
export const TIMEOUT: OptionSpec = {
  value: "SECONDS",
  help: "Stop the code after this time, not counting approvals and server starts",
};

/** The options for the kernel's Python and its sandbox, of every command that runs code. */
export const KERNEL: Readonly<Record<string, OptionSpec>> = {
  "no-sandbox": { help: "Run without the OS sandbox: code can do everything you can" },
  "sandbox-config": {
    value: "FILE",
    help: "Settings added to the sandbox's own, such as allowed domains",
  },
  python: {
    value: "PATH",
    help: "The Python that runs the code (default: the one `ipybox setup` built)",
  },
};

/** The options for a workspace and its kernels, of every command that uses both. */
export const EXECUTOR: Readonly<Record<string, OptionSpec>> = {
  workspace: WORKSPACE,
  ...KERNEL,
  verbose: { short: "v", help: "Log to stderr" },
};

/** Options of commands that run code and follow it. */
export const FOLLOW: Readonly<Record<string, OptionSpec>> = {
  approve: APPROVE,
  "approve-shell": APPROVE_SHELL,
  page: { help: "Ask on a local web page, and print its one-time link to stderr" },
  timeout: TIMEOUT,
  json: { help: "Print the result as one JSON object" },
  images: IMAGES,
};

const CHECK_MODES = ["block", "warn", "off"] as const;

/** The same for commands that run the user's code in a workspace. */
export const SESSION: Readonly<Record<string, OptionSpec>> = {
  ...EXECUTOR,
  device: {
    value: "NAME",
    many: true,
    help: "Let code use devices: nvidia, amd, intel, or a path in /dev",
  },
  check: {
    value: "MODE",
    choices: CHECK_MODES,
    help: "Code that is certain to fail: block it before it runs, warn, or off (default: block)",
  },
  limit: {
    value: "NAME=N",
    many: true,
    help:
      "Set a resource limit: memoryBytes, processes, fileBytes or cpuSeconds; N is none for no limit",
  },
};

const PLACEMENTS = ["docker", "podman", "kubernetes"] as const;

/** `--placement WHERE`, an option of commands that run code for a person or a client. */
export const PLACEMENT: OptionSpec = {
  value: "WHERE|FILE",
  choices: PLACEMENTS,
  help:
    "Run code elsewhere: docker, podman, kubernetes, ssh:HOST or a JSON file (docs/placements.md)",
};

/** The executor's options for the person's own code. */
export async function executorOptions(
  parsed: ParsedArgs,
  io: CommandIo,
  workspace: string,
): Promise<OwnExecutorOptions & { readonly workspace: string }> {
  const trust = parsed.has("trust") ? "all" : "recorded";
  if (io.interactive && trust === "recorded" && !parsed.has("page")) {
    const { review } = await import("./trust.ts"); // only a person is asked
    await review(workspace, parsed, io);
  }
  const { policy, ...modes } = await approvalOf(parsed, workspace, io.log);
  return {
    ...kernelOptions(parsed, io, workspace),
    trust,
    installer: "command",
    placement: await placementOf(parsed, workspace),
    approval: policy ?? modes,
    kernelEnv: await kernelEnvOf(workspace, io.log, trust),
    signal: io.signal,
  };
}

/** The options of the kernel alone, without approvals and variables. */
export function kernelOptions(parsed: ParsedArgs, io: CommandIo, workspace: string) {
  return {
    workspace,
    python: parsed.value("python"),
    sandbox: sandboxOf(parsed),
    limits: limitsOf(parsed),
    check: parsed.choice("check", CHECK_MODES),
    log: parsed.has("verbose") ? io.verboseLog : io.log,
  } satisfies CodeExecutorOptions;
}

/** The approval settings of the command line and the policy files. */
interface CommandApproval {
  readonly tools: ApprovalMode;
  readonly resources: ApprovalMode;
  readonly shell: ApprovalMode;
  /** The policy that counts instead, if any. */
  readonly policy?: ApprovalPolicy;
}

/** Reads the approval settings. Policy files count unless the command line says allow or deny. */
export async function approvalOf(
  args: ParsedArgs,
  workspace: string,
  log: Logger,
): Promise<CommandApproval> {
  const approve = args.value("approve") ?? "ask";
  const shell = args.choice("approve-shell", SHELL_MODES);
  const modes = { shell: shell ?? "allow" };
  if (approve === "allow" || approve === "deny") {
    return { tools: approve, resources: approve, ...modes };
  }
  const isMode = approve === "ask" || approve === "reads";
  if (!isMode && !/[./]/.test(approve)) {
    throw new UsageError(
      "Option --approve takes ask, allow, deny or reads, or a policy file such as policy.json: " +
        `received "${approve}"`,
    );
  }
  const file = isMode ? undefined : resolve(approve);
  const trust = args.has("trust") ? "all" : "recorded";
  const rules = await loadPolicy({ workspace, file, log, trust });
  const reads = approve === "reads" ? await import("./approve_reads.ts") : undefined; // few commands need it
  const policy = reads === undefined ? rules : await reads.allowingReads(rules, { workspace, log });
  const asking = { tools: "ask", resources: "ask", ...modes } as const;
  if (policy === undefined) return asking;
  if (shell === undefined) return { ...asking, policy };
  const shellPolicy = approvalPolicy({ shell: modes.shell });
  return {
    ...asking,
    policy: {
      redact: policy.redact,
      decide: (call) => (isShell(call) ? shellPolicy : policy).decide(call),
    },
  };
}

export async function placementOf(
  parsed: ParsedArgs,
  workspace: string,
): Promise<Placement | undefined> {
  const where = parsed.value("placement");
  return where === undefined ? undefined : await placementAt(where, workspace, parsed);
}

/** The placement that a line of a token file names. Its path is relative to the file's folder. */
export async function tokenPlacement(
  parsed: ParsedArgs,
  where: string,
  { workspace, folder }: { readonly workspace: string; readonly folder: string },
): Promise<Placement> {
  const named = /[./]/.test(where) ? resolve(folder, where) : where;
  return await placementAt(named, workspace, parsed);
}

async function placementAt(
  where: string,
  workspace: string,
  parsed: ParsedArgs,
): Promise<Placement> {
  parsed.refuseBeside("placement", LOCAL);
  const placement = await readPlacement(where, workspace, parsed);
  if (!parsed.has("http") || isForMany(placement)) return placement;
  throw new UsageError(
    `Option --http needs a --placement that keeps sessions apart: docker, podman or kubernetes`,
  );
}

/** Whether each session gets a separate place, and clients can exchange files with it. */
function isForMany(placement: Placement): boolean {
  return bindsWorkspace(placement) ||
    (placement.type === "kubernetes" && placement.volume === undefined);
}

/** Options that only apply to this machine. */
const LOCAL = ["sandbox-config", "device", "project"] as const;

async function readPlacement(
  where: string,
  workspace: string,
  parsed: ParsedArgs,
): Promise<Placement> {
  const type = PLACEMENTS.find((name) => name === where);
  if (type !== undefined) return { type };
  if (where.startsWith("ssh:")) return parsePlacement({ type: "ssh", host: where.slice(4) });
  if (!/[./]/.test(where)) {
    throw new UsageError(
      `Option --placement takes docker, podman, kubernetes, ssh:HOST or a JSON file: received "${where}"`,
    );
  }
  const trust = parsed.has("trust") ? "all" : "recorded";
  const options = { workspace, what: "placement", parse: parsePlacement, trust } as const;
  const placement = await useNamedFile(where, options);
  if (placement !== undefined) return placement;
  throw new UsageError(`No file "${where}"`);
}

/** The kernel's variables: each `KERNEL_ENV_X` as `X`. The environment overrides the `.env`. */
export async function kernelEnvOf(
  workspace: string,
  log: Logger,
  trust?: TrustSetting,
): Promise<Record<string, string>> {
  const prefix = "KERNEL_ENV_";
  const file = await readDotenv(workspace, log, trust);
  return Object.fromEntries(
    Object.entries({ ...file, ...Deno.env.toObject() })
      .filter(([name]) => name.startsWith(prefix) && name.length > prefix.length)
      .map(([name, value]) => [name.slice(prefix.length), value]),
  );
}

/** The resource limits. Units are allowed, as large limits are usually in GiB. */
function limitsOf(parsed: ParsedArgs): ResourceLimits {
  const limits: ResourceLimits = {};
  for (const text of parsed.values("limit")) {
    const [, name, number = "", unit = ""] = LIMIT.exec(text) ?? [];
    switch (name) {
      case "memoryBytes":
      case "processes":
      case "fileBytes":
      case "cpuSeconds":
        limits[name] = number === "none" ? null : Number(number) * (UNITS[unit] ?? 1);
        break;
      default:
        throw new UsageError(
          `Option --limit takes NAME=N, such as memoryBytes=16GiB: received "${text}"`,
        );
    }
  }
  return limits;
}

const LIMIT = /^(\w+)=(?:(none|[1-9]\d{0,14})(KiB|MiB|GiB|TiB)?)$/;
const UNITS: Readonly<Record<string, number>> = {
  KiB: 1024,
  MiB: 1024 ** 2,
  GiB: 1024 ** 3,
  TiB: 1024 ** 4,
};

export function sandboxOf(args: ParsedArgs): boolean | SandboxOptions {
  if (args.has("no-sandbox")) {
    args.refuseBeside("no-sandbox", ["sandbox-config", "device"]);
    return false;
  }
  const config = args.value("sandbox-config");
  const devices = args.values("device");
  if (config === undefined && devices.length === 0) return true;
  return {
    ...(config === undefined ? {} : { config: resolve(config) }),
    ...(devices.length === 0 ? {} : { devices }),
  };
}

export async function sessionNameOf(parsed: ParsedArgs): Promise<string | undefined> {
  const name = parsed.value("session");
  if (name === undefined) return undefined;
  const { checkSessionName } = await import("../executor/durable.ts"); // few commands need it
  try {
    checkSessionName(name);
    return name;
  } catch (cause) {
    throw new UsageError(`Option --session: ${messageOf(cause)}`, { cause });
  }
}
