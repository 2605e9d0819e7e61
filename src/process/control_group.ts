/**
 * Limits on all processes of a session together, if the system allows this user to set them: Linux
 * control groups, created directly or by systemd.
 *
 * @module
 */
import { dirname, join } from "node:path";
import { hostEnv, isGranted, mayRead } from "../base/permission.ts";
import { stage } from "../base/stages.ts";
import { findProgram } from "./program.ts";
import { runProgram } from "./run_program.ts";

/** The limits of all processes in a group together; `null` for no limit. */
interface GroupLimits {
  /** Bytes of memory, including files in memory file systems. */
  readonly memoryBytes: number | null;
  /** Processes and threads. */
  readonly processes: number | null;
}

/** A control group. Disposing removes it; its processes must have ended. */
export class ControlGroup implements AsyncDisposable {
  /** Its enforcer: `"the system"` or `"systemd"`. */
  readonly keeper: string;
  readonly #folders: readonly string[];
  readonly #sweeping: Promise<unknown>;

  private constructor(keeper: string, folders: readonly string[]) {
    this.keeper = keeper;
    this.#folders = folders;
    this.#sweeping = Promise.allSettled(folders.map(removeAbandoned));
  }

  /** Moves a process, and all that it starts from then on, into the group. */
  static async take(
    pid: number,
    limits: GroupLimits,
  ): Promise<ControlGroup | undefined> {
    if (Deno.build.os !== "linux" || !isPermitted()) return undefined;
    if (limits.memoryBytes === null && limits.processes === null) return undefined;
    const folders = await direct(pid, limits);
    if (folders !== undefined) return new ControlGroup("the system", folders);
    return await bySystemd(pid, limits) ? new ControlGroup("systemd", []) : undefined;
  }

  /** Its folders that must be removed, if any. */
  get folders(): readonly string[] {
    return this.#folders;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    using _stage = stage("remove the control group");
    for (const folder of this.#folders) await removeWhenEmpty(folder);
    await this.#sweeping;
  }
}

const ROOT = "/sys/fs/cgroup";
const PREFIX = "ipybox-";

function isPermitted(): boolean {
  return mayRead("/proc/self/cgroup") && mayRead(ROOT) && isGranted({ name: "write", path: ROOT });
}

/** The files with the limits: in version 2, and in the two hierarchies of version 1. */
function filesOf(
  { memoryBytes, processes }: GroupLimits,
  own: ReadonlyMap<string, string>,
): (readonly [folder: string, file: string, limit: number])[][] {
  const name = `${PREFIX}${crypto.randomUUID()}`;
  const unified = join(ROOT, own.get("") ?? "/", name);
  const of = (controller: string) => join(ROOT, controller, own.get(controller) ?? "/", name);
  const versions = [
    [[unified, "memory.max", memoryBytes], [unified, "pids.max", processes]],
    [[of("memory"), "memory.limit_in_bytes", memoryBytes], [of("pids"), "pids.max", processes]],
  ] as const;
  return versions.map((files) =>
    files.flatMap(([folder, file, limit]) => limit === null ? [] : [[folder, file, limit] as const])
  );
}

/** Creates the groups and moves the process there; returns their folders. */
async function direct(pid: number, limits: GroupLimits): Promise<string[] | undefined> {
  for (const files of filesOf(limits, await ownGroups())) {
    const folders = [...new Set(files.map(([folder]) => folder))];
    try {
      for (const folder of folders) await Deno.mkdir(folder);
      for (const [folder, file, limit] of files) await write(`${folder}/${file}`, limit);
      for (const folder of folders) await write(`${folder}/cgroup.procs`, pid);
      return folders;
    } catch {
      // Not this version, or not this user's: the groups created so far are empty.
      for (const folder of folders) await Deno.remove(folder).catch(() => {});
    }
  }
  return undefined;
}

/** Writes to an existing file. If it is missing, the group lacks that controller. */
async function write(file: string, value: number): Promise<void> {
  await Deno.writeTextFile(file, String(value), { create: false });
}

/** The groups of this process by controller; version 2 has no controllers here. */
async function ownGroups(): Promise<Map<string, string>> {
  const text = await Deno.readTextFile("/proc/self/cgroup").catch(() => "");
  return new Map(
    text.split("\n").flatMap((line) => {
      const [, controllers = "", path] = line.split(":", 3);
      return path === undefined ? [] : controllers.split(",").map((name) => [name, path] as const);
    }),
  );
}

/** A scope of the user's systemd. It ends with its last process. */
async function bySystemd(
  pid: number,
  { memoryBytes, processes }: GroupLimits,
): Promise<boolean> {
  if (!isGranted({ name: "sys", kind: "uid" })) return false;
  const isRoot = Deno.uid() === 0;
  const runtime = isRoot ? "/run" : hostEnv("XDG_RUNTIME_DIR");
  const manager = runtime === undefined ? undefined : `${runtime}/systemd/private`;
  if (manager === undefined || !await Deno.lstat(manager).then(() => true, () => false)) {
    return false;
  }
  const busctl = await findProgram("busctl");
  if (busctl === undefined) return false;
  const properties = [
    ["PIDs", "au", "1", String(pid)],
    ...(memoryBytes === null ? [] : [["MemoryMax", "t", String(memoryBytes)]]),
    ...(processes === null ? [] : [["TasksMax", "t", String(processes)]]),
    ["CollectMode", "s", "inactive-or-failed"],
  ];
  const { success } = await runProgram(busctl, {
    args: [
      ...[isRoot ? "--system" : "--user", "--quiet", "--timeout=5", "call"],
      ...["org.freedesktop.systemd1", "/org/freedesktop/systemd1"],
      ...["org.freedesktop.systemd1.Manager", "StartTransientUnit", "ssa(sv)a(sa(sv))"],
      ...[`${PREFIX}${crypto.randomUUID()}.scope`, "fail"],
      ...[String(properties.length), ...properties.flat(), "0"],
    ],
  });
  return success;
}

/** A group younger than this may be about to get its process. */
const STARTING_MS = 60_000;

/** Removes the groups beside one whose keepers were killed before they could. Those in use are not empty. */
async function removeAbandoned(folder: string): Promise<void> {
  const parent = dirname(folder);
  for await (const { name } of Deno.readDir(parent)) {
    if (!name.startsWith(PREFIX)) continue;
    const path = join(parent, name);
    const made = await Deno.lstat(path).then(({ mtime }) => mtime?.getTime(), () => undefined);
    if (made === undefined || Date.now() - made < STARTING_MS) continue; // or it has just ended
    await Deno.remove(path).catch(() => {}); // it is in use, or another process was quicker
  }
}

/** How long the system may keep a group after its processes have ended. */
const FORGET_MS = 2000;

/** Removes a group, which the system keeps for a moment after its last process has ended. */
async function removeWhenEmpty(folder: string): Promise<void> {
  const end = Date.now() + FORGET_MS;
  for (;;) {
    try {
      await Deno.remove(folder);
      return;
    } catch (error) {
      if (error instanceof Deno.errors.NotFound || Date.now() > end) return;
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
  }
}
