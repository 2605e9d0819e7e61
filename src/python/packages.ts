/**
 * The packages that workspaces install in addition to the environment that runs kernels.
 *
 * @module
 */
import { dirname, join } from "node:path";
import { asset } from "../assets/mod.ts";
import { Mutex } from "../base/mutex.ts";
import { abortable, anySignal } from "../base/signals.ts";
import { EnvironmentNotReadyError, PackageInstallError } from "../base/errors.ts";
import { type Logger, silentLogger } from "../base/log.ts";
import { stage } from "../base/stages.ts";
import { bytesOf } from "../base/streams.ts";
import { hostEnv, isGranted, mayRead } from "../base/permission.ts";
import { ManagedProcess, OutputTail } from "../process/managed_process.ts";
import { HeldFolder, PrivateFolder } from "../files/private_folder.ts";
import { emptyFolder } from "../files/remove_tree.ts";
import { ifPresent } from "../files/safe.ts";
import {
  type Abandoned,
  abandonedIn,
  isThere,
  nameFor,
  WORKSPACE,
} from "../files/workspace_folders.ts";
import { findProgram, hostPath, namedProgram, type ProgramPath } from "../process/program.ts";
import { trustedPath } from "../process/trusted_path.ts";
import { readSandboxConfig } from "../sandbox/config.ts";
import { confine, type Confined, type Needs } from "../sandbox/confine.ts";
import { pythonFolders } from "../sandbox/installation.ts";
import { effectiveLimits, limitTogether } from "../sandbox/limits.ts";
import type { SandboxOptions } from "../sandbox/sandbox.ts";
import { isOwnProgram } from "../sandbox/workspace.ts";
import {
  type IndexSettings,
  indexSettings,
  installerEnvironment,
  readIndexSettings,
  uvConfig,
} from "./indexes.ts";
import { fileHosts, type FileHostsOptions } from "./file_hosts.ts";
import { lockBuilds } from "./build.ts";
import {
  leftoverIn,
  managedDirectory,
  MINIMUM_PYDANTIC,
  type PythonEnvironment,
  readManaged,
  removeLeftovers,
} from "./managed.ts";
import { minorVersion, packageLevels, sitePackagesOf } from "./package_levels.ts";
import { normalized, type Requirement } from "./requirement.ts";

/** A package that was installed for a workspace. */
export interface InstalledPackage {
  readonly name: string;
  readonly version: string;
  /** Whether it was requested, rather than installed as a dependency. */
  readonly requested: boolean;
}

/** Options of {@linkcode PackageFolder.open}. */
interface PackageFolderOptions {
  /** Whether the installer runs in the OS sandbox (the default), and the sandbox's settings. */
  readonly sandbox?: boolean | SandboxOptions;
  /** The directory of the managed environments and the packages; by default in the user's cache. */
  readonly cacheDir?: string;
  /** Folders of packages that the code already has, so that they are not installed again. */
  readonly shared?: readonly string[];
  /** Receives progress. */
  readonly log?: Logger;
}

/** Options of an installation. */
interface InstallOptions {
  /** Stops the installation. Packages that are already installed stay. */
  readonly signal?: AbortSignal;
  /** Receives each line that the installer writes. */
  readonly onLine?: (line: string) => void;
}

/** Options of {@linkcode PackageFolder.installCommon}. */
interface InstallCommonOptions
  extends Pick<InstallOptions, "signal" | "onLine">, Pick<PackageFolderOptions, "sandbox" | "log"> {
}

/** One change of the packages. */
interface Job {
  readonly uv: ProgramPath;
  readonly signal: AbortSignal;
  readonly onLine: (line: string) => void;
}

/** An installer's command line, and its needs. */
interface Step {
  readonly command: readonly string[];
  /** The instructions for `install.py`. */
  readonly order?: Readonly<Record<string, unknown>>;
  /** Determines its needs from the network, if it may use that, with a new uv cache. */
  readonly look?: (cache: string, signal: AbortSignal) => Promise<Sources>;
}

/** The package sources of an installer, and the hosts to reach. */
interface Sources {
  readonly settings: IndexSettings;
  readonly hosts: readonly string[];
}

/** How an installer ended. */
interface StepEnd {
  readonly exitCode: number | null;
  readonly output: string;
  /** The last line of its stdout. */
  readonly lastLine: string;
}

/** Settings for installing without an index. */
const OFFLINE: IndexSettings = indexSettings({ pip: { "no-index": "true" } });

/** The file of the program that drives uv. */
const DRIVER = "install.py";

const MAX_OUTPUT_BYTES = 16 * 1024;
/** The time limit for an installer. */
const MAX_MS = 30 * 60_000;
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
  /** The folders that code imports from if a package is not in this one. */
  readonly shared: readonly string[];
  readonly #prefix: string;
  readonly #python: PythonEnvironment;
  readonly #workspace: string;
  readonly #options: PackageFolderOptions;
  readonly #log: Logger;
  readonly #turns = new Mutex();

  private constructor(
    prefix: string,
    python: PythonEnvironment,
    workspace: string,
    options: PackageFolderOptions,
  ) {
    this.path = sitePackagesOf(prefix, python);
    this.#prefix = prefix;
    this.writable = packageLevels(this.path);
    this.#workspace = workspace;
    this.#python = python;
    this.#options = options;
    this.shared = options.shared ?? [];
    this.#log = options.log ?? silentLogger;
  }

  /** Makes the folder if it is missing, so that a running kernel sees packages installed later. */
  static async open(
    workspace: string,
    python: PythonEnvironment,
    options: PackageFolderOptions = {},
  ): Promise<PackageFolder> {
    using _stage = stage("open packages");
    if (!await isOwnProgram(python.executable, workspace)) {
      throw new EnvironmentNotReadyError(
        `Cannot install packages for ${python.executable}: it is in a workspace, whose code can change it`,
        `${python.executable} -m pip install PACKAGE`,
      );
    }
    const folder = folderOf(workspace, options.cacheDir);
    await Deno.mkdir(dirname(folder), { recursive: true, mode: 0o755 });
    if (await madeFolder(folder, workspace)) await removeAbandoned(dirname(folder));
    const prefix = join(await Deno.realPath(folder), `python${minorVersion(python)}`);
    const levels = packageLevels(sitePackagesOf(prefix, python));
    for (const level of levels) await Deno.mkdir(level, { recursive: true });
    return new PackageFolder(prefix, python, workspace, options);
  }

  /** The folder of a workspace's packages, if Deno's permissions allow looking for it. */
  static async find(workspace: string, python: PythonEnvironment): Promise<string | undefined> {
    if (!hasManagedDirectory()) return undefined;
    return await foundIn(folderOf(workspace), python);
  }

  /**
   * The folders of the packages that all workspaces share: one, if `ipybox setup --data` made it. They are for
   * the managed Python, because the user's own may have been built differently.
   */
  static async common(python: PythonEnvironment): Promise<string[]> {
    if (!python.managed || !hasManagedDirectory()) return [];
    const found = await foundIn(PackageFolder.commonFolder(), python);
    return found === undefined ? [] : [found];
  }

  /**
   * The folder of the packages that all workspaces share, with one folder per Python; it may not
   * exist.
   */
  static commonFolder(): string {
    return join(managedDirectory(), "common");
  }

  /**
   * Installs the packages that all workspaces share, in place of the present ones: as a whole or
   * not at all. Running sandboxes keep the old ones until something is built again.
   *
   * Resolves to one line that names the installed packages.
   */
  static async installCommon(
    python: PythonEnvironment,
    requirements: readonly Requirement[],
    { sandbox, log, signal, onLine }: InstallCommonOptions = {},
  ): Promise<string> {
    const root = managedDirectory();
    await Deno.mkdir(PackageFolder.commonFolder(), { recursive: true, mode: 0o755 });
    using _lock = await lockBuilds(root, { onProgress: onLine, signal });
    await removeLeftovers(root);
    const fresh = leftoverIn(await Deno.realPath(root));
    await Deno.mkdir(fresh, { mode: 0o700 }); // installers use the umask
    try {
      const folder = new PackageFolder(fresh, python, fresh, { sandbox, log });
      for (const level of folder.writable) await Deno.mkdir(level, { recursive: true });
      const summary = await folder.install(requirements, { signal, onLine });
      const place = join(PackageFolder.commonFolder(), `python${minorVersion(python)}`);
      await ifPresent(Deno.rename(place, leftoverIn(root)));
      await Deno.rename(fresh, place);
      return summary;
    } catch (error) {
      await PackageFolder.discard(fresh);
      throw error;
    }
  }

  /**
   * Removes the packages that all workspaces share, for every Python. Running sandboxes lose them.
   */
  static async removeCommon(): Promise<void> {
    using _lock = await lockBuilds(managedDirectory(), {});
    await PackageFolder.discard(PackageFolder.commonFolder());
  }

  /**
   * Whether Deno's permissions allow installing: making links requires unscoped read and write
   * access.
   */
  static isPermitted(): boolean {
    return hasManagedDirectory() && isGranted({ name: "read" }) && isGranted({ name: "write" });
  }

  /** The Deno flags that an installation lacks: it also reads the variables of pip and uv. */
  static lacking(): string[] {
    return (["read", "write", "env"] as const)
      .filter((name) => !isGranted({ name }))
      .map((name) => `--allow-${name}`);
  }

  /** The folder of a workspace's packages, with one folder per Python; it may not exist. */
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
  static async abandoned(): Promise<Abandoned[]> {
    return await abandonedIn(join(managedDirectory(), "packages"));
  }

  /**
   * Installs packages and their dependencies. Keeps packages that code already has, if they fit,
   * and refuses versions that kernels do not work with.
   *
   * The installer and the builds it starts run in a sandbox: they can write only to this folder, and
   * reach only the configured package indexes, the hosts of their files, and the hosts of the given Git
   * repositories.
   *
   * Resolves to one line that names the installed packages.
   */
  async install(
    requirements: readonly Requirement[],
    options: InstallOptions = {},
  ): Promise<string> {
    const texts = requirements.map(({ text }) => text).join(" ");
    return await this.#change(`${texts} was not installed`, options, async (job) => {
      const end = await this.#findOrFetch(job, requirements);
      return end.exitCode === 0 ? { ...end, output: end.lastLine } : end;
    });
  }

  /** Downloads nothing if the packages are there. */
  async #findOrFetch(job: Job, requirements: readonly Requirement[]): Promise<StepEnd> {
    if (await this.#has(requirements)) {
      const lines: string[] = [];
      const quiet = { ...job, onLine: (line: string) => lines.push(line) };
      const end = await this.#run(quiet, this.#installing(quiet, requirements, "--offline"));
      if (end.exitCode === 0) {
        lines.forEach(job.onLine);
        return end;
      }
    }
    return await this.#fetch(job, requirements);
  }

  /** Removes packages, but not their dependencies. */
  async uninstall(names: readonly string[], options: InstallOptions = {}): Promise<string> {
    const python = ["--python", this.#python.executable, "--prefix", this.#prefix];
    return await this.#change(
      `${names.join(" ")} was not removed`,
      options,
      (job) => this.#run(job, { command: [job.uv, "pip", "uninstall", ...python, "--", ...names] }),
    );
  }

  /** Lists the installed packages by name. */
  async list(): Promise<InstalledPackage[]> {
    return await listPackages([this.path]);
  }

  /** Makes one change at a time: two would mix their files. */
  async #change(
    failure: string,
    { signal = new AbortController().signal, onLine = () => {} }: InstallOptions,
    change: (job: Job) => Promise<StepEnd>,
  ): Promise<string> {
    using _turn = await this.#turns.acquire(signal);
    const job = { uv: await this.#uv(), signal, onLine };
    const { exitCode, output } = await change(job);
    if (exitCode === 0) return output;
    throw new PackageInstallError(failure, output);
  }

  /** Whether packages with these names are there, in whichever version. */
  async #has(requirements: readonly Requirement[]): Promise<boolean> {
    const { managed, prefix } = this.#python;
    const own = await distributionsIn(sitePackagesOf(prefix, this.#python));
    const found = await Promise.all([...this.shared, this.path].map(distributionsIn));
    const present = [
      ...managed ? await neededBy(["ipykernel", "pydantic"], own) : own,
      ...found.flat(),
    ];
    const names = new Set(present.map(({ name }) => normalized(name)));
    return requirements.every(({ name }) => name !== undefined && names.has(normalized(name)));
  }

  /** Installs the missing packages. */
  async #fetch(job: Job, requirements: readonly Requirement[]): Promise<StepEnd> {
    let secret = false;
    const look = async (cache: string, signal: AbortSignal): Promise<Sources> => {
      const settings = await readIndexSettings(this.#python, { uv: job.uv, cache, signal });
      secret = settings.secret;
      if (this.#options.sandbox === false) return { settings, hosts: [] };
      const silent = new Set<string>();
      const hosts = await this.#hosts(settings, requirements, {
        signal,
        onSilent: (index) => silent.add(index),
      });
      const heard = settings.indexes.filter((index) => !silent.has(index));
      const indexes = settings.alike && heard.length > 0 ? heard : settings.indexes;
      return { settings: { ...settings, indexes }, hosts };
    };
    const end = await this.#run(job, { ...this.#installing(job, requirements), look });
    if (end.exitCode === 0 || !secret) return end;
    job.onLine(ONLY_WHEELS);
    return { ...end, output: `${end.output}${ONLY_WHEELS}\n` };
  }

  /** Runs the driver in its working directory. */
  #installing(
    { uv }: Job,
    requirements: readonly Requirement[],
    ...options: readonly string[]
  ): Step {
    const { executable, managed } = this.#python;
    const order = {
      uv,
      site: this.path,
      shared: this.shared,
      managed,
      kernel: [`pydantic>=${MINIMUM_PYDANTIC.join(".")}`],
      requirements: requirements.map(({ text }) => text),
      names: requirements.flatMap(({ name }) => name ?? []),
      options,
    };
    return { command: [executable, "-I", DRIVER], order };
  }

  /** The Python's own uv, one on the PATH, or the managed environment's. */
  async #uv(): Promise<ProgramPath> {
    const { executable } = this.#python;
    const own = join(dirname(executable), "uv");
    if ((await ifPresent(Deno.lstat(own)))?.isFile) return namedProgram(own);
    const found = await findProgram("uv");
    // The sandbox contains the file, not the links to it.
    if (found !== undefined) return namedProgram(await Deno.realPath(found));
    const managed = await readManaged(undefined, this.#options.cacheDir);
    if (managed !== undefined) return namedProgram(join(dirname(managed.executable), "uv"));
    throw new EnvironmentNotReadyError(
      `Cannot install packages: there is no uv beside ${executable} or on the PATH`,
      `${executable} -m pip install uv`,
    );
  }

  /** The hosts to allow: the indexes, the hosts of their files, and those of repositories. */
  async #hosts(
    { indexes, hosts, certificates }: IndexSettings,
    requirements: readonly Requirement[],
    options: Pick<FileHostsOptions, "signal" | "onSilent">,
  ): Promise<string[]> {
    const log = this.#log;
    const names = new Set(requirements.map(({ name = BUILD_BACKEND }) => name));
    const files = await Promise.all(
      [...names].map((name) => fileHosts(indexes, name, { ...options, certificates, log })),
    );
    const repositories = requirements.flatMap(({ host }) => host ?? []);
    return [...new Set([...hosts, ...files.flat(), ...repositories])];
  }

  /** Determines an installer's needs, and writes the files that it reads. */
  async #prepare(
    { order, look }: Step,
    { session, signal }: { readonly session: string; readonly signal: AbortSignal },
  ): Promise<Needs> {
    const sources = await look?.(`${session}/cache`, signal);
    const { settings, hosts } = sources ?? { settings: OFFLINE, hosts: [] };
    const { env, paths } = settings;
    await Deno.writeTextFile(`${session}/${DRIVER}`, asset("launcher/install.py"));
    await Deno.writeTextFile(`${session}/uv.toml`, uvConfig(settings));
    await Deno.writeTextFile(`${session}/install.json`, JSON.stringify({ ...order, env }));
    return { readable: await existing(paths), hosts };
  }

  /** Determines how to start a program, by default in its own sandbox. */
  async #launch(
    { uv, signal }: Job,
    { command: [command = "", ...args], look }: Step,
    { session, hostPrivate, prepared }: {
      readonly session: string;
      readonly hostPrivate: string;
      readonly prepared: Promise<Needs>;
    },
  ): Promise<Confined> {
    const env = {
      UV_CACHE_DIR: `${session}/cache`,
      UV_CONFIG_FILE: `${session}/uv.toml`,
      UV_LINK_MODE: "copy", // between folders that are separate mounts
      UV_NO_PROGRESS: "1",
      UV_PYTHON_DOWNLOADS: "never",
    };
    const { sandbox } = this.#options;
    if (sandbox === false) {
      const own = Object.entries(installerEnvironment()).filter(([name]) =>
        !/^(PIP|UV)_/i.test(name)
      );
      const path = await trustedPath(hostPath());
      await prepared;
      return {
        command: namedProgram(command),
        args,
        env: { ...Object.fromEntries(own), PATH: path, ...env },
      };
    }
    if (look === undefined) await prepared;
    const { prefix, basePrefix, executable } = this.#python;
    return await confine({
      command: [command, ...args],
      python: executable,
      env: {
        HOME: session,
        TMPDIR: `${session}/tmp`,
        ...env,
        // The sandbox hides files such as .gitconfig, and git fails if it cannot read them.
        GIT_CONFIG_GLOBAL: "/dev/null",
        GIT_CONFIG_NOSYSTEM: "1",
        GIT_TERMINAL_PROMPT: "0",
      },
      session,
      writable: this.writable,
      readable: [
        ...(await Promise.all(
          (await existing([prefix, basePrefix])).map((folder) =>
            pythonFolders(folder, this.#workspace)
          ),
        )).flat(),
        ...await existing([uv]),
        ...this.shared, // already checked, and not links
      ],
      ...(look === undefined ? {} : { needs: prepared }),
      hostPrivate,
      config: typeof sandbox === "object"
        ? await readSandboxConfig(sandbox.config, { ...sandbox, workspace: this.#workspace })
        : {},
    }, { log: this.#log, signal });
  }

  async #run(job: Job, step: Step): Promise<StepEnd> {
    const { signal, onLine } = job;
    await using folder = await PrivateFolder.create(this.#log);
    await using host = await HeldFolder.create({ log: this.#log }); // for one sandbox only
    const session = folder.path;
    const failed = new AbortController();
    const looking = { session, signal: anySignal(signal, failed.signal) };
    const prepared = this.#prepare(step, looking);
    const settled = prepared.then(() => {}, () => {}); // its error is reported where it is awaited
    await using parts = new AsyncDisposableStack();
    parts.defer(() => settled);
    parts.defer(() => failed.abort());
    const launch = await this.#launch(job, step, { session, hostPrivate: host.path, prepared });
    const output = new OutputTail(MAX_OUTPUT_BYTES);
    // It has no state to save, so it gets little time to end.
    const process = ManagedProcess.spawn({
      ...launch,
      cwd: session, // files in the workspace must not affect it
      onStderr: (line) => {
        output.keep(line);
        onLine(line);
      },
      inputGraceMs: 0,
      termGraceMs: 1000,
    });
    const sandboxed = this.#options.sandbox !== false;
    const limits = effectiveLimits(undefined, { sandboxed });
    const limited = sandboxed ? limitTogether(process.pid, limits, this.#log) : undefined;
    parts.defer(async () => await (await limited)?.[Symbol.asyncDispose]());
    parts.use(process); // it ends before its group
    let lastLine = "";
    const said = (async () => {
      for await (const chunk of bytesOf(process.pipes)) {
        for (const line of output.push(chunk)) onLine(lastLine = line);
      }
    })();
    if (launch.settings !== undefined) {
      const settings = new TextEncoder().encode(await launch.settings);
      await process.pipes.write(settings).catch(() => {}); // it has ended, and said why
      await process.pipes.end();
    }
    const deadline = AbortSignal.timeout(MAX_MS);
    try {
      const { exitCode } = await abortable(process.exited, anySignal(deadline, signal));
      await said;
      return { exitCode, output: output.text, lastLine };
    } catch (error) {
      if (error !== deadline.reason || !deadline.aborted) throw error;
      const ended = "The installer was stopped because it took more than half an hour";
      onLine(ended);
      return { exitCode: null, output: `${output.text}${ended}\n`, lastLine };
    }
  }
}

/** Lists the packages in folders by name. */
export async function listPackages(folders: readonly string[]): Promise<InstalledPackage[]> {
  const found: InstalledPackage[] = [];
  for (const { name, version, path } of (await Promise.all(folders.map(distributionsIn))).flat()) {
    const requested = await isThere(join(path, "REQUESTED")); // PEP 376
    found.push({ name: name.replaceAll("_", "-"), version, requested });
  }
  return found.toSorted((a, b) => a.name < b.name ? -1 : 1);
}

const ONLY_WHEELS =
  "[ipybox] Only wheels can be installed here: your package index needs credentials, which the " +
  "build of a source package could read. Build a wheel and publish it to your index";

/** The folder of a workspace's packages for all Pythons. */
function folderOf(workspace: string, cacheDir: string = managedDirectory()): string {
  return join(cacheDir, "packages", nameFor(workspace));
}

/** The packages for a Python in a folder for all Pythons, if Deno's permissions allow looking for them. */
async function foundIn(folder: string, python: PythonEnvironment): Promise<string | undefined> {
  if (!mayRead(folder)) return undefined;
  const [root] = await existing([folder]); // installers cannot write to it
  if (root === undefined) return undefined;
  const prefix = join(root, `python${minorVersion(python)}`);
  const sitePackages = sitePackagesOf(prefix, python);
  const levels = await Promise.all(packageLevels(sitePackages).map(isThere));
  return levels.includes(false) ? undefined : sitePackages;
}

/**
 * Makes the folder of a workspace's packages, with the file that names it; returns whether it was
 * missing.
 */
async function madeFolder(path: string, workspace: string): Promise<boolean> {
  if (await isThere(join(path, WORKSPACE))) return false;
  const fresh = `${path}.${crypto.randomUUID()}.tmp`;
  await Deno.mkdir(fresh, { mode: 0o700 }); // installers use the umask
  try {
    await Deno.writeTextFile(join(fresh, WORKSPACE), workspace);
    await Deno.rename(fresh, path); // even over an empty folder
    return true;
  } catch (error) {
    await Deno.remove(fresh, { recursive: true });
    if (!await isThere(path)) throw error; // else another process was first
    return false;
  }
}

/** Removes the empty folders of workspaces that are gone. Only the user may remove installed packages. */
async function removeAbandoned(root: string): Promise<void> {
  for (const { path: folder } of await abandonedIn(root)) {
    try {
      // A session may be starting in a workspace that is not visible here, as in a container.
      const { mtime } = await Deno.lstat(join(folder, WORKSPACE));
      if (Date.now() - (mtime?.getTime() ?? 0) < FRESH_MS) continue;
      for await (const { name: version, isDirectory } of Deno.readDir(folder)) {
        const sitePackages = join(folder, version, "lib", version, "site-packages");
        if (!isDirectory) continue;
        await Deno.remove(sitePackages); // fails if anything is installed
      }
      await PackageFolder.discard(folder);
    } catch {
      continue; // not empty, or another process is removing it as well
    }
  }
}

const FRESH_MS = 60 * 60_000;

/** Whether the user's cache directory is known and Deno's permissions allow asking. */
function hasManagedDirectory(): boolean {
  return hostEnv("XDG_CACHE_HOME")?.startsWith("/") === true || Boolean(hostEnv("HOME"));
}

/** A package in a folder, as its metadata folder there names it. */
interface Distribution {
  readonly name: string;
  readonly version: string;
  readonly path: string;
}

/**
 * The named packages and their dependencies: the rest of a managed Python belongs to the gateway.
 */
async function neededBy(
  names: readonly string[],
  all: readonly Distribution[],
): Promise<Distribution[]> {
  const needed = new Set(names);
  const found: Distribution[] = [];
  for (const name of needed) { // it grows meanwhile
    const distribution = all.find((each) => normalized(each.name) === name);
    if (distribution === undefined) continue;
    found.push(distribution);
    const metadata = await Deno.readTextFile(join(distribution.path, "METADATA"));
    const [header = ""] = metadata.split(/\r?\n\r?\n/);
    for (const [, need = "", rest = ""] of header.matchAll(/^Requires-Dist: *([\w.-]+)(.*)/gm)) {
      const [, marker = ""] = rest.split(";");
      if (!marker.includes("extra")) needed.add(normalized(need));
    }
  }
  return found;
}

async function distributionsIn(folder: string): Promise<Distribution[]> {
  const files = await ifPresent(Array.fromAsync(Deno.readDir(folder))) ?? [];
  return files.flatMap((file) => {
    const [, name, version] = /^([^-]+)-([^-]+)(?:-py.+)?\.(?:dist|egg)-info$/.exec(file.name) ??
      [];
    return name === undefined || version === undefined
      ? []
      : [{ name, version, path: join(folder, file.name) }];
  });
}

/** The real paths of the paths that exist. */
async function existing(paths: readonly string[]): Promise<string[]> {
  const real = await Promise.all(
    [...new Set(paths)].map((path) => Deno.realPath(path).catch(() => undefined)),
  );
  return real.filter((path) => path !== undefined);
}
