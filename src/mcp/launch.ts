import { basename, resolve } from "node:path";
import { ConfigError, McpConnectionError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import { HeldFolder, PrivateFolder } from "../files/private_folder.ts";
import { isPlainFile } from "../files/safe.ts";
import {
  namedProgram,
  programOf,
  type ProgramPath,
  type ProgramSearch,
} from "../process/program.ts";
import { isInside, reliablePath, stateOf, trustedPath } from "../process/trusted_path.ts";
import { sandboxServer } from "../sandbox/servers.ts";
import { requireOwnProgram } from "../sandbox/workspace.ts";
import { requireOwnArguments } from "./own_arguments.ts";
import { inheritedEnvironment, type ServerParams, type StdioServerParams } from "./params.ts";

/** What {@linkcode launchStdio} needs besides the server's parameters. */
interface StdioLaunchOptions {
  /** The folder where executed code writes. */
  readonly workspace?: string;
  /**
   * The settings files in the workspace that executed code cannot change. Others there are refused;
   * without the list, all are taken.
   */
  readonly settingsFiles?: readonly string[];
  /** Takes what the server is given and what is removed when it has ended. */
  readonly belongings: AsyncDisposableStack;
  /** Where the sandbox says what it does. */
  readonly log: Logger;
  /** Cancels it. */
  readonly signal: AbortSignal;
}

/** A process to start. */
interface StdioLaunch {
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
  /** Whether it is in its own sandbox. */
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
  // Also its own search path must not lead it to what executed code wrote.
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
  // Paths in a command line with `srt` are meant as srt reads them.
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
  echo "The working directory $1 was replaced by a link to $(pwd -P), so the server was not started" >&2
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
      `Cannot create a working directory for MCP server "${serverName}": allow writing to the folder ` +
        `for temporary files, or give the server a "cwd" that executed code cannot write to`,
      { cause },
    );
  }
}

/** How a server's parameters want it closed in. */
interface WantedSandbox {
  /** The program. */
  readonly command: string;
  /** Its arguments. */
  readonly args: readonly string[];
  /** `"closed"` for a sandbox that denies what is not allowed, `"srt"` for one as `srt` has it. */
  readonly sandbox: "none" | "closed" | "srt";
  /** The settings file, as it is written. */
  readonly settings: string | undefined;
}

/** Reads from a server's parameters how it is to be closed in. */
export function wantedSandbox(serverName: string, params: StdioServerParams): WantedSandbox {
  const { command, args = [], sandbox = false } = params;
  const srt = parseSrtCommand(serverName, command, args);
  if (srt !== undefined) {
    if (sandbox === false) return { ...srt, sandbox: "srt" };
    throw new ConfigError(
      `Cannot start MCP server "${serverName}": remove "sandbox", because its command is srt`,
    );
  }
  if (sandbox === false) return { command, args, sandbox: "none", settings: undefined };
  return { command, args, sandbox: "closed", settings: sandbox === true ? undefined : sandbox };
}

/** Finds the settings file of a server's sandbox. */
export function settingsFileOf({ settings }: WantedSandbox, workspace: string): string | undefined {
  const base = resolve(workspace);
  if (settings === undefined) return undefined;
  return resolve(base, settings.replaceAll("${workspaceFolder}", base));
}

/**
 * Writes the path of a server's settings file out, for a session that works in another folder: they
 * are the workspace's.
 *
 * @throws {ConfigError} Code of the workspace could replace them, or the parameters make no sense.
 */
export async function withSettingsOf(
  workspace: string,
  [name, params]: readonly [string, ServerParams],
): Promise<ServerParams> {
  if (!("command" in params)) return params;
  const wanted = wantedSandbox(name, params);
  const file = settingsFileOf(wanted, workspace);
  if (file === undefined || file.startsWith(`${workspace}/\${`)) return params; // a variable is absolute
  const what = `sandbox settings of MCP server "${name}"`;
  const settings = await reliablePath(file, { workspace, what });
  return wanted.sandbox === "srt"
    ? { ...params, args: ["--settings", settings, wanted.command, ...wanted.args] }
    : { ...params, sandbox: settings };
}

/** Finds the settings files in a workspace that servers' sandboxes are made by. */
export async function presentSettings(
  servers: Iterable<readonly [string, ServerParams]>,
  workspace: string,
): Promise<string[]> {
  const present: string[] = [];
  for (const [name, params] of servers) {
    const file = "command" in params ? fileOf(name, params, workspace) : undefined;
    if (file === undefined || !isInside(file, resolve(workspace))) continue;
    if (await isPlainFile(file) && await isReliable(file, workspace)) present.push(file);
  }
  return present;
}

/** Refuses settings that executed code may have written. */
async function requireTrusted(
  serverName: string,
  settings: string,
  place: { readonly workspace: string; readonly settingsFiles?: readonly string[] | undefined },
): Promise<void> {
  const { workspace, settingsFiles } = place;
  await reliablePath(settings, {
    workspace,
    what: `sandbox settings of MCP server "${serverName}"`,
  });
  if (settingsFiles === undefined || settingsFiles.includes(settings)) return;
  if (!isInside(settings, workspace)) return;
  if (stateOf(workspace).some((state) => isInside(settings, state))) return;
  throw new ConfigError(
    `Cannot start MCP server "${serverName}": executed code can write to ${settings}. Move ` +
      "these settings to .ipybox/ or out of the workspace, or restart with the server registered",
  );
}

/** Whether no link leads to it; otherwise that is said when the server is started. */
async function isReliable(file: string, workspace: string): Promise<boolean> {
  try {
    return await reliablePath(file, { workspace, what: "sandbox settings" }) !== undefined;
  } catch (error) {
    if (error instanceof ConfigError) return false;
    throw error;
  }
}

function fileOf(name: string, params: StdioServerParams, workspace: string): string | undefined {
  try {
    return settingsFileOf(wantedSandbox(name, params), workspace);
  } catch (error) {
    if (error instanceof ConfigError) return undefined; // said when the server is started
    throw error;
  }
}

/** What a command line of `srt`, the sandbox runtime, says. */
interface SrtCommandLine {
  /** The settings file that it names. */
  readonly settings: string | undefined;
  /** The program that it runs. */
  readonly command: string;
  /** The program's arguments. */
  readonly args: readonly string[];
}

/** Reads a server's command line that starts with `srt`. */
export function parseSrtCommand(
  serverName: string,
  command: string,
  args: readonly string[],
): SrtCommandLine | undefined {
  if (basename(command) !== "srt") return undefined;
  let settings: string | undefined;
  for (let at = 0; at < args.length; at++) {
    const [option = "", value] = splitOption(args[at] ?? "");
    switch (option) {
      case "-s":
      case "--settings":
        settings = value ?? args[++at];
        break;
      case "-d":
      case "--debug":
        break;
      default: {
        const [program, ...rest] = args.slice(option === "--" ? at + 1 : at);
        if (program === undefined) break;
        if (!program.startsWith("-")) return { settings, command: program, args: rest };
        throw new ConfigError(
          `Cannot start MCP server "${serverName}": ipybox does not support ${program} of srt; ` +
            'pass "srt" only "--settings FILE" and the command',
        );
      }
    }
  }
  throw new ConfigError(
    `Cannot start MCP server "${serverName}": "srt" needs a command to run`,
  );
}

function splitOption(arg: string): [string, string | undefined] {
  const at = arg.startsWith("--") ? arg.indexOf("=") : -1;
  return at === -1 ? [arg, undefined] : [arg.slice(0, at), arg.slice(at + 1)];
}
