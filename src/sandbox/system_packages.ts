/**
 * System packages: the machine's package manager, its package names, and installing them if that
 * needs no prompt.
 *
 * @module
 */
import { EnvironmentNotReadyError } from "../base/errors.ts";
import { isGranted } from "../base/permission.ts";
import { ifPresent } from "../files/safe.ts";
import { findProgram, namedProgram, type ProgramPath } from "../process/program.ts";
import { runProgram } from "../process/run_program.ts";
import { lstatIfAllowed } from "../process/trusted_path.ts";

/** A program from a system package. */
export type SystemTool = "bwrap" | "socat" | "rg" | "python3";

/** A package manager. `apt-get` is run; for others, the command is shown. */
interface PackageManager {
  /** Its program. */
  readonly name: string;
  /** Paths of its program. */
  readonly paths: readonly string[];
  /** The arguments for installing packages. */
  readonly install: readonly string[];
  /** Its Python packages; the other packages have the same names everywhere. */
  readonly python?: string;
}

const PACKAGES: Readonly<Record<SystemTool, string>> = {
  bwrap: "bubblewrap",
  socat: "socat",
  rg: "ripgrep",
  python3: "python3",
};

const APT_GET: PackageManager = {
  name: "apt-get",
  paths: ["/usr/bin/apt-get"],
  install: ["install", "-y", "--no-install-recommends"],
  python: "python3 python3-venv",
};

/** The known package managers. */
export const PACKAGE_MANAGERS: readonly PackageManager[] = [
  APT_GET,
  { name: "dnf", paths: ["/usr/bin/dnf"], install: ["install"] },
  { name: "pacman", paths: ["/usr/bin/pacman"], install: ["-S", "--needed"], python: "python" },
  { name: "apk", paths: ["/sbin/apk"], install: ["add"] },
  { name: "zypper", paths: ["/usr/bin/zypper"], install: ["install"] },
  {
    name: "brew",
    paths: ["/opt/homebrew/bin/brew", "/usr/local/bin/brew", "/home/linuxbrew/.linuxbrew/bin/brew"],
    install: ["install"],
    python: "python@3.13",
  },
];

/** The names of the packages with the programs. */
export function packagesOf(
  tools: readonly SystemTool[],
  manager: PackageManager | undefined,
): string[] {
  return tools.flatMap((tool) =>
    tool === "python3" && manager?.python !== undefined
      ? manager.python.split(" ")
      : [PACKAGES[tool]]
  );
}

/** Finds the package manager of this machine. */
export async function findPackageManager(): Promise<PackageManager | undefined> {
  for (const manager of PACKAGE_MANAGERS) {
    for (const path of manager.paths) if (await lstatIfAllowed(path)) return manager;
  }
  return undefined;
}

/** The command that installs programs, for a person to type. */
export function installCommand(
  tools: readonly SystemTool[],
  options: { manager: PackageManager | undefined; root: boolean },
): string {
  const { manager, root } = options;
  const packages = packagesOf(tools, manager);
  if (manager === undefined) {
    return `Install ${packages.join(", ")} with this system's package manager`;
  }
  const sudo = root || manager.name === "brew" ? [] : ["sudo"];
  const steps = manager === APT_GET ? [["update"]] : [];
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
interface InstallOptions {
  /** Allows passwordless sudo. Root needs no permission. */
  yes?: boolean;
  /** Called with each command before it runs. */
  onProgress?: (line: string) => void;
  /** Stops the package manager. */
  signal?: AbortSignal;
}

/**
 * Installs programs with `apt-get`, if that is possible without a prompt: as root, or with `yes`
 * and passwordless sudo. Reports each command before it runs; otherwise throws an error with the
 * command for a person.
 */
export async function installSystemPackages(
  tools: readonly SystemTool[],
  options: InstallOptions = {},
): Promise<void> {
  if (tools.length === 0) return;
  const manager = await findPackageManager();
  const fix = installCommand(tools, { manager, root: isRoot() === true });
  if (manager === APT_GET) return await installPackages(packagesOf(tools, manager), options, fix);
  throw new EnvironmentNotReadyError(`Programs are missing: ${tools.join(", ")}`, fix);
}

/** Installs packages with `apt-get`, under the conditions of {@linkcode installSystemPackages}. */
export async function installPackages(
  packages: readonly string[],
  options: InstallOptions = {},
  fix = `apt-get install ${packages.join(" ")}`,
): Promise<void> {
  const start = await startOf(options);
  if (start === undefined) {
    const why = options.yes
      ? "passwordless sudo does not work here"
      : "requires root, or --yes with passwordless sudo";
    const missing = `Packages are missing: ${packages.join(", ")}`;
    throw new EnvironmentNotReadyError(`${missing} (not installed: ${why})`, fix);
  }
  const run = async (args: readonly string[]) => {
    const all = [...start.args, ...args];
    options.onProgress?.(`$ ${[start.program, ...all].join(" ")}`);
    return await runProgram(start.program, { args: all, signal: options.signal });
  };
  // Waits for an upgrade that runs in the background.
  const install = [...APT_GET.install, "-o", "DPkg::Lock::Timeout=120", ...packages];
  const hadLists = await hasAptLists();
  if (!hadLists) await run(["update"]);
  let result = await run(install);
  if (!result.success && hadLists) {
    // Outdated lists name files that the mirrors no longer have.
    await run(["update"]);
    result = await run(install);
  }
  const { success, stdout, stderr } = result;
  if (success) return;
  const lines = (stdout + stderr).split("\n").filter((line) => line.trim() !== "").slice(-8);
  throw new EnvironmentNotReadyError(
    `Cannot install system packages: apt-get failed${lines.map((line) => `\n  ${line}`).join("")}`,
    fix,
  );
}

/** Whether this process runs as root; `undefined` without the permission to know. */
export function isRoot(): boolean | undefined {
  return isGranted({ name: "sys", kind: "uid" }) ? Deno.uid() === 0 : undefined;
}

/** The command that starts `apt-get` without a prompt, if there is one. */
async function startOf(
  options: InstallOptions,
): Promise<{ program: ProgramPath; args: readonly string[] } | undefined> {
  const args = ["DEBIAN_FRONTEND=noninteractive", ...APT_GET.paths];
  if (isRoot() === true) return { program: ENV, args };
  const sudo = options.yes ? await sudoWithoutPassword() : undefined;
  return sudo && { program: sudo, args: ["-n", ENV, ...args] };
}

const ENV = namedProgram("/usr/bin/env");

async function sudoWithoutPassword(): Promise<ProgramPath | undefined> {
  const sudo = await findProgram("sudo");
  if (sudo === undefined) return undefined;
  return (await runProgram(sudo, { args: ["-n", "true"] })).success ? sudo : undefined;
}

async function hasAptLists(): Promise<boolean> {
  const lists = await ifPresent(Array.fromAsync(Deno.readDir("/var/lib/apt/lists"))) ?? [];
  return lists.some(({ isFile, name }) => isFile && name.includes("Packages"));
}
