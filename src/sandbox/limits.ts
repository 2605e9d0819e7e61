/** What one process inside the sandbox may take. `null` takes a limit away. */
export interface ResourceLimits {
  /**
   * Bytes of address space of one process.
   *
   * @default {8589934592} 8 GiB
   */
  memoryBytes?: number | null;
  /**
   * Processes and threads together. The system does not enforce it for root.
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
}

const GIB = 1024 ** 3;

/**
 * Turns limits into what the launcher sets, by the names that Python's `resource` module has.
 *
 * @param limits The limits that differ from the defaults.
 * @returns The value of each `RLIMIT_…`. Core dumps, which would hold secrets, are always off.
 * @throws {RangeError} A limit is not a positive whole number.
 */
export function rlimits(limits: ResourceLimits = {}): Record<string, number> {
  const { memoryBytes = 8 * GIB, processes = 1024, fileBytes = 4 * GIB } = limits;
  const values = { RLIMIT_AS: memoryBytes, RLIMIT_NPROC: processes, RLIMIT_FSIZE: fileBytes };
  const set: Record<string, number> = { RLIMIT_CORE: 0 };
  for (const [name, value] of Object.entries(values)) {
    if (value === null) continue;
    if (!Number.isSafeInteger(value) || value <= 0) {
      throw new RangeError(`The limit for ${name} must be a positive whole number, not ${value}`);
    }
    set[name] = value;
  }
  return set;
}
