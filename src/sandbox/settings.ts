import { resolve } from "node:path";
import type { SandboxConfig } from "./config.ts";
import { MAX_MOUNTS, type ProtectedPaths, tooManyMounts } from "./protect.ts";

/** A path in `srt`'s settings. Plain text that looks like a pattern is one. */
export type SettingsPath = string | { readonly path: string; readonly literal: true };

/** The part of `srt`'s settings file that ipybox writes. */
export interface SandboxSettings {
  /** The network. */
  readonly network: {
    readonly allowedDomains: readonly string[];
    readonly deniedDomains: readonly string[];
    readonly strictAllowlist: boolean;
    readonly allowLocalBinding: boolean;
    readonly allowAllUnixSockets?: boolean;
  };
  /** The file system. */
  readonly filesystem: {
    readonly denyRead: readonly SettingsPath[];
    readonly allowRead: readonly SettingsPath[];
    readonly allowWrite: readonly SettingsPath[];
    readonly denyWrite: readonly SettingsPath[];
    readonly disabled?: boolean;
  };
  /** Works where parts of `/proc` are hidden. */
  readonly enableWeakerNestedSandbox?: boolean;
  /** Lets code create namespaces. */
  readonly allowNestedUserNamespaces?: boolean;
  /** The program to run as `bwrap`. */
  readonly bwrapPath?: string;
  /** The program that starts the command in the sandbox, instead of `srt`'s own system call filter. */
  readonly seccomp?: { readonly applyPath: string };
}

/** The inputs of the settings. All paths are absolute and free of symbolic links. */
export interface PolicyInput {
  /** The folders that programs inside may read and write. */
  writable: readonly string[];
  /** The paths in them that may only be read. */
  readOnly: readonly string[];
  /** The host's own folder for this sandbox, which must stay invisible. */
  hostPrivate: string;
  /** The base of the user's relative paths. */
  base: string;
  /** The paths in the workspace that are unreadable or read-only. */
  protectedPaths: ProtectedPaths;
  /** Other unreadable paths. Writable folders may be inside them. */
  hidden?: readonly string[];
  /** Other paths that must be readable: the Python installation, the sandbox's own helpers. */
  readable: readonly string[];
  /** Whether programs inside communicate over loopback. */
  loopback?: boolean;
  /**
   * Whether everything is readable that is not denied, as with plain `srt`.
   *
   * @default {false}
   */
  openReads?: boolean;
  /** The user's additions. */
  config?: SandboxConfig;
  /** The home directory, for `~` in the user's paths. */
  home?: string;
}

/** What every program needs: code, locales, names of users and hosts, certificates, fonts. */
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
 * Creates the sandbox's settings. Only the system's programs and the named paths are readable. Only
 * the writable folders are writable, except for files in them that the host or another program
 * would act upon. There is no network.
 */
export function sandboxSettings(input: PolicyInput): SandboxSettings {
  const { writable, config = {}, openReads = false } = input;
  const { network = {}, filesystem = {} } = config;
  const user = (paths: readonly string[] = []) => paths.map((path) => userPath(path, input));
  const own = (...paths: string[]) => paths.map(literal);
  // The proxy's socket is in the host's folder. Without domains, nobody needs to reach it.
  const online = (network.allowedDomains ?? []).length > 0;
  return {
    network: {
      allowedDomains: network.allowedDomains ?? [],
      deniedDomains: network.deniedDomains ?? [],
      strictAllowlist: true,
      // Only macOS uses it: on other systems, programs inside have a separate loopback interface.
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

/** The folder of `srt`'s sockets. */
export function proxyFolder(hostPrivate: string): string {
  return `${hostPrivate}/proxy`;
}

/** The characters that make plain text a pattern. */
export const PATTERN: RegExp = /[*?[\]{}]/;

/** Marks one of our paths as literal, so that its characters do not make it a pattern. */
export function literal(path: string): SettingsPath {
  return PATTERN.test(path) ? { path, literal: true } : path;
}

/** Resolves a user's path, which may be a pattern, relative, or start with `~`. */
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
 * Refuses settings with more mounts than bubblewrap accepts, because code can create files that
 * have to be protected.
 */
export function refuseTooManyMounts({ filesystem }: SandboxSettings, workspace: string): void {
  const { denyRead, denyWrite, allowRead, allowWrite } = filesystem;
  const mounts = [...denyRead, ...denyWrite, ...allowRead, ...allowWrite].map(textOf);
  if (mounts.length <= MAX_MOUNTS) return;
  throw tooManyMounts(mounts, workspace);
}

/** The path or pattern as text. */
export function textOf(path: SettingsPath): string {
  return typeof path === "string" ? path : path.path;
}
