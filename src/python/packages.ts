/**
 * Packages that code actions ask for, beside the environment that runs kernels.
 *
 * @module
 */
import { join } from "node:path";
import { asset } from "../assets/mod.ts";
import { Mutex } from "../async/mutex.ts";
import { abortable, anySignal } from "../async/signals.ts";
import { EnvironmentNotReadyError } from "../errors.ts";
import { type Logger, silentLogger } from "../log.ts";
import { bytesOf } from "../net/byte_stream.ts";
import { ManagedProcess } from "../process/managed_process.ts";
import { HeldFolder } from "../process/held_folder.ts";
import { OutputTail } from "../process/output_tail.ts";
import { PrivateFolder } from "../process/private_folder.ts";
import { findProgram, hostPath, namedProgram, type ProgramPath } from "../process/program.ts";
import { runProgram } from "../process/run_program.ts";
import { trustedPath } from "../process/trusted_path.ts";
import { readSandboxConfig, type SandboxConfig } from "../sandbox/config.ts";
import { confine } from "../sandbox/confine.ts";
import type { SandboxOptions } from "../sandbox/sandbox.ts";
import { defaultIndex } from "./default_index.ts";
import { fileHosts } from "./file_hosts.ts";
import { type IndexSettings, readIndexSettings } from "./index_settings.ts";
import { installerEnvironment } from "./installer_environment.ts";
import { managedDirectory, type PythonEnvironment } from "./managed.ts";
import type { Requirement } from "./requirement.ts";
import { readUvSettings } from "./uv_settings.ts";

/** What an installation said. */
export interface InstallOutcome {
  /** Whether the package is installed. */
  readonly installed: boolean;
  /** What the installer wrote, its last 16 KiB. */
  readonly output: string;
}

/** Options of {@linkcode PackageFolder.open}. */
export interface PackageFolderOptions {
  /**
   * Whether the installer runs in the OS sandbox, and how that differs from its defaults.
   *
   * @default {true}
   */
  readonly sandbox?: boolean | SandboxOptions | undefined;
  /**
   * The directory of the managed environments, in which the packages are kept.
   *
   * @default {"$XDG_CACHE_HOME/ipybox/python"}
   */
  readonly cacheDir?: string | undefined;
  /** Told what happens. */
  readonly log?: Logger | undefined;
}

/** Options of {@linkcode PackageFolder.install}. */
export interface InstallOptions {
  /** Stops the installation. */
  readonly signal?: AbortSignal;
  /**
   * How long the installer may take.
   *
   * @default {1800000} half an hour
   */
  readonly timeoutMs?: number;
  /** Told what the installer says. */
  readonly onLine?: (line: string) => void;
}

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
 * The folder for the packages of one workspace.
 *
 * It lies in the user's cache, so that code actions, which may write to the workspace, cannot change
 * what the installer or another workspace's code imports.
 */
export class PackageFolder {
  /** The folder, which exists. */
  readonly path: string;
  readonly #python: PythonEnvironment;
  readonly #workspace: string;
  readonly #sandbox: boolean | SandboxOptions;
  readonly #log: Logger;
  readonly #turns = new Mutex();

  private constructor(
    path: string,
    python: PythonEnvironment,
    workspace: string,
    options: PackageFolderOptions,
  ) {
    this.path = path;
    this.#workspace = workspace;
    this.#python = python;
    this.#sandbox = options.sandbox ?? true;
    this.#log = options.log ?? silentLogger;
  }

  /**
   * Makes the folder where it is missing.
   *
   * @param workspace The workspace, as an absolute path.
   * @param python The Python that the packages are for.
   * @param options Whether the installer runs in the sandbox.
   * @returns The folder.
   */
  static async open(
    workspace: string,
    python: PythonEnvironment,
    options: PackageFolderOptions = {},
  ): Promise<PackageFolder> {
    const path = await pathOf(workspace, python, options.cacheDir);
    await Deno.mkdir(path, { recursive: true });
    return new PackageFolder(await Deno.realPath(path), python, workspace, options);
  }

  /**
   * Looks for the folder, and makes nothing.
   *
   * @param workspace The workspace, as an absolute path.
   * @param python The Python that the packages are for.
   * @returns The folder, or `undefined` where nothing was ever installed.
   */
  static async find(workspace: string, python: PythonEnvironment): Promise<string | undefined> {
    const [path] = await existing([await pathOf(workspace, python)]);
    return path;
  }

  /**
   * Installs a package and what it needs. What kernels themselves need keeps its version.
   *
   * The installer, and what it builds, runs in a sandbox: it writes only to this folder, and reaches
   * only the package indexes that pip or uv is configured to use and the hosts of their files, or the
   * host of the Git repository too.
   *
   * @param requirement What to install.
   * @param options What stops it, and who is told of what the installer says.
   * @returns Whether that worked, and what the installer said.
   * @throws {EnvironmentNotReadyError} There is no installer or, as a `SandboxUnavailableError`, no
   * sandbox here.
   */
  async install(
    requirement: Requirement,
    options: InstallOptions = {},
  ): Promise<InstallOutcome> {
    const { signal = new AbortController().signal, onLine = () => {} } = options;
    const { timeoutMs = 30 * 60_000 } = options;
    using _turn = await this.#turns.acquire(signal); // two at once would mix their files
    await using folder = await PrivateFolder.create();
    await using host = await HeldFolder.create(); // its path is short enough for srt's sockets
    const folders = { session: folder.path, hostPrivate: host.path };
    await Deno.mkdir(`${folder.path}/tmp`);
    const constraints = pinnedVersions(asset("environment/requirements.txt"));
    await Deno.writeTextFile(`${folder.path}/constraints.txt`, constraints);
    const installer = await this.#installer(requirement, folders, signal);
    return await this.#run(installer, folder.path, { signal, onLine, timeoutMs });
  }

  async #installer(
    requirement: Requirement,
    { session, hostPrivate }: { readonly session: string; readonly hostPrivate: string },
    signal: AbortSignal,
  ): Promise<Installer> {
    const { prefix, basePrefix } = this.#python;
    const program = await this.#program();
    const { command } = program;
    const options = ["--target", this.path, "--upgrade", "--constraint", "constraints.txt"];
    const args = [...program.args, ...options, "--", requirement.text];
    const hostEnvironment = installerEnvironment();
    if (this.#sandbox === false) {
      const env = { ...hostEnvironment, PATH: await trustedPath(hostPath()) };
      return { command, args, env };
    }
    const settings = program.isPip
      ? await readIndexSettings(command, signal)
      : await readUvSettings(
        hostEnvironment,
        await defaultIndex(command, ["pip", "install"], { signal }),
      );
    if (settings.file !== undefined) {
      await Deno.writeTextFile(`${session}/pip.conf`, settings.file);
    }
    const config = await this.#config();
    return await confine({
      command: [command, ...args],
      env: {
        HOME: session,
        TMPDIR: `${session}/tmp`,
        ...(settings.file === undefined ? {} : { PIP_CONFIG_FILE: `${session}/pip.conf` }),
        // The sandbox keeps its own hand on files such as .gitconfig, which git then cannot read.
        GIT_CONFIG_GLOBAL: "/dev/null",
        GIT_CONFIG_NOSYSTEM: "1",
        GIT_TERMINAL_PROMPT: "0",
        ...settings.env,
      },
      session,
      writable: this.path,
      readable: await existing([prefix, basePrefix, command, ...settings.paths]),
      hostPrivate,
      hosts: await this.#hosts(settings, requirement, signal),
      ...(config === undefined ? {} : { config }),
    }, { log: this.#log, signal });
  }

  /** The Python's own pip, else uv. */
  async #program(): Promise<InstallerProgram> {
    const python = namedProgram(this.#python.executable);
    const pip = ["-I", "-m", "pip"];
    if ((await runProgram(python, { args: [...pip, "--version"] })).success) {
      const args = [...pip, "install", "--no-input", "--disable-pip-version-check"];
      return { command: python, args, isPip: true };
    }
    const uv = await findProgram("uv");
    if (uv !== undefined) {
      // The sandbox shows what it is, not the links to it.
      const command = namedProgram(await Deno.realPath(uv));
      return { command, args: ["pip", "install", "--python", python], isPip: false };
    }
    throw new EnvironmentNotReadyError(
      `Cannot install packages: ${python} has no pip, and there is no uv on the PATH`,
      `${python} -m ensurepip`,
    );
  }

  /** What may be reached: the indexes, where they have their files, and a repository's host. */
  async #hosts(
    { indexes, hosts, certificates }: IndexSettings,
    { name, host }: Requirement,
    signal: AbortSignal,
  ): Promise<string[]> {
    const log = this.#log;
    const files = await fileHosts(indexes, name ?? BUILD_BACKEND, { signal, certificates, log });
    return [...new Set([...hosts, ...files, ...(host === undefined ? [] : [host])])];
  }

  async #config(): Promise<SandboxConfig | undefined> {
    if (typeof this.#sandbox === "boolean") return undefined;
    const { config, allowUnsafe = false } = this.#sandbox;
    return typeof config === "string"
      ? await readSandboxConfig(config, { allowUnsafe, workspace: this.#workspace })
      : config;
  }

  async #run(
    installer: Installer,
    cwd: string,
    { signal, onLine, timeoutMs }: Required<InstallOptions>,
  ): Promise<InstallOutcome> {
    const output = new OutputTail(MAX_OUTPUT_BYTES);
    // Nothing is lost by ending it, so it does not get long to do so.
    await using process = ManagedProcess.spawn({
      ...installer,
      cwd, // what lies in the workspace must not have a say
      onStderr: (line) => {
        output.push(encoder.encode(`${line}\n`));
        onLine(line);
      },
      inputGraceMs: 0,
      termGraceMs: 1000,
    });
    const said = (async () => {
      for await (const chunk of bytesOf(process.pipes)) {
        for (const line of output.push(chunk)) onLine(line);
      }
    })();
    const deadline = AbortSignal.timeout(timeoutMs);
    try {
      const { exitCode } = await abortable(process.exited, anySignal(deadline, signal));
      await said;
      return { installed: exitCode === 0, output: output.text };
    } catch (error) {
      if (error !== deadline.reason || !deadline.aborted) throw error;
      const ended = `The installer was ended, as it took more than ${timeoutMs / 1000} s`;
      onLine(ended);
      return { installed: false, output: `${output.text}${ended}\n` };
    }
  }
}

const encoder = new TextEncoder();

async function pathOf(
  workspace: string,
  { version }: PythonEnvironment,
  cacheDir: string = managedDirectory(),
): Promise<string> {
  const minor = version.split(".").slice(0, 2).join(".");
  const digest = await crypto.subtle.digest("SHA-256", encoder.encode(workspace));
  const key = new Uint8Array(digest).toHex().slice(0, 16);
  return join(cacheDir, "packages", `py${minor}-${key}`);
}

/**
 * The versions of the kernel's own packages, in the form of a constraints file. A package may have
 * several, each for some versions of Python: without what says so they would exclude each other.
 *
 * @param requirements Requirements with versions and hashes, as uv writes them.
 * @returns The same without the hashes.
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
