import { resolve } from "node:path";
import { asset } from "../assets/mod.ts";
import { ConfigError, SandboxUnavailableError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import { hostEnv } from "../base/permission.ts";
import { allDone } from "../base/signals.ts";
import { stage } from "../base/stages.ts";
import type { Belongings } from "../files/held_records.ts";
import { lstatIfPresent } from "../files/safe.ts";
import type { ProgramPath } from "../process/program.ts";
import { isInside, trustedPath } from "../process/trusted_path.ts";
import { parseSandboxConfig, readSandboxConfig, type SandboxConfig } from "./config.ts";
import type { EffectiveLimits } from "./limits.ts";
import { Planner } from "./planner.ts";
import {
  beginWriting,
  findProtectedPaths,
  isState,
  makeOwnFolders,
  noteAbsentDotenv,
  type ProtectedPaths,
  STATE_FOLDER,
} from "./protect.ts";
import { selfTestFailures, type SelfTestReport, UNWALLED } from "./selftest.ts";
import { refuseTooManyMounts, sandboxSettings } from "./settings.ts";
import { findSrt, srtEnvironment } from "./srt.ts";
import { writeSettings } from "./wall.ts";
import {
  type ProjectPaths,
  projectPaths,
  refuseNesting,
  refuseUnfit,
  statesAround,
  userFolders,
} from "./workspace.ts";
import { mountablePaths, runningWriters } from "./writers.ts";

/** Options of the sandbox. */
export interface SandboxOptions {
  /** Additional settings: an object, or the path of a JSON file. */
  config?: SandboxConfig | string;
  /**
   * Accepts settings that weaken the sandbox.
   *
   * @default {false}
   */
  allowUnsafe?: boolean;
  /**
   * A folder that code can read but not write, except for its secrets: a project whose files it
   * works with. Code writes to the workspace, which is elsewhere.
   */
  project?: string;
  /** Existing paths in the workspace that are read-only. */
  readOnly?: readonly string[];
}

/** The folders of a sandbox. All are absolute and free of symbolic links. */
interface SandboxFolders {
  /** A folder that code may write to, and the working directory of the sandbox itself. */
  session: string;
  /** An existing folder that only the host can see. */
  hostPrivate: string;
  /** The kernel's working directory. */
  workspace: string;
}

/** The contents of a sandbox. */
interface SandboxContents {
  /** The command inside: a program's path and its arguments. */
  command: readonly string[];
  /** Parts of the folders that are read-only. */
  readOnly: readonly string[];
  /** Other paths that must be readable. */
  readable: readonly string[];
  /** Other folders that code writes to. */
  writable: readonly string[];
}

/** What {@linkcode prepareSandbox} needs besides the folders. */
interface PrepareSandboxOptions extends SandboxOptions {
  /** Receives log messages. */
  log: Logger;
  /** Cancels the preparation. */
  signal: AbortSignal;
  /** The search path for programs. */
  path: string;
  /** Takes what must live as long as the sandbox. */
  belongings: Belongings;
  /** Accepts a workspace that contains others. */
  nestedWorkspace?: boolean;
  /** Whether it may wait for a line on stdin before it starts anything. */
  waits?: boolean;
}

/** How to start a command in the sandbox. */
export interface PreparedSandbox {
  /** The program. */
  readonly command: ProgramPath;
  /** Its arguments. */
  readonly args: readonly string[];
  /** Its whole environment. */
  readonly env: Readonly<Record<string, string>>;
  /** Whether it waits for a line on stdin before it starts anything. */
  readonly waits: boolean;
  /** The variables of the sandbox that lead programs inside to its proxy. */
  readonly proxyVariables: readonly string[];
  /** The user's additional settings. */
  readonly config: SandboxConfig;
}

const NO_PROJECT: ProjectPaths = { readable: [], unreadable: [] };

/** The variables that lead programs to a proxy. */
export const PROXY_VARIABLES: readonly string[] = [
  "HTTP_PROXY",
  "HTTPS_PROXY",
  "ALL_PROXY",
  "NO_PROXY",
]
  .flatMap((name) => [name, name.toLowerCase()]);

/**
 * Writes the sandbox's settings and determines how to start a command inside. The command may still
 * be being determined while the rest is prepared.
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
  const before = await runningWriters();
  const [protectedPaths, ownFolders, project] = await allDone([
    findProtectedPaths(workspace),
    userFolders(),
    options.project === undefined ? NO_PROJECT : projectPaths(options.project, workspace),
  ]);
  const mountable = await protect(workspace, protectedPaths, {
    ...options,
    before,
    unreadable: project.unreadable,
  });
  const { command, readOnly, readable, writable } = await contents;
  const settings = sandboxSettings({
    writable: [folders.session, workspace, ...writable],
    readOnly: [...readOnly, ...await readOnlyInside(options, workspace)],
    hostPrivate,
    base: workspace,
    loopback: true, // kernels talk to the gateway
    readable: [...readable, ...project.readable, ...srt.readable],
    protectedPaths: {
      readOnly: mountable.readOnly,
      unreadable: [...mountable.unreadable, ...ownFolders],
    },
    // Nothing in these can be read or written unless it is named.
    hidden: [...mountable.hidden, ...await statesAround(workspace)],
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
      LANG: "C.UTF-8",
      ...launch.env,
      ...srtEnvironment(srt, { path, hostPrivate, temporary: `${folders.session}/tmp` }),
    },
    proxyVariables: settings.network.allowedDomains.length > 0 ? PROXY_VARIABLES : [],
    config,
  };
}

/** Refuses unsuitable workspaces, and creates what the host relies on in others. */
async function admitWorkspace(workspace: string, hostPrivate: string): Promise<void> {
  await refuseUnfit(workspace, { sandboxed: true });
  refuseWorkspaceAround(hostPrivate, workspace);
  await makeOwnFolders(workspace);
  await refuseIgnoredCase(workspace);
  await noteAbsentDotenv(workspace);
}

/** Refuses a workspace where a mount over one spelling of a name leaves the file open by another one. */
async function refuseIgnoredCase(workspace: string): Promise<void> {
  if (Deno.build.os !== "linux") return; // Seatbelt's rules apply to all spellings
  const state = `${workspace}/${STATE_FOLDER}`;
  const [one, other] = [await lstatIfPresent(state), await lstatIfPresent(`${workspace}/.IPYBOX`)];
  if (one?.ino === undefined || one.ino !== other?.ino || one.dev !== other.dev) return;
  throw new ConfigError(
    `Cannot use ${workspace} as a workspace: its file system ignores case, so nothing in it can be kept ` +
      "from code. Use a folder on one of Linux's own, such as in your home directory",
  );
}

/**
 * Refuses a workspace that contains others, before anything is written to it: with a `.ipybox` in it, those
 * would be refused from then on, as they would be inside a workspace. One that has it is judged by
 * {@linkcode prepareSandbox} and {@linkcode protectWorkspace}, which look through it anyway.
 */
export async function refuseNewAround(workspace: string): Promise<void> {
  if (await lstatIfPresent(`${workspace}/${STATE_FOLDER}`) !== undefined) return;
  refuseNesting(workspace, (await findProtectedPaths(workspace)).otherStates);
}

/** Options of {@linkcode protect} and {@linkcode protectWorkspace}. */
interface ProtectOptions
  extends Pick<PrepareSandboxOptions, "belongings" | "nestedWorkspace" | "log"> {
  /** Other paths that code must not read. */
  readonly unreadable?: readonly string[];
  /** Whether an engine mounts it: see {@linkcode mountablePaths}. */
  readonly byEngine?: boolean;
  /** What {@linkcode runningWriters} gave before the paths were looked for. */
  readonly before: Awaited<ReturnType<typeof runningWriters>>;
}

/** Records that code begins to write to a workspace, and returns the paths that can be protected. */
async function protect(
  workspace: string,
  found: Awaited<ReturnType<typeof findProtectedPaths>>,
  { unreadable = [], before, byEngine, nestedWorkspace, belongings, log }: ProtectOptions,
): Promise<ProtectedPaths & { readonly hidden: readonly string[] }> {
  if (!nestedWorkspace) refuseNesting(workspace, found.otherStates);
  await beginWriting(workspace, found.readOnly); // anything missing now may later be the code's
  const mountable = await mountablePaths([...found.unreadable, ...found.readOnly, ...unreadable], {
    before,
    writes: workspace,
    byEngine,
    belongings,
  });
  const isMountable = (path: string) => mountable.has(path);
  warnOfReadable([...found.unreadable, ...unreadable], mountable, log);
  return {
    readOnly: found.readOnly.filter(isMountable),
    unreadable: found.unreadable.filter(isMountable),
    hidden: unreadable.filter(isMountable),
  };
}

/** Determines which paths of a workspace another kind of sandbox must protect from code. */
export async function protectWorkspace(
  workspace: string,
  options: Omit<ProtectOptions, "before"> & {
    readonly hostPrivate: string;
    readonly sandbox: SandboxOptions;
  },
): Promise<ProtectedPaths> {
  await admitWorkspace(workspace, options.hostPrivate);
  const before = await runningWriters();
  if (before === undefined) {
    throw new SandboxUnavailableError(
      `Cannot tell which sessions write to ${workspace}: ipybox has no folder for its state`,
      "Set HOME or XDG_STATE_HOME to a folder that you can write to",
    );
  }
  const found = await findProtectedPaths(workspace);
  const settings = await readOnlyInside(options.sandbox, workspace);
  const all = { ...found, readOnly: [...found.readOnly, ...settings] };
  const { readOnly, unreadable } = await protect(workspace, all, {
    ...options,
    before,
    byEngine: true,
  });
  const kept = new Set([...readOnly, ...unreadable]);
  const movable = [...found.unreadable.filter(isState), ...settings].find((path) =>
    !kept.has(path)
  );
  if (movable !== undefined) {
    throw new SandboxUnavailableError(
      `Code of another session could replace ${movable} while an engine mounts it`,
      `End the sessions that write to ${workspace}, then start this one`,
    );
  }
  const inside = (path: string) => path !== workspace && isInside(path, workspace);
  return { readOnly: readOnly.filter(inside), unreadable };
}

/** Throws unless the self-test's report shows that the sandbox works. */
export function requireSandbox(
  report: SelfTestReport,
  { config = {}, elsewhere = false, mayHaveInterfaces = false, log }: {
    readonly config?: SandboxConfig;
    /** Whether the sandbox is on another machine or in a container. */
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
    // Small ids also exist inside, and in a nested sandbox the user chose to see all processes.
    ambiguousProcess: Deno.pid <= 64 || (config.enableWeakerNestedSandbox ?? false),
  });
  if (failures.length > 0) {
    throw new SandboxUnavailableError(
      `The sandbox does not hold, so no code was run: ${failures.join("; ")}`,
      failures.some((failure) => failure.startsWith(UNWALLED))
        ? "Deny all traffic by a NetworkPolicy, in a cluster that enforces them: docs/kubernetes.md"
        : elsewhere
        ? "Have the place deny this to code: docs/placements.md says what each kind has to deny"
        : "ipybox doctor",
    );
  }
  if (report.uid === 0) {
    log.warn(
      elsewhere
        ? "Code runs as root there: anything that escapes the sandbox is root. Use an ordinary user there"
        : "Running as root: anything that escapes the sandbox is root. Run ipybox as an ordinary user",
    );
  }
}

/** Suggests what to do when the sandbox did not start. */
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
  // bubblewrap's own errors say that it is installed.
  if (!/^bwrap: /m.test(stderr) && /bwrap|bubblewrap|socat|ripgrep|\brg\b/i.test(stderr)) {
    return "sudo apt-get install -y bubblewrap socat ripgrep";
  }
  // Deno has the package without its dependencies.
  if (/--cached-only/.test(stderr)) return "ipybox setup";
  return "ipybox doctor";
}

function warnOfReadable(
  unreadable: readonly string[],
  mountable: ReadonlySet<string>,
  log: Logger,
): void {
  const seen = unreadable.filter((path) => !mountable.has(path));
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
  const { config = {}, project, allowUnsafe = false } = options;
  return typeof config === "string"
    ? await readSandboxConfig(config, { allowUnsafe, workspace, project })
    : parseSandboxConfig(config, { allowUnsafe });
}

/** The paths in the workspace that code must not change, such as the settings of the next sandbox. */
async function readOnlyInside(options: SandboxOptions, workspace: string): Promise<string[]> {
  const { config, readOnly = [] } = options;
  const files = [...readOnly, ...(typeof config === "string" ? [config] : [])];
  const paths = await Promise.all(files.map(async (file) => {
    const real = await Deno.realPath(file).catch(() => undefined);
    return real === undefined ? [] : [resolve(file), real]; // a missing path would be created
  }));
  return paths.flat().filter((path) => path !== workspace && isInside(path, workspace));
}

/** Refuses a workspace that contains the folder for temporary files, where the host keeps its secrets. */
function refuseWorkspaceAround(hostPrivate: string, workspace: string): void {
  if (!isInside(hostPrivate, workspace)) return;
  throw new ConfigError(
    `Cannot use ${workspace} as workspace: ipybox keeps its own files in ${hostPrivate}, which ` +
      "code must not see; choose a separate folder",
  );
}

/** Options of {@linkcode guarded}. */
interface GuardOptions {
  /** An existing folder that only the host can see. */
  readonly hostPrivate: string;
  /** The command's working directory. */
  readonly cwd: string;
  /** The limits of each of its processes. */
  readonly limits?: EffectiveLimits;
}

/** The unit of file sizes in POSIX. */
const BLOCK = 512;

/** Prepends a check of the sandbox, from inside, to a command. For kernels, the launcher does this. */
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
