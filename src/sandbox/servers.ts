import { basename, dirname, isAbsolute, join } from "node:path";
import type { Logger } from "../base/log.ts";
import { hostEnv } from "../base/permission.ts";
import { allDone } from "../base/signals.ts";
import type { ProgramPath } from "../process/program.ts";
import { reliablePath, trustedPath } from "../process/trusted_path.ts";
import { readSandboxConfig, type SandboxConfig } from "./config.ts";
import { baseIn, isBroad } from "./installation.ts";
import { Planner } from "./planner.ts";
import {
  beginWriting,
  findProtectedPaths,
  isState,
  makeOwnFolders,
  noteAbsentDotenv,
  type ProtectedPaths,
} from "./protect.ts";
import { guarded } from "./sandbox.ts";
import { refuseTooManyMounts, sandboxSettings } from "./settings.ts";
import { findSrt, srtEnvironment } from "./srt.ts";
import { writeSettings } from "./wall.ts";
import { statesAround, userFolders } from "./workspace.ts";
import { mountablePaths, runningWriters } from "./writers.ts";

/** A program to run in its own sandbox. */
export interface ServerProgram {
  /** The program. */
  readonly command: ProgramPath;
  /** Its arguments. */
  readonly args: readonly string[];
  /** Its whole environment. */
  readonly env: Readonly<Record<string, string>>;
  /** Its working directory. */
  readonly cwd: string;
}

/** Options of {@linkcode sandboxServer}. */
interface ServerSandboxOptions {
  /** Its existing writable folder, which nobody else writes to. */
  readonly folder: string;
  /** An empty folder that only the host can see. */
  readonly hostPrivate: string;
  /** The workspace, which is also the base of relative paths in the settings. */
  readonly workspace: string;
  /** The path of a settings file, if there is one. */
  readonly settings?: string;
  /**
   * Whether the server may read everything that the settings do not deny, as with plain `srt`. The
   * settings may then also weaken the sandbox, because the user wrote them for `srt`.
   *
   * @default {false}
   */
  readonly openReads?: boolean;
  /** Takes what must live as long as the sandbox. */
  readonly belongings: AsyncDisposableStack;
  /** Receives log messages. */
  readonly log: Logger;
  /** Cancels the preparation. */
  readonly signal: AbortSignal;
}

/**
 * Determines how to start a program in its own sandbox.
 *
 * It can read the system's programs, its own installation and what its arguments name; it can write
 * to its own folder; it has no network. A settings file extends this. What is hidden from executed
 * code in the workspace is hidden from it too.
 */
export async function sandboxServer(
  program: ServerProgram,
  options: ServerSandboxOptions,
): Promise<ServerProgram> {
  const { folder, hostPrivate, openReads = false, log, signal } = options;
  const workspace = await Deno.realPath(options.workspace);
  const home = hostEnv("HOME");
  const trusted = await trustedPath(program.env.PATH ?? "", [workspace]);
  const config = await userConfig(options, workspace);
  // Paths must exist to be protected, or a server that may write to the workspace could create
  // them.
  const mayWrite = (config.filesystem?.allowWrite ?? []).length > 0;
  if (mayWrite) {
    await makeOwnFolders(workspace);
    await noteAbsentDotenv(workspace);
  }
  const srt = await findSrt({ path: trusted, log, signal });
  // srt puts empty files into its own working directory.
  const cwd = hostPrivate;
  await using planner = await Planner.start(srt, { config, hostPrivate, cwd, path: trusted });
  const before = await runningWriters();
  const [found, ...readable] = await allDone([
    protectedIn(workspace, openReads),
    programFiles(program.command, home),
    namedPaths(program.args, workspace, home),
    Deno.mkdir(`${folder}/tmp`).then(() => []),
  ]);
  signal.throwIfAborted();
  if (mayWrite) await beginWriting(workspace, found.readOnly);
  const around = await statesAround(workspace);
  const mountable = await mountablePaths([...found.unreadable, ...found.readOnly], {
    before,
    writes: mayWrite ? workspace : undefined,
    belongings: options.belongings,
  });
  const protectedPaths: ProtectedPaths = {
    unreadable: found.unreadable.filter((path) => mountable.has(path)),
    readOnly: found.readOnly.filter((path) => mountable.has(path)),
  };
  const settings = sandboxSettings({
    writable: [folder],
    readOnly: [],
    hostPrivate,
    base: workspace,
    protectedPaths,
    hidden: around,
    // Paths inside these are hidden as well unless they are named.
    readable: [
      ...readable.flat(),
      ...srt.readable,
      ...(openReads && around.length > 0 ? [workspace] : []),
    ],
    config,
    openReads,
    home,
  });
  refuseTooManyMounts(settings, workspace);
  // srt needs other values for some variables than the program that it starts.
  const temporary = `${folder}/tmp`;
  const own = srtEnvironment(srt, { path: trusted, hostPrivate, temporary });
  const launch = await writeSettings({
    srt,
    settings,
    hostPrivate,
    workspace,
    home: program.env.HOME,
    command: await guarded([
      ...["/usr/bin/env", ...changes(own, { TMPDIR: temporary, ...program.env })],
      ...[program.command, ...program.args],
    ], { hostPrivate, cwd: program.cwd }),
    planner,
    signal,
  });
  return {
    command: launch.command,
    args: launch.args,
    env: { ...program.env, ...own, ...launch.env },
    cwd,
  };
}

/** The arguments of `env` that restore the program's variables where srt has other values. */
function changes(
  own: Readonly<Record<string, string>>,
  wanted: Readonly<Record<string, string>>,
): string[] {
  const names = [...Object.keys(own), "TMPDIR"].map((name) => [name, wanted[name]] as const);
  return [
    ...names.flatMap(([name, value]) => value === undefined ? ["-u", name] : []),
    ...names.flatMap(([name, value]) => value === undefined ? [] : [`${name}=${value}`]),
  ];
}

async function userConfig(
  { settings, openReads = false }: ServerSandboxOptions,
  workspace: string,
): Promise<SandboxConfig> {
  return settings === undefined
    ? {}
    : await readSandboxConfig(settings, { allowUnsafe: openReads, workspace });
}

async function protectedIn(workspace: string, openReads: boolean): Promise<ProtectedPaths> {
  const [found, ownFolders] = await allDone([findProtectedPaths(workspace), userFolders()]);
  if (!openReads) return { ...found, unreadable: [...found.unreadable, ...ownFolders] };
  // The user's settings decide which secrets the server may read, but it may never read the host's
  // own state. It can move none of them, or sandboxes that start while it runs could not hide them
  // from code.
  const states = found.unreadable.filter(isState);
  const secrets = found.unreadable.filter((path) => !isState(path));
  return {
    unreadable: [...states, ...ownFolders],
    readOnly: [...found.readOnly, ...secrets],
  };
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
