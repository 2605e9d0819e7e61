import { ConfigError } from "../../base/errors.ts";
import { refuseUnfit } from "../../sandbox/workspace.ts";
import type { SessionOptions } from "../session.ts";

/** Rejects sharing a workspace that would expose too much. */
export async function refuseUnshareable(
  workspace: string,
  sandbox: SessionOptions["sandbox"],
): Promise<void> {
  if (sandbox === false) {
    throw new ConfigError(
      "Cannot share the workspace without the sandbox, which keeps code from writing to it",
    );
  }
  if (typeof sandbox === "object" && sandbox.project !== undefined) {
    throw new ConfigError(
      `Cannot share the workspace in addition to the project ${sandbox.project}, which code reads: remove ` +
        "one of them",
    );
  }
  await refuseUnfit(workspace);
}
