import { hostEnv, hostEnvs } from "../base/permission.ts";
import { hostPath, type ProgramPath } from "../process/program.ts";
import type { Logger } from "../base/log.ts";
import type { SandboxConfig } from "./config.ts";
import { guarded, PROXY_VARIABLES } from "./sandbox.ts";
import { writeSettings } from "./wall.ts";
import { effectiveLimits } from "./limits.ts";
import { sandboxSettings } from "./settings.ts";
import { trustedPath } from "../process/trusted_path.ts";
import { findSrt, srtEnvironment } from "./srt.ts";
import { userFolders } from "./workspace.ts";

/** A program that runs once in its own sandbox, with the limits of executed code. */
interface ConfinedProgram {
  /** The program's path and its arguments. */
  readonly command: readonly string[];
  /** Its variables, besides those for the sandbox's proxy. */
  readonly env: Readonly<Record<string, string>>;
  /** A folder that it may write to, which is its working directory. */
  readonly session: string;
  /** More folders that it may write to, but not move or remove. */
  readonly writable: readonly string[];
  /** Other paths that it may read. */
  readonly readable: readonly string[];
  /** An existing folder that only the host can see. */
  readonly hostPrivate: string;
  /** The hosts that it may reach. */
  readonly hosts: readonly string[];
  /** The user's additional sandbox settings. */
  readonly config?: SandboxConfig;
}

/** Determines how to start a program in its own sandbox. */
export async function confine(
  program: ConfinedProgram,
  options: { readonly log: Logger; readonly signal: AbortSignal },
): Promise<{ command: ProgramPath; args: string[]; env: Record<string, string> }> {
  const { session, writable, hostPrivate, config = {} } = program;
  const path = await trustedPath(hostPath(), [session, ...writable]);
  const srt = await findSrt({ path, ...options });
  const home = hostEnv("HOME");
  const settings = sandboxSettings({
    writable: [session, ...writable],
    readOnly: [],
    hostPrivate,
    base: session,
    protectedPaths: { unreadable: await userFolders(), readOnly: [] },
    readable: [...program.readable, ...srt.readable],
    config: {
      ...config,
      network: {
        ...config.network,
        allowedDomains: [...config.network?.allowedDomains ?? [], ...program.hosts],
      },
    },
    home,
  });
  // `srt` sets variables for its proxy, which the program must keep.
  const own = Object.entries(program.env).map(([name, value]) => `${name}=${value}`);
  const command = await guarded(["/usr/bin/env", ...own, ...program.command], {
    hostPrivate,
    cwd: session,
    limits: effectiveLimits(undefined, { sandboxed: true }),
  });
  const launch = await writeSettings({ srt, settings, hostPrivate, workspace: session, command });
  return {
    command: launch.command,
    args: [...launch.args],
    env: {
      ...hostEnvs(PROXY_VARIABLES),
      LANG: "C.UTF-8",
      ...launch.env,
      ...srtEnvironment(srt, { path, hostPrivate, temporary: `${session}/tmp` }),
    },
  };
}
