import { resolve } from "node:path";
import { asset } from "../assets/mod.ts";
import { ConfigError, SandboxUnavailableError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import { hostEnv } from "../base/permission.ts";
import { allDone } from "../base/signals.ts";
import { stage } from "../base/stages.ts";
import type { Belongings } from "../files/held_records.ts";
import type { ProgramPath } from "../process/program.ts";
import { isInside, trustedPath } from "../process/trusted_path.ts";
import { parseSandboxConfig, readSandboxConfig, type SandboxConfig } from "./config.ts";
import type { EffectiveLimits } from "./limits.ts";
import { Planner } from "./planner.ts";
import {
  beginWriting,
  findProtectedPaths,
  makeOwnFolders,
  type ProtectedPaths,
} from "./protect.ts";
import { selfTestFailures, type SelfTestReport, UNWALLED } from "./selftest.ts";
import { noteAbsentDotenv, refuseTooManyMounts, sandboxSettings } from "./settings.ts";
import { findSrt } from "./srt.ts";
import { writeSettings } from "./wall.ts";
import {
  isWide,
  type ProjectPaths,
  projectPaths,
  refuseNesting,
  refuseUserFoldersIn,
  statesAround,
  userFolders,
} from "./workspace.ts";
import { settledPaths } from "./writers.ts";

/** How the sandbox differs from its defaults. */
export interface SandboxOptions {
  /** What is added to its settings: an object, or the path of a JSON file. */
  config?: SandboxConfig | string;
  /**
   * Accepts settings that take its protection away.
   *
   * @default {false}
   */
  allowUnsafe?: boolean;
  /**
   * A folder that code can read, but not write, without the secrets in it: a project whose files it
   * works with. What it writes goes to the workspace, which lies elsewhere.
   */
  project?: string;
  /** What is in the workspace and can only be read. It exists. */
  readOnly?: readonly string[];
}

/** The folders that a sandbox is made for. All are absolute and free of symbolic links. */
interface SandboxFolders {
  /** What code inside may write, and the working directory of the sandbox itself. */
  session: string;
  /** What only the host sees. It exists. */
  hostPrivate: string;
  /** The kernel's working directory. */
  workspace: string;
}

/** What a sandbox is made for. */
interface SandboxContents {
  /** What runs inside, by its path, and its arguments. */
  command: readonly string[];
  /** Parts of the folders that may only be read. */
  readOnly: readonly string[];
  /** What else must be readable. */
  readable: readonly string[];
}

/** What {@linkcode prepareSandbox} needs besides the folders. */
interface PrepareSandboxOptions extends SandboxOptions {
  /** Where it says what it does. */
  log: Logger;
  /** Ends the preparation. */
  signal: AbortSignal;
  /** Where programs are looked for. */
  path: string;
  /** Takes what has to live as long as the sandbox. */
  belongings: Belongings;
  /** Accepts other workspaces in this one. */
  nestedWorkspace?: boolean;
  /** Whether it may wait for a line on stdin before it starts anything. */
  waits?: boolean;
}

/** How a command is started inside the sandbox. */
export interface PreparedSandbox {
  /** The program. */
  readonly command: ProgramPath;
  /** Its arguments. */
  readonly args: readonly string[];
  /** Its whole environment. */
  readonly env: Readonly<Record<string, string>>;
  /** Whether it waits for a line on stdin before it starts anything. */
  readonly waits: boolean;
  /** Which variables of the sandbox's own lead programs inside to its proxy. */
  readonly proxyVariables: readonly string[];
  /** The settings that the user added. */
  readonly config: SandboxConfig;
}

const NO_PROJECT: ProjectPaths = { readable: [], unreadable: [] };

const PROXY_VARIABLES = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"]
  .flatMap((name) => [name, name.toLowerCase()]);

/**
 * Writes the sandbox's settings and says how a command is started inside it. What that is may still be
 * sought while the rest is prepared.
 */
export async function prepareSandbox(
  folders: SandboxFolders,
  contents: SandboxContents | Promise<SandboxContents>,
  options: PrepareSandboxOptions,
): Promise<PreparedSandbox> {
  using _stage = stage("prepare the sandbox");
  const { log, signal } = options;
  const { workspace, hostPrivate } = folders;
  const path = await trustedPath(options.path, [workspace, folders.session]);
  if (Deno.build.os === "windows") {
    throw new SandboxUnavailableError(
      "There is no sandbox on Windows",
      "Run ipybox in WSL 2, or without a sandbox: `sandbox: false`, `--no-sandbox`",
    );
  }
  const home = hostEnv("HOME");
  await admitWorkspace(workspace, hostPrivate);
  const config = await userConfig(options, workspace);
  const srt = await findSrt({ path, log, signal });
  await using planner = await Planner.start(srt, {
    config,
    hostPrivate,
    cwd: folders.session,
    path,
  });
  const [protectedPaths, ownFolders, project] = await allDone([
    findProtectedPaths(workspace),
    userFolders(),
    options.project === undefined ? NO_PROJECT : projectPaths(options.project, workspace),
  ]);
  const settled = await protect(workspace, protectedPaths, {
    ...options,
    unreadable: project.unreadable,
  });
  const { command, readOnly, readable } = await contents;
  const settings = sandboxSettings({
    writable: [folders.session, workspace],
    readOnly: [...readOnly, ...await readOnlyInside(options, workspace)],
    hostPrivate,
    base: workspace,
    loopback: true, // kernels talk to the gateway
    readable: [...readable, ...project.readable, ...srt.readable],
    protectedPaths: {
      readOnly: settled.readOnly,
      unreadable: [...settled.unreadable, ...ownFolders],
    },
    // Of these, nothing can be read or written but what is named.
    hidden: [...settled.hidden, ...await statesAround(workspace)],
    config,
    home,
  });
  refuseTooManyMounts(settings, workspace);
  const launch = await writeSettings({
    srt,
    settings,
    hostPrivate,
    workspace,
    command,
    planner,
    waits: options.waits,
    signal,
  });
  return {
    command: launch.command,
    args: launch.args,
    waits: launch.waits,
    env: {
      PATH: path,
      LANG: "C.UTF-8",
      HOME: hostPrivate, // srt lets code inside write to some folders below it
      ...launch.env,
      CLAUDE_CODE_TMPDIR: `${folders.session}/tmp`,
      ...srt.env,
    },
    proxyVariables: settings.network.allowedDomains.length > 0 ? PROXY_VARIABLES : [],
    config,
  };
}

/** Refuses a folder that cannot be a workspace, and makes of another one what its host relies on. */
async function admitWorkspace(workspace: string, hostPrivate: string): Promise<void> {
  refuseWideWorkspace(workspace);
  refuseWorkspaceAround(hostPrivate, workspace);
  await refuseUserFoldersIn(workspace);
  await makeOwnFolders(workspace);
  await noteAbsentDotenv(workspace);
}

/** What {@linkcode protect} and {@linkcode protectWorkspace} are told. */
interface ProtectOptions
  extends Pick<PrepareSandboxOptions, "belongings" | "nestedWorkspace" | "log"> {
  /** What else code must not read. */
  readonly unreadable?: readonly string[];
}

/** Has code begin to write to a workspace, and says what of it can be protected. */
async function protect(
  workspace: string,
  found: Awaited<ReturnType<typeof findProtectedPaths>>,
  { unreadable = [], nestedWorkspace, belongings, log }: ProtectOptions,
): Promise<ProtectedPaths & { readonly hidden: readonly string[] }> {
  if (!nestedWorkspace) refuseNesting(workspace, found.otherStates);
  await beginWriting(workspace, found.readOnly); // what is not there now may become the code's
  const settled = await settledPaths([...found.unreadable, ...found.readOnly, ...unreadable], {
    writes: workspace,
    belongings,
  });
  const isSettled = (path: string) => settled.has(path);
  warnOfUnsettled([...found.unreadable, ...unreadable], settled, log);
  return {
    readOnly: found.readOnly.filter(isSettled),
    unreadable: found.unreadable.filter(isSettled),
    hidden: unreadable.filter(isSettled),
  };
}

/** Says what of a workspace must be kept from code that is to write to it by another wall than ours. */
export async function protectWorkspace(
  workspace: string,
  options: ProtectOptions & { readonly hostPrivate: string; readonly sandbox: SandboxOptions },
): Promise<ProtectedPaths> {
  await admitWorkspace(workspace, options.hostPrivate);
  const found = await findProtectedPaths(workspace);
  const { readOnly, unreadable } = await protect(workspace, found, options);
  const inside = (path: string) => path !== workspace && isInside(path, workspace);
  const more = await readOnlyInside(options.sandbox, workspace);
  return { readOnly: [...readOnly, ...more].filter(inside), unreadable };
}

/** Decides whether the sandbox holds. */
export function requireSandbox(
  report: SelfTestReport,
  { config = {}, elsewhere = false, mayHaveInterfaces = false, log }: {
    readonly config?: SandboxConfig;
    /** What leads to it, if it is not on this machine. */
    readonly elsewhere?: boolean;
    /** Whether it can have network interfaces there, as long as nobody answers. */
    readonly mayHaveInterfaces?: boolean;
    readonly log: Logger;
  },
): void {
  const failures = selfTestFailures(report, {
    elsewhere,
    mayHaveInterfaces,
    allowUnixSockets: config.network?.allowAllUnixSockets ?? false,
    // Small ids exist inside too, and in a nested sandbox the user chose to see them all.
    ambiguousProcess: Deno.pid <= 64 || (config.enableWeakerNestedSandbox ?? false),
  });
  if (failures.length > 0) {
    throw new SandboxUnavailableError(
      `The sandbox does not hold, so no code was run: ${failures.join("; ")}`,
      failures.some((failure) => failure.startsWith(UNWALLED))
        ? "Deny all traffic by a NetworkPolicy, in a cluster that enforces them: docs/kubernetes.md"
        : "ipybox doctor",
    );
  }
  if (report.uid === 0) {
    log.warn(
      "Running as root: anything that escapes the sandbox is root. Run ipybox as an ordinary user",
    );
  }
}

/** Says what to do when the sandbox did not start. */
export function sandboxFix(stderr: string): string {
  if (/while the sandbox was made|in mount table/.test(stderr)) {
    return "Run it again, in case code moved workspace files; if that does not help, run: ipybox doctor";
  }
  if (/RTM_NEWADDR|uid map|user namespace|unshare/i.test(stderr)) {
    return "Allow user namespaces: sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0 " +
      "kernel.unprivileged_userns_clone=1";
  }
  if (/mount proc|\/newroot\/proc/i.test(stderr)) {
    return "In a container, start it with --security-opt seccomp=unconfined " +
      "--security-opt systempaths=unconfined, or use the container as the sandbox: --no-sandbox";
  }
  if (/bwrap|bubblewrap|socat|ripgrep|\brg\b/i.test(stderr)) {
    return "sudo apt-get install -y bubblewrap socat ripgrep";
  }
  // Deno has the package without what it depends on.
  if (/--cached-only/.test(stderr)) return "ipybox setup";
  return "ipybox doctor";
}

function warnOfUnsettled(
  unreadable: readonly string[],
  settled: ReadonlySet<string>,
  log: Logger,
): void {
  const seen = unreadable.filter((path) => !settled.has(path));
  if (seen.length === 0) return;
  const more = seen.length > 3 ? ` and ${seen.length - 3} more` : "";
  log.warn(
    `Code can read ${
      seen.slice(0, 3).join(", ")
    }${more}: files that appear while a session runs in its ` +
      "folder are not hidden until all sessions there have ended",
  );
}

async function userConfig(options: SandboxOptions, workspace: string): Promise<SandboxConfig> {
  const { config = {}, allowUnsafe = false } = options;
  return typeof config === "string"
    ? await readSandboxConfig(config, { allowUnsafe, workspace })
    : parseSandboxConfig(config, { allowUnsafe });
}

/** What of the workspace code must not change, such as what decides on the next sandbox. */
async function readOnlyInside(options: SandboxOptions, workspace: string): Promise<string[]> {
  const { config, readOnly = [] } = options;
  const files = [...readOnly, ...(typeof config === "string" ? [config] : [])];
  const paths = await Promise.all(files.map(async (file) => {
    const real = await Deno.realPath(file).catch(() => undefined);
    return real === undefined ? [] : [resolve(file), real]; // what is not there would be made
  }));
  return paths.flat().filter((path) => path !== workspace && isInside(path, workspace));
}

/** What only the host may see lies in the folder for temporary files, which is not a workspace then. */
function refuseWorkspaceAround(hostPrivate: string, workspace: string): void {
  if (!isInside(hostPrivate, workspace)) return;
  throw new ConfigError(
    `Cannot use ${workspace} as workspace: ipybox keeps its own files in ${hostPrivate}, which ` +
      "code must not see; choose a separate folder",
  );
}

/** A workspace can be read whole. The home directory must not be. */
function refuseWideWorkspace(workspace: string): void {
  if (isWide(workspace)) {
    throw new ConfigError(
      `Cannot use ${workspace} as workspace: sandboxed code could read the whole home directory; ` +
        "choose a separate folder",
    );
  }
}

/** What {@linkcode guarded} is told. */
interface GuardOptions {
  /** What only the host sees. It exists. */
  readonly hostPrivate: string;
  /** The command's working directory. */
  readonly cwd: string;
  /** What each of its processes may take. */
  readonly limits?: EffectiveLimits;
}

/** What POSIX counts the sizes of files in. */
const BLOCK = 512;

/**
 * Has a command look first, from inside, whether its sandbox holds. Kernels have a launcher that does
 * this.
 */
export async function guarded(
  command: readonly string[],
  { hostPrivate, cwd, limits }: GuardOptions,
): Promise<string[]> {
  const canary = `${hostPrivate}/canary`;
  await Deno.writeTextFile(canary, "not visible inside", { mode: 0o600 });
  const ulimits = [
    inUnits(limits?.memoryBytes, 1024),
    inUnits(limits?.processes, 1),
    inUnits(limits?.fileBytes, BLOCK),
  ];
  const check = ["-c", asset("wall/check.sh"), "sh", Deno.build.os, canary, cwd, ...ulimits];
  return ["/bin/sh", ...check, ...command];
}

function inUnits(limit: number | null | undefined, unit: number): string {
  return typeof limit === "number" ? String(Math.ceil(limit / unit)) : "unlimited";
}
