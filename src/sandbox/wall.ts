/**
 * The inner of the two sandboxes that contain untrusted programs on Linux.
 *
 * `srt` creates the outer one, which decides on files and the network, or says how to create it
 * (`planner.ts`). If hosts may be reached, the relays to its proxy run there, and almost nothing
 * else. A `bwrap` command of ours creates the inner one: it has separate user, process, IPC, host
 * name and control group namespaces, no capabilities, a system call filter, and only those files of
 * the outer one that the settings name. `srt` starts it where it would otherwise start its own
 * filter.
 *
 * The inner one has no separate session keyring, because the filter denies every call that could
 * access one.
 *
 * @module
 */
import { dirname } from "node:path";
import { asset } from "../assets/mod.ts";
import { SandboxUnavailableError } from "../base/errors.ts";
import { mayRead } from "../base/permission.ts";
import { allDone } from "../base/signals.ts";
import { ifPresent } from "../files/safe.ts";
import type { ProgramPath } from "../process/program.ts";
import { isInside } from "../process/trusted_path.ts";
import type { Planner, PlanOptions } from "./planner.ts";
import { isState, SHARED_BY_SANDBOXES } from "./protect.ts";
import {
  literal,
  PATTERN,
  proxyFolder,
  type SandboxSettings,
  type SettingsPath,
} from "./settings.ts";
import { srtArguments, type SrtCommand } from "./srt.ts";
import { syscallFilter } from "./syscall_filter.ts";

/** The limit of each in-memory folder that programs may write to: `/tmp`, `/dev/shm`. */
const TEMPORARY_BYTES: number = 1024 ** 3;

/** Options of {@linkcode buildWall}. */
interface WallOptions {
  /** An existing folder that only the host can see. */
  readonly hostPrivate: string;
  /** The folder that code writes to. Links in it must not expose anything else. */
  readonly workspace: string;
  /** The path of `bwrap`; `undefined` if Deno's permissions do not allow looking for it. */
  readonly bwrap: ProgramPath | undefined;
  /** The home directory inside, if there is one: it is empty and writable. */
  readonly home?: string;
}

/** The files and folders in the settings. A pattern stands for the folder that contains its matches. */
interface Places {
  /** The paths that may be read or written. */
  readonly named: readonly string[];
  /** The paths that may be written. */
  readonly writable: readonly string[];
  /** The hidden paths, without `/`, which hides everything that is not named. */
  readonly hidden: readonly string[];
  /** Whether only named paths are visible. */
  readonly closed: boolean;
}

function placesIn({ filesystem }: SandboxSettings): Places {
  const { allowRead, allowWrite, denyRead, disabled = false } = filesystem;
  const denied = disabled ? [] : denyRead; // the self-test reports the consequences
  const writable = allowWrite.map(placeOf);
  const named = [...allowRead.map(placeOf), ...writable];
  const hidden = denied.filter(isPlain).map(placeOf).filter((path) => path !== "/");
  return { named, writable, hidden, closed: denied.includes("/") && !named.includes("/") };
}

/**
 * Whether nobody else is in a folder's group: it is root's, or its user's own, which usually has that
 * number. Elsewhere, this machine's files say who is in it; without its group there, others may be.
 */
export async function hasOwnGroup(folder: string): Promise<boolean> {
  const { uid, gid } = await Deno.stat(folder);
  if (uid === gid || gid === 0) return true;
  const [groups, users] = await allDone(["/etc/group", "/etc/passwd"].map(fieldsOf));
  const [group] = groups?.filter(([, , id]) => id === `${gid}`) ?? [];
  const members = users?.filter(([, , , of]) => of === `${gid}`) ?? [];
  return group?.[3] === "" && members.length === 1 && members[0]?.[2] === `${uid}`;
}

async function fieldsOf(path: string): Promise<string[][]> {
  const text = await ifPresent(Deno.readTextFile(path)) ?? "";
  return text.split("\n").map((line) => line.split(":"));
}

/** Writes the files that create the inner sandbox. */
async function buildWall(
  settings: SandboxSettings,
  { hostPrivate, workspace, bwrap, home }: WallOptions,
): Promise<SandboxSettings> {
  const { allowAllUnixSockets = false, ...network } = settings.network;
  const namespaces = settings.allowNestedUserNamespaces ?? false;
  const filter = syscallFilter({
    unixSockets: allowAllUnixSockets,
    namespaces,
    groupWrite: await hasOwnGroup(workspace ?? hostPrivate),
  });
  if (filter === undefined) {
    throw new SandboxUnavailableError(
      `No system call filter for ${Deno.build.arch}`,
      "Run ipybox on x86_64 or aarch64, or without a sandbox: --no-sandbox",
    );
  }
  const wall = `${hostPrivate}/wall`;
  await Deno.mkdir(`${wall}/empty`, { recursive: true });
  const places = placesIn(settings);
  const mounts = await mountsOf(settings, places, { hostPrivate, home });
  const args = [
    ..."--unshare-user --unshare-pid --unshare-ipc --unshare-uts --unshare-cgroup".split(" "),
    ..."--die-with-parent --cap-drop ALL".split(" "),
    ...mounts.args,
    // Code that creates namespaces has to write to /proc.
    ...(namespaces ? [] : ["--disable-userns", "--remount-ro", "/proc"]),
  ];
  await allDone([
    Deno.writeTextFile(`${wall}/outer`, asset("wall/outer.sh"), { mode: 0o700 }),
    Deno.writeTextFile(`${wall}/enter`, asset("wall/enter.sh"), { mode: 0o700 }),
    Deno.writeTextFile(`${wall}/look`, asset("wall/look.sh")),
    Deno.writeTextFile(
      `${wall}/places`,
      listOf(places, { hostPrivate, workspace, home }),
    ),
    Deno.writeTextFile(`${wall}/arguments`, args.map((arg) => `${arg}\0`).join("")),
    Deno.writeFile(`${wall}/filter`, filter),
    Deno.writeTextFile(`${wall}/bwrap`, `${bwrap ?? "bwrap"}\n`),
    Deno.writeTextFile(`${wall}/writable`, lines(mounts.writable)),
    Deno.writeTextFile(`${wall}/hidden`, lines(mounts.hidden)),
    ...(mounts.whole ? [Deno.writeTextFile(`${wall}/whole`, "")] : []),
  ]);
  const { filesystem } = settings;
  const readable = [wall, ...(bwrap === undefined ? [] : [bwrap])].map(literal);
  return {
    network,
    filesystem: { ...filesystem, allowRead: [...filesystem.allowRead, ...readable] },
    ...(settings.enableWeakerNestedSandbox ? { enableWeakerNestedSandbox: true } : {}),
    bwrapPath: `${wall}/outer`,
    seccomp: { applyPath: `${wall}/enter` },
  };
}

/** Formats paths, one per line, as the system's mount list has them. */
function lines(paths: readonly string[], kind = ""): string {
  return paths.map((path) => `${kind}${listedPath(path)}\n`).join("");
}

/** A path with the escapes of the system's mount list. */
export function listedPath(path: string): string {
  const escape = (char: string) => `\\${char.charCodeAt(0).toString(8).padStart(3, "0")}`;
  return path.replaceAll(/[ \t\n\\]/g, escape);
}

/** Lists what must be mounted where in the inner sandbox, for the check before anything runs. */
function listOf(
  { named, hidden }: Places,
  { hostPrivate, workspace, home }: Omit<WallOptions, "bwrap">,
): string {
  const kinds = Map.groupBy(named, (path) => isInside(path, workspace) ? "named " : "outside ");
  return [
    ...[...kinds].map(([kind, paths]) => lines(paths, kind)),
    lines(hidden, "hidden "),
    lines(hidden.filter(isState), "state "),
    lines([...FRESH, SHARED_BY_SANDBOXES, ...(home === undefined ? [] : [home])], "fresh "),
    lines([`${hostPrivate}/wall`], "named "), // visible only when everything is readable
    lines([`${hostPrivate}/wall/empty`], "empty "),
    lines([proxyFolder(hostPrivate)], "spare "),
  ].join("");
}

/** The mount points of the inner sandbox's own file systems. */
const FRESH = ["/", "/tmp", "/dev", "/dev/pts", "/dev/shm", "/dev/mqueue", "/proc", "/sys"];

/** The mounts of the inner sandbox. */
interface Mounts {
  /** The arguments of `bwrap` that create mounts. */
  readonly args: readonly string[];
  /** Whether it shows everything that the outer sandbox shows, some of it read-only. */
  readonly whole: boolean;
  /** The writable folders. */
  readonly writable: readonly string[];
  /** Folders that the outer sandbox replaces by empty ones. */
  readonly hidden: readonly string[];
}

async function mountsOf(
  settings: SandboxSettings,
  { named, writable, hidden, closed }: Places,
  { hostPrivate, home }: Pick<WallOptions, "hostPrivate" | "home">,
): Promise<Mounts> {
  const kernel = [
    ...["--dev", "/dev", ...inMemory("/dev/shm"), "--remount-ro", "/dev"],
    ...(settings.enableWeakerNestedSandbox ? bind("/proc") : ["--proc", "/proc"]),
    ...["--tmpfs", "/sys", ...PROCESSORS.flatMap(bind), "--remount-ro", "/sys"],
  ];
  if (!closed) {
    const args = ["--dev-bind", "/", "/", ...kernel, ...await sharedFolder(["/"])];
    if (settings.filesystem.disabled) return { args, whole: false, writable: [], hidden: [] };
    return { args, whole: true, writable, hidden };
  }
  const shown = [...new Set(named)].filter((path, _, all) =>
    !isInside(path, hostPrivate) &&
    !all.some((other) => other !== path && isInside(path, other)) // included in that one
  );
  const folders = foldersTo(shown, "/tmp").filter((folder) =>
    home === undefined || !isInside(folder, home)
  );
  return {
    args: [
      ...["--tmpfs", "/", ...inMemory("/tmp"), ...kernel],
      ...folders.flatMap((folder) => ["--tmpfs", folder]),
      // Mounted before paths below it are shown. If the home directory itself is shown, this is
      // covered.
      ...(home === undefined || !/^\/./.test(home) ? [] : inMemory(home)),
      ...await view(shown),
      ...folders.flatMap((folder) => ["--remount-ro", folder]),
      ...[...await sharedFolder(shown), "--remount-ro", "/"],
    ],
    whole: false,
    writable,
    hidden: hidden.filter((path) => shown.some((other) => isInside(path, other))),
  };
}

/** The part of /sys that programs need to count processors. */
const PROCESSORS = ["/sys/devices/system/cpu", "/sys/devices/system/node"];

/**
 * The folders that lead to paths in a folder of code. Code could move one of them away, with all that is
 * mounted in it, and put its own programs there for the next kernel, if nothing were mounted on it.
 */
function foldersTo(paths: readonly string[], owned: string): string[] {
  const found = new Set<string>();
  for (const path of paths) {
    for (let above = dirname(path); above.startsWith(`${owned}/`); above = dirname(above)) {
      found.add(above);
    }
  }
  return [...found].sort(); // a folder comes before those in it
}

function inMemory(path: string): string[] {
  return ["--perms", "1777", "--size", String(TEMPORARY_BYTES), "--tmpfs", path];
}

/** Binds a path. What the outer sandbox denies below it stays denied. */
function bind(path: string): string[] {
  return ["--dev-bind-try", path, path];
}

function isPlain(path: SettingsPath): boolean {
  return typeof path !== "string" || !PATTERN.test(path);
}

/** The path, or for a pattern the folder that contains all its matches. */
function placeOf(path: SettingsPath): string {
  if (typeof path !== "string") return path.path;
  const at = path.search(PATTERN);
  return at < 0 ? path : path.slice(0, path.lastIndexOf("/", at)) || "/";
}

/** Mounts each path at its own location. */
async function view(paths: readonly string[]): Promise<string[]> {
  const mounts = await Promise.all(paths.map(async (path) => {
    const link = await linkTo(path, paths);
    return link === undefined ? bind(path) : ["--symlink", link, path];
  }));
  return mounts.flat();
}

/** The target of a path that should stay a link, such as `/bin`. */
async function linkTo(path: string, shown: readonly string[]): Promise<string | undefined> {
  if (!mayRead(path)) return undefined;
  try {
    const link = await Deno.readLink(path);
    const real = await Deno.realPath(path);
    return shown.some((other) => other !== path && isInside(real, other)) ? link : undefined;
  } catch {
    return undefined; // not a link, missing, or leading to something that we may not see
  }
}

/** Hides the folder that `srt` makes writable in all sandboxes, if it is visible. */
async function sharedFolder(shown: readonly string[]): Promise<string[]> {
  const path = SHARED_BY_SANDBOXES;
  if (!shown.some((folder) => isInside(path, folder))) return [];
  if (!mayRead(path)) return [];
  const found = await Deno.stat(path).then(({ isDirectory }) => isDirectory, () => false);
  return found ? ["--tmpfs", path, "--remount-ro", path] : [];
}

/** Options of {@linkcode writeSettings}. */
interface WriteSettingsInput extends PlanOptions {
  /** The sandbox runtime. */
  readonly srt: SrtCommand;
  /** Its settings. */
  readonly settings: SandboxSettings;
  /** An existing folder that only the host can see, without files of another sandbox. */
  readonly hostPrivate: string;
  /** The folder that code writes to, without symbolic links in its path. */
  readonly workspace: string;
  /** The command inside: a program's path and its arguments. */
  readonly command: readonly string[];
  /** Its home directory, if it is neither the session's nor the host's. */
  readonly home?: string;
  /** Replaces the runtime where possible. */
  readonly planner?: Planner;
}

/** How to start the sandbox. */
interface SandboxLaunch {
  /** The program. */
  readonly command: ProgramPath;
  /** Its arguments. */
  readonly args: readonly string[];
  /** The variables that lead it to its own folder. */
  readonly env: Readonly<Record<string, string>>;
  /** Whether it waits for a line on stdin, as requested. */
  readonly waits: boolean;
}

/**
 * Writes the settings, and on Linux the files that create the inner sandbox, to a folder that
 * programs inside cannot see.
 */
export async function writeSettings(input: WriteSettingsInput): Promise<SandboxLaunch> {
  const { srt, hostPrivate, command, planner, waits = false } = input;
  const file = `${hostPrivate}/srt.json`;
  await Deno.mkdir(proxyFolder(hostPrivate), { recursive: true });
  const settings = Deno.build.os === "linux"
    ? await buildWall(input.settings, {
      hostPrivate,
      workspace: input.workspace,
      bwrap: srt.programs.bwrapPath,
      home: input.home,
    })
    : input.settings;
  const whole = { ...srt.programs, ...settings };
  const planned = await planner?.plan(whole, command, input);
  if (planned !== undefined) return { ...planned, env: {}, waits };
  await Deno.writeTextFile(file, JSON.stringify(whole));
  return {
    command: srt.command,
    args: [...srt.args, ...srtArguments(file, command)],
    env: { TMPDIR: proxyFolder(hostPrivate) },
    waits: false, // it takes long enough to load
  };
}
