/**
 * Packages that code actions ask for, beside the environment that runs kernels.
 *
 * @module
 */
import { join } from "node:path";
import { asset } from "../assets/mod.ts";
import { OutputTail } from "../process/output_tail.ts";
import { ManagedProcess } from "../process/managed_process.ts";
import { managedDirectory, type PythonEnvironment } from "./managed.ts";

/** What an installation said. */
export interface InstallOutcome {
  /** Whether the package is installed. */
  readonly installed: boolean;
  /** What the installer wrote, its last 64 KiB. */
  readonly output: string;
}

/** A requirement of one package, with a version or without: no URLs, no paths, no options. */
const REQUIREMENT =
  /^[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?(?:\[[A-Za-z0-9._, -]+\])?\s*(?:(?:===|[=!<>~]=|<|>)\s*[A-Za-z0-9.*+!_-]+\s*,?\s*)*$/;

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

  private constructor(path: string, python: PythonEnvironment) {
    this.path = path;
    this.#python = python;
  }

  /**
   * Makes the folder where it is missing.
   *
   * @param workspace The workspace, as an absolute path.
   * @param python The Python that the packages are for.
   * @returns The folder.
   */
  static async open(workspace: string, python: PythonEnvironment): Promise<PackageFolder> {
    const minor = python.version.split(".").slice(0, 2).join(".");
    const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(workspace));
    const key = new Uint8Array(digest).toHex().slice(0, 16);
    const path = join(managedDirectory(), "packages", `py${minor}-${key}`);
    await Deno.mkdir(path, { recursive: true });
    return new PackageFolder(path, python);
  }

  /**
   * Installs a package and what it needs, from the package index and only as wheels: building one
   * would run its code outside the sandbox. What kernels themselves need keeps its version.
   *
   * @param requirement Its name, with extras and versions as in `"pandas[excel]>=2,<3"`.
   * @param signal Stops the installation.
   * @returns Whether that worked, and what the installer said.
   * @throws {TypeError} The requirement is something else, such as a URL or an option.
   */
  async install(requirement: string, signal?: AbortSignal): Promise<InstallOutcome> {
    if (requirement.length > 200 || !REQUIREMENT.test(requirement)) {
      throw new TypeError(
        `Cannot install "${requirement}": give a package's name, such as "pandas" or "pandas>=2"`,
      );
    }
    const constraints = await Deno.makeTempFile({ prefix: "ipybox-constraints-" });
    try {
      await Deno.writeTextFile(constraints, pinnedVersions());
      return await this.#pip(requirement, constraints, signal);
    } finally {
      await Deno.remove(constraints);
    }
  }

  async #pip(
    requirement: string,
    constraints: string,
    signal: AbortSignal | undefined,
  ): Promise<InstallOutcome> {
    const options = ["--target", this.path, "--upgrade", "--constraint", constraints];
    const python = this.#python.executable;
    const hasPip = await succeeds(python, ["-I", "-m", "pip", "--version"]);
    const [command, args] = hasPip
      ? [python, ["-I", "-m", "pip", "install", "--no-input", "--only-binary", ":all:"]]
      : ["uv", ["pip", "install", "--python", python, "--only-binary", ":all:"]];
    const output = new OutputTail(64 * 1024);
    await using process = ManagedProcess.spawn({
      command,
      args: [...args, ...options, "--", requirement],
      env: installerEnvironment(),
      cwd: this.path, // a uv.toml or pyproject.toml of the workspace must not have a say
      onStderr: (line) => output.push(encoder.encode(`${line}\n`)),
      inputGraceMs: 0,
    });
    const stop = () => void process.stop();
    signal?.addEventListener("abort", stop, { once: true });
    try {
      for await (const chunk of process.stdout) output.push(chunk);
      const { exitCode } = await process.exited;
      signal?.throwIfAborted();
      return { installed: exitCode === 0, output: output.text };
    } finally {
      signal?.removeEventListener("abort", stop);
    }
  }
}

const encoder = new TextEncoder();

/** The versions of the kernel's own packages, in the form of a constraints file. */
function pinnedVersions(): string {
  return asset("environment/requirements.txt").split("\n")
    .flatMap((line) => /^[A-Za-z0-9._-]+==[^\s;\\]+/.exec(line)?.[0] ?? [])
    .join("\n") + "\n";
}

/** What an installer may know: where it finds its configuration, the index and the network. */
function installerEnvironment(): Record<string, string> {
  const wanted =
    /^(PATH|HOME|USER|LANG|LC_.*|TMPDIR|XDG_.*|PIP_.*|UV_.*|SSL_CERT_.*|(HTTPS?|ALL|NO)_PROXY)$/i;
  return Object.fromEntries(
    Object.entries(Deno.env.toObject()).filter(([name]) => wanted.test(name)),
  );
}

async function succeeds(command: string, args: string[]): Promise<boolean> {
  const { success } = await new Deno.Command(command, {
    args,
    stdin: "null",
    stdout: "null",
    stderr: "null",
  }).output();
  return success;
}
