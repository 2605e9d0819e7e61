/**
 * A control group of the system that limits memory, as containers and services have one.
 *
 * Disposing it removes it; what is in it must have ended.
 */
export class MemoryGroup implements AsyncDisposable {
  private constructor(readonly path: string) {}

  /**
   * Makes a group.
   *
   * @param bytes How much memory its processes may take together before the system kills one.
   * @returns The group.
   * @throws {Error} This machine does not let us have one.
   */
  static async create(bytes: number): Promise<MemoryGroup> {
    const name = `ipybox-test-${crypto.randomUUID()}`;
    const reasons: string[] = [];
    for (const [root, limit] of HIERARCHIES) {
      const group = new MemoryGroup(`${root}/${name}`);
      try {
        await Deno.mkdir(group.path);
        await Deno.writeTextFile(`${group.path}/${limit}`, String(bytes));
        return group;
      } catch (error) {
        reasons.push(String(error));
        await group[Symbol.asyncDispose]();
      }
    }
    throw new Error(`no control group of memory can be made: ${reasons.join("; ")}`);
  }

  /** Why there can be no groups on this machine; `undefined` where there can. */
  static async whyNot(): Promise<string | undefined> {
    try {
      await using _group = await MemoryGroup.create(2 ** 30);
      return undefined;
    } catch (error) {
      return error instanceof Error ? error.message : String(error);
    }
  }

  /** Takes a process in. */
  async add(pid: number): Promise<void> {
    await Deno.writeTextFile(`${this.path}/cgroup.procs`, String(pid));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await Deno.remove(this.path);
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    }
  }
}

/** Where memory is limited, in version 1 and in version 2 of control groups, and by which file. */
const HIERARCHIES: readonly (readonly [string, string])[] = [
  ["/sys/fs/cgroup/memory", "memory.limit_in_bytes"],
  ["/sys/fs/cgroup", "memory.max"],
];
