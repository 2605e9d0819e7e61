import { basename, dirname, isAbsolute, join } from "node:path";
import { ConfigError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import { hostEnv } from "../base/permission.ts";
import { allDone } from "../base/signals.ts";
import { parseFile } from "../json/document.ts";
import type { ProgramPath } from "../process/program.ts";
import { reliablePath, STATE_FOLDER } from "../process/trusted_path.ts";
import { parseSandboxConfig, type SandboxConfig } from "./config.ts";
import { baseIn, isBroad } from "./installation.ts";
import { workspaceView } from "./sandbox.ts";
import { enclose, hostPython } from "./wall.ts";
import { beginWriting, makeOwnFolders } from "./workspace.ts";

/** A program to run in its own sandbox. */
export interface ServerProgram {
  /** The program. */
  readonly command: ProgramPath;
  /** Its arguments. */
  readonly args: readonly string[];
  /** Its whole environment, with a `PATH` whose folders are trusted. */
  readonly env: Readonly<Record<string, string>>;
  /** Its working directory. */
  readonly cwd: string;
}

/** The settings file of a server's sandbox, read once. */
export interface SettingsFile {
  readonly path: string;
  /** `null` if it did not exist, or could not be read. */
  readonly text: string | null;
  /** Why it could not be read. */
  readonly problem?: ConfigError;
}

/** Options of {@linkcode sandboxServer}. */
interface ServerSandboxOptions {
  /** Its existing writable folder, which nobody else writes to. */
  readonly folder: string;
  /** An empty folder that only the host can see. */
  readonly hostPrivate: string;
  /** The workspace, which is also the base of relative paths in the settings. */
  readonly workspace: string;
  /** Its settings file, if it names one. */
  readonly settings?: SettingsFile | undefined;
  /**
   * Whether the server may read everything that the settings do not deny, as with plain `srt`. The
   * settings may then also weaken the sandbox, because the user wrote them for `srt`.
   *
   * @default {false}
   */
  readonly openReads?: boolean;
  /** Receives log messages. */
  readonly log: Logger;
  /** Cancels the preparation. */
  readonly signal: AbortSignal;
}

/**
 * Determines how to start a program in its own sandbox.
 *
 * It can read the system's programs, its own installation and the paths in its arguments; it can write
 * to its own folder; it has no network. A settings file extends this. Paths hidden from executed
 * code in the workspace are hidden from it too.
 */
export async function sandboxServer(
  program: ServerProgram,
  options: ServerSandboxOptions,
): Promise<ServerProgram> {
  const { folder, hostPrivate, openReads = false, log, signal } = options;
  const workspace = await Deno.realPath(options.workspace);
  const home = hostEnv("HOME");
  const config = userConfig(options);
  // Paths must exist to be kept, or a server that may write to the workspace could create them.
  if ((config.filesystem?.allowWrite ?? []).length > 0) {
    await makeOwnFolders(workspace);
    await beginWriting(workspace);
  }
  const temporary = `${folder}/tmp`;
  await Deno.mkdir(temporary);
  const python = await hostPython(workspace);
  const [seen, ...readable] = await allDone([
    workspaceView(workspace, { log, python, signal }),
    programFiles(program.command, home),
    namedPaths(program.args, workspace, home),
  ]);
  // With open reads, a server may read the secrets that the user's settings do not deny. It can
  // change none of them, and never reads ipybox's own state.
  const isState = (path: string) =>
    !path.startsWith(`${workspace}/`) || basename(path) === STATE_FOLDER;
  const [mask, keep] = openReads
    ? [seen.mask.filter(isState), seen.mask.filter((path) => !isState(path))]
    : [seen.mask, []];
  const { command, args, env } = await enclose({
    contents: {
      view: {
        show: openReads ? ["/"] : readable.flat(),
        write: [folder],
        keep: [...seen.keep, ...keep],
        mask,
      },
      command: [
        "/usr/bin/env",
        ...changes({ TMPDIR: temporary, ...program.env }),
        program.command,
        ...program.args,
      ],
    },
    base: workspace,
    path: program.env.PATH ?? "",
    ...{ hostPrivate, temporary, python, config, log, signal },
    cwd: program.cwd,
    home: program.env.HOME,
  });
  // srt needs other values for some variables than the program that it starts, and puts empty files into
  // its own working directory.
  return { command, args, env: { ...program.env, ...env }, cwd: hostPrivate };
}

/** The variables for which srt has its own values. */
const OF_SRT = ["PATH", "HOME", "CLAUDE_CODE_TMPDIR", "DENO_DIR", "DENO_NO_UPDATE_CHECK", "TMPDIR"];

/** The arguments of `env` that give a program its own values again. */
function changes(values: Readonly<Record<string, string>>): string[] {
  const names = OF_SRT.map((name) =>
    [name, Object.entries(values).find(([key]) => key === name)?.[1]] as const
  );
  return [
    ...names.flatMap(([name, value]) => value === undefined ? ["-u", name] : []),
    ...names.flatMap(([name, value]) => value === undefined ? [] : [`${name}=${value}`]),
  ];
}

function userConfig({ settings, openReads }: ServerSandboxOptions): SandboxConfig {
  if (settings === undefined) return {};
  if (settings.problem !== undefined) throw settings.problem;
  const source = `sandbox settings ${settings.path}`;
  if (settings.text === null) throw new ConfigError(`The ${source} do not exist`);
  return parseSandboxConfig(parseFile(source, settings.text).value, {
    source,
    allowUnsafe: openReads,
  });
}

/** The existing paths among the arguments: a script, a folder to work on. */
async function namedPaths(
  args: readonly string[],
  workspace: string,
  home: string | undefined,
): Promise<string[]> {
  const named: string[] = [];
  for (const arg of args) {
    if (!isAbsolute(arg)) continue;
    if (!await Deno.stat(arg).then(() => true, () => false)) continue;
    const path = await reliablePath(arg, { workspace, what: "argument of a server in a sandbox" });
    if (!isBroad(path, home)) named.push(path);
  }
  return named;
}

/**
 * Finds what must be readable for a program to start: the program and its installation, such as
 * Node.js or a virtual environment below the home directory.
 */
export async function programFiles(
  file: ProgramPath,
  home: string | undefined,
): Promise<string[]> {
  if (!await Deno.stat(file).then(({ isFile }) => isFile, () => false)) return [];
  const files = new Set<string>([file]);
  for (const program of [file, await Deno.realPath(file)]) {
    files.add(program);
    for (const prefix of await installations(program)) {
      if (!isBroad(prefix, home)) files.add(prefix);
    }
  }
  return [...files];
}

/** The folders that contain `bin/` and `node_modules/`, and a virtual environment's base. */
async function installations(program: string): Promise<string[]> {
  const found: string[] = [];
  const bin = dirname(program);
  if (basename(bin) === "bin") found.push(dirname(bin));
  const modules = program.indexOf("/node_modules/");
  if (modules !== -1) {
    const above = program.slice(0, modules);
    found.push(basename(above) === "lib" ? dirname(above) : `${above}/node_modules`);
  }
  const environment = await readIfThere(join(dirname(bin), "pyvenv.cfg"));
  const base = baseIn(environment ?? "");
  if (base !== undefined && isAbsolute(base)) found.push(dirname(base));
  return found;
}

async function readIfThere(file: string): Promise<string | undefined> {
  return await Deno.readTextFile(file).catch(() => undefined); // most programs have none
}
