/**
 * Packages that code actions ask for, beside the environment that runs kernels.
 *
 * @module
 */
import { dirname, join } from "node:path";
import { asset } from "../assets/mod.ts";
import { Mutex } from "../base/mutex.ts";
import { abortable, anySignal, FairTurns } from "../base/signals.ts";
import { ConfigError, EnvironmentNotReadyError, PackageInstallError } from "../base/errors.ts";
import { type Logger, silentLogger } from "../base/log.ts";
import { bytesOf } from "../base/streams.ts";
import { hostEnv, isGranted, mayRead } from "../base/permission.ts";
import { ManagedProcess, OutputTail } from "../process/managed_process.ts";
import { HeldFolder, PrivateFolder } from "../files/private_folder.ts";
import { emptyFolder } from "../files/remove_tree.ts";
import { findProgram, hostPath, namedProgram, type ProgramPath } from "../process/program.ts";
import { runProgram } from "../process/run_program.ts";
import { trustedPath } from "../process/trusted_path.ts";
import { readSandboxConfig, type SandboxConfig } from "../sandbox/config.ts";
import { confine } from "../sandbox/confine.ts";
import type { SandboxOptions } from "../sandbox/sandbox.ts";
import {
  defaultIndex,
  hasSecrets,
  type IndexSettings,
  installerEnvironment,
  readIndexSettings,
  readUvSettings,
} from "./indexes.ts";
import { fileHosts } from "./file_hosts.ts";
import { managedDirectory, type PythonEnvironment } from "./managed.ts";
import {
  judgePackages,
  minorVersion,
  openOverlay,
  type OverlayEnvironment,
  packageLevels,
  sitePackagesOf,
} from "./overlay_environment.ts";
import type { Requirement } from "./requirement.ts";

/** A package that was installed for a workspace. */
export interface InstalledPackage {
  /** Its name. */
  readonly name: string;
  /** Its version. */
  readonly version: string;
  /** Whether it was asked for, and not only needed by another one. */
  readonly requested: boolean;
}

/** Options of {@linkcode PackageFolder.open}. */
export interface PackageFolderOptions {
  /**
   * Whether the installer runs in the OS sandbox, and how that differs from its defaults.
   *
   * @default {true}
   */
  readonly sandbox?: boolean | SandboxOptions;
  /**
   * The directory of the managed environments, in which the packages are kept.
   *
   * @default {"$XDG_CACHE_HOME/ipybox/python"}
   */
  readonly cacheDir?: string;
  /** Folders of further packages that the code has, so that they are not installed again. */
  readonly shared?: readonly string[];
  /** Told what happens. */
  readonly log?: Logger;
}

/** Options of an installation. */
export interface InstallOptions {
  /** Stops it. What was installed before stays. */
  readonly signal?: AbortSignal;
  /**
   * How long the installer may take.
   *
   * @default {1800000} half an hour
   */
  readonly timeoutMs?: number;
  /** Receives each line that the installer writes. */
  readonly onLine?: (line: string) => void;
}

/** What an installation is about. */
interface Change {
  /** What is fetched; nothing when packages are removed. */
  readonly requirements: readonly Requirement[];
  /** It, in words. */
  readonly what: string;
}

/** An installation that is about to happen. */
interface Job extends Change {
  readonly action: "install" | "uninstall";
  readonly args: readonly string[];
  /** The folder of its temporary files. */
  readonly session: string;
  /** A folder that only the host sees. */
  readonly hostPrivate: string;
  readonly signal: AbortSignal;
}

/** What removing needs of indexes. */
const OFFLINE: IndexSettings = {
  indexes: [],
  hosts: [],
  paths: [],
  certificates: undefined,
  env: {},
  file: undefined,
};

/** How an installer is started. */
interface Installer {
  readonly command: ProgramPath;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

/** A program that installs, without what it installs and where. */
interface InstallerProgram {
  readonly command: ProgramPath;
  readonly args: readonly string[];
  readonly isPip: boolean;
}

const MAX_OUTPUT_BYTES = 16 * 1024;
/** What an index certainly has, and what a build from a repository may need of it. */
const BUILD_BACKEND = "setuptools";

/**
 * The packages of one workspace, which its code can import and not change.
 *
 * They lie in the user's cache, so that code actions, which may write to the workspace, cannot change
 * what the installer or another workspace's code imports.
 */
export class PackageFolder {
  /** The folder that code imports from. */
  readonly path: string;
  /** What installers write to. Each is a mount of its own for them, which they cannot move away. */
  readonly writable: readonly string[];
  readonly #overlay: OverlayEnvironment;
  readonly #python: PythonEnvironment;
  readonly #workspace: string;
  readonly #options: PackageFolderOptions;
  readonly #log: Logger;
  readonly #turns = new Mutex();

  private constructor(
    overlay: OverlayEnvironment,
    python: PythonEnvironment,
    workspace: string,
    options: PackageFolderOptions,
  ) {
    this.path = overlay.sitePackages;
    this.writable = packageLevels(this.path);
    this.#overlay = overlay;
    this.#workspace = workspace;
    this.#python = python;
    this.#options = options;
    this.#log = options.log ?? silentLogger;
  }

  /**
   * Makes the folder where it is missing: a kernel that runs already sees what is installed later.
   */
  static async open(
    workspace: string,
    python: PythonEnvironment,
    options: PackageFolderOptions = {},
  ): Promise<PackageFolder> {
    const folder = await folderOf(workspace, options.cacheDir);
    await Deno.mkdir(dirname(folder), { recursive: true });
    if (await madeFolder(folder, workspace)) await removeAbandoned(dirname(folder));
    const overlayFolder = join(await Deno.realPath(folder), `python${minorVersion(python)}`);
    const overlay = await openOverlay(overlayFolder, python);
    const judgement = await judgePackages(overlay.sitePackages);
    if (judgement !== "plain") throw notPlain(judgement, overlayFolder);
    return new PackageFolder(overlay, python, workspace, options);
  }

  /** The folder of a workspace's packages, as far as Deno's permissions allow to look for it. */
  static async find(workspace: string, python: PythonEnvironment): Promise<string | undefined> {
    if (!hasManagedDirectory()) return undefined;
    const folder = await folderOf(workspace);
    if (!mayRead(folder)) return undefined;
    const [root] = await existing([folder]); // which no installer can write to
    if (root === undefined) return undefined;
    const overlayFolder = join(root, `python${minorVersion(python)}`);
    const sitePackages = sitePackagesOf(overlayFolder, python);
    const judgement = await judgePackages(sitePackages);
    if (judgement === "plain") return sitePackages;
    if (judgement === "missing") return undefined;
    throw notPlain(judgement, overlayFolder);
  }

  /**
   * Whether Deno's permissions allow to keep packages: their environment has a symbolic link, which
   * only programs that may read and write everywhere can make.
   */
  static isPermitted(): boolean {
    return hasManagedDirectory() && isGranted({ name: "read" }) && isGranted({ name: "write" });
  }

  /** Removes the packages of a workspace, for every Python. */
  static async remove(workspace: string): Promise<void> {
    await PackageFolder.discard(await folderOf(workspace));
  }

  /** Removes a folder that {@linkcode PackageFolder.abandoned} found. */
  static async discard(path: string): Promise<void> {
    try {
      await emptyFolder(path, { keep: WORKSPACE }); // by which it is found until it is empty
      await Deno.remove(path, { recursive: true });
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    }
  }

  /** Finds the packages of workspaces that are gone. */
  static async abandoned(): Promise<{ readonly path: string; readonly workspace: string }[]> {
    const root = join(managedDirectory(), "packages");
    return await isThere(root) ? await Array.fromAsync(abandonedIn(root)) : [];
  }

  /**
   * Installs packages and what they need. What is there already and fits is not installed again, and
   * what kernels themselves need keeps its version.
   *
   * The installer, and what it builds, runs in a sandbox: it writes only to this folder, and reaches
   * only the package indexes that pip or uv is configured to use and the hosts of their files, and the
   * hosts of Git repositories.
   */
  async install(
    requirements: readonly Requirement[],
    options: InstallOptions = {},
  ): Promise<string> {
    const args = ["--constraint", "constraints.txt", "--", ...requirements.map(({ text }) => text)];
    const what = requirements.map(({ text }) => text).join(" ");
    return await this.#change("install", args, { ...options, requirements, what });
  }

  /** Removes packages. What they needed stays. */
  async uninstall(names: readonly string[], options: InstallOptions = {}): Promise<string> {
    const what = names.join(" ");
    return await this.#change("uninstall", ["--", ...names], {
      ...options,
      requirements: [],
      what,
    });
  }

  /** Lists what is installed, by name. */
  async list(): Promise<InstalledPackage[]> {
    const found: InstalledPackage[] = [];
    for await (const { name, isDirectory } of Deno.readDir(this.path)) {
      const [, project, version] = /^([^-]+)-([^-]+)\.dist-info$/.exec(name) ?? [];
      if (!isDirectory || project === undefined || version === undefined) continue;
      const marker = join(this.path, name, "REQUESTED"); // pip's and uv's, PEP 376
      const requested = await Deno.lstat(marker).then(() => true, () => false);
      found.push({ name: project.replaceAll("_", "-"), version, requested });
    }
    return found.toSorted((a, b) => a.name < b.name ? -1 : 1);
  }

  async #change(
    action: "install" | "uninstall",
    args: readonly string[],
    options: InstallOptions & Change,
  ): Promise<string> {
    const { signal = new AbortController().signal, onLine = () => {}, what } = options;
    const { timeoutMs = 30 * 60_000 } = options;
    using _turn = await this.#turns.acquire(signal); // two at once would mix their files
    await using folder = await PrivateFolder.create([], this.#log);
    await using host = await HeldFolder.create({ log: this.#log }); // its path is short enough for srt's sockets
    const session = folder.path;
    await Deno.mkdir(`${session}/tmp`);
    const constraints = pinnedVersions(asset("environment/requirements.txt"));
    await Deno.writeTextFile(`${session}/constraints.txt`, constraints);
    const folders = { session, hostPrivate: host.path };
    const installer = await this.#installer({ action, args, ...options, ...folders, signal });
    const { exitCode, output } = await this.#run(installer, session, { signal, onLine, timeoutMs });
    if (exitCode === 0) return output;
    const verb = action === "install" ? "installed" : "removed";
    const note = installer.args.includes(ONLY_WHEELS) ? WHY_ONLY_WHEELS : "";
    throw new PackageInstallError(`${what} was not ${verb}`, output + note);
  }

  async #installer(job: Job): Promise<Installer> {
    const { action, session, hostPrivate, signal, requirements } = job;
    const { executable, prefix, basePrefix } = this.#python;
    const sandbox = this.#options.sandbox ?? true;
    const program = await this.#program(action);
    const { command } = program;
    const args = [...program.args, ...job.args];
    // What is there too, so that pip takes it as it is.
    const present = [sitePackagesOf(prefix, this.#python), ...this.#options.shared ?? []];
    const env = { PYTHONPATH: present.join(":"), PYTHONNOUSERSITE: "1" };
    const hostEnvironment = installerEnvironment();
    if (sandbox === false) {
      const path = await trustedPath(hostPath());
      return { command, args, env: { ...hostEnvironment, PATH: path, ...env } };
    }
    const isOnline = requirements.length > 0;
    const settings = !isOnline
      ? OFFLINE
      : program.isPip
      ? await readIndexSettings(namedProgram(executable), signal)
      : await readUvSettings(
        hostEnvironment,
        await defaultIndex(command, ["pip", "install"], { signal }),
      );
    if (settings.file !== undefined) {
      await Deno.writeTextFile(`${session}/pip.conf`, settings.file);
    }
    if (isOnline && hasSecrets(settings)) {
      refuseRepositories(requirements);
      args.splice(args.indexOf("--"), 0, ONLY_WHEELS);
    }
    const config = await this.#config();
    return await confine({
      command: [command, ...args],
      env: {
        HOME: session,
        TMPDIR: `${session}/tmp`,
        ...env,
        ...(settings.file === undefined ? {} : { PIP_CONFIG_FILE: `${session}/pip.conf` }),
        // The sandbox keeps its own hand on files such as .gitconfig, which git then cannot read.
        GIT_CONFIG_GLOBAL: "/dev/null",
        GIT_CONFIG_NOSYSTEM: "1",
        GIT_TERMINAL_PROMPT: "0",
        ...settings.env,
      },
      session,
      writable: this.writable,
      readable: [
        ...await existing([prefix, basePrefix, command, ...settings.paths]),
        ...this.#options.shared ?? [], // judged before, and no link by any name
      ],
      hostPrivate,
      hosts: isOnline ? await this.#hosts(settings, requirements, signal) : [],
      config,
    }, { log: this.#log, signal });
  }

  /** The Python's own pip, else uv. Both work on the workspace's environment, inside the sandbox. */
  async #program(action: Job["action"]): Promise<InstallerProgram> {
    const python = namedProgram(this.#python.executable);
    const overlay = namedProgram(this.#overlay.executable);
    if ((await runProgram(python, { args: ["-I", "-m", "pip", "--version"] })).success) {
      const quiet = ["--no-input", "--disable-pip-version-check", "--no-cache-dir"];
      const yes = action === "uninstall" ? ["-y"] : [];
      return { command: overlay, args: ["-m", "pip", action, ...quiet, ...yes], isPip: true };
    }
    const uv = await findProgram("uv");
    if (uv !== undefined) {
      // The sandbox shows what it is, not the links to it.
      const command = namedProgram(await Deno.realPath(uv));
      return { command, args: ["pip", action, "--python", overlay], isPip: false };
    }
    throw new EnvironmentNotReadyError(
      `Cannot install packages: ${python} has no pip, and there is no uv on the PATH`,
      `${python} -m ensurepip`,
    );
  }

  /** What may be reached: the indexes, where they have their files, and a repository's host. */
  async #hosts(
    { indexes, hosts, certificates }: IndexSettings,
    requirements: readonly Requirement[],
    signal: AbortSignal,
  ): Promise<string[]> {
    const log = this.#log;
    const names = new Set(requirements.map(({ name = BUILD_BACKEND }) => name));
    const files = await Promise.all(
      [...names].map((name) => fileHosts(indexes, name, { signal, certificates, log })),
    );
    const repositories = requirements.flatMap(({ host }) => host ?? []);
    return [...new Set([...hosts, ...files.flat(), ...repositories])];
  }

  async #config(): Promise<SandboxConfig | undefined> {
    const { sandbox = true } = this.#options;
    if (typeof sandbox === "boolean") return undefined;
    const { config, allowUnsafe = false } = sandbox;
    return typeof config === "string"
      ? await readSandboxConfig(config, { allowUnsafe, workspace: this.#workspace })
      : config;
  }

  async #run(
    installer: Installer,
    cwd: string,
    { signal, onLine, timeoutMs }: {
      readonly signal: AbortSignal;
      readonly onLine: (line: string) => void;
      readonly timeoutMs: number;
    },
  ): Promise<{ readonly exitCode: number | null; readonly output: string }> {
    const output = new OutputTail(MAX_OUTPUT_BYTES);
    // Nothing is lost by ending it, so it does not get long to do so.
    await using process = ManagedProcess.spawn({
      ...installer,
      cwd, // what lies in the workspace must not have a say
      onStderr: (line) => {
        output.keep(line);
        onLine(line);
      },
      inputGraceMs: 0,
      termGraceMs: 1000,
    });
    const turns = new FairTurns();
    const said = (async () => {
      for await (const chunk of bytesOf(process.pipes)) {
        for (const line of output.push(chunk)) {
          onLine(line);
          await turns.giveWay();
        }
      }
    })();
    const deadline = AbortSignal.timeout(timeoutMs);
    try {
      const { exitCode } = await abortable(process.exited, anySignal(deadline, signal));
      await said;
      return { exitCode, output: output.text };
    } catch (error) {
      if (error !== deadline.reason || !deadline.aborted) throw error;
      const ended = `The installer was ended, as it took more than ${timeoutMs / 1000} s`;
      onLine(ended);
      return { exitCode: null, output: `${output.text}${ended}\n` };
    }
  }
}

/**
 * Keeps an installer from building anything: what is built runs, and could read the password of the
 * index and put it into the package.
 */
const ONLY_WHEELS = "--only-binary=:all:";

const WHY_ONLY_WHEELS =
  "[ipybox] Only wheels can be installed here: your package index needs credentials, which the " +
  "build of a source package could read. Build a wheel, and publish it in your index\n";

function refuseRepositories(requirements: readonly Requirement[]): void {
  const repository = requirements.find(({ host }) => host !== undefined);
  if (repository === undefined) return;
  throw new PackageInstallError(`${repository.text} was not installed`, WHY_ONLY_WHEELS);
}

/** Where the packages of a workspace are, for every Python. */
async function folderOf(workspace: string, cacheDir: string = managedDirectory()): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(workspace));
  return join(cacheDir, "packages", new Uint8Array(digest).toHex().slice(0, 32));
}

/** The file beside the packages that names their workspace. */
const WORKSPACE = "workspace";

/**
 * Makes the folder of a workspace's packages, and says whether it was missing. Nobody ever sees it
 * without the file that names the workspace.
 */
async function madeFolder(path: string, workspace: string): Promise<boolean> {
  if (await isThere(join(path, WORKSPACE))) return false;
  const fresh = `${path}.${crypto.randomUUID()}.tmp`;
  await Deno.mkdir(fresh);
  await Deno.writeTextFile(join(fresh, WORKSPACE), workspace);
  try {
    await Deno.rename(fresh, path); // also over an empty folder
    return true;
  } catch (error) {
    await Deno.remove(fresh, { recursive: true });
    if (!await isThere(path)) throw error; // else another process was first
    return false;
  }
}

function notPlain(
  judgement: "missing" | { readonly notPlain: string },
  folder: string,
): ConfigError {
  const what = judgement === "missing"
    ? "packages lack a folder"
    : `${judgement.notPlain} is not a plain folder`;
  return new ConfigError(
    `Cannot use the packages in ${folder}: ${what}. An installed package may have changed it to reach ` +
      "other files: remove the folder, and install again what you trust",
  );
}

/**
 * Removes the empty folders of workspaces that are gone, such as temporary ones. What is installed in
 * the others, only the person may remove.
 */
async function removeAbandoned(root: string): Promise<void> {
  for await (const { path: folder } of abandonedIn(root)) {
    try {
      for await (const { name: version, isDirectory } of Deno.readDir(folder)) {
        const sitePackages = join(folder, version, "lib", version, "site-packages");
        if (!isDirectory || await judgePackages(sitePackages) !== "plain") continue;
        await Deno.remove(sitePackages); // fails where anything is installed
      }
      await PackageFolder.discard(folder);
    } catch {
      continue; // not empty, or another process is removing it as well
    }
  }
}

async function* abandonedIn(root: string): AsyncGenerator<{ path: string; workspace: string }> {
  for await (const { name } of Deno.readDir(root)) {
    const path = join(root, name);
    const workspace = await Deno.readTextFile(join(path, WORKSPACE)).catch(() => undefined);
    if (workspace?.startsWith("/") && !await isThere(workspace)) yield { path, workspace };
  }
}

/** Whether something is there. Where that cannot be told, it is taken to be. */
async function isThere(path: string): Promise<boolean> {
  return await Deno.lstat(path).then(
    () => true,
    (error) => !(error instanceof Deno.errors.NotFound),
  );
}

/** Whether the user's cache directory is known, which Deno's permissions may not allow. */
function hasManagedDirectory(): boolean {
  return hostEnv("XDG_CACHE_HOME")?.startsWith("/") === true || Boolean(hostEnv("HOME"));
}

/**
 * The versions of the kernel's own packages, in the form of a constraints file. A package may have
 * several, each for some versions of Python: without what says so they would exclude each other.
 */
export function pinnedVersions(requirements: string): string {
  return requirements.split("\n")
    .flatMap((line) => /^[A-Za-z0-9._-]+==[^\\]+/.exec(line)?.[0].trimEnd() ?? [])
    .join("\n") + "\n";
}

/** Where paths really are; those that are not there are left out. */
async function existing(paths: readonly string[]): Promise<string[]> {
  const real = await Promise.all(
    [...new Set(paths)].map((path) => Deno.realPath(path).catch(() => undefined)),
  );
  return real.filter((path) => path !== undefined);
}
