import { isAbsolute, join } from "node:path";
import { hostEnv } from "./host_env.ts";

/**
 * The folder that holds the logins to remote MCP servers. Executed code must never see it.
 *
 * @returns `$XDG_STATE_HOME/ipybox/logins`, by default below `~/.local/state`; `undefined` where
 * neither variable is set or may be read.
 */
export function loginsFolder(): string | undefined {
  const state = hostEnv("XDG_STATE_HOME");
  if (state !== undefined && isAbsolute(state)) return join(state, "ipybox", "logins");
  const home = hostEnv("HOME");
  return home === undefined ? undefined : join(home, ".local", "state", "ipybox", "logins");
}
