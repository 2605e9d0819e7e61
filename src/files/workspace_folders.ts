/**
 * Folders of the user's that belong to workspaces, such as one for the packages of each. In such a folder,
 * a file has the path of its workspace.
 *
 * @module
 */
import { join } from "node:path";
import { sha256 } from "../json/digest.ts";

/** The file in such a folder with the real path of its workspace. */
export const WORKSPACE = "workspace";

/** The name of the folder, or the file, that belongs to a workspace, by its real path. */
export function nameFor(workspace: string): string {
  return sha256(workspace).slice(0, 32);
}

/** Finds the folders in one whose workspaces no longer exist. */
export async function* abandonedIn(
  root: string,
): AsyncGenerator<{ readonly path: string; readonly workspace: string }> {
  if (!await isThere(root)) return;
  for await (const { name } of Deno.readDir(root)) {
    const path = join(root, name);
    const workspace = await Deno.readTextFile(join(path, WORKSPACE)).catch(() => undefined);
    if (workspace?.startsWith("/") && !await isThere(workspace)) yield { path, workspace };
  }
}

/** Whether a path exists, or may exist if this cannot be determined. */
export async function isThere(path: string): Promise<boolean> {
  return await Deno.lstat(path).then(
    () => true,
    (error) => !(error instanceof Deno.errors.NotFound),
  );
}
