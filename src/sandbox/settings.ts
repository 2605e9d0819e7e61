import { join, resolve } from "node:path";
import type { SandboxConfig } from "./config.ts";
import { makeNote, MAX_MOUNTS, type ProtectedPaths, tooManyMounts } from "./protect.ts";

/** A path in `srt`'s settings: plain text is a pattern when it looks like one. */
export type SettingsPath = string | { readonly path: string; readonly literal: true };

/** The part of `srt`'s settings file that we write. */
export interface SandboxSettings {
  /** What may be reached. */
  readonly network: {
    readonly allowedDomains: readonly string[];
    readonly deniedDomains: readonly string[];
    readonly strictAllowlist: boolean;
    readonly allowLocalBinding: boolean;
    readonly allowAllUnixSockets?: boolean;
  };
  /** What may be read and written. */
  readonly filesystem: {
    readonly denyRead: readonly SettingsPath[];
    readonly allowRead: readonly SettingsPath[];
    readonly allowWrite: readonly SettingsPath[];
    readonly denyWrite: readonly SettingsPath[];
    readonly disabled?: boolean;
  };
  /** Starts where parts of `/proc` are hidden. */
  readonly enableWeakerNestedSandbox?: boolean;
  /** Lets code inside make namespaces. */
  readonly allowNestedUserNamespaces?: boolean;
  /** What is run as `bwrap`. */
  readonly bwrapPath?: string;
  /** What starts the command in the sandbox, in the place of `srt`'s own system call filter. */
  readonly seccomp?: { readonly applyPath: string };
}

/** What the settings are made of. All paths are absolute and free of symbolic links. */
export interface PolicyInput {
  /** The folders that programs inside may read and write. */
  writable: readonly string[];
  /** What in them may only be read. */
  readOnly: readonly string[];
  /** The host's own folder of this sandbox, which must stay out of sight. */
  hostPrivate: string;
  /** What relative paths of the user's are relative to. */
  base: string;
  /** What in the workspace must not be read or written. */
  protectedPaths: ProtectedPaths;
  /** What else must not be read. Writable folders may lie in it. */
  hidden?: readonly string[];
  /** What else must be readable: the Python installation, the sandbox's own helpers. */
  readable: readonly string[];
  /** Whether programs inside talk to each other over loopback. */
  loopback?: boolean;
  /**
   * Whether all can be read that is not denied, as `srt` itself has it.
   *
   * @default {false}
   */
  openReads?: boolean;
  /** What the user adds. */
  config?: SandboxConfig;
  /** The home directory, for `~` in the user's paths. */
  home?: string;
}

/** What every program needs: code, locale, names of users and hosts, certificates, fonts. */
export const SYSTEM: Readonly<Record<string, readonly string[]>> = {
  linux: [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib64",
    "/etc/alternatives",
    "/etc/fonts",
    "/etc/group",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/timezone",
  ],
  darwin: [
    "/System",
    "/Library",
    "/usr",
    "/bin",
    "/sbin",
    "/dev",
    "/opt/homebrew",
    "/private/etc",
    "/private/var/db/timezone",
    "/private/var/select",
  ],
};

/**
 * Makes the sandbox's settings: nothing can be read but the system's programs and what is named;
 * nothing can be written but the writable folders, and not what in them the host or another program
 * would act upon; there is no network.
 */
export function sandboxSettings(input: PolicyInput): SandboxSettings {
  const { writable, config = {}, openReads = false } = input;
  const { network = {}, filesystem = {} } = config;
  const user = (paths: readonly string[] = []) => paths.map((path) => userPath(path, input));
  const own = (...paths: string[]) => paths.map(literal);
  // The proxy's socket is in the host's folder. Without domains nobody has to reach it.
  const online = (network.allowedDomains ?? []).length > 0;
  return {
    network: {
      allowedDomains: network.allowedDomains ?? [],
      deniedDomains: network.deniedDomains ?? [],
      strictAllowlist: true,
      // Only macOS looks at it: elsewhere programs inside have a loopback of their own.
      allowLocalBinding: Deno.build.os === "darwin" &&
        (input.loopback ?? network.allowLocalBinding ?? false),
      ...(network.allowAllUnixSockets ? { allowAllUnixSockets: true } : {}),
    },
    filesystem: {
      denyRead: [
        ...own(...(openReads ? [] : ["/"])),
        ...own(input.hostPrivate, ...input.protectedPaths.unreadable, ...input.hidden ?? []),
        ...user(filesystem.denyRead),
      ],
      allowRead: [
        ...own(...SYSTEM[Deno.build.os] ?? []),
        ...own(...input.readable, ...writable),
        ...own(...(online ? [proxyFolder(input.hostPrivate)] : [])),
        ...user(filesystem.allowRead),
        ...user(filesystem.allowWrite),
      ],
      allowWrite: [...own(...writable), ...user(filesystem.allowWrite)],
      denyWrite: [
        ...own(...input.readOnly),
        ...own(...input.protectedPaths.unreadable, ...input.protectedPaths.readOnly),
        ...user(filesystem.denyWrite),
      ],
      ...(filesystem.disabled ? { disabled: true } : {}),
    },
    ...(config.enableWeakerNestedSandbox ? { enableWeakerNestedSandbox: true } : {}),
    ...(config.allowNestedUserNamespaces ? { allowNestedUserNamespaces: true } : {}),
  };
}

/** Where `srt` keeps its sockets. */
export function proxyFolder(hostPrivate: string): string {
  return `${hostPrivate}/proxy`;
}

/** What makes plain text in a path a pattern. */
export const PATTERN: RegExp = /[*?[\]{}]/;

/** A path of ours is never a pattern, whatever characters it has. */
export function literal(path: string): SettingsPath {
  return PATTERN.test(path) ? { path, literal: true } : path;
}

/** Users may write patterns, `~`, and relative paths. */
function userPath(path: string, input: PolicyInput): SettingsPath {
  if (path === "~" || path.startsWith("~/")) {
    if (input.home === undefined) {
      throw new TypeError(
        `Cannot resolve ${path} in the sandbox config: HOME is not readable`,
      );
    }
    return input.home + path.slice(1);
  }
  return resolve(input.base, path);
}

/**
 * Refuses settings that bubblewrap could not take, as code can make files that have to be protected.
 */
export function refuseTooManyMounts({ filesystem }: SandboxSettings, workspace: string): void {
  const { denyRead, denyWrite, allowRead, allowWrite } = filesystem;
  const mounts = [...denyRead, ...denyWrite, ...allowRead, ...allowWrite].map(textOf);
  if (mounts.length <= MAX_MOUNTS) return;
  throw tooManyMounts(mounts, workspace);
}

/** The path, or the pattern. */
export function textOf(path: SettingsPath): string {
  return typeof path === "string" ? path : path.path;
}

/**
 * The file whose presence says that a `.env` beside its folder may be executed code's: there was none
 * when code could begin to write there. Code neither sees nor removes it.
 */
export const DOTENV_NOTE = ".ipybox/no-dotenv";

/** Notes that a workspace has no `.env`, before code can write one. */
export async function noteAbsentDotenv(workspace: string): Promise<void> {
  try {
    await Deno.lstat(join(workspace, ".env"));
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
    await makeNote(join(workspace, DOTENV_NOTE));
  }
}
