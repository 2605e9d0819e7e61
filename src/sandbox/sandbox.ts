import { join, resolve } from "node:path";
import { SandboxUnavailableError } from "../base/errors.ts";
import { PROXY_VARIABLES } from "../base/host_variables.ts";
import type { Logger } from "../base/log.ts";
import { allDone } from "../base/signals.ts";
import { stage } from "../base/stages.ts";
import { lstatIfPresent } from "../files/safe.ts";
import type { ProgramPath } from "../process/program.ts";
import { isInside } from "../process/trusted_path.ts";
import { readSandboxConfig, type SandboxConfig } from "./config.ts";
import { devicesOf } from "./devices.ts";
import { findHidden } from "./hidden.ts";
import type { EffectiveLimits } from "./limits.ts";
import type { SelfTestReport } from "./selftest.ts";
import { isRoot } from "./system_packages.ts";
import { enclose, type EnclosedProgram, type View } from "./wall.ts";
import {
  admitWorkspace,
  GENERATED,
  ownPart,
  projectPath,
  statesAround,
  userFolders,
} from "./workspace.ts";

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
  /**
   * Devices that code can use: `"nvidia"`, `"amd"`, `"intel"`, or paths in `/dev`. Linux only.
   *
   * @default {[]} none
   */
  devices?: readonly string[];
}

/** The folders of a sandbox. All are absolute and free of symbolic links. */
interface SandboxFolders {
  /** A folder that code may write to, and the working directory of the sandbox itself. */
  session: string;
  /** A folder in it for temporary files. */
  temporary: string;
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

/** Inputs of {@linkcode prepareSandbox} besides the folders. */
interface PrepareSandboxOptions extends SandboxOptions {
  /** The Python that makes the sandbox. */
  python: ProgramPath;
  limits: EffectiveLimits;
  /** Receives log messages. */
  log: Logger;
  /** Cancels the preparation. */
  signal: AbortSignal;
  /** The search path for programs. */
  path: string;
  /** Whether it may wait for a line on stdin before it starts anything. */
  waits?: boolean;
}

/** How to start a command in the sandbox. */
export interface PreparedSandbox extends EnclosedProgram {
  /** The variables of the sandbox that point programs inside to its proxy. */
  readonly proxyVariables: readonly string[];
}

/**
 * Determines how to start a kernel's launcher in the sandbox. The command may be determined while
 * the rest is prepared.
 */
export async function prepareSandbox(
  folders: SandboxFolders,
  contents: SandboxContents | Promise<SandboxContents>,
  options: PrepareSandboxOptions,
): Promise<PreparedSandbox> {
  using _stage = stage("prepare the sandbox");
  const { log, signal, waits, python, limits, path } = options;
  const { workspace, hostPrivate, session, temporary } = folders;
  await admitWorkspace(workspace, hostPrivate);
  await warnOfOwner(workspace, log);
  const config = await readSandboxConfig(options.config, { ...options, workspace });
  const launch = await enclose({
    contents: allDone([workspaceView(workspace, options), contents]).then(([seen, inside]) => ({
      view: {
        show: [...inside.readable, ...seen.show],
        write: [session, ...seen.write, ...inside.writable],
        keep: [...inside.readOnly, ...seen.keep],
        mask: seen.mask,
        real: seen.real,
      },
      command: inside.command,
    })),
    base: workspace,
    ...{ hostPrivate, path, python, config, limits, waits, log, signal },
    temporary,
    devices: await devicesOf(options.devices ?? []),
  });
  const isOnline = (config.network?.allowedDomains ?? []).length > 0;
  return {
    ...launch,
    env: { LANG: "C.UTF-8", ...launch.env },
    proxyVariables: isOnline ? PROXY_VARIABLES : [],
  };
}

/** Warns that code cannot write to a workspace: as root, it has no rights to other users' files. */
async function warnOfOwner(workspace: string, log: Logger): Promise<void> {
  const { uid, gid, mode } = await Deno.stat(workspace);
  if (isRoot() !== true || uid === null || uid === 0 || ((mode ?? 0) & 0o002) !== 0) return;
  const access = ((mode ?? 0) & 0o005) === 0o005 ? "can only read it" : "cannot even read it";
  log.warn(
    `${workspace} belongs to user ${uid}, and code here, which is root without root's rights, ${access}. ` +
      `Run ipybox as that user (in a container: --user ${uid}:${gid})`,
  );
}

/** Code's view of the workspace that it works in, and of a project. */
export async function workspaceView(
  workspace: string,
  { log, python, signal, ...options }: SandboxOptions & {
    readonly log: Logger;
    readonly python: ProgramPath;
    readonly signal?: AbortSignal;
  },
): Promise<View> {
  const project = options.project && await projectPath(options.project, workspace);
  const [hidden, settings, guarded, around, own] = await Promise.all([
    Promise.all(
      [workspace, ...(project ? [project] : [])].map((folder) =>
        findHidden(folder, { python, signal })
      ),
    ),
    readOnlyInside(options, workspace),
    present(workspace, GUARDED),
    statesAround(workspace),
    userFolders(),
  ]);
  for (const { warning } of hidden) if (warning !== undefined) log.warn(warning);
  const mask = [...hidden.flatMap(({ paths }) => paths), ...around, ...own];
  // Files in a folder of ipybox's own belong to another session.
  const repositories = hidden.flatMap(({ repository }) => repository)
    .filter((path) => !mask.some((folder) => isInside(path, folder)));
  return {
    show: [...(project ? [project] : []), ...repositories],
    write: [workspace],
    keep: [`${workspace}/${GENERATED}`, ...ownPart(workspace), ...settings, ...guarded],
    mask,
    real: repositories,
  };
}

/** The names that `srt` protects by itself in the folder of a command, and that it would create. */
const GUARDED: readonly string[] = [
  ".bash_profile",
  ".bashrc",
  ".claude/agents",
  ".claude/commands",
  ".git/config",
  ".git/hooks",
  ".gitconfig",
  ".gitmodules",
  ".idea",
  ".mcp.json",
  ".profile",
  ".ripgreprc",
  ".vscode",
  ".zprofile",
  ".zshrc",
];

/** The paths that exist, without those that are links or lead through one. */
async function present(folder: string, names: readonly string[]): Promise<string[]> {
  const found = await Promise.all(names.map(async (name) => {
    let path = folder;
    const parts = name.split("/");
    for (const [i, part] of parts.entries()) {
      path = join(path, part);
      const info = await lstatIfPresent(path);
      if (info === undefined || info.isSymlink) return [];
      // Such as the `.git` of a worktree, which is a file.
      if (!info.isDirectory && i < parts.length - 1) return [];
    }
    return [path];
  }));
  return found.flat();
}

/** Throws unless the self-test's report shows that the sandbox works. */
export function requireSandbox(
  { failures }: SelfTestReport,
  { isRemote = false }: {
    /** Whether the sandbox is on another machine or in a container. */
    readonly isRemote?: boolean;
  } = {},
): void {
  if (failures.length === 0) return;
  throw new SandboxUnavailableError(
    `The sandbox does not hold, so no code was run: ${failures.join("; ")}`,
    failures.some((failure) => failure.startsWith("the network is open"))
      ? "Deny all traffic with a NetworkPolicy, in a cluster that enforces them: docs/placements.md"
      : isRemote
      ? "Make the place deny this to code: docs/placements.md says what each kind has to deny"
      : "ipybox doctor",
  );
}

/** The paths in the workspace that code must not change, such as the settings of servers' sandboxes. */
async function readOnlyInside(options: SandboxOptions, workspace: string): Promise<string[]> {
  const { readOnly = [] } = options;
  const paths = await Promise.all(readOnly.map(async (file) => {
    const real = await Deno.realPath(file).catch(() => undefined);
    return real === undefined ? [] : [resolve(file), real]; // a missing path would be created
  }));
  return paths.flat().filter((path) => path !== workspace && isInside(path, workspace));
}
