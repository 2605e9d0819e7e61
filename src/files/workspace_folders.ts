/**
 * User folders that belong to workspaces, such as those for their packages. A file in each contains the
 * path of its workspace.
 *
 * @module
 */
import { join } from "node:path";
import { sha256 } from "../json/digest.ts";
import { removeTree } from "./remove_tree.ts";

/** The file with the real path of the workspace. */
export const WORKSPACE = "workspace";

/** The name of the folder, or the file, that belongs to a workspace, by its real path. */
export function nameFor(workspace: string): string {
  return sha256(workspace).slice(0, 32);
}

/** A folder of a workspace that no longer exists. */
export interface Abandoned {
  readonly path: string;
  readonly workspace: string;
}

/** Finds the folders in `root` whose workspaces no longer exist. */
export async function abandonedIn(root: string | undefined): Promise<Abandoned[]> {
  const found: Abandoned[] = [];
  if (root === undefined || !await isThere(root)) return found;
  for await (const { name } of Deno.readDir(root)) {
    const path = join(root, name);
    const workspace = await Deno.readTextFile(join(path, WORKSPACE)).catch(() => undefined);
    if (workspace?.startsWith("/") && !await isThere(workspace)) found.push({ path, workspace });
  }
  return found;
}

/** Removes an abandoned folder. Code may have written files in it. */
export async function discardAbandoned(path: string): Promise<void> {
  await removeTree(path, { through: join(path, "../.removed") });
}

/** Whether a path exists, or may exist if this cannot be determined. */
export async function isThere(path: string): Promise<boolean> {
  return await Deno.lstat(path).then(
    () => true,
    (error) => !(error instanceof Deno.errors.NotFound),
  );
}
