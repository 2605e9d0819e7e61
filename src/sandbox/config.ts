import { z } from "zod";
import { ConfigError } from "../base/errors.ts";
import { messageOf } from "../base/message_of.ts";
import { problemLines } from "../json/problems.ts";
import { reliablePath } from "../process/trusted_path.ts";

/**
 * What a user adds to the sandbox's own settings, in the words of `srt`'s settings file. Lists are
 * added to the built-in ones. Relative paths are those of the workspace.
 */
export interface SandboxConfig {
  /** The network, which is closed unless domains are allowed. */
  readonly network?: {
    /** Domains that may be reached, such as `"example.org"` or `"*.example.com:443"`. */
    readonly allowedDomains?: readonly string[];
    /** Domains that may not, although a pattern allows them. */
    readonly deniedDomains?: readonly string[];
    /** Whether ports of the host's loopback may be used. Only macOS looks at it. */
    readonly allowLocalBinding?: boolean;
    /** Unsafe: takes the system call filter away. */
    readonly allowAllUnixSockets?: boolean;
  } | undefined;
  /** Files. */
  readonly filesystem?: {
    /** What may be read besides the system's programs, Python and the workspace. */
    readonly allowRead?: readonly string[];
    /** What may not be read, although something above it may. */
    readonly denyRead?: readonly string[];
    /** What may be written besides the workspace. */
    readonly allowWrite?: readonly string[];
    /** What may not be written. It should exist, or an empty file is made for as long as it runs. */
    readonly denyWrite?: readonly string[];
    /** Unsafe: allows everything. */
    readonly disabled?: boolean;
  } | undefined;
  /** Unsafe: starts in containers that hide parts of `/proc`, whose processes are then visible. */
  readonly enableWeakerNestedSandbox?: boolean;
  /** Unsafe: lets code inside create its own namespaces. */
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

/** How a {@linkcode SandboxConfig} is read. */
export interface ParseSandboxConfigOptions {
  /**
   * What a message calls it, such as the file's path.
   *
   * @default {"sandbox config"}
   */
  source?: string;
  /**
   * Accepts settings that take the sandbox's protection away.
   *
   * @default {false}
   */
  allowUnsafe?: boolean;
}

/**
 * Checks a user's sandbox configuration. `srt` itself ignores keys that it does not know, so that
 * a typing mistake would leave open what was meant to be closed.
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

/** How a file with a {@linkcode SandboxConfig} is read. */
export interface ReadSandboxConfigOptions extends ParseSandboxConfigOptions {
  /** Where executed code writes. */
  workspace: string;
}

/** Reads a user's sandbox configuration from a JSON file. */
export async function readSandboxConfig(
  path: string,
  { workspace, ...options }: ReadSandboxConfigOptions,
): Promise<SandboxConfig> {
  const file = await reliablePath(path, { workspace, what: "sandbox settings" });
  let text: string;
  try {
    text = await Deno.readTextFile(file);
  } catch (cause) {
    if (!(cause instanceof Deno.errors.NotFound)) throw cause;
    throw new ConfigError(`Cannot read the sandbox config: ${path} does not exist`, { cause });
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    const reason = messageOf(cause);
    throw new ConfigError(`Invalid sandbox config ${path}: not JSON: ${reason}`, { cause });
  }
  return parseSandboxConfig(value, { ...options, source: `sandbox config ${path}` });
}

function unsafeKeys(config: SandboxConfig): string[] {
  const keys: string[] = [];
  if (config.network?.allowAllUnixSockets) keys.push("network.allowAllUnixSockets");
  if (config.filesystem?.disabled) keys.push("filesystem.disabled");
  if (config.enableWeakerNestedSandbox) keys.push("enableWeakerNestedSandbox");
  if (config.allowNestedUserNamespaces) keys.push("allowNestedUserNamespaces");
  return keys;
}
