import { type Logger, stderrLogger } from "../base/log.ts";
import { hasOwnDotenv } from "../mcp/env.ts";
import { presentSettings } from "../mcp/launch.ts";
import { type VariableLookup, variableLookup } from "../mcp/params.ts";
import { ConsentFile } from "../approval/rules/consent_file.ts";
import type { ServerRegistry } from "../servers/registry.ts";
import type { ToolRunnerOptions } from "./runner.ts";

/** What of a workspace counts for its runner: what is there before any code runs. */
export interface WorkspaceFiles {
  /**
   * Where `${VAR}` in servers' parameters comes from, unless it is the environment and the
   * workspace's `.env` at the time.
   */
  readonly variables: VariableLookup | undefined;
  /** The settings files for sandboxes of registered servers. */
  readonly settingsFiles: readonly string[];
  /** The decisions that count always, where such are kept. */
  readonly consentFile: ConsentFile | undefined;
}

/** Looks at what there is in the workspace of a runner that starts. */
export async function openWorkspaceFiles(
  registry: ServerRegistry,
  options: ToolRunnerOptions,
): Promise<WorkspaceFiles> {
  const { workspace, log = stderrLogger() } = options;
  return {
    variables: options.variables ?? await ownVariables(workspace, log),
    settingsFiles: workspace === undefined
      ? []
      : await presentSettings(registry.entries, workspace),
    consentFile: await openConsents(options, log),
  };
}

/**
 * A `.env` that is there now is out of reach for executed code, and is read whenever a server starts.
 * Where there is none, code can put one, so none is read.
 */
async function ownVariables(
  workspace: string | undefined,
  log: Logger,
): Promise<VariableLookup | undefined> {
  const hasDotenv = workspace !== undefined && await hasOwnDotenv(workspace, log);
  return hasDotenv ? undefined : await variableLookup(workspace, { dotenv: false });
}

async function openConsents(
  { workspace, consents = true }: ToolRunnerOptions,
  log: Logger,
): Promise<ConsentFile | undefined> {
  const folder = typeof consents === "string" ? consents : workspace;
  if (folder === undefined || consents === false) return undefined;
  return await ConsentFile.open(folder, log);
}
