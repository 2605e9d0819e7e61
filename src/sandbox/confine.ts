import { PROXY_VARIABLES } from "../base/host_variables.ts";
import { hostEnvs } from "../base/permission.ts";
import type { Logger } from "../base/log.ts";
import { hostPath, type ProgramPath } from "../process/program.ts";
import type { SandboxConfig } from "./config.ts";
import { effectiveLimits } from "./limits.ts";
import { enclose, hostPython } from "./wall.ts";
import { userFolders } from "./workspace.ts";

/** The needs of a program besides its own files. */
export interface Needs {
  readonly readable: readonly string[];
  /** The hosts to reach. */
  readonly hosts: readonly string[];
}

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
  /** Its other needs, if any: its sandbox starts while they are still being determined. */
  readonly needs?: Promise<Needs>;
  /** Paths in these that it must not see. */
  readonly hidden?: readonly string[];
  /** An existing folder that only the host can see. */
  readonly hostPrivate: string;
  /** The user's additional sandbox settings. */
  readonly config?: SandboxConfig;
  /**
   * A Python that code cannot have changed, which makes the sandbox.
   *
   * @default {"python3"} on the `PATH`
   */
  readonly python?: string;
}

/** How to start a program in its own sandbox. */
export interface Confined {
  readonly command: ProgramPath;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** The whole text to write to its stdin. Until then, it starts nothing. */
  readonly settings?: Promise<string>;
}

/** Determines how to start a program in its own sandbox. */
export async function confine(
  program: ConfinedProgram,
  options: { readonly log: Logger; readonly signal: AbortSignal },
): Promise<Confined> {
  const { session, writable, hostPrivate, config, needs } = program;
  const python = await hostPython(session, program.python);
  const limits = effectiveLimits(undefined, { sandboxed: true });
  const temporary = `${session}/tmp`;
  await Deno.mkdir(temporary, { recursive: true });
  // `srt` sets variables for its proxy, which the program must keep.
  const own = Object.entries(program.env).map(([name, value]) => `${name}=${value}`);
  const mask = [...await userFolders(), ...program.hidden ?? []];
  const { env, ...launch } = await enclose({
    contents: Promise.resolve(needs).then(({ readable, hosts } = { readable: [], hosts: [] }) => ({
      view: {
        show: [...program.readable, ...readable],
        write: [session, ...writable],
        keep: [],
        mask,
      },
      command: ["/usr/bin/env", ...own, ...program.command],
      hosts,
    })),
    base: session,
    cwd: session,
    path: hostPath(),
    untrusted: writable,
    early: needs !== undefined,
    ...{ hostPrivate, temporary, python, config, limits, ...options },
  });
  return { ...launch, env: { ...hostEnvs(PROXY_VARIABLES), LANG: "C.UTF-8", ...env } };
}
