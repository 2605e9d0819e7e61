import { hostEnv } from "../base/permission.ts";
import { hostPath, type ProgramPath } from "../process/program.ts";
import type { Logger } from "../base/log.ts";
import type { SandboxConfig } from "./config.ts";
import { guarded } from "./sandbox.ts";
import { writeSettings } from "./wall.ts";
import { effectiveLimits } from "./limits.ts";
import { sandboxSettings } from "./settings.ts";
import { trustedPath } from "../process/trusted_path.ts";
import { findSrt } from "./srt.ts";
import { userFolders } from "./workspace.ts";

/** A program that is run once in its own sandbox, with the limits that executed code has. */
export interface ConfinedProgram {
  /** The program, by its path, and its arguments. */
  readonly command: readonly string[];
  /** Its own variables, besides those that lead it to the sandbox's proxy. */
  readonly env: Readonly<Record<string, string>>;
  /** A folder that it may write. It is its working directory. */
  readonly session: string;
  /** Further folders that it may write. It cannot move or remove them. */
  readonly writable: readonly string[];
  /** What else it may read. */
  readonly readable: readonly string[];
  /** A folder that only the host sees. It exists. */
  readonly hostPrivate: string;
  /** The hosts that it may reach. */
  readonly hosts: readonly string[];
  /** What the user adds to the settings of sandboxes. */
  readonly config?: SandboxConfig;
}

/** Variables that say how the host itself reaches the network. */
const PROXIES = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"]
  .flatMap((name) => [name, name.toLowerCase()]);

/** Says how a program is started in its own sandbox. */
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
  // `srt` has its own variables for its proxy, which the program has to keep.
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
      ...Object.fromEntries(PROXIES.flatMap((name) => {
        const value = hostEnv(name);
        return value === undefined ? [] : [[name, value]];
      })),
      PATH: path,
      LANG: "C.UTF-8",
      HOME: hostPrivate, // srt lets code inside write to some folders below it
      ...launch.env,
      CLAUDE_CODE_TMPDIR: `${session}/tmp`,
      ...srt.env,
    },
  };
}
