import { basename, resolve } from "node:path";
import { ConfigError, McpConnectionError } from "../errors.ts";
import type { Logger } from "../log.ts";
import { HeldFolder } from "../process/held_folder.ts";
import { PrivateFolder } from "../process/private_folder.ts";
import {
  namedProgram,
  programOf,
  type ProgramPath,
  type ProgramSearch,
} from "../process/program.ts";
import { reliablePath } from "../process/reliable_path.ts";
import { isInside, trustedPath } from "../process/trusted_path.ts";
import { requireOwnProgram } from "../sandbox/own_program.ts";
import { sandboxServer } from "../sandbox/server_sandbox.ts";
import { requireOwnArguments } from "./own_arguments.ts";
import {
  requireTrusted,
  settingsFileOf,
  type WantedSandbox,
  wantedSandbox,
} from "./sandbox_settings.ts";
import type { StdioServerParams } from "./server_params.ts";
import { inheritedEnvironment } from "./variables.ts";

/** What {@linkcode launchStdio} needs besides the server's parameters. */
export interface StdioLaunchOptions {
  /** The folder where executed code writes. */
  readonly workspace?: string | undefined;
  /**
   * The settings files in the workspace that executed code cannot change. Others there are refused;
   * without the list, all are taken.
   */
  readonly settingsFiles?: readonly string[] | undefined;
  /** Takes what the server is given and what is removed when it has ended. */
  readonly belongings: AsyncDisposableStack;
  /** Where the sandbox says what it does. */
  readonly log: Logger;
  /** Gives up. */
  readonly signal: AbortSignal;
}

/** A process to start. */
export interface StdioLaunch {
  /** The program. */
  readonly command: ProgramPath;
  /** Its arguments. */
  readonly args: readonly string[];
  /** Its whole environment. */
  readonly env: Readonly<Record<string, string>>;
  /** Its working directory. */
  readonly cwd: string;
  /** The folder that was made for it, if it starts in that. */
  readonly ownFolder: string | undefined;
  /** Whether it is in a sandbox of its own. */
  readonly sandboxed: boolean;
}

/** Says how a server's process is started: where, with which environment, and in which sandbox. */
export async function launchStdio(
  serverName: string,
  params: StdioServerParams,
  options: StdioLaunchOptions,
): Promise<StdioLaunch> {
  const { workspace, belongings, log, signal } = options;
  const base = resolve(workspace ?? ".");
  const wanted = wantedSandbox(serverName, params);
  const given = params.cwd === undefined ? undefined : await folderOf(serverName, params.cwd, base);
  const env = {
    ...await inheritedEnvironment(workspace),
    ...(basename(wanted.command) === "npx" ? NPX_RETRIES : {}),
    ...params.env,
  };
  // Also a search path of its own must not lead it to what executed code wrote.
  if (env.PATH !== undefined) env.PATH = await trustedPath(env.PATH, [base]);
  const makeFolder = async () => belongings.use(await makeFolderFor(serverName, base, log)).path;
  const programIn = async (folder: string) =>
    await serverProgram(serverName, wanted.command, { path: env.PATH, untrusted: [base], folder });
  if (wanted.sandbox === "none") {
    const cwd = given ?? await makeFolder();
    const command = await programIn(cwd);
    const { args: own } = wanted;
    await requireOwnArguments({
      serverName,
      command,
      args: own,
      env: params.env ?? {},
      cwd,
      workspace,
    });
    const ownFolder = given === undefined ? cwd : undefined;
    const start = given === undefined
      ? { command, args: own, env }
      : await startedThere(given, { command, args: own, env }, base);
    return { ...start, cwd, ownFolder, sandboxed: false };
  }
  const settings = settingsFileOf(wanted, base);
  if (settings !== undefined) {
    await requireTrusted(serverName, settings, {
      workspace: base,
      settingsFiles: options.settingsFiles,
    });
  }
  const folder = await makeFolder();
  const openReads = wanted.sandbox === "srt";
  // Whoever writes `srt` into a command line means its paths as srt does.
  const cwd = given ?? (openReads ? await Deno.realPath(base) : folder);
  const args = argumentsIn(cwd, base, { wanted, folder });
  const program = {
    command: await programIn(cwd),
    args,
    env: { PYTHONSAFEPATH: "1", ...env },
    cwd,
  };
  const sandboxed = await sandboxServer(program, {
    folder,
    hostPrivate: belongings.use(await HeldFolder.create({ log })).path, // short enough for srt's sockets
    workspace: base,
    settings,
    openReads,
    belongings,
    log,
    signal,
  });
  return { ...sandboxed, ownFolder: cwd === folder ? folder : undefined, sandboxed: true };
}

/** Code must not lead a server elsewhere by a link in the place of its folder. */
async function folderOf(serverName: string, cwd: string, workspace: string): Promise<string> {
  const what = `working directory of MCP server "${serverName}"`;
  return await reliablePath(resolve(workspace, cwd), { workspace, what });
}

/** Goes on with a program only in the folder that was meant, by the name that the system has for it. */
const IN_FOLDER = `[ "$(pwd -P)" = "$1" ] || {
  echo "The working directory $1 was replaced by a link to $(pwd -P), so nothing was started" >&2
  exit 125
}
shift
exec "$@"`;

/**
 * Has a program see, once it is there, that no link has led it elsewhere: code could put one in the
 * place of its folder after that was looked at, and before the process was there. Only the folder of
 * the workspace itself is out of its reach.
 */
async function startedThere(
  cwd: string,
  { command, args, env }: Pick<StdioLaunch, "command" | "args" | "env">,
  base: string,
): Promise<Pick<StdioLaunch, "command" | "args" | "env">> {
  const workspace = await Deno.realPath(base);
  if (cwd === workspace || !isInside(cwd, workspace)) return { command, args, env };
  const { PWD: _, ...others } = env; // what a shell would believe
  return {
    command: namedProgram("/bin/sh"),
    args: ["-c", IN_FOLDER, "sh", cwd, command, ...args],
    env: others,
  };
}

/** Without a network, `npx` would wait for minutes before it says so. */
const NPX_RETRIES: Readonly<Record<string, string>> = {
  npm_config_fetch_retry_mintimeout: "1000",
  npm_config_fetch_retry_maxtimeout: "2000",
};

/** `npx` prefers packages that it finds in the working directory, where code may have put them. */
function argumentsIn(
  cwd: string,
  workspace: string,
  { wanted, folder }: { readonly wanted: WantedSandbox; readonly folder: string },
): readonly string[] {
  const { command, args } = wanted;
  if (basename(command) !== "npx" || !isInside(cwd, workspace)) return args;
  return ["--prefix", folder, ...args];
}

async function serverProgram(
  serverName: string,
  command: string,
  search: ProgramSearch & { readonly folder: string },
): Promise<ProgramPath> {
  try {
    const program = await programOf(command, search);
    if (!command.includes("/")) return program;
    const [workspace] = search.untrusted ?? [];
    await requireOwnProgram(program, { workspace, what: `program of MCP server "${serverName}"` });
    return program;
  } catch (cause) {
    if (!(cause instanceof Deno.errors.NotFound)) throw cause;
    const message = `Cannot start MCP server "${serverName}": ${cause.message}`;
    throw new McpConnectionError(serverName, message, {}, { cause });
  }
}

async function makeFolderFor(
  serverName: string,
  workspace: string,
  log: Logger,
): Promise<PrivateFolder> {
  try {
    return await PrivateFolder.create([workspace], log);
  } catch (cause) {
    if (!(cause instanceof Deno.errors.NotCapable)) throw cause;
    throw new ConfigError(
      `Cannot make a folder to start MCP server "${serverName}" in: allow writing to the folder ` +
        `for temporary files, or give the server a "cwd" that executed code cannot write to`,
      { cause },
    );
  }
}
