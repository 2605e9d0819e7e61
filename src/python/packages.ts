/**
 * The packages that workspaces install in addition to the environment that runs kernels.
 *
 * @module
 */
import { dirname, join } from "node:path";
import { asset } from "../assets/mod.ts";
import { Mutex } from "../base/mutex.ts";
import { abortable, anySignal, fairTurns } from "../base/signals.ts";
import { ConfigError, EnvironmentNotReadyError, PackageInstallError } from "../base/errors.ts";
import { type Logger, silentLogger } from "../base/log.ts";
import { stage } from "../base/stages.ts";
import { bytesOf } from "../base/streams.ts";
import { hostEnv, isGranted, mayRead } from "../base/permission.ts";
import { ManagedProcess, OutputTail } from "../process/managed_process.ts";
import { HeldFolder, PrivateFolder } from "../files/private_folder.ts";
import { emptyFolder } from "../files/remove_tree.ts";
import { sha256 } from "../json/digest.ts";
import { findProgram, hostPath, namedProgram, type ProgramPath } from "../process/program.ts";
import { moduleArgs } from "../process/python_args.ts";
import { runProgram } from "../process/run_program.ts";
import { trustedPath } from "../process/trusted_path.ts";
import { readSandboxConfig, type SandboxConfig } from "../sandbox/config.ts";
import { confine } from "../sandbox/confine.ts";
import { pythonFolders } from "../sandbox/installation.ts";
import { effectiveLimits, LimitedTogether } from "../sandbox/limits.ts";
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
  packageLevels,
  sitePackagesOf,
} from "./overlay_environment.ts";
import type { Requirement } from "./requirement.ts";

/** A package that was installed for a workspace. */
export interface InstalledPackage {
  readonly name: string;
  readonly version: string;
  /** Whether it was requested, rather than installed as a dependency. */
  readonly requested: boolean;
}

/** Options of {@linkcode PackageFolder.open}. */
export interface PackageFolderOptions {
  /** Whether the installer runs in the OS sandbox, as by default, and the sandbox's settings. */
  readonly sandbox?: boolean | SandboxOptions;
  /** The directory of the managed environments and the packages; by default in the user's cache. */
  readonly cacheDir?: string;
  /** Folders of packages that the code already has, so that they are not installed again. */
  readonly shared?: readonly string[];
  /** Receives progress. */
  readonly log?: Logger;
}

/** Options of an installation. */
export interface InstallOptions {
  /** Stops the installation. Packages installed before stay. */
  readonly signal?: AbortSignal;
  /** How long the installer may take; half an hour by default. */
  readonly timeoutMs?: number;
  /** Receives each line that the installer writes. */
  readonly onLine?: (line: string) => void;
}

/** The packages to install or remove. */
interface Change {
  /** The packages to fetch; none when packages are removed. */
  readonly requirements: readonly Requirement[];
  /** The change in words. */
  readonly what: string;
}

/** A planned installation. */
interface Job extends Change {
  readonly action: "install" | "uninstall";
  readonly args: readonly string[];
  /** The folder for its temporary files. */
  readonly session: string;
  /** A folder that only the host sees. */
  readonly hostPrivate: string;
  readonly signal: AbortSignal;
  readonly onLine: (line: string) => void;
  readonly timeoutMs: number;
}

/** The settings for removing packages, which needs no index. */
const OFFLINE: IndexSettings = {
  indexes: [],
  hosts: [],
  paths: [],
  certificates: undefined,
  env: {},
  file: undefined,
};

/** An installer's command line and environment. */
interface Installer {
  readonly command: ProgramPath;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** Files that it needs to start, besides the Python. */
  readonly files: readonly string[];
}

/** An installer that is ready to run. */
type Launch = Omit<Installer, "files">;

/** An installer without its requirements and target. */
interface InstallerProgram extends Omit<Installer, "env"> {
  readonly isPip: boolean;
}

/** Options of pip. */
const QUIET = ["--no-input", "--disable-pip-version-check", "--no-cache-dir"];
const PAST = { install: "installed", uninstall: "removed" } as const;

const MAX_OUTPUT_BYTES = 16 * 1024;
/** A package that every index has, and that a build from a repository may need. */
const BUILD_BACKEND = "setuptools";

/**
 * The packages of one workspace, which its code can import but not change.
 *
 * They are in the user's cache, because code actions may write to the workspace and could otherwise
 * change what the installer or another workspace's code imports.
 */
export class PackageFolder {
  /** The folder that code imports from. */
  readonly path: string;
  /** The folders that installers write to. Each is a separate mount that they cannot move. */
  readonly writable: readonly string[];
  /** Their virtual environment. */
  readonly #folder: string;
  readonly #python: PythonEnvironment;
  readonly #workspace: string;
  readonly #options: PackageFolderOptions;
  readonly #log: Logger;
  readonly #turns = new Mutex();

  private constructor(
    folder: string,
    python: PythonEnvironment,
    workspace: string,
    options: PackageFolderOptions,
  ) {
    this.path = sitePackagesOf(folder, python);
    this.writable = packageLevels(this.path);
    this.#folder = folder;
    this.#workspace = workspace;
    this.#python = python;
    this.#options = options;
    this.#log = options.log ?? silentLogger;
  }

  /** Makes the folder if it is missing, so that a running kernel sees packages installed later. */
  static async open(
    workspace: string,
    python: PythonEnvironment,
    options: PackageFolderOptions = {},
  ): Promise<PackageFolder> {
    using _stage = stage("open packages");
    const folder = folderOf(workspace, options.cacheDir);
    await Deno.mkdir(dirname(folder), { recursive: true, mode: 0o755 });
    if (await madeFolder(folder, workspace)) await removeAbandoned(dirname(folder));
    const overlayFolder = join(await Deno.realPath(folder), `python${minorVersion(python)}`);
    const { sitePackages } = await openOverlay(overlayFolder, python);
    const judgement = await judgePackages(sitePackages);
    if (judgement !== "plain") throw notPlain(judgement, overlayFolder);
    return new PackageFolder(overlayFolder, python, workspace, options);
  }

  /** The folder of a workspace's packages, if Deno's permissions allow looking for it. */
  static async find(workspace: string, python: PythonEnvironment): Promise<string | undefined> {
    if (!hasManagedDirectory()) return undefined;
    const folder = folderOf(workspace);
    if (!mayRead(folder)) return undefined;
    const [root] = await existing([folder]); // installers cannot write to it
    if (root === undefined) return undefined;
    const overlayFolder = join(root, `python${minorVersion(python)}`);
    const sitePackages = sitePackagesOf(overlayFolder, python);
    const judgement = await judgePackages(sitePackages);
    if (judgement === "plain") return sitePackages;
    if (judgement === "missing") return undefined;
    throw notPlain(judgement, overlayFolder);
  }

  /** Whether Deno's permissions allow installing: making links takes unscoped read and write access. */
  static isPermitted(): boolean {
    return hasManagedDirectory() && isGranted({ name: "read" }) && isGranted({ name: "write" });
  }

  /** Where the packages of a workspace are, in a folder for every Python, if there are any. */
  static folder(workspace: string): string {
    return folderOf(workspace);
  }

  /** Removes a workspace's packages for every Python. */
  static async remove(workspace: string): Promise<void> {
    await PackageFolder.discard(folderOf(workspace));
  }

  /** Removes a folder that {@linkcode PackageFolder.abandoned} found. */
  static async discard(path: string): Promise<void> {
    try {
      await emptyFolder(path, { keep: WORKSPACE }); // identifies the folder until it is empty
      await Deno.remove(path, { recursive: true });
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    }
  }

  /** Finds the packages of workspaces that no longer exist. */
  static async abandoned(): Promise<{ readonly path: string; readonly workspace: string }[]> {
    const root = join(managedDirectory(), "packages");
    return await isThere(root) ? await Array.fromAsync(abandonedIn(root)) : [];
  }

  /**
   * Installs packages and their dependencies. Keeps installed packages that fit, and the versions of
   * those that kernels need.
   *
   * The installer and the builds it starts run in a sandbox: they can write only to this folder, and
   * reach only the configured package indexes, the hosts of their files, and the hosts of the given Git
   * repositories.
   */
  async install(
    requirements: readonly Requirement[],
    options: InstallOptions = {},
  ): Promise<string> {
    const args = ["--constraint", "constraints.txt", "--", ...requirements.map(({ text }) => text)];
    const what = requirements.map(({ text }) => text).join(" ");
    return await this.#change("install", args, { ...options, requirements, what });
  }

  /** Removes packages, but not their dependencies. */
  async uninstall(names: readonly string[], options: InstallOptions = {}): Promise<string> {
    const what = names.join(" ");
    return await this.#change("uninstall", ["--", ...names], {
      ...options,
      requirements: [],
      what,
    });
  }

  /** Lists the installed packages by name. */
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
    using _turn = await this.#turns.acquire(signal); // two concurrent ones would mix their files
    await using folder = await PrivateFolder.create(this.#log);
    await using host = await HeldFolder.create({ log: this.#log }); // its path is short enough for srt's sockets
    const session = folder.path;
    await Deno.mkdir(`${session}/tmp`);
    const constraints = pinnedVersions(asset("environment/requirements.txt"));
    await Deno.writeTextFile(`${session}/constraints.txt`, constraints);
    const { requirements } = options;
    const folders = { session, hostPrivate: host.path };
    const job = { action, args, requirements, what, ...folders, signal, onLine, timeoutMs };
    const installer = await this.#installer(job);
    const { exitCode, output } = await this.#run(installer, session, job);
    if (exitCode === 0) return output;
    throw new PackageInstallError(`${what} was not ${PAST[action]}`, output);
  }

  async #installer(job: Job): Promise<Launch> {
    const { executable, prefix } = this.#python;
    const { action, requirements, session, signal } = job;
    const program = await this.#program(action);
    // Makes pip count the kernel's packages as installed.
    const present = [sitePackagesOf(prefix, this.#python), ...this.#options.shared ?? []];
    const env = { PYTHONPATH: present.join(":"), PYTHONNOUSERSITE: "1" };
    const { command, files } = program;
    const args = [...program.args, ...job.args];
    const installer = { command, args, env, files };
    if (this.#options.sandbox === false) {
      const path = await trustedPath(hostPath());
      return { ...installer, env: { ...installerEnvironment(), PATH: path, ...env } };
    }
    if (requirements.length === 0) return await this.#shutIn(job, installer);
    const settings = program.isPip
      ? await readIndexSettings(namedProgram(executable), signal)
      : await readUvSettings(
        installerEnvironment(),
        await defaultIndex(command, ["pip", "install"], { signal }),
      );
    if (!hasSecrets(settings)) return await this.#shutIn(job, installer, settings);
    await this.#download(job, program, settings);
    const local = ["--no-index", "--find-links", `${session}/wheels`];
    return await this.#shutIn(job, {
      ...installer,
      args: [...program.args, ...local, ...job.args],
    });
  }

  /**
   * Fetches wheels with a pip that loads no packages of the workspace and runs no builds: both could read
   * the credentials.
   */
  async #download(job: Job, { isPip }: InstallerProgram, settings: IndexSettings): Promise<void> {
    const { requirements, session, what } = job;
    if (!isPip || requirements.some(({ host }) => host !== undefined)) {
      throw new PackageInstallError(`${what} was not installed`, isPip ? ONLY_WHEELS : ONLY_BY_PIP);
    }
    const downloader: Installer = {
      command: namedProgram(this.#python.executable),
      args: [
        ...["-I", "-c", PIP_ALONE, "download", ...QUIET, "--only-binary=:all:"],
        ...["--dest", `${session}/wheels`, ...job.args],
      ],
      env: {},
      files: [],
    };
    await using host = await HeldFolder.create({ log: this.#log }); // for one sandbox only
    const own = { ...job, hostPrivate: host.path, writable: [] };
    const shutIn = await this.#shutIn(own, downloader, settings);
    const { exitCode, output } = await this.#run(shutIn, session, job);
    if (exitCode === 0) return await Deno.remove(`${session}/pip.conf`);
    throw new PackageInstallError(`${what} was not installed`, output + ONLY_WHEELS);
  }

  /** Puts an installer into a sandbox. Without settings it cannot reach any index. */
  async #shutIn(
    job: Job & { readonly writable?: readonly string[] },
    { command, args, env, files }: Installer,
    settings: IndexSettings = OFFLINE,
  ): Promise<Launch> {
    const { session, hostPrivate, signal, requirements, writable = this.writable } = job;
    const { prefix, basePrefix } = this.#python;
    if (settings.file !== undefined) {
      await Deno.writeTextFile(`${session}/pip.conf`, settings.file);
    }
    const config = await this.#config();
    return await confine({
      command: [command, ...args],
      env: {
        HOME: session,
        TMPDIR: `${session}/tmp`,
        ...env,
        ...(settings.file === undefined ? {} : { PIP_CONFIG_FILE: `${session}/pip.conf` }),
        // The sandbox hides files such as .gitconfig, and git fails if it cannot read them.
        GIT_CONFIG_GLOBAL: "/dev/null",
        GIT_CONFIG_NOSYSTEM: "1",
        GIT_TERMINAL_PROMPT: "0",
        ...settings.env,
      },
      session,
      writable,
      readable: [
        // Nothing that an installer can write, such as the interpreter beside the packages, which may
        // now be a link to anywhere.
        ...(await Promise.all(
          (await existing([prefix, basePrefix])).map((folder) =>
            pythonFolders(folder, this.#workspace)
          ),
        )).flat(),
        ...await existing([...files, ...settings.paths]),
        ...this.#options.shared ?? [], // checked before, and not links
      ],
      hostPrivate,
      hosts: settings === OFFLINE ? [] : await this.#hosts(settings, requirements, signal),
      config,
    }, { log: this.#log, signal });
  }

  /** The Python's own pip, else uv. Both run in the sandbox on the workspace's environment. */
  async #program(action: Job["action"]): Promise<InstallerProgram> {
    const python = namedProgram(this.#python.executable);
    // An earlier build may have replaced the interpreter.
    const overlay = namedProgram((await openOverlay(this.#folder, this.#python)).executable);
    if ((await runProgram(python, { args: [...moduleArgs("pip"), "--version"] })).success) {
      const yes = action === "uninstall" ? ["-y"] : [];
      const args = ["-m", "pip", action, ...QUIET, ...yes];
      return { command: overlay, args, files: [], isPip: true };
    }
    const uv = await findProgram("uv");
    if (uv !== undefined) {
      // The sandbox contains the file, not the links to it.
      const command = namedProgram(await Deno.realPath(uv));
      return {
        command,
        args: ["pip", action, "--python", overlay],
        files: [command],
        isPip: false,
      };
    }
    throw new EnvironmentNotReadyError(
      `Cannot install packages: ${python} has no pip, and there is no uv on the PATH`,
      `${python} -m ensurepip`,
    );
  }

  /** The hosts to allow: the indexes, the hosts of their files, and those of repositories. */
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
    const { config, project, allowUnsafe = false } = sandbox;
    return typeof config === "string"
      ? await readSandboxConfig(config, { allowUnsafe, workspace: this.#workspace, project })
      : config;
  }

  async #run(
    installer: Launch,
    cwd: string,
    { signal, onLine, timeoutMs }: Pick<Job, "signal" | "onLine" | "timeoutMs">,
  ): Promise<{ readonly exitCode: number | null; readonly output: string }> {
    const output = new OutputTail(MAX_OUTPUT_BYTES);
    await using group = new LimitedTogether(); // disposed after its processes
    // It has no state to save, so it gets little time to end.
    await using process = ManagedProcess.spawn({
      ...installer,
      cwd, // files in the workspace must not affect it
      onStderr: (line) => {
        output.keep(line);
        onLine(line);
      },
      inputGraceMs: 0,
      termGraceMs: 1000,
    });
    const sandboxed = this.#options.sandbox !== false;
    if (sandboxed) group.take(process.pid, effectiveLimits(undefined, { sandboxed }), this.#log);
    const said = (async () => {
      for await (const chunk of bytesOf(process.pipes)) {
        fairTurns.resume();
        for (const line of output.push(chunk)) {
          onLine(line);
          await fairTurns.giveWay();
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
      const ended = `The installer was stopped because it took more than ${timeoutMs / 1000} s`;
      onLine(ended);
      return { exitCode: null, output: `${output.text}${ended}\n` };
    }
  }
}

/**
 * Runs pip without other processes. It builds a dependency that a wheel names by its address even with
 * `--only-binary`, which is only about what the index has. Builds and `git` are always other processes.
 */
const PIP_ALONE = `
import runpy, sys
STARTS = ("os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system", "subprocess.Popen")
def refuse(event, _):
    if event in STARTS:
        raise PermissionError("pip may not start other programs here")
sys.addaudithook(refuse)
sys.tracebacklimit = 0
runpy.run_module("pip", run_name="__main__", alter_sys=True)
`;

const ONLY_WHEELS =
  "[ipybox] Only wheels can be installed here: your package index needs credentials, which the " +
  "build of a source package could read. Build a wheel and publish it to your index\n";
const ONLY_BY_PIP =
  "[ipybox] Your package index needs credentials, which ipybox can hide from packages only with " +
  "pip: run `python -m ensurepip` for the kernels' Python\n";

/** The folder of a workspace's packages for all Pythons. */
function folderOf(workspace: string, cacheDir: string = managedDirectory()): string {
  return join(cacheDir, "packages", sha256(workspace).slice(0, 32));
}

/** The file that names the workspace of the packages beside it. */
const WORKSPACE = "workspace";

/** Makes the folder of a workspace's packages, with the file that names it; whether it was missing. */
async function madeFolder(path: string, workspace: string): Promise<boolean> {
  if (await isThere(join(path, WORKSPACE))) return false;
  const fresh = `${path}.${crypto.randomUUID()}.tmp`;
  await Deno.mkdir(fresh, { mode: 0o700 }); // installers use the umask
  try {
    await Deno.writeTextFile(join(fresh, WORKSPACE), workspace);
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
    ? "the packages have no folder"
    : `${judgement.notPlain} is not a plain folder`;
  return new ConfigError(
    `Cannot use the packages in ${folder}: ${what}. An installed package may have changed it to access ` +
      "other files: remove the folder, and reinstall the packages you trust",
  );
}

/** Removes the empty folders of workspaces that are gone. Only the user may remove installed packages. */
async function removeAbandoned(root: string): Promise<void> {
  for await (const { path: folder } of abandonedIn(root)) {
    try {
      // A session may be starting in a workspace that is not visible here, as in a container.
      const { mtime } = await Deno.lstat(join(folder, WORKSPACE));
      if (Date.now() - (mtime?.getTime() ?? 0) < FRESH_MS) continue;
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

const FRESH_MS = 60 * 60_000;

async function* abandonedIn(root: string): AsyncGenerator<{ path: string; workspace: string }> {
  for await (const { name } of Deno.readDir(root)) {
    const path = join(root, name);
    const workspace = await Deno.readTextFile(join(path, WORKSPACE)).catch(() => undefined);
    if (workspace?.startsWith("/") && !await isThere(workspace)) yield { path, workspace };
  }
}

/** Whether a path exists, or may exist if this cannot be determined. */
async function isThere(path: string): Promise<boolean> {
  return await Deno.lstat(path).then(
    () => true,
    (error) => !(error instanceof Deno.errors.NotFound),
  );
}

/** Whether the user's cache directory is known and Deno's permissions allow asking. */
function hasManagedDirectory(): boolean {
  return hostEnv("XDG_CACHE_HOME")?.startsWith("/") === true || Boolean(hostEnv("HOME"));
}

/** Constraints with the versions of the kernel's packages, and their markers: one may have several. */
export function pinnedVersions(requirements: string): string {
  return requirements.split("\n")
    .flatMap((line) => /^[A-Za-z0-9._-]+==[^\\]+/.exec(line)?.[0].trimEnd() ?? [])
    .join("\n") + "\n";
}

/** The real paths of the paths that exist. */
async function existing(paths: readonly string[]): Promise<string[]> {
  const real = await Promise.all(
    [...new Set(paths)].map((path) => Deno.realPath(path).catch(() => undefined)),
  );
  return real.filter((path) => path !== undefined);
}
