import { basename, resolve } from "node:path";
import type { Logger } from "../log.ts";
import { isInside } from "../process/trusted_path.ts";
import { sandboxServer } from "../sandbox/server_sandbox.ts";
import { PrivateFolder } from "./private_folder.ts";
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
  readonly command: string;
  /** Its arguments. */
  readonly args: readonly string[];
  /** Its whole environment. */
  readonly env: Readonly<Record<string, string>>;
  /** Its working directory. */
  readonly cwd: string;
  /** Whether it is in a sandbox of its own. */
  readonly sandboxed: boolean;
}

/**
 * Says how a server's process is started: where, with which environment, and in which sandbox.
 *
 * @param serverName The server, for errors.
 * @param params Its parameters, filled in.
 * @param options Where executed code writes, and who is told.
 * @returns The process to start.
 * @throws {ConfigError} The parameters or the settings of its sandbox make no sense.
 * @throws {SandboxUnavailableError} The sandbox runtime is not there.
 */
export async function launchStdio(
  serverName: string,
  params: StdioServerParams,
  options: StdioLaunchOptions,
): Promise<StdioLaunch> {
  const { workspace, belongings, log, signal } = options;
  const base = resolve(workspace ?? ".");
  const wanted = wantedSandbox(serverName, params);
  const env = {
    ...inheritedEnvironment(workspace),
    ...(basename(wanted.command) === "npx" ? NPX_RETRIES : {}),
    ...params.env,
  };
  const makeFolder = async () => belongings.use(await PrivateFolder.create(serverName)).path;
  if (wanted.sandbox === "none") {
    const cwd = params.cwd === undefined ? await makeFolder() : resolve(base, params.cwd);
    return { command: wanted.command, args: wanted.args, env, cwd, sandboxed: false };
  }
  const settings = settingsFileOf(wanted, base);
  if (settings !== undefined) {
    requireTrusted(serverName, settings, { workspace: base, settingsFiles: options.settingsFiles });
  }
  const folder = await Deno.realPath(await makeFolder());
  const openReads = wanted.sandbox === "srt";
  // Whoever writes `srt` into a command line means its paths as srt does.
  const cwd = params.cwd === undefined ? openReads ? base : folder : resolve(base, params.cwd);
  const args = isInside(cwd, base) ? awayFromPlants(wanted, folder) : wanted.args;
  const program = { command: wanted.command, args, env: { PYTHONSAFEPATH: "1", ...env }, cwd };
  const sandboxed = await sandboxServer(program, {
    folder,
    hostPrivate: await Deno.realPath(await makeFolder()),
    workspace: base,
    settings,
    openReads,
    log,
    signal,
  });
  return { ...sandboxed, sandboxed: true };
}

/** Without a network, `npx` would wait for minutes before it says so. */
const NPX_RETRIES: Readonly<Record<string, string>> = {
  npm_config_fetch_retry_mintimeout: "1000",
  npm_config_fetch_retry_maxtimeout: "2000",
};

/** `npx` prefers what it finds in the working directory, where executed code may have put it. */
function awayFromPlants({ command, args }: WantedSandbox, folder: string): readonly string[] {
  return basename(command) === "npx" ? ["--prefix", folder, ...args] : args;
}
