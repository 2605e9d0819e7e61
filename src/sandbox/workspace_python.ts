/**
 * A Python that is in the workspace, such as one in a `.venv`. Code can change it, so the host never runs it:
 * it is inspected in a sandbox.
 *
 * @module
 */
import { basename, dirname, join, resolve } from "node:path";
import { ConfigError } from "../base/errors.ts";
import { silentLogger } from "../base/log.ts";
import { hostEnv } from "../base/permission.ts";
import { HeldFolder, PrivateFolder } from "../files/private_folder.ts";
import { ifPresent, readHostileFile } from "../files/safe.ts";
import { type ProgramEnd, runProgram } from "../process/run_program.ts";
import { isInside, lstatIfAllowed, realPathIfSeen } from "../process/trusted_path.ts";
import { confine } from "./confine.ts";
import { findHidden } from "./hidden.ts";
import { baseIn } from "./installation.ts";
import { hostPython } from "./wall.ts";
import { isOwnProgram, requireOwnProgram } from "./workspace.ts";

/** A Python that runs only in a sandbox. */
export interface WorkspacePython {
  /** Its path, whose folder has no links. */
  readonly executable: string;
  /** Its needs besides the workspace: the installation that its environment is based on. */
  readonly readable: readonly string[];
  /** Runs it in a sandbox without a network, where it can read the workspace. */
  run(args: readonly string[], signal: AbortSignal): Promise<ProgramEnd>;
}

/** The Python of a workspace; `undefined` for one that the host can run. */
export async function workspacePython(
  python: string,
  workspace: string | undefined,
): Promise<WorkspacePython | undefined> {
  if (!python.includes("/")) return undefined;
  const named = resolve(python);
  const isOwn = await isOwnProgram(named, workspace);
  const base = await baseOf(named);
  if (isOwn && (base === undefined || await isOwnProgram(base, workspace))) return undefined;
  const executable = join(await realPathIfSeen(dirname(named)), basename(named));
  const root = workspace && await Deno.realPath(workspace);
  if (root === undefined || !isInside(executable, root)) {
    await requireOwnProgram(isOwn ? base ?? named : named, { workspace, what: "Python" });
    return undefined;
  }
  const readable = base === undefined ? [] : await installationOf(base, { named, workspace: root });
  return {
    executable,
    readable,
    run: async (args, signal) => {
      const { paths } = await findHidden(root, { python: await hostPython(root), signal });
      const seen = { readable: [root, ...readable], hidden: paths };
      return await runConfined([executable, ...args], { ...seen, signal });
    },
  };
}

/** The Python that an environment is based on, as its settings say, which code may have written. */
async function baseOf(python: string): Promise<string | undefined> {
  const settings = join(dirname(dirname(python)), "pyvenv.cfg");
  if (!(await lstatIfAllowed(settings))?.isFile) return undefined;
  const home = baseIn(await readHostileFile(settings) ?? "");
  if (home === undefined) return undefined;
  const folder = resolve("/", home);
  for (const name of ["python3", "python"]) {
    if (await lstatIfAllowed(join(folder, name)) !== undefined) return join(folder, name);
  }
  return join(folder, "python3");
}

/**
 * The parts of an installation that are shown. Code may have named any folder there, or put a
 * program into it, so nothing of it is run here: it must have the files that only Python's own
 * folder has, and must not be an environment, which would be somebody's project.
 */
async function installationOf(
  base: string,
  { named, workspace }: { readonly named: string; readonly workspace: string },
): Promise<string[]> {
  await requireOwnProgram(base, { workspace, what: `base of ${named}` });
  const prefix = dirname(dirname(await realPathIfSeen(base)));
  const library = await standardLibrary(prefix);
  const isEnvironment = await lstatIfAllowed(join(prefix, "pyvenv.cfg")) !== undefined;
  if (library !== undefined && !isEnvironment) {
    const shown = [join(prefix, "bin"), join(prefix, "lib"), join(prefix, "lib64")];
    const found = await Promise.all(shown.map(lstatIfAllowed));
    return shown.filter((_, index) => found[index]?.isDirectory); // a link could lead anywhere
  }
  throw new ConfigError(
    `Cannot use ${named} as Python: its environment is based on ${base}, which is not an installed ` +
      "Python. Make the environment again",
  );
}

/** The folder of a Python's own modules. */
async function standardLibrary(prefix: string): Promise<string | undefined> {
  const lib = join(prefix, "lib");
  const entries = await ifPresent(Array.fromAsync(Deno.readDir(lib))) ?? [];
  for (const { name } of entries) {
    if (!/^python3\.\d+t?$/.test(name)) continue;
    if (await lstatIfAllowed(join(lib, name, "os.py")) !== undefined) return join(lib, name);
  }
  return undefined;
}

async function runConfined(
  command: readonly string[],
  { readable, hidden, signal }: {
    readonly readable: readonly string[];
    readonly hidden: readonly string[];
    readonly signal: AbortSignal;
  },
): Promise<ProgramEnd> {
  await using folder = await PrivateFolder.create();
  await using host = await HeldFolder.create({});
  const session = folder.path;
  const { command: program, args, env } = await confine({
    command,
    env: { HOME: session, TMPDIR: "/tmp", LANG: hostEnv("LANG") ?? "C.UTF-8" },
    ...{ session, readable, hidden, writable: [], hostPrivate: host.path },
  }, { log: silentLogger, signal });
  return await runProgram(program, { args, env, clearEnv: true, cwd: host.path, signal });
}
