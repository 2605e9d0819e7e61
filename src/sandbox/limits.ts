import type { Logger } from "../base/log.ts";
import { ControlGroup } from "../process/control_group.ts";

/**
 * Limits of a process of the executed code. `null` removes a limit.
 *
 * If the system lets ipybox create a control group, `memoryBytes` and `processes` also limit all
 * processes of a session together.
 */
export interface ResourceLimits {
  /**
   * Bytes of memory that one process allocates for itself, and of memory for a whole session. Files that it
   * maps, and memory that it shares, count only for the session.
   *
   * @default {8589934592} 8 GiB
   */
  memoryBytes?: number | null;
  /**
   * Processes and threads together. The system does not enforce this for root. Without the sandbox
   * it counts all processes of the user, so there is no default then.
   *
   * @default {1024}
   */
  processes?: number | null;
  /**
   * Bytes of one written file.
   *
   * @default {null}
   */
  fileBytes?: number | null;
  /**
   * Seconds of CPU time of one process over its lifetime. A kernel runs for a long time and takes
   * its variables with it, so there is no default: `timeoutMs` limits one execution.
   *
   * @default {null}
   */
  cpuSeconds?: number | null;
}

/** Limits with the names of Python's `resource` module. */
export interface Rlimits {
  /** For the launcher and all processes below it. */
  readonly all: Readonly<Record<string, number>>;
  /** For kernels and their processes, but not for the gateway, which outlives them. */
  readonly kernel: Readonly<Record<string, number>>;
}

const GIB = 1024 ** 3;

/** The default limits. */
const DEFAULTS = {
  memoryBytes: 8 * GIB,
  processes: 1024,
  fileBytes: null,
  cpuSeconds: null,
} as const;

/** The limit of queued signals, which the system counts per user: other programs need some too. */
const SIGNALS = 4096;
/** The limit of open files for a process: the system limits the number for all users together. */
const OPEN_FILES = 2048;

/** The limits in force; `null` for none. */
export type EffectiveLimits = { readonly [Name in keyof ResourceLimits]-?: number | null };

/** With 96 MiB, kernels do not start. */
const LEAST_MEMORY = 128 * 2 ** 20;

/** Applies the defaults to the user's limits. */
export function effectiveLimits(
  limits: ResourceLimits | false | undefined,
  options: { readonly sandboxed: boolean },
): EffectiveLimits {
  const off = limits === false;
  const given: ResourceLimits = off ? {} : limits ?? {};
  const valueOf = (name: keyof ResourceLimits): number | null => {
    const value = given[name];
    if (value === undefined) {
      return off || (name === "processes" && !options.sandboxed) ? null : DEFAULTS[name];
    }
    if (value !== null && (!Number.isSafeInteger(value) || value <= 0)) {
      throw new RangeError(`limits.${name} must be a positive whole number or null, not ${value}`);
    }
    if (name === "memoryBytes" && value !== null && value < LEAST_MEMORY) {
      throw new RangeError(
        `limits.memoryBytes must be at least ${LEAST_MEMORY} (128 MiB), which a kernel needs to start, not ${value}`,
      );
    }
    return value;
  };
  return {
    memoryBytes: valueOf("memoryBytes"),
    processes: valueOf("processes"),
    fileBytes: valueOf("fileBytes"),
    cpuSeconds: valueOf("cpuSeconds"),
  };
}

/**
 * Converts limits to the values that the launcher sets.
 *
 * @param countsProcesses Whether to limit the number of processes: the system counts all of a
 * user's, wherever they run, except those in other user namespaces.
 */
export function rlimits(limits: EffectiveLimits, countsProcesses = true): Rlimits {
  const { memoryBytes, processes, fileBytes, cpuSeconds } = limits;
  const all = {
    RLIMIT_DATA: memoryBytes,
    RLIMIT_NPROC: countsProcesses ? processes : null,
    RLIMIT_FSIZE: fileBytes,
    RLIMIT_NOFILE: processes === null ? null : OPEN_FILES,
    RLIMIT_SIGPENDING: processes === null || Deno.build.os !== "linux" ? null : SIGNALS,
  };
  return {
    all: { RLIMIT_CORE: 0, ...withoutNull(all) },
    kernel: withoutNull({ RLIMIT_CPU: cpuSeconds }),
  };
}

function withoutNull(values: Record<string, number | null>): Record<string, number> {
  return Object.fromEntries(
    Object.entries(values).flatMap(([name, value]) => value === null ? [] : [[name, value]]),
  );
}

/** How many processes of a session are ipybox's own: bubblewrap, relays, launcher, gateway, checker. */
export const OWN_PROCESSES = 64;

/**
 * Limits a process together with everything that it will start. Resolves with the control group,
 * which must outlive them, if one is available.
 */
export async function limitTogether(
  pid: number,
  { memoryBytes, processes }: EffectiveLimits,
  log: Logger,
): Promise<ControlGroup | undefined> {
  const count = processes === null ? null : processes + OWN_PROCESSES;
  try {
    const group = await ControlGroup.take(pid, { memoryBytes, processes: count });
    log.debug(group ? `Limited as a whole by ${group.keeper}` : "No control group is available");
    return group;
  } catch (error) {
    log.warn(`The processes of a sandbox are not limited as a whole: ${error}`);
    return undefined;
  }
}
