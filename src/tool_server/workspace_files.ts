import { type Logger, stderrLogger } from "../log.ts";
import { hasOwnDotenv } from "../mcp/dotenv_file.ts";
import { presentSettings } from "../mcp/sandbox_settings.ts";
import type { VariableLookup } from "../mcp/server_params.ts";
import { variableLookup } from "../mcp/variables.ts";
import { ConsentFile } from "../policy/consent_file.ts";
import type { ServerRegistry } from "./server_registry.ts";
import type { ToolRunnerOptions } from "./tool_runner_options.ts";

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
