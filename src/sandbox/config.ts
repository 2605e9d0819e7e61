import { resolve } from "node:path";
import { z } from "zod";
import { ConfigError } from "../base/errors.ts";
import { useNamedFile } from "./named_file.ts";
import type { TrustSetting } from "../files/own_entries.ts";
import { workspaceOfSession } from "../files/workspace_state.ts";
import { problemLines } from "../json/problems.ts";
import { isInside, realPathIfSeen, stateOf } from "../process/trusted_path.ts";

/**
 * A user's additions to the sandbox settings, in the format of `srt`'s settings file. Lists extend
 * the built-in ones. Relative paths are relative to the workspace.
 */
export interface SandboxConfig {
  /** The network, which is closed unless domains are allowed. */
  readonly network?: {
    /** Domains that code may reach, such as `"example.org"` or `"*.example.com:443"`. */
    readonly allowedDomains?: readonly string[];
    /** Domains that it may not reach although a pattern allows them. */
    readonly deniedDomains?: readonly string[];
    /** Whether code may use ports of the host's loopback interface; macOS only. */
    readonly allowLocalBinding?: boolean;
    /**
     * Unsafe: lets code connect to Unix sockets of the host; on Linux only if it sees all files.
     */
    readonly allowAllUnixSockets?: boolean;
  } | undefined;
  /** The file system. */
  readonly filesystem?: {
    /** Paths that code may read besides the system's programs, Python and the workspace. */
    readonly allowRead?: readonly string[];
    /** Paths that it may not read although a parent folder is readable. */
    readonly denyRead?: readonly string[];
    /** Paths that it may write to besides the workspace. */
    readonly allowWrite?: readonly string[];
    /** Paths that it may not write to. A missing one exists as an empty file while the sandbox runs. */
    readonly denyWrite?: readonly string[];
    /** Unsafe: allows everything. */
    readonly disabled?: boolean;
  } | undefined;
  /** Unsafe: works in containers that hide parts of `/proc`, but makes their processes visible. */
  readonly enableWeakerNestedSandbox?: boolean;
  /** Unsafe: lets code create namespaces. */
  readonly allowNestedUserNamespaces?: boolean;
}

const list = z.array(z.string().min(1)).optional();
const flag = z.boolean().optional();

const configSchema: z.ZodType<SandboxConfig> = z.strictObject({
  network: z.strictObject({
    allowedDomains: list.refine((hosts) => !hosts?.includes("*"), {
      message:
        'List the hosts, such as "api.example.com" or "*.example.com": "*" alone is not supported',
    }),
    deniedDomains: list,
    allowLocalBinding: flag,
    allowAllUnixSockets: flag,
  }).optional(),
  filesystem: z.strictObject({
    allowRead: list,
    denyRead: list,
    allowWrite: list,
    denyWrite: list,
    disabled: flag,
  }).optional(),
  enableWeakerNestedSandbox: flag,
  allowNestedUserNamespaces: flag,
});

/** Options of {@linkcode parseSandboxConfig}. */
interface ParseSandboxConfigOptions {
  /**
   * The name of the source in error messages, such as the file's path.
   *
   * @default {"sandbox config"}
   */
  source?: string;
  /**
   * Accepts settings that weaken the sandbox.
   *
   * @default {false}
   */
  allowUnsafe?: boolean | undefined;
}

/**
 * Validates a user's sandbox configuration. `srt` itself ignores unknown keys, so a typing mistake
 * would leave open what was meant to be closed.
 */
export function parseSandboxConfig(
  value: unknown,
  options: ParseSandboxConfigOptions = {},
): SandboxConfig {
  const { source = "sandbox config", allowUnsafe = false } = options;
  const parsed = configSchema.safeParse(value);
  if (!parsed.success) {
    throw new ConfigError(`Invalid ${source}:\n${problemLines(parsed.error)}`);
  }
  const unsafe = unsafeKeys(parsed.data);
  if (unsafe.length > 0 && !allowUnsafe) {
    throw new ConfigError(
      `Invalid ${source}: ${unsafe.join(" and ")} would let sandboxed code escape; ` +
        "remove it, or accept the risk with `sandbox: { allowUnsafe: true }`",
    );
  }
  return parsed.data;
}

/** Options of {@linkcode readSandboxConfig}. */
interface ReadSandboxConfigOptions {
  /** The folder in which code works. */
  readonly workspace: string;
  /** The folder that code only reads. */
  readonly project?: string | undefined;
  /** Accepts settings that weaken the sandbox. */
  readonly allowUnsafe?: boolean | undefined;
  /** Whether a change of a file in a workspace counts before the user has accepted it. */
  readonly trust?: TrustSetting | undefined;
}

/**
 * Returns the user's settings for the sandbox of code: as given, or from a JSON file's version that
 * counts.
 */
export async function readSandboxConfig(
  config: SandboxConfig | string = {},
  { workspace, project, allowUnsafe, trust }: ReadSandboxConfigOptions,
): Promise<SandboxConfig> {
  if (typeof config !== "string") return parseSandboxConfig(config, { allowUnsafe });
  if (project !== undefined) {
    const paths = [resolve(config), await realPathIfSeen(config)];
    await refuseOfProject(paths, { project, workspace });
  }
  const parse = (value: unknown, source: string) =>
    parseSandboxConfig(value, { source, allowUnsafe });
  const read = await useNamedFile(config, { workspace, what: "sandbox settings", trust, parse });
  if (read === undefined) throw new ConfigError(`The sandbox settings ${config} do not exist`);
  return read;
}

/** Refuses settings in a project, which may have come with it: clients name the same file in each. */
async function refuseOfProject(
  paths: readonly string[],
  { project, workspace }: { readonly project: string; readonly workspace: string },
): Promise<void> {
  const folders = [resolve(project), await Deno.realPath(project)];
  const served = await workspaceOfSession(workspace);
  if (served !== undefined && folders.includes(served)) return; // its sessions share its settings
  const path = paths.find((path) => folders.some((folder) => isInside(path, folder)));
  if (path === undefined) return;
  throw new ConfigError(
    `Cannot use ${path} as sandbox settings: it is in the project ${project}, and may have come with ` +
      "it. Read it, and move it out of the project, for example to " +
      stateOf(workspace),
  );
}

function unsafeKeys(config: SandboxConfig): string[] {
  const keys: string[] = [];
  if (config.network?.allowAllUnixSockets) keys.push("network.allowAllUnixSockets");
  if (config.filesystem?.disabled) keys.push("filesystem.disabled");
  if (config.enableWeakerNestedSandbox) keys.push("enableWeakerNestedSandbox");
  if (config.allowNestedUserNamespaces) keys.push("allowNestedUserNamespaces");
  return keys;
}
