import { dirname, join } from "node:path";
import { ConfigError } from "../errors.ts";
import { hostEnv } from "../process/host_env.ts";
import { isInside } from "../process/trusted_path.ts";
import { lstatIfAllowed } from "../process/reliable_path.ts";
import { STATE_FOLDER } from "./protected_paths.ts";

/** Whether a folder is too wide for a workspace: code could read the whole home directory. */
export function isWide(folder: string): boolean {
  const home = hostEnv("HOME");
  return folder === "/" || (home !== undefined && isInside(home, folder));
}

/** Finds the workspaces that a file or folder lies in. */
export async function workspacesAbove(path: string): Promise<string[]> {
  const found: string[] = [];
  const owner = (await lstatIfAllowed(path))?.uid;
  for (let folder = dirname(path); !isWide(folder); folder = dirname(folder)) {
    if (await hasState(folder, owner)) found.push(folder);
  }
  return found;
}

/**
 * Refuses a workspace in another one: the code of that one could write what this one's host obeys.
 */
export async function refuseNested(workspace: string): Promise<void> {
  const [outer] = await workspacesAbove(workspace);
  if (outer === undefined) return;
  throw new ConfigError(
    `Cannot use ${workspace} as workspace: it lies in the workspace ${outer}, whose code may have ` +
      `written here what ipybox would obey. If ${outer} is no workspace any more, remove ` +
      `${
        join(outer, STATE_FOLDER)
      }; if you trust what its code did, --nested-workspace (\`nestedWorkspace\`) accepts it`,
  );
}

/** Refuses a workspace with others in it, whose files its code could change. */
export function refuseNesting(workspace: string, states: readonly string[]): void {
  const [first] = states;
  if (first === undefined) return;
  throw new ConfigError(
    `Cannot use ${workspace} as workspace: it holds the workspace ${dirname(first)}, whose files ` +
      `its code could change. Choose a folder of its own; if ${
        dirname(first)
      } is no workspace any ` +
      `more, remove ${first}; --nested-workspace (\`nestedWorkspace\`) accepts it`,
  );
}

/** Another user's folder does not count: their code cannot write to the files of this one. */
async function hasState(folder: string, owner: number | null | undefined): Promise<boolean> {
  const state = await lstatIfAllowed(join(folder, STATE_FOLDER));
  return state !== undefined && (owner === undefined || state.uid === owner);
}
