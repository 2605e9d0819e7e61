import { basename, resolve } from "node:path";
import { ConfigError, McpConnectionError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import { HeldFolder, PrivateFolder } from "../files/private_folder.ts";
import { readNamedFile } from "../sandbox/named_file.ts";
import {
  namedProgram,
  programOf,
  type ProgramPath,
  type ProgramSearch,
} from "../process/program.ts";
import { isInside, reliablePath, trustedPath } from "../process/trusted_path.ts";
import { sandboxServer, type ServerProgram, type SettingsFile } from "../sandbox/servers.ts";
import { requireOwnProgram } from "../sandbox/workspace.ts";
import { inheritedEnvironment, type ServerParams, type StdioServerParams } from "./params.ts";

/** Options of {@linkcode launchStdio} besides the server's parameters. */
interface StdioLaunchOptions {
  /** The workspace, which executed code can write to. */
  readonly workspace?: string;
  /** The settings file of its sandbox, if that was read before. */
  readonly settings?: SettingsFile | undefined;
  /** Takes resources to dispose of when the server has ended. */
  readonly belongings: AsyncDisposableStack;
  /** Receives the sandbox's messages. */
  readonly log: Logger;
  /** Cancels the start. */
  readonly signal: AbortSignal;
}

/** A process to start. */
interface StdioLaunch extends ServerProgram {
  /** The folder that was created for it, if that is its working directory. */
  readonly ownFolder: string | undefined;
  /** Whether it runs in its own sandbox. */
  readonly sandboxed: boolean;
}

/** Determines how a server's process is started: the folder, the environment and the sandbox. */
export async function launchStdio(
  serverName: string,
  params: StdioServerParams,
  options: StdioLaunchOptions,
): Promise<StdioLaunch> {
  const { workspace, belongings, log, signal } = options;
  const base = resolve(workspace ?? ".");
  const wanted = wantedSandbox(serverName, params);
  const given = params.cwd === undefined ? undefined : await folderOf(serverName, params.cwd, base);
  const env: Record<string, string> = {
    ...await inheritedEnvironment(workspace),
    ...(basename(wanted.command) === "npx" ? NPX_RETRIES : {}),
    // Files written beside its code would count as a change of the code.
    ...(isOfWorkspace(params, base) ? { PYTHONDONTWRITEBYTECODE: "1" } : {}),
    ...params.env,
  };
  // Its own search path must not lead it to files that executed code wrote either.
  if (env.PATH !== undefined) env.PATH = await trustedPath(env.PATH, [base]);
  const makeFolder = async () => belongings.use(await makeFolderFor(serverName, log)).path;
  const programIn = async (folder: string) =>
    await serverProgram(serverName, wanted.command, { path: env.PATH, untrusted: [base], folder });
  if (wanted.sandbox === "none") {
    const cwd = given ?? await makeFolder();
    const command = await programIn(cwd);
    const start = { command, args: wanted.args, env };
    if (given === undefined) return { ...start, cwd, ownFolder: cwd, sandboxed: false };
    const there = await startedThere(given, start, base);
    return { ...there, cwd, ownFolder: undefined, sandboxed: false };
  }
  const { settings = await readSettings(serverName, params, base) } = options;
  const folder = await makeFolder();
  const openReads = wanted.sandbox === "srt";
  // In a command line with `srt`, relative paths have the meaning that srt gives them.
  const cwd = given ?? (openReads ? await Deno.realPath(base) : folder);
  // `npx` prefers packages that it finds in the working directory, where code may have put them.
  const isExposed = basename(wanted.command) === "npx" && isInside(cwd, base);
  const program = {
    command: await programIn(cwd),
    args: isExposed ? ["--prefix", folder, ...wanted.args] : wanted.args,
    env: { PYTHONSAFEPATH: "1", ...env },
    cwd,
  };
  const sandboxed = await sandboxServer(program, {
    folder,
    hostPrivate: belongings.use(await HeldFolder.create({ log })).path, // short enough for srt's sockets
    workspace: base,
    settings,
    openReads,
    log,
    signal,
  });
  return { ...sandboxed, ownFolder: cwd === folder ? folder : undefined, sandboxed: true };
}

/** Rejects a working directory that code could redirect with a symbolic link. */
async function folderOf(serverName: string, cwd: string, workspace: string): Promise<string> {
  const what = `working directory of MCP server "${serverName}"`;
  return await reliablePath(resolve(workspace, cwd), { workspace, what });
}

/** Whether a server's command line names files among the workspace's settings. */
function isOfWorkspace({ command, args = [] }: StdioServerParams, workspace: string): boolean {
  return [command, ...args].some((text) => text.includes(`${workspace}/.ipybox/`));
}

/** Runs a program only if the physical path of the working directory is the expected one. */
const IN_FOLDER = `[ "$(pwd -P)" = "$1" ] || {
  echo "The working directory $1 was replaced by a link to $(pwd -P), so the server was not started" >&2
  exit 125
}
shift
exec "$@"`;

/** Runs a program only if its folder is no link: code could have put one there since it was checked. */
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

/** Without a network, `npx` would retry for minutes before it reports an error. */
const NPX_RETRIES: Readonly<Record<string, string>> = {
  npm_config_fetch_retry_mintimeout: "1000",
  npm_config_fetch_retry_maxtimeout: "2000",
};

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

async function makeFolderFor(serverName: string, log: Logger): Promise<PrivateFolder> {
  try {
    return await PrivateFolder.create(log);
  } catch (cause) {
    if (!(cause instanceof Deno.errors.NotCapable)) throw cause;
    throw new ConfigError(
      `Cannot create a working directory for MCP server "${serverName}": allow reading and writing ` +
        `~/.cache/ipybox/run, or give the server a "cwd" that executed code cannot write to`,
      { cause },
    );
  }
}

/** The sandbox that a server's parameters ask for. */
interface WantedSandbox {
  readonly command: string;
  readonly args: readonly string[];
  /** `"closed"` denies everything that is not allowed; `"srt"` behaves like the `srt` command. */
  readonly sandbox: "none" | "closed" | "srt";
  /** The settings file, as written in the parameters. */
  readonly settings: string | undefined;
}

/** Reads which sandbox a server's parameters ask for. */
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

/** Resolves the path of a server's sandbox settings. */
function settingsPath({ settings }: WantedSandbox, workspace: string): string | undefined {
  const base = resolve(workspace);
  if (settings === undefined) return undefined;
  return resolve(base, settings.replaceAll("${workspaceFolder}", base));
}

/** The settings file of a server's sandbox, and whether code of a workspace could change it. */
export interface ReadSettings extends SettingsFile {
  readonly isInWorkspace: boolean;
}

/** Reads the settings of a server's sandbox, once for each start; `undefined` if it names none. */
export async function readSettings(
  serverName: string,
  params: StdioServerParams,
  workspace: string,
): Promise<ReadSettings | undefined> {
  const path = settingsPath(wantedSandbox(serverName, params), workspace);
  if (path === undefined) return undefined;
  const what = `sandbox settings of MCP server "${serverName}"`;
  try {
    const file = await readNamedFile(path, { workspace, what });
    return { path, text: file?.text ?? null, isInWorkspace: file?.place !== undefined };
  } catch (problem) {
    if (!(problem instanceof ConfigError)) throw problem;
    return { path, text: null, isInWorkspace: true, problem }; // for the start, which needs it
  }
}

/** Makes the path of sandbox settings absolute. */
export function withSettingsOf(
  workspace: string,
  [name, params]: readonly [string, ServerParams],
): ServerParams {
  if (!("command" in params)) return params;
  const wanted = wantedSandbox(name, params);
  const settings = settingsPath(wanted, workspace);
  if (settings === undefined || settings.startsWith(`${workspace}/\${`)) return params; // a variable holds an absolute path
  return wanted.sandbox === "srt"
    ? { ...params, args: ["--settings", settings, wanted.command, ...wanted.args] }
    : { ...params, sandbox: settings };
}

/** The parts of a command line of `srt`, the sandbox runtime. */
type SrtCommandLine = Omit<WantedSandbox, "sandbox">;

/** Parses a server's command line if it starts with `srt`. */
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
