import type { EffectiveLimits, Rlimits } from "../sandbox/limits.ts";
import type { SelfTestReport } from "../sandbox/selftest.ts";
import type { Logger } from "../base/log.ts";
import type { PlaceOptions } from "../executor/options.ts";
import type { CopiedFolders } from "./copied_folders.ts";
import type { KernelDoorTarget, LauncherProcess } from "./launch.ts";
import type { SessionPaths } from "./session_folder.ts";
import type { SessionAddress, SupervisedLauncher } from "./supervisor.ts";

/** Options of `KernelGateway.start()`. */
export interface KernelGatewayOptions extends PlaceOptions {
  /**
   * The path of a Python that has `jupyter_kernel_gateway` and `ipykernel`, at the placement if
   * there is one.
   *
   * @default with a placement, the image's, or `python3`; required without one
   */
  python?: string;
  /** The working directory of kernels. It must exist. */
  workspace: string;
  /**
   * Folders with further Python packages for kernels, which can only read them. They must exist.
   * With an environment's `site-packages`, code also finds its programs.
   *
   * @default {[]}
   */
  packages?: readonly string[];
  /**
   * The one address on the host that code in kernels can reach, at `IPYBOX_TOOL_URL`, such as
   * `tcp://127.0.0.1:41234`; or a function that takes their connections without an address.
   */
  kernelDoor?: KernelDoorTarget;
  /**
   * The token that code in all its kernels sends there, in `IPYBOX_TOOL_TOKEN`. For one per kernel, use
   * `KernelClientOptions.toolToken`.
   */
  kernelToken?: string;
  /**
   * Receives log messages, such as warnings about weaker protection.
   *
   * @default nothing is logged
   */
  log?: Logger;
}

/** The state of a session that outlives its host. */
export interface DurableSession extends Omit<SessionAddress, "socket" | "where"> {
  /** The Python that runs its supervisor, if kernels are elsewhere. */
  readonly python?: string | undefined;
  /** Its folder. It exists, and only the host sees it. */
  readonly folder: string;
  /** How long it lasts without a host, in milliseconds. */
  readonly idleMs: number;
  /** Its maximum lifetime, in milliseconds. */
  readonly maxMs: number;
  /** Called with its address, before it can be found there. */
  readonly onSocket: (address: SessionAddress) => Promise<void>;
}

/** The parameters for starting a launcher in a place. */
export interface PlaceStart {
  readonly options: KernelGatewayOptions;
  readonly deadline: AbortSignal;
  /** A port of this machine that must not be reachable there. */
  readonly canaryPort: number;
  /** The durable session, if it outlives this process. */
  readonly session: DurableSession | undefined;
}

/** The place where kernels run, with a started launcher. */
export interface Place {
  /** The session's folders there. */
  readonly paths: SessionPaths;
  /** The working directory of kernels there. */
  readonly workspace: string;
  readonly python: {
    readonly executable: string;
    readonly checker: string | undefined;
    /** Variables that it needs to start, and its packages to find their data. */
    readonly variables: Readonly<Record<string, string>>;
  };
  /** The variables of the place that kernels get. */
  readonly environment: Readonly<Record<string, string>>;
  /** The search path for programs there. */
  readonly path: string;
  /** The folders to copy there if this machine's files are not visible there. */
  readonly copied?: CopiedFolders;
  /** The variables that the launcher has and kernels get. */
  readonly inherit: readonly string[];
  /** The limits of a process of executed code, for error messages. */
  readonly limits: EffectiveLimits;
  readonly rlimits: Rlimits;
  readonly sandboxed: boolean;
  /** Whether `/tmp` there is the session's. */
  readonly hasOwnTmp: boolean;
  /** Whether code can write to ipybox's programs, which kernels run. */
  readonly exposesPrograms: boolean;
  readonly process: LauncherProcess;
  /** The same, if it outlives this process. */
  readonly supervised?: SupervisedLauncher | undefined;
  /** Starts the launcher, if it waits for that. */
  begin(): Promise<void>;
  /** Rejects a place whose sandbox does not hold. */
  judge(report: SelfTestReport): void;
}
