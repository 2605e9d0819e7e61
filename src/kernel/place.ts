import type { EffectiveLimits, Rlimits } from "../sandbox/limits.ts";
import type { SelfTestReport } from "../sandbox/selftest.ts";
import type { ProcessEvidence } from "../base/errors.ts";
import type { CopiedFolders } from "./far_files.ts";
import type { LauncherProcess } from "./launch.ts";
import type { SessionPaths } from "./session_folder.ts";
import type { SupervisedLauncher } from "./supervisor.ts";

/**
 * Where kernels run: a launcher that was started there, and what is where. The sandbox of this machine is
 * one, what a placement leads to are others.
 */
export interface Place {
  /** The session's folders there. */
  readonly paths: SessionPaths;
  /** The working directory of kernels there. */
  readonly workspace: string;
  /** The Python there. */
  readonly python: {
    readonly executable: string;
    readonly checker: string | undefined;
  };
  /** Where programs are looked for there. */
  readonly path: string;
  /** What has to be copied there, where nothing of this machine is seen there. */
  readonly copied?: CopiedFolders;
  /** The variables that the launcher has and kernels get. */
  readonly inherit: readonly string[];
  /** What one process of executed code may take, so that errors can say so. */
  readonly limits: EffectiveLimits;
  /** What of it the launcher sets. */
  readonly rlimits: Rlimits;
  /** Whether there are walls around it. */
  readonly sandboxed: boolean;
  /** The launcher. */
  readonly process: LauncherProcess;
  /** The same, where it outlives this process. */
  readonly lasting?: SupervisedLauncher | undefined;
  /** Has the launcher start, if it waits for that. */
  begin(): Promise<void>;
  /** Refuses a place whose walls do not hold. */
  judge(report: SelfTestReport): void;
  /** Says why the launcher has ended before it said anything. */
  explain(last: ProcessEvidence, cause: unknown): Promise<Error>;
}
