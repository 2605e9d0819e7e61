import { resolve } from "node:path";
import type { Logger } from "../log.ts";
import { hostEnv } from "../process/host_env.ts";
import { trustedPath } from "../process/trusted_path.ts";
import { readDotenv } from "./dotenv_file.ts";
import { type VariableLookup, WORKSPACE_VARIABLE } from "./server_params.ts";

/** What every server started as a process gets of the host's environment. No secrets are in it. */
const INHERITED: readonly string[] = [
  "HOME",
  "LOGNAME",
  "PATH",
  "SHELL",
  "TERM",
  "USER",
  // Where the network's certificates are of a company's own, nothing is downloaded without these.
  "NODE_EXTRA_CA_CERTS",
  "SSL_CERT_DIR",
  "SSL_CERT_FILE",
];

/** Options of {@linkcode variableLookup}. */
export interface VariableLookupOptions {
  /**
   * Whether the workspace's `.env` is read.
   *
   * @default {true}
   */
  readonly dotenv?: boolean;
  /** Told of a `.env` that is left alone. */
  readonly log?: Logger | undefined;
}

/**
 * Makes the lookup for `${VAR}`: the host's environment first, then the workspace's `.env`.
 *
 * The environment comes first because code in the sandbox may be able to write a `.env`, and must
 * not be able to send a server, with the host's secrets, to another place.
 */
export async function variableLookup(
  workspace?: string,
  options: VariableLookupOptions = {},
): Promise<VariableLookup> {
  const { dotenv: read = true, log } = options;
  const file = workspace === undefined || !read ? {} : await readDotenv(workspace, log);
  const dotenv = new Map(Object.entries(file));
  return (name) => {
    if (name === WORKSPACE_VARIABLE && workspace !== undefined) return resolve(workspace);
    return Deno.env.get(name) ?? dotenv.get(name);
  };
}

/** The part of the host's environment that servers inherit. */
export async function inheritedEnvironment(
  workspace: string = "",
): Promise<Record<string, string>> {
  const untrusted = workspace === "" ? [] : [resolve(workspace)];
  const environment: Record<string, string> = {};
  for (const name of INHERITED) {
    const value = hostEnv(name);
    if (value === undefined) continue;
    environment[name] = name === "PATH" ? await trustedPath(value, untrusted) : value;
  }
  return environment;
}
