import { isAbsolute, join } from "node:path";
import { hostEnv } from "./host_env.ts";

/**
 * The folder that holds the logins to remote MCP servers. Executed code must never see it.
 *
 * @returns `$XDG_STATE_HOME/ipybox/logins`, by default below `~/.local/state`; `undefined` where
 * neither variable is set or may be read.
 */
export function loginsFolder(): string | undefined {
  const state = ownFolder("XDG_STATE_HOME", ".local/state");
  return state === undefined ? undefined : join(state, "logins");
}

/**
 * The folder of what the user has set for all workspaces, such as a policy. Executed code must never
 * write there.
 *
 * @returns `$XDG_CONFIG_HOME/ipybox`, by default below `~/.config`; `undefined` where neither variable
 * is set or may be read.
 */
export function settingsFolder(): string | undefined {
  return ownFolder("XDG_CONFIG_HOME", ".config");
}

/**
 * The folder that says which sessions of `ipybox mcp` run. Executed code must never see it.
 *
 * @returns `$XDG_STATE_HOME/ipybox/sessions`, by default below `~/.local/state`; `undefined` where
 * neither variable is set or may be read.
 */
export function sessionsFolder(): string | undefined {
  const state = ownFolder("XDG_STATE_HOME", ".local/state");
  return state === undefined ? undefined : join(state, "sessions");
}

function ownFolder(variable: string, inHome: string): string | undefined {
  const set = hostEnv(variable);
  if (set !== undefined && isAbsolute(set)) return join(set, "ipybox");
  const home = hostEnv("HOME");
  return home === undefined ? undefined : join(home, inHome, "ipybox");
}
