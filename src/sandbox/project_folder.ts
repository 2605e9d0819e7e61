import { basename, join } from "node:path";
import { ConfigError } from "../errors.ts";
import { sha256 } from "../json/digest.ts";
import { isInside } from "../process/trusted_path.ts";
import { dataFolder } from "../process/user_folders.ts";
import { isWide } from "./nested_workspace.ts";
import { findProtectedPaths, STATE_FOLDER } from "./protected_paths.ts";
import { refuseUserFoldersIn } from "./user_folders.ts";

/** What a sandbox is told of a project. */
export interface ProjectPaths {
  /** What code can read. */
  readonly readable: readonly string[];
  /** What in it code cannot: its secrets, and the state of workspaces in it. */
  readonly unreadable: readonly string[];
}

/**
 * Finds what code can see of a project that it must not change. It cannot put anything there that an
 * agent program, an editor or a shell would obey, so the names of such need no protection.
 *
 * The workspace may lie in the project's own `.ipybox`, which is out of sight: so do those of sessions
 * over HTTP.
 */
export async function projectPaths(project: string, workspace: string): Promise<ProjectPaths> {
  const folder = await Deno.realPath(project);
  const isOwn = isInside(workspace, join(folder, STATE_FOLDER));
  if (!isOwn && (isInside(workspace, folder) || isInside(folder, workspace))) {
    throw new ConfigError(
      `Cannot use ${folder} as project: code writes to the workspace ${workspace}, and must not to ` +
        "the project; choose a workspace apart from it",
    );
  }
  if (isWide(folder)) {
    throw new ConfigError(
      `Cannot use ${folder} as project: code could read the whole home directory`,
    );
  }
  await refuseUserFoldersIn(folder);
  const { unreadable } = await findProtectedPaths(folder, { writable: false });
  return { readable: [folder], unreadable };
}

/**
 * Makes the workspace that belongs to a project, where it is missing. It is apart from the project, in
 * the user's data folder.
 */
export async function projectWorkspace(project: string): Promise<string> {
  const data = dataFolder();
  if (data === undefined) {
    throw new ConfigError(
      "Cannot tell where a project's workspace is, as HOME is not set: name one by --workspace",
    );
  }
  const folder = await Deno.realPath(project);
  const name = `${basename(folder)}-${sha256(folder).slice(0, 12)}`;
  const path = join(data, "workspaces", name);
  await Deno.mkdir(path, { recursive: true, mode: 0o700 });
  return await Deno.realPath(path);
}
