import { join, resolve } from "node:path";
import { EnvironmentNotReadyError } from "../base/errors.ts";
import { abortable, pause } from "../base/signals.ts";
import { ManagedProcess } from "../process/managed_process.ts";
import { findProgram, hostPath, namedProgram, type ProgramPath } from "../process/program.ts";
import { moduleArgs } from "../process/python_args.ts";
import { trustedPath } from "../process/trusted_path.ts";
import { requireOwnProgram } from "../sandbox/workspace.ts";
import { findBaseInterpreter, inspectInterpreter, type Interpreter } from "./interpreter.ts";
import {
  environmentKey,
  type EnvironmentRecipe,
  kernelRecipe,
  managedDirectory,
  type PythonEnvironment,
  readManaged,
  removeLeftovers,
  toEnvironment,
  writeMarker,
} from "./managed.ts";

/** Options of {@linkcode buildPythonEnvironment}. */
export interface BuildOptions {
  /**
   * The contents of the environment.
   *
   * @default {what kernels need}
   */
  recipe?: EnvironmentRecipe;
  /**
   * The directory of the managed environments.
   *
   * @default {"$XDG_CACHE_HOME/ipybox/python"}
   */
  cacheDir?: string;
  /** Whether to rebuild an environment that is ready, for instance because it is damaged. */
  rebuild?: boolean;
  /** Variables for the installer, over those of this process, such as `PIP_INDEX_URL`. */
  env?: Readonly<Record<string, string>>;
  /** Receives a line of progress at least every few seconds. */
  onProgress?: (line: string) => void;
  /** Stops the build and removes its files. */
  signal?: AbortSignal;
}

/** How often a waiting build checks whether the other build has ended. */
const LOCK_POLL_MS = 200;

/**
 * Builds the managed Python environment, unless it is ready.
 *
 * Installs with `uv` if that is on the `PATH`, else with `venv` and pip, and checks every file against
 * the hash that ipybox was tested with. A build that fails or is interrupted, even by SIGKILL, never
 * leaves an environment that looks ready; concurrent builds wait for the first one. Needs
 * `--allow-env`, `--allow-run`, and access to the cache.
 *
 * @param options Its directory and contents.
 * @returns The environment.
 * @throws {EnvironmentNotReadyError} If there is no base Python, or the installation fails; the message
 * contains the installer's last lines.
 * @throws {ConfigError} If executed code could have changed the cache or settings of the installer.
 * @throws {unknown} The signal's reason when it aborts.
 *
 * @example
 * ```ts no-assert
 * import { buildPythonEnvironment } from "@ipybox/ipybox/kernel";
 *
 * const python = await buildPythonEnvironment({ onProgress: (line) => console.error(line) });
 * console.error(python.executable);
 * ```
 */
export async function buildPythonEnvironment(
  options: BuildOptions = {},
): Promise<PythonEnvironment> {
  const { recipe = kernelRecipe(), signal } = options;
  const cacheDir = resolve(options.cacheDir ?? managedDirectory());
  signal?.throwIfAborted();
  const ready = await readManaged(recipe, cacheDir);
  if (ready !== undefined && !options.rebuild) return ready;
  await Deno.mkdir(cacheDir, { recursive: true, mode: 0o755 }); // users of an image share it
  using _lock = await lockBuilds(cacheDir, options);
  const builtMeanwhile = await readManaged(recipe, cacheDir);
  // Another process rebuilt it while this one waited for the lock.
  const isNew = builtMeanwhile !== undefined && builtMeanwhile.prefix !== ready?.prefix;
  if (isNew) return builtMeanwhile;
  await removeLeftovers(cacheDir);
  const build = await planBuild(recipe, cacheDir, options);
  try {
    await install(build);
    const interpreter = await inspectInterpreter(build.python, recipe.modules);
    assertComplete(interpreter);
    signal?.throwIfAborted();
    await writeMarker(recipe, cacheDir, interpreter);
    return toEnvironment(interpreter, true);
  } catch (error) {
    await Deno.remove(build.directory, { recursive: true }).catch((cause: unknown) => {
      if (!(cause instanceof Deno.errors.NotFound)) throw new AggregateError([error, cause]);
    });
    throw error;
  }
}

/** The base interpreter for a new managed environment. */
export async function findBasePython(): Promise<string | undefined> {
  const base = await findBaseInterpreter(await findProgram("uv") === undefined);
  return base?.executable;
}

/** Locks out other builds. The system releases the lock when this process dies. */
export async function lockBuilds(
  cacheDir: string,
  options: Pick<BuildOptions, "onProgress" | "signal">,
): Promise<Disposable> {
  const path = join(cacheDir, "build.lock"); // anyone who can read it can hold it forever
  const file = await Deno.open(path, { create: true, write: true, mode: 0o600 });
  try {
    if (await file.tryLock(true)) return file;
    options.onProgress?.(`Waiting for another process that is building, and has locked ${path}`);
    while (!await file.tryLock(true)) await pause(LOCK_POLL_MS, options.signal);
    return file;
  } catch (error) {
    file.close();
    throw error;
  }
}

/** A build that is about to happen. */
interface Build {
  readonly base: string;
  readonly uv: ProgramPath | undefined;
  readonly directory: string;
  readonly python: string;
  readonly requirements: string;
  readonly step: StepOptions;
}

async function planBuild(
  recipe: EnvironmentRecipe,
  cacheDir: string,
  options: BuildOptions,
): Promise<Build> {
  const { onProgress, signal } = options;
  const step = { env: { ...await installerEnv(), ...options.env }, onProgress, signal };
  await requireOwnPlaces(step.env);
  const uv = await findProgram("uv", { path: step.env.PATH });
  const base = await findBaseInterpreter(uv === undefined, onProgress);
  if (base === undefined) {
    throw new EnvironmentNotReadyError(
      "No Python 3.10 or newer on the PATH can create virtual environments",
      "Install python3 with venv (on Debian and Ubuntu: apt-get install -y python3 python3-venv)",
    );
  }
  const [major, minor] = base.version.split(".");
  const suffix = crypto.randomUUID().slice(0, 8);
  const name = `${environmentKey(recipe)}-py${major}.${minor}-${suffix}`;
  const directory = join(cacheDir, name);
  return {
    base: base.executable,
    uv,
    directory,
    python: join(directory, "bin", "python"),
    requirements: recipe.requirements,
    step,
  };
}

async function install({ base, uv, directory, python, requirements, step }: Build): Promise<void> {
  step.onProgress?.(`Creating a Python environment in ${directory}`);
  await Deno.mkdir(directory);
  if (uv !== undefined) {
    await runStep(uv, ["venv", "--no-project", "--python", base, directory], step);
  } else {
    await runStep(namedProgram(base), [...moduleArgs("venv"), directory], step);
  }
  const file = join(directory, "requirements.txt");
  await Deno.writeTextFile(file, requirements);
  // The file pins everything with hashes, so there is nothing to resolve.
  const args = ["install", "--no-deps", "--require-hashes", "-r", file];
  step.onProgress?.(`Installing its packages with ${uv === undefined ? "pip" : "uv"}`);
  if (uv !== undefined) {
    // pip compiles by default. A sandboxed kernel cannot, so every start would be slow.
    await runStep(uv, ["pip", ...args, "--python", python, "--compile-bytecode"], step);
  } else {
    await runStep(namedProgram(python), ["-I", "-m", "pip", ...args, "--no-input"], step);
  }
}

function assertComplete({ missing }: Interpreter): void {
  const lines = Object.entries(missing).map(([name, reason]) => `\n  ${name}: ${reason}`);
  if (lines.length === 0) return;
  throw new EnvironmentNotReadyError(
    `The new Python environment does not work:${lines.join("")}`,
    "Choose another Python with --python or IPYBOX_PYTHON",
  );
}

/** Variables that would redirect the installer or change its choice of packages. */
const MISLEADING: ReadonlySet<string> = new Set([
  ...["VIRTUAL_ENV", "CONDA_PREFIX", "__PYVENV_LAUNCHER__"],
  ...[
    ...["TARGET", "PREFIX", "ROOT", "USER", "CONSTRAINT", "OVERRIDE", "PYTHON", "DRY_RUN"],
    ...["REQUIREMENT", "EXCLUDE", "EDITABLE", "BREAK_SYSTEM_PACKAGES"],
  ].flatMap((option) => [`PIP_${option}`, `UV_${option}`]),
]);

/** The user's environment: installers need its proxies, certificates and package indexes. */
async function installerEnv(): Promise<Record<string, string>> {
  const own = Object.entries(Deno.env.toObject())
    .filter(([name]) => !MISLEADING.has(name) && !name.startsWith("PYTHON"));
  return { ...Object.fromEntries(own), PATH: await trustedPath(hostPath()) };
}

/**
 * Variables that name folders and files from which installers take packages or settings. uv does
 * not check the hash of a package in its cache again.
 */
const PLACES: readonly string[] = [
  "UV_CACHE_DIR",
  "UV_CONFIG_FILE",
  "UV_PYTHON_INSTALL_DIR",
  "PIP_CACHE_DIR",
  "PIP_CONFIG_FILE",
  "XDG_CACHE_HOME",
  "XDG_CONFIG_HOME",
  "XDG_DATA_HOME",
];

/** Refuses places where executed code could have put the packages. */
async function requireOwnPlaces(env: Readonly<Record<string, string>>): Promise<void> {
  for (const name of PLACES) {
    const path = env[name];
    if (path) await requireOwnProgram(join(resolve("/", path), "_"), { what: name });
  }
}

/** Options of {@linkcode runStep}. */
interface StepOptions {
  /** The whole environment of the program. */
  readonly env: Readonly<Record<string, string>>;
  /** Receives a line at most every two seconds. */
  readonly onProgress?: (line: string) => void;
  /** Ends the program and everything it started. */
  readonly signal?: AbortSignal;
}

/** Short enough to look alive, long enough not to flood a log. */
const PROGRESS_EVERY_MS = 2000;

/** How many of the program's last lines an error shows. */
const LAST_LINES = 8;

/** Runs one installation step to its end. */
async function runStep(
  command: ProgramPath,
  args: readonly string[],
  options: StepOptions,
): Promise<void> {
  const { env, onProgress, signal } = options;
  signal?.throwIfAborted();
  const last: string[] = [];
  let spokenAt = Date.now();
  // An installer has no state to save, so it gets little time to end.
  await using process = ManagedProcess.spawn({
    command: namedProgram("/bin/sh"),
    // No group may write to its files.
    args: ["-c", 'umask 022 && exec "$@" >&2', "sh", command, ...args],
    env,
    onStderr: (line) => {
      // pip first lists the packages for other systems.
      if (line.trim() === "" || line.startsWith("Ignoring ")) return;
      last.push(line.trimEnd());
      if (last.length > LAST_LINES) last.shift();
      if (Date.now() - spokenAt < PROGRESS_EVERY_MS) return;
      spokenAt = Date.now();
      onProgress?.(`  ${line.trim().slice(0, 70)}`);
    },
    inputGraceMs: 0,
    termGraceMs: 1000,
  });
  const { exitCode, signal: killedBy } = await abortable(process.exited, signal);
  if (exitCode === 0) return;
  const how = killedBy === null ? `exited with code ${exitCode}` : `was killed by ${killedBy}`;
  throw new EnvironmentNotReadyError(
    `Cannot build the Python environment: ${command} ${how}${
      last.map((line) => `\n  ${line}`).join("")
    }`,
    "See its last lines above. If this machine was offline, connect and run `ipybox setup` again; " +
      "if the disk is full, free 250 MB",
  );
}
