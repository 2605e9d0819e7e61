import type { EffectiveLimits, Rlimits } from "../sandbox/limits.ts";
import type { SelfTestReport } from "../sandbox/selftest.ts";
import type { ProcessEvidence } from "../base/errors.ts";
import type { CopiedFolders } from "./far_files.ts";
import type { KernelGatewayOptions } from "./gateway.ts";
import type { LauncherProcess } from "./launch.ts";
import type { SessionPaths } from "./session_folder.ts";
import type { SessionAddress, SupervisedLauncher } from "./supervisor.ts";

/** Where a session that outlives its host has its state. */
export interface LastingSession extends Omit<SessionAddress, "socket" | "where"> {
  /** The Python that runs its supervisor, where kernels are elsewhere. */
  readonly python?: string | undefined;
  /** Its folder. It exists, and only the host sees it. */
  readonly folder: string;
  /** How long it lasts without a host, in milliseconds. */
  readonly idleMs: number;
  /** How long it lasts at all. */
  readonly maxMs: number;
  /** Called with its address, before it can be found there. */
  readonly onSocket: (address: SessionAddress) => Promise<void>;
}

/** What starts a launcher in a place. */
export interface PlaceOptions {
  readonly options: KernelGatewayOptions;
  readonly deadline: AbortSignal;
  /** A port of this machine that must not be reachable there. */
  readonly canaryPort: number;
  /** The durable session, if it outlives this process. */
  readonly session: LastingSession | undefined;
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
    /** What it needs to start, and its packages to find their data. */
    readonly variables: Readonly<Record<string, string>>;
  };
  /** The variables of the place that kernels get. */
  readonly environment: Readonly<Record<string, string>>;
  /** The search path for programs there. */
  readonly path: string;
  /** What must be copied there if this machine's files are not visible there. */
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
  readonly lasting?: SupervisedLauncher | undefined;
  /** Starts the launcher, if it waits for that. */
  begin(): Promise<void>;
  /** Rejects a place whose sandbox does not hold. */
  judge(report: SelfTestReport): void;
  /** Explains why the launcher ended before it said anything. */
  explain(last: ProcessEvidence, cause: unknown): Promise<Error>;
}
