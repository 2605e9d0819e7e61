import { dirname, join } from "node:path";
import { removeFromWorkspace } from "../process/remove_tree.ts";

/** Removes the Python package of a server. Neither it nor the folder above it may be a link. */
export async function removePackage(root: string, server: string): Promise<boolean> {
  const path = join(root, server);
  try {
    for (const folder of [root, path]) {
      if (!(await Deno.lstat(folder)).isDirectory) return false;
    }
    await removeFromWorkspace(path, dirname(root));
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}
