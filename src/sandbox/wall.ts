/**
 * The sandbox of an untrusted program: a kernel, a server or an installer.
 *
 * On Linux, it consists of two. `srt` makes the outer one: it decides on the network, and only
 * allows writing to paths that the inner one may write to. The inner one is a single `bwrap`, which
 * `templates/sandbox/wall.py` makes: it decides on files, namespaces and system calls. Before
 * anything else starts in it, `check.py` compares the mounts with the expected ones. On macOS,
 * `srt` decides on everything.
 *
 * @module
 */
import { dirname, resolve } from "node:path";
import { asset } from "../assets/mod.ts";
import { SandboxUnavailableError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import { hostEnv, hostEnvs } from "../base/permission.ts";
import { shellWord } from "../base/shell_word.ts";
import { lstatIfPresent } from "../files/safe.ts";
import { findProgram, hostPath, namedProgram, type ProgramPath } from "../process/program.ts";
import { runProgram } from "../process/run_program.ts";
import { trustedPath } from "../process/trusted_path.ts";
import type { SandboxConfig } from "./config.ts";
import { isBroad } from "./installation.ts";
import { type EffectiveLimits, rlimits } from "./limits.ts";
import { plan, startPlanner } from "./planner.ts";
import { DENO_ARGS, findSrt, SRT_LIBRARY, type SrtCommand, type SrtSettings } from "./srt.ts";
import { syscallFilter } from "./syscall_filter.ts";
import { isRoot } from "./system_packages.ts";
import { isOwnProgram } from "./workspace.ts";

/**
 * A program's view of the file system. All paths are absolute; the longer one of nested paths
 * counts.
 */
export interface View {
  /** Readable paths besides the system's. Missing ones are left out. */
  readonly show: readonly string[];
  /** The folders that it can also write to, without links on the way to them. */
  readonly write: readonly string[];
  /** Parts of these that it can only read. */
  readonly keep: readonly string[];
  /** Hidden paths. */
  readonly mask: readonly string[];
  /** Readable paths that must have no links on the way to them: code may have named them. */
  readonly real?: readonly string[];
}

/** Paths that every program needs: code, settings that every user may read, fonts, formats. */
export const SYSTEM: Readonly<Record<string, readonly string[]>> = {
  linux: [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/etc",
    "/var/cache/fontconfig",
    "/var/lib/ghostscript",
    "/var/lib/texmf",
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

/** On macOS, `srt` lets all sandboxes of a user write to this folder. */
const SHARED_BY_SANDBOXES = "/tmp/claude";

/** The inner sandbox to make. */
export interface WallOrder {
  readonly bwrap: string;
  readonly show: readonly string[];
  readonly write: readonly string[];
  readonly keep: readonly string[];
  readonly mask: readonly string[];
  readonly real: readonly string[];
  /** The folder that code works in: a Python around it is shown only in parts. */
  readonly workspace: string | null;
  /** The folders that must still be the same when they are mounted: path, device, inode. */
  readonly identities: readonly (readonly [string, number, number])[];
  /** The system call filter, in hexadecimal digits. */
  readonly filter: string;
  /** `"none"` for its own network namespace, `"outer"` for the surrounding one. */
  readonly network: "none" | "outer";
  readonly proc: "own" | "host";
  readonly namespaces: boolean;
  /** The folder shown at `/tmp`; `null` for memory. */
  readonly tmp: string | null;
  /** The home directory inside, if it needs one: it is empty and writable, unless all is shown. */
  readonly home: string | null;
  /** The size of `/dev/shm`; `null` for half of the machine's memory. */
  readonly shm: number | null;
  readonly devices: readonly string[];
  /** The user's own values of variables for which `srt` has others. */
  readonly environment: Readonly<Record<string, string>>;
}

/** The memory of programs without limits, of which half can be in `/dev/shm`. */
const OTHERS_MEMORY = 2 * 1024 ** 3;

/** The contents of a sandbox. */
interface Contents {
  readonly view: View;
  /** The program and its arguments. */
  readonly command: readonly string[];
  /**
   * The hosts that it may reach, besides those of the user's settings; only for programs that start
   * early.
   */
  readonly hosts?: readonly string[];
}

/** How to contain a program. */
interface Enclosure {
  /** They may be determined while srt loads. */
  readonly contents: Contents | Promise<Contents>;
  /** The base of relative paths in the user's settings. */
  readonly base: string;
  /** An existing folder that only the host can see. */
  readonly hostPrivate: string;
  /** The search path for programs. */
  readonly path: string;
  /** Folders besides the base where code could have put programs. */
  readonly untrusted?: readonly string[];
  /** The program's working directory, if its sandbox is checked before it starts. */
  readonly cwd?: string;
  /** The folder for temporary files, which the program can write to. */
  readonly temporary: string;
  /** The Python that makes the inner sandbox: code can never have changed it. */
  readonly python: ProgramPath;
  /** The user's additional settings. */
  readonly config?: SandboxConfig;
  /** Devices that it can use. */
  readonly devices?: readonly string[];
  readonly home?: string;
  readonly limits?: EffectiveLimits;
  /** Whether nothing may start before a line arrives on stdin. */
  readonly waits?: boolean;
  /** Whether srt starts before the contents are known, if it can: it then reads its settings from stdin. */
  readonly early?: boolean;
  readonly log: Logger;
  readonly signal: AbortSignal;
}

/** How to start a program in its sandbox. */
export interface EnclosedProgram {
  readonly command: ProgramPath;
  readonly args: readonly string[];
  /** Variables that `srt` needs, for which the program may want other values. */
  readonly env: Readonly<Record<string, string>>;
  /** Whether it waits for a line on stdin before it starts anything. */
  readonly waits: boolean;
  /** The settings that srt reads from stdin, up to its end, before it starts anything. */
  readonly settings?: Promise<string>;
}

/** Determines how to start a program in its sandbox. */
export async function enclose(enclosure: Enclosure): Promise<EnclosedProgram> {
  const { hostPrivate, temporary, config = {}, waits = false, signal } = enclosure;
  const looked = Promise.resolve(enclosure.contents).then(async (contents) => {
    return { ...contents, command: await checked(contents.command, enclosure) };
  });
  const settled = looked.then(() => {}, () => {}); // its error is reported where it is awaited
  await using parts = new AsyncDisposableStack();
  parts.defer(() => settled); // the checks leave no process behind
  if (Deno.build.os === "windows") {
    throw new SandboxUnavailableError(
      "There is no sandbox on Windows",
      "Run ipybox in WSL 2, or without a sandbox: `sandbox: false`, `--no-sandbox`",
    );
  }
  const path = await trustedPath(enclosure.path, [enclosure.base, ...enclosure.untrusted ?? []]);
  const srt = await withoutDelay(await findSrt({ ...enclosure, path }), hostPrivate);
  const own = {
    PATH: path,
    HOME: hostPrivate, // srt lets code inside write to some folders below it
    CLAUDE_CODE_TMPDIR: temporary,
    ...srt.env,
  };
  const proxy = `${hostPrivate}/proxy`;
  const isLinux = Deno.build.os === "linux";
  const started = async (settings: string, inside: readonly string[]) => {
    const script = `${hostPrivate}/start.js`;
    await Deno.writeTextFile(script, asset("sandbox/start.js"));
    return {
      command: srt.command,
      args: [...DENO_ARGS, script, SRT_LIBRARY, JSON.stringify(srt.programs), settings, ...inside],
      env: { ...own, TMPDIR: proxy }, // the folder of its sockets
      waits: false, // it takes long enough to load
    };
  };
  if (isLinux && enclosure.early) {
    await Deno.mkdir(proxy);
    const settings = looked.then(async (contents) =>
      JSON.stringify(await settingsOf(srt, enclosure, contents))
    );
    settings.catch(() => {}); // its error is reported where it is awaited
    const start = await started("/dev/stdin", makingInner(enclosure));
    parts.move();
    return { ...start, settings };
  }
  await using planner = await startPlanner(srt, { config, hostPrivate, path });
  await Deno.mkdir(proxy, { recursive: true });
  const contents = await looked;
  const settings = await settingsOf(srt, enclosure, contents);
  const inside = isLinux ? makingInner(enclosure) : contents.command;
  const planned = planner && await plan(planner, { settings, command: inside, waits, signal });
  if (planned !== undefined) return { ...planned, env: own, waits };
  const file = `${hostPrivate}/srt.json`;
  await Deno.writeTextFile(file, JSON.stringify(settings));
  return await started(file, inside);
}

/** The settings of `srt`. On Linux, it then finds the inputs of the inner sandbox in place. */
async function settingsOf(
  { programs }: SrtCommand,
  enclosure: Enclosure,
  contents: Contents,
): Promise<SrtSettings> {
  if (Deno.build.os !== "linux") return { ...programs, ...seatbelt(enclosure, contents) };
  const { devices = [], hostPrivate } = enclosure;
  const { bwrapPath = "bwrap" } = programs;
  await writeInner(enclosure, contents, bwrapPath);
  const settings = { ...programs, ...outer(enclosure, contents) };
  if (devices.length === 0) return settings;
  return { ...settings, bwrapPath: await withDevices(devices, bwrapPath, hostPrivate) };
}

/** The settings of `srt` on Linux, around the inner sandbox. */
function outer(enclosure: Enclosure, { view, hosts = [] }: Contents): SrtSettings {
  const { config = {} } = enclosure;
  const { filesystem = {}, network = {} } = config;
  const user = (paths: readonly string[] = []) => paths.map((path) => userPath(path, enclosure));
  return {
    network: {
      allowedDomains: [...network.allowedDomains ?? [], ...hosts],
      deniedDomains: network.deniedDomains ?? [],
      strictAllowlist: true,
      allowLocalBinding: false,
    },
    filesystem: {
      // The inner one hides the named paths: the Python that makes it may be in there.
      denyRead: user(filesystem.denyRead).filter(isPattern),
      allowRead: user(filesystem.allowRead),
      allowWrite: [...view.write.map(literal), ...user(filesystem.allowWrite)],
      denyWrite: user(filesystem.denyWrite),
      ...(filesystem.disabled ? { disabled: true } : {}),
    },
    // The inner one gets its own /proc only if a whole one is visible, and as root, bubblewrap
    // covers parts of a new one. But it looks up its child in the /proc that it sees, and dies if
    // that belongs to another PID namespace without a process of that number, as in a container.
    enableWeakerNestedSandbox: isRoot() !== false || config.enableWeakerNestedSandbox === true,
    // Only ipybox's programs run here; the inner one has our filter. With a helper, which gets its
    // program as arguments, srt leaves root the rights to make the inner one.
    allowNestedUserNamespaces: true,
    seccomp: { applyPath: "/usr/bin/env" },
  };
}

/** The command that makes the inner sandbox. */
function makingInner({ python, hostPrivate }: Enclosure): string[] {
  return [python, "-I", "-S", `${hostPrivate}/wall.py`, `${hostPrivate}/wall.json`];
}

/** Writes the inputs of {@linkcode makingInner}. */
async function writeInner(
  enclosure: Enclosure,
  { view, command }: Contents,
  bwrap: string,
): Promise<void> {
  const { config = {}, hostPrivate, limits, temporary, home } = enclosure;
  const { filesystem = {} } = config;
  const namespaces = config.allowNestedUserNamespaces ?? false;
  const seesAll = view.show.includes("/") || filesystem.disabled === true;
  const unixSockets = !seesAll || config.network?.allowAllUnixSockets === true;
  const filter = syscallFilter({ namespaces, unixSockets });
  if (filter === undefined) {
    throw new SandboxUnavailableError(
      `No system call filter for ${Deno.build.arch}`,
      "Run ipybox on x86_64 or aarch64, or without a sandbox: --no-sandbox",
    );
  }
  const user = (paths: readonly string[] = []) => paths.map((path) => userPath(path, enclosure));
  const names = (paths: readonly string[] = []) => user(paths).filter((path) => !isPattern(path));
  const memory = limits === undefined ? OTHERS_MEMORY : limits.memoryBytes;
  const order: WallOrder = {
    bwrap,
    show: [
      ...(view.show.includes("/") ? [] : SYSTEM.linux ?? []),
      ...view.show,
      ...user(filesystem.allowRead).map(placeOf),
      ...user(filesystem.allowWrite).filter(isPattern).map(placeOf),
    ],
    write: filesystem.disabled ? ["/"] : [...view.write, ...names(filesystem.allowWrite)],
    keep: [...view.keep, ...names(filesystem.denyWrite)],
    mask: filesystem.disabled ? [] : [...view.mask, hostPrivate, ...names(filesystem.denyRead)],
    real: view.real ?? [],
    workspace: enclosure.base,
    identities: await identitiesOf(view.write),
    filter: filter.toHex(),
    network: "outer",
    proc: config.enableWeakerNestedSandbox ? "host" : "own",
    namespaces,
    tmp: temporary,
    home: home ?? null,
    shm: memory === null ? null : Math.ceil(memory / 2),
    devices: enclosure.devices ?? [],
    environment: hostEnvs(["HOME", "USER"]),
  };
  await Deno.writeTextFile(`${hostPrivate}/wall.py`, `${asset("sandbox/wall.py")}\nenter()\n`);
  await Deno.writeTextFile(`${hostPrivate}/wall.json`, JSON.stringify({ ...order, command }));
}

/** The identities of these folders, before code of another session could replace them. */
async function identitiesOf(
  paths: readonly string[],
): Promise<(readonly [string, number, number])[]> {
  const found = await Promise.all(
    paths.map(async (path) => [path, await lstatIfPresent(path)] as const),
  );
  return found.flatMap(([path, info]) =>
    info === undefined || info.ino === null ? [] : [[path, info.dev, info.ino]]
  );
}

/** The settings of `srt` on macOS, where its rules are the sandbox. */
function seatbelt(enclosure: Enclosure, { view, hosts = [] }: Contents): SrtSettings {
  const { hostPrivate, config = {} } = enclosure;
  const { filesystem = {}, network = {} } = config;
  const user = (paths: readonly string[] = []) => paths.map((path) => userPath(path, enclosure));
  const isOpen = view.show.includes("/");
  const allowedDomains = [...network.allowedDomains ?? [], ...hosts];
  const online = allowedDomains.length > 0;
  const hidden = [...(isOpen ? [] : ["/"]), hostPrivate, ...view.mask].map(literal);
  return {
    network: {
      allowedDomains,
      deniedDomains: network.deniedDomains ?? [],
      strictAllowlist: true,
      allowLocalBinding: true, // kernels talk to the gateway
      allowAllUnixSockets: network.allowAllUnixSockets ?? false,
    },
    filesystem: {
      denyRead: [...hidden, ...user(filesystem.denyRead)],
      allowRead: [
        ...SYSTEM.darwin ?? [],
        ...[...view.show, ...view.write, ...installationOf(enclosure.python)].map(literal),
        ...(online ? [`${hostPrivate}/proxy`] : []),
        ...user(filesystem.allowRead),
        ...user(filesystem.allowWrite),
      ],
      allowWrite: [...view.write.map(literal), ...user(filesystem.allowWrite)],
      denyWrite: [
        ...[...view.keep, ...view.mask, SHARED_BY_SANDBOXES].map(literal),
        ...user(filesystem.denyWrite),
      ],
      ...(filesystem.disabled ? { disabled: true } : {}),
    },
  };
}

/** Paths that the Python that checks a sandbox needs. On Linux, `wall.py` shows its own. */
function installationOf(python: string): string[] {
  const prefix = dirname(dirname(python));
  return isBroad(prefix, hostEnv("HOME")) ? [python] : [prefix];
}

/** Characters that make a path a pattern for `srt`. */
const PATTERN = /[*?[\]{}]/;

function isPattern(path: string): boolean {
  return PATTERN.test(path);
}

/** Marks one of our paths as a name, so that its characters do not make it a pattern. */
function literal(path: string): string | { readonly path: string; readonly literal: true } {
  return isPattern(path) ? { path, literal: true } : path;
}

/** The path, or for a pattern the folder that contains all its matches. */
function placeOf(path: string): string {
  const at = path.search(PATTERN);
  return at < 0 ? path : path.slice(0, path.lastIndexOf("/", at)) || "/";
}

/** Resolves a user's path, which may be a pattern, relative, or start with `~`. */
function userPath(path: string, { base }: Pick<Enclosure, "base">): string {
  if (path !== "~" && !path.startsWith("~/")) return resolve(base, path);
  const home = hostEnv("HOME");
  if (home === undefined) {
    throw new TypeError(`Cannot resolve ${path} in the sandbox config: HOME is not readable`);
  }
  return home + path.slice(1);
}

/**
 * Writes a `bwrap` that shows devices in the outer sandbox, where srt always makes its own /dev.
 */
async function withDevices(
  devices: readonly string[],
  bwrap: string,
  hostPrivate: string,
): Promise<ProgramPath> {
  const shown = devices.flatMap((path) => ["--dev-bind-try", path, path]).map(shellWord).join(" ");
  const edit = `[ "$word" = -- ] && [ -z "$ended" ] && ended=yes && set -- "$@" ${shown}`;
  return await withEdited(bwrap, `${hostPrivate}/bwrap`, edit);
}

/** Writes a `socat` that passes data on without delay, as `start.js` makes the proxy do. */
async function withoutDelay(srt: SrtCommand, hostPrivate: string): Promise<SrtCommand> {
  const { programs } = srt;
  if (programs.socatPath === undefined) return srt;
  const edit = "case $word in TCP*) word=$word,nodelay ;; esac";
  const socatPath = await withEdited(programs.socatPath, `${hostPrivate}/socat`, edit);
  return { ...srt, programs: { ...programs, socatPath } };
}

/** Writes a program that starts another one with its arguments, after a line of shell has changed them. */
async function withEdited(program: string, file: string, edit: string): Promise<ProgramPath> {
  const script = `#!/bin/sh
for word; do
  shift
  ${edit}
  set -- "$@" "$word"
done
exec ${shellWord(program)} "$@"
`;
  await Deno.writeTextFile(file, script, { mode: 0o700 });
  return namedProgram(file);
}

/** The command that checks a program's sandbox from inside, and then becomes the program. */
export async function checked(
  command: readonly string[],
  { python, cwd, hostPrivate, limits }: Pick<
    Enclosure,
    "python" | "cwd" | "hostPrivate" | "limits"
  >,
): Promise<readonly string[]> {
  if (cwd === undefined) return command;
  const canary = `${hostPrivate}/canary`;
  await Deno.writeTextFile(canary, "not visible inside", { mode: 0o600 });
  const order = {
    probe: probeOf({ files: [canary] }),
    cwd,
    limits: limits === undefined ? {} : rlimits(limits).all,
  };
  return [python, "-I", "-S", "-c", asset("launcher/check.py"), JSON.stringify(order), ...command];
}

/** Parts of this machine that the check tries to reach. */
export function probeOf(
  { files, port }: { readonly files: readonly string[]; readonly port?: number },
) {
  const runtime = hostEnv("XDG_RUNTIME_DIR");
  const home = hostEnv("HOME");
  const sockets = [
    hostEnv("SSH_AUTH_SOCK"),
    ...["bus", "wayland-0", "gnupg/S.gpg-agent", "docker.sock", "podman/podman.sock"]
      .map((name) => runtime && `${runtime}/${name}`),
    home && `${home}/.gnupg/S.gpg-agent`,
  ].filter((path) => path !== undefined && path.startsWith("/"));
  return {
    files,
    port: port ?? null,
    process: Deno.pid,
    ambiguous: Deno.pid <= 64, // small ids also exist inside
    sockets,
  };
}

const pythons = new Map<string, Promise<ProgramPath>>();

/**
 * The Python that makes sandboxes, and checks those of programs that are not kernels: the named
 * one, unless code of a workspace could have changed it.
 */
export async function hostPython(workspace: string, named?: string): Promise<ProgramPath> {
  if (named?.includes("/") && await isOwnProgram(named, workspace)) return namedProgram(named);
  const path = await trustedPath(hostPath(), [workspace]);
  const found = pythons.get(path) ?? askedPython(path);
  pythons.set(path, found);
  found.catch(() => pythons.delete(path));
  return await found;
}

async function askedPython(path: string): Promise<ProgramPath> {
  const python = await findProgram("python3", { path });
  const args = ["-I", "-S", "-c", "import sys; print(sys.executable)"]; // not a shim's path
  const end = python && await runProgram(python, { args });
  if (end?.success) return namedProgram(end.stdout.trim());
  throw new SandboxUnavailableError(
    python === undefined
      ? "python3, which makes the sandbox, is not on the PATH"
      : `${python} does not start`,
    "Install Python 3.10 or newer, for example with: sudo apt-get install -y python3",
  );
}
