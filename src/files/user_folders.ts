import { isAbsolute, join } from "node:path";
import { codeOf } from "../base/message_of.ts";
import { hostEnv } from "../base/permission.ts";

/** The folder that holds the logins to remote MCP servers. Executed code must never see it. */
export function loginsFolder(): string | undefined {
  const state = stateFolder();
  return state === undefined ? undefined : join(state, "logins");
}

/**
 * The folder of what ipybox remembers for the user, such as logins, which servers they
 * registered and which policies of workspaces they accepted.
 * Executed code must never see it.
 */
export function stateFolder(): string | undefined {
  return ownFolder("XDG_STATE_HOME", ".local/state");
}

/** Whether an error says that the user's folders cannot be written to, as in some containers. */
export function isUnwritable(error: unknown): boolean {
  return error instanceof Deno.errors.PermissionDenied ||
    codeOf(error) === "EROFS";
}

/**
 * The folder of what the user has set for all workspaces, such as a policy. Executed code must never
 * write there.
 */
export function settingsFolder(): string | undefined {
  return ownFolder("XDG_CONFIG_HOME", ".config");
}

/** The folder that says which sessions of `ipybox mcp` run. Executed code must never see it. */
export function sessionsFolder(): string | undefined {
  const state = stateFolder();
  return state === undefined ? undefined : join(state, "sessions");
}

/**
 * The folder of what can be made again: Python environments, and folders in which programs are started.
 */
export function cacheFolder(): string | undefined {
  return ownFolder("XDG_CACHE_HOME", Deno.build.os === "darwin" ? "Library/Caches" : ".cache");
}

/** The folder of what belongs to the user and is not a setting, such as the workspaces of projects. */
export function dataFolder(): string | undefined {
  return ownFolder("XDG_DATA_HOME", ".local/share");
}

function ownFolder(variable: string, inHome: string): string | undefined {
  const set = hostEnv(variable);
  if (set !== undefined && isAbsolute(set)) return join(set, "ipybox");
  const home = hostEnv("HOME");
  return home === undefined || home === "" ? undefined : join(home, inHome, "ipybox");
}
