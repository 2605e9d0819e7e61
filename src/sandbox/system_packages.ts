/**
 * System packages: which package manager this machine has, how its packages are called, and
 * installing them where that needs no prompt.
 *
 * @module
 */
import { EnvironmentNotReadyError } from "../base/errors.ts";
import { isGranted, mayRead } from "../base/permission.ts";
import { findProgram, namedProgram, type ProgramPath } from "../process/program.ts";
import { runProgram } from "../process/run_program.ts";

/** A program that comes with a system package. */
export type SystemTool = "bwrap" | "socat" | "rg" | "python3";

/** How a package manager is used. */
export interface PackageManager {
  /** Its program. */
  readonly name: string;
  /** Where its program is. */
  readonly paths: readonly string[];
  /** The arguments that fetch its lists, where that is a step of its own. */
  readonly refresh?: readonly string[];
  /** The arguments that install packages without asking. */
  readonly install: readonly string[];
  /** Arguments that only matter where nobody watches. */
  readonly unattended?: readonly string[];
  /** The packages of each program. */
  readonly packages: Readonly<Record<SystemTool, readonly string[]>>;
  /** Whether it refuses to run as root. */
  readonly asUser?: boolean;
}

const PACKAGES: PackageManager["packages"] = {
  bwrap: ["bubblewrap"],
  socat: ["socat"],
  rg: ["ripgrep"],
  python3: ["python3"],
};

/** The package managers that are known. */
export const PACKAGE_MANAGERS: readonly PackageManager[] = [
  {
    name: "apt-get",
    paths: ["/usr/bin/apt-get"],
    refresh: ["update"],
    install: ["install", "-y", "--no-install-recommends"],
    // An upgrade that runs in the background may finish first.
    unattended: ["-o", "DPkg::Lock::Timeout=120"],
    packages: { ...PACKAGES, python3: ["python3", "python3-venv"] },
  },
  { name: "dnf", paths: ["/usr/bin/dnf"], install: ["install", "-y"], packages: PACKAGES },
  {
    name: "pacman",
    paths: ["/usr/bin/pacman"],
    // Not -Sy: fresh lists with old packages are a partial upgrade, which Arch does not support.
    install: ["-S", "--noconfirm", "--needed"],
    packages: { ...PACKAGES, python3: ["python"] },
  },
  { name: "apk", paths: ["/sbin/apk"], install: ["add", "--no-cache"], packages: PACKAGES },
  {
    name: "zypper",
    paths: ["/usr/bin/zypper"],
    install: ["--non-interactive", "install", "--no-recommends"],
    packages: PACKAGES,
  },
  {
    name: "brew",
    paths: ["/opt/homebrew/bin/brew", "/usr/local/bin/brew", "/home/linuxbrew/.linuxbrew/bin/brew"],
    install: ["install"],
    packages: { ...PACKAGES, python3: ["python@3.13"] },
    asUser: true,
  },
];

/** The package manager of this machine. */
export async function findPackageManager(): Promise<PackageManager | undefined> {
  for (const manager of PACKAGE_MANAGERS) {
    if (await presentPath(manager) !== undefined) return manager;
  }
  return undefined;
}

async function presentPath({ paths }: PackageManager): Promise<string | undefined> {
  for (const path of paths) if (await exists(path)) return path;
  return undefined;
}

/** The command that installs programs, as a person types it. */
export function installCommand(
  tools: readonly SystemTool[],
  options: { manager: PackageManager | undefined; root: boolean },
): string {
  const { manager, root } = options;
  if (manager === undefined) {
    const names = tools.flatMap((tool) => PACKAGES[tool]);
    return `Install ${names.join(", ")} with the package manager of this system`;
  }
  const sudo = root || manager.asUser ? [] : ["sudo"];
  const packages = tools.flatMap((tool) => manager.packages[tool]);
  const steps = manager.refresh === undefined ? [] : [manager.refresh];
  return [...steps, [...manager.install, ...packages]]
    .map((args) => [...sudo, manager.name, ...args].join(" "))
    .join(" && ");
}

/** {@linkcode installCommand} for this machine and this user. */
export async function installCommandHere(tools: readonly SystemTool[]): Promise<string> {
  const manager = await findPackageManager();
  return installCommand(tools, { manager, root: isRoot() === true });
}

/** Options of {@linkcode installSystemPackages}. */
export interface InstallOptions {
  /** Whether passwordless sudo may be used. Root needs no leave. */
  yes?: boolean;
  /** Called with each command, before it is run. */
  onProgress?: (line: string) => void;
  /** Ends the package manager. */
  signal?: AbortSignal;
}

/**
 * Installs programs with the system's package manager, if that is possible without a prompt: as
 * root, or with `yes` and passwordless sudo. Says what it runs before it runs it.
 */
export async function installSystemPackages(
  tools: readonly SystemTool[],
  options: InstallOptions = {},
): Promise<void> {
  if (tools.length === 0) return;
  const manager = await findPackageManager();
  const fix = installCommand(tools, { manager, root: isRoot() === true });
  const missing = `Programs are missing: ${tools.join(", ")}`;
  if (manager === undefined) throw new EnvironmentNotReadyError(missing, fix);
  const packages = tools.flatMap((tool) => manager.packages[tool]);
  try {
    await installPackages(manager, packages, options);
  } catch (error) {
    if (!(error instanceof InstallError)) throw error;
    const message = error.tried ? error.message : `${missing} (${error.message})`;
    throw new EnvironmentNotReadyError(message, fix);
  }
}

/** Packages could not be installed. */
class InstallError extends Error {
  override readonly name: string = "InstallError";

  constructor(readonly tried: boolean, message: string) {
    super(message);
  }
}

/**
 * Installs packages, if that is possible without a prompt: see {@linkcode installSystemPackages}.
 */
export async function installPackages(
  manager: PackageManager,
  packages: readonly string[],
  options: InstallOptions = {},
): Promise<void> {
  const start = await startOf(manager, options);
  if (start === undefined) throw new InstallError(false, whyNot(manager, options));
  const run = async (args: readonly string[]) => {
    const all = [...start.args, ...args];
    options.onProgress?.(`$ ${[start.program, ...all].join(" ")}`);
    return await runToEnd(start.program, all, options.signal);
  };
  const install = [...manager.install, ...(manager.unattended ?? []), ...packages];
  const { refresh } = manager;
  const fresh = refresh !== undefined && !await hasAptLists();
  if (fresh) await run(refresh);
  let result = await run(install);
  if (!result.success && refresh !== undefined && !fresh) {
    // Old lists name files that the mirrors no longer have.
    await run(refresh);
    result = await run(install);
  }
  if (result.success) return;
  const message = `Cannot install system packages: ${manager.name} failed${result.lastLines}`;
  throw new InstallError(true, message);
}

/** Whether this process runs as root. */
export function isRoot(): boolean | undefined {
  return isGranted({ name: "sys", kind: "uid" }) ? Deno.uid() === 0 : undefined;
}

/** How a package manager is started. */
interface Start {
  readonly program: ProgramPath;
  /** The arguments before those of the package manager. */
  readonly args: readonly string[];
}

/** How the package manager is started, or `undefined` when that takes a prompt. */
async function startOf(
  manager: PackageManager,
  options: InstallOptions,
): Promise<Start | undefined> {
  const path = await presentPath(manager);
  if (path === undefined) return undefined;
  const root = isRoot() === true;
  if (manager.asUser) return root ? undefined : { program: namedProgram(path), args: [] };
  const unasked = manager.name === "apt-get" ? ["DEBIAN_FRONTEND=noninteractive"] : [];
  if (root) return { program: ENV, args: [...unasked, path] };
  const sudo = options.yes ? await sudoWithoutPassword() : undefined;
  return sudo && { program: sudo, args: ["-n", ENV, ...unasked, path] };
}

const ENV = namedProgram("/usr/bin/env");

function whyNot(manager: PackageManager, options: InstallOptions): string {
  if (manager.asUser) return `${manager.name} does not run as root`;
  return options.yes
    ? "not installed: passwordless sudo does not work here"
    : "not installed: that needs root, or --yes with passwordless sudo";
}

async function sudoWithoutPassword(): Promise<ProgramPath | undefined> {
  const sudo = await findProgram("sudo");
  if (sudo === undefined) return undefined;
  return (await runProgram(sudo, { args: ["-n", "true"] })).success ? sudo : undefined;
}

async function runToEnd(
  program: ProgramPath,
  args: readonly string[],
  signal: AbortSignal | undefined,
): Promise<{ success: boolean; lastLines: string }> {
  const { success, stdout, stderr } = await runProgram(program, { args, signal });
  const lines = (stdout + stderr).split("\n").filter((line) => line.trim() !== "").slice(-8);
  return { success, lastLines: lines.map((line) => `\n  ${line}`).join("") };
}

async function hasAptLists(): Promise<boolean> {
  try {
    for await (const entry of Deno.readDir("/var/lib/apt/lists")) {
      if (entry.isFile && entry.name.includes("Packages")) return true;
    }
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
  return false;
}

/** Whether a file exists, as far as Deno's permissions let one look without a prompt. */
async function exists(path: string): Promise<boolean> {
  if (!mayRead(path)) return false;
  try {
    await Deno.stat(path);
    return true;
  } catch {
    return false; // not there, or not to be reached: both mean that it cannot be used
  }
}
