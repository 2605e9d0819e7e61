/**
 * The inner of the two sandboxes that every program of others runs in on Linux.
 *
 * `srt` makes the outer one, which decides on files and the network, or says how to make it
 * (`planner.ts`). The relays to its proxy run there, if hosts may be reached, next to nothing else. The
 * inner one is made by a `bwrap` command of our own: it has a user, process, IPC, host name and control
 * group namespace of its own, no capabilities, a system call filter, and of the outer one's files only
 * those that the settings name. `srt` starts it in the place where it would start its own filter.
 *
 * It has no separate session keyring: the filter refuses every call that could name one.
 *
 * @module
 */
import { asset } from "../assets/mod.ts";
import { SandboxUnavailableError } from "../base/errors.ts";
import { mayRead } from "../base/permission.ts";
import { allDone } from "../base/signals.ts";
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

/** How much each of the folders in memory can take that programs may write: `/tmp`, `/dev/shm`. */
const TEMPORARY_BYTES: number = 1024 ** 3;

/** What {@linkcode buildWall} is told. */
interface WallOptions {
  /** What only the host sees. It exists. */
  readonly hostPrivate: string;
  /** The folder that code writes to: a link in there leads to nothing that may be shown. */
  readonly workspace: string;
  /** Where `bwrap` is; `undefined` where Deno's permissions do not let one look. */
  readonly bwrap: ProgramPath | undefined;
  /** The home directory of what runs inside, which is empty and can be written, if it is to have one. */
  readonly home?: string;
}

/** What the settings name and hide, as folders and files: a pattern stands for the folder it is in. */
interface Places {
  /** What may be read or written. */
  readonly named: readonly string[];
  /** What of it may be written. */
  readonly writable: readonly string[];
  /** What is hidden: `/` is not among it, for that hides all that is not named. */
  readonly hidden: readonly string[];
  /** Whether only what is named is shown. */
  readonly closed: boolean;
}

function placesIn({ filesystem }: SandboxSettings): Places {
  const { allowRead, allowWrite, denyRead, disabled = false } = filesystem;
  const denied = disabled ? [] : denyRead; // the self-test says what that means
  const writable = allowWrite.map(placeOf);
  const named = [...allowRead.map(placeOf), ...writable];
  const hidden = denied.filter(isPlain).map(placeOf).filter((path) => path !== "/");
  return { named, writable, hidden, closed: denied.includes("/") && !named.includes("/") };
}

/** Writes what makes the inner sandbox. */
async function buildWall(
  settings: SandboxSettings,
  { hostPrivate, workspace, bwrap, home }: WallOptions,
): Promise<SandboxSettings> {
  const { allowAllUnixSockets = false, ...network } = settings.network;
  const namespaces = settings.allowNestedUserNamespaces ?? false;
  const filter = syscallFilter({ unixSockets: allowAllUnixSockets, namespaces });
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
    // Code that makes namespaces has to write into /proc.
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

/** Paths, one a line, as the system writes them in a list of mounts. */
function lines(paths: readonly string[], kind = ""): string {
  const escape = (char: string) => `\\${char.charCodeAt(0).toString(8).padStart(3, "0")}`;
  return paths.map((path) => `${kind}${path.replaceAll(/[ \t\n\\]/g, escape)}\n`).join("");
}

/** What the inner sandbox has to find mounted, and where, for what looks at it before anything runs. */
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
    lines([`${hostPrivate}/wall`], "named "), // where all can be read, this comes along
    lines([`${hostPrivate}/wall/empty`], "empty "),
    lines([proxyFolder(hostPrivate)], "spare "),
  ].join("");
}

/** Where the inner sandbox has its own file systems. */
const FRESH = ["/", "/tmp", "/dev", "/dev/pts", "/dev/shm", "/dev/mqueue", "/proc", "/sys"];

/** What is mounted in the inner sandbox. */
interface Mounts {
  /** What is mounted by arguments of `bwrap`. */
  readonly args: readonly string[];
  /** Whether it shows all that the outer sandbox shows, of which some is to be read only. */
  readonly whole: boolean;
  /** Folders that can be written. */
  readonly writable: readonly string[];
  /** Folders that the outer sandbox puts empty ones in the place of. */
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
    !all.some((other) => other !== path && isInside(path, other)) // it comes with that one
  );
  return {
    args: [
      ...["--tmpfs", "/", ...inMemory("/tmp"), ...kernel],
      // Before what is shown below it. Where it is shown itself, it comes with that.
      ...(home === undefined || !/^\/./.test(home) ? [] : inMemory(home)),
      ...await view(shown),
      ...[...await sharedFolder(shown), "--remount-ro", "/"],
    ],
    whole: false,
    writable,
    hidden: hidden.filter((path) => shown.some((other) => isInside(path, other))),
  };
}

/** Of what the kernel shows of the machine, what programs need to count processors. */
const PROCESSORS = ["/sys/devices/system/cpu", "/sys/devices/system/node"];

function inMemory(path: string): string[] {
  return ["--perms", "1777", "--size", String(TEMPORARY_BYTES), "--tmpfs", path];
}

/** What the outer sandbox denies in it, it denies here, too. */
function bind(path: string): string[] {
  return ["--dev-bind-try", path, path];
}

function isPlain(path: SettingsPath): boolean {
  return typeof path !== "string" || !PATTERN.test(path);
}

/** The path, or of a pattern the folder that all it stands for is in. */
function placeOf(path: SettingsPath): string {
  if (typeof path !== "string") return path.path;
  const at = path.search(PATTERN);
  return at < 0 ? path : path.slice(0, path.lastIndexOf("/", at)) || "/";
}

/** Shows paths, each one where it is. */
async function view(paths: readonly string[]): Promise<string[]> {
  const mounts = await Promise.all(paths.map(async (path) => {
    const link = await linkTo(path, paths);
    return link === undefined ? bind(path) : ["--symlink", link, path];
  }));
  return mounts.flat();
}

/** Where a link leads that is to stay one, such as `/bin`. */
async function linkTo(path: string, shown: readonly string[]): Promise<string | undefined> {
  if (!mayRead(path)) return undefined;
  try {
    const link = await Deno.readLink(path);
    const real = await Deno.realPath(path);
    return shown.some((other) => other !== path && isInside(real, other)) ? link : undefined;
  } catch {
    return undefined; // no link, or not there, or it leads to what we may not look at
  }
}

/** Hides the folder that `srt` opens to all of them, whatever the settings say, where it is shown. */
async function sharedFolder(shown: readonly string[]): Promise<string[]> {
  const path = SHARED_BY_SANDBOXES;
  if (!shown.some((folder) => isInside(path, folder))) return [];
  if (!mayRead(path)) return [];
  const found = await Deno.stat(path).then(({ isDirectory }) => isDirectory, () => false);
  return found ? ["--tmpfs", path, "--remount-ro", path] : [];
}

/** What {@linkcode writeSettings} is given. */
interface WriteSettingsInput extends PlanOptions {
  /** The sandbox runtime. */
  readonly srt: SrtCommand;
  /** Its settings. */
  readonly settings: SandboxSettings;
  /** What only the host sees. It exists, and has nothing of a sandbox yet. */
  readonly hostPrivate: string;
  /** The folder that code writes to, without symbolic links in its path. */
  readonly workspace: string;
  /** What runs inside, by its path, and its arguments. */
  readonly command: readonly string[];
  /** Its home directory, where that is neither the session's nor the host's. */
  readonly home?: string;
  /** What says how to do without the runtime. */
  readonly planner?: Planner;
}

/** How the sandbox is started. */
interface SandboxLaunch {
  /** The program. */
  readonly command: ProgramPath;
  /** Its arguments. */
  readonly args: readonly string[];
  /** What leads it to its own folder. */
  readonly env: Readonly<Record<string, string>>;
  /** Whether it waits for a line on stdin, as was wished. */
  readonly waits: boolean;
}

/**
 * Writes the settings, and on Linux what makes the inner sandbox, where nobody inside sees them.
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
