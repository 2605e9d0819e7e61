import type { Logger } from "../base/log.ts";
import { stage } from "../base/stages.ts";
import { ControlGroup } from "../process/control_group.ts";

/**
 * What one process of the executed code may take. `null` takes a limit away.
 *
 * Where the system lets ipybox make a control group, `memoryBytes` and `processes` also bound what all
 * processes of a session take together.
 */
export interface ResourceLimits {
  /**
   * Bytes of address space of one process, and of memory of a whole session.
   *
   * @default {8589934592} 8 GiB
   */
  memoryBytes?: number | null;
  /**
   * Processes and threads together. The system does not enforce it for root. Without the sandbox it
   * counts all processes of the user, so there is no default there.
   *
   * @default {1024}
   */
  processes?: number | null;
  /**
   * Bytes of one file that is written.
   *
   * @default {4294967296} 4 GiB
   */
  fileBytes?: number | null;
  /**
   * Seconds of CPU time of one process, in all its life. As the kernel lives long, and its variables
   * end with it, there is no default: `timeoutMs` bounds one execution.
   *
   * @default {null}
   */
  cpuSeconds?: number | null;
}

/** Limits by the names that Python's `resource` module has. */
export interface Rlimits {
  /** For the launcher and all below it. */
  readonly all: Readonly<Record<string, number>>;
  /** For kernels and what they start, not for the gateway, which outlives them. */
  readonly kernel: Readonly<Record<string, number>>;
}

const GIB = 1024 ** 3;

/** What is in force where nothing else is said. */
const DEFAULTS = {
  memoryBytes: 8 * GIB,
  processes: 1024,
  fileBytes: 4 * GIB,
  cpuSeconds: null,
} as const;

/** How many signals may be queued: the system counts them for the user, whose other programs need some. */
const SIGNALS = 4096;
/** How many files a process may have open: the system has a number of them for all users together. */
const OPEN_FILES = 2048;

/** Which limits are in force; `null` for none. */
export type EffectiveLimits = { readonly [Name in keyof ResourceLimits]-?: number | null };

/** Fills in the defaults. */
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
    return value;
  };
  return {
    memoryBytes: valueOf("memoryBytes"),
    processes: valueOf("processes"),
    fileBytes: valueOf("fileBytes"),
    cpuSeconds: valueOf("cpuSeconds"),
  };
}

/** Turns limits into what the launcher sets. */
export function rlimits(limits: EffectiveLimits): Rlimits {
  const { memoryBytes, processes, fileBytes, cpuSeconds } = limits;
  const all = {
    RLIMIT_AS: memoryBytes,
    RLIMIT_NPROC: processes,
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
  const set: Record<string, number> = {};
  for (const [name, value] of Object.entries(values)) if (value !== null) set[name] = value;
  return set;
}

/** What our own processes of a session take of its number: bubblewrap, relays, launcher, gateway. */
const OWN_PROCESSES = 64;

/** The control group of a sandbox's processes, where there can be one. */
export class LimitedTogether implements AsyncDisposable {
  /** Settles once it is there, or cannot be. */
  taken: Promise<ControlGroup | undefined> = Promise.resolve(undefined);

  /** Takes a process, and with it all that it starts. */
  take(pid: number, { memoryBytes, processes }: EffectiveLimits, log: Logger): void {
    const count = processes === null ? null : processes + OWN_PROCESSES;
    this.taken = ControlGroup.take(pid, { memoryBytes, processes: count }).then((group) => {
      log.debug(group ? `Limited as a whole by ${group.keeper}` : "No control group is available");
      return group;
    }, (error: unknown) => {
      log.warn(`The processes of a sandbox are not limited as a whole: ${error}`);
      return undefined;
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    using _stage = stage("remove the control group");
    await (await this.taken)?.[Symbol.asyncDispose]();
  }
}
