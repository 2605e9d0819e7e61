import { join, resolve } from "node:path";
import { ConfigError } from "../errors.ts";
import { reliablePath } from "../process/reliable_path.ts";
import { isInside } from "../process/trusted_path.ts";
import { isPlainFile } from "./hostile_files.ts";
import type { ServerParams, StdioServerParams } from "./server_params.ts";
import { parseSrtCommand } from "./srt_command.ts";

/** How a server's parameters want it closed in. */
export interface WantedSandbox {
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
      `Cannot start MCP server "${serverName}": leave out "sandbox", as its command is srt`,
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
export async function requireTrusted(
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
  if (!isInside(settings, workspace) || isInside(settings, join(workspace, ".ipybox"))) return;
  throw new ConfigError(
    `Cannot start MCP server "${serverName}": ${settings} is where executed code may write. Move ` +
      "these settings to .ipybox/ or out of the workspace, or start anew with the server registered",
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
