import { basename, dirname, join } from "node:path";
import { ConfigError } from "../errors.ts";
import { mayRead } from "../process/permission.ts";
import { isInside } from "../process/trusted_path.ts";
import { settingsFolder, stateFolder } from "../process/user_folders.ts";

/**
 * Finds the user's folders of ipybox, which no sandbox opens, whatever its settings say: that of what
 * ipybox remembers, such as logins to MCP servers, and that of the settings for all workspaces.
 */
export async function userFolders(): Promise<string[]> {
  const folders = [stateFolder(), settingsFolder()].filter((folder) => folder !== undefined);
  const real = await Promise.all(folders.map(realPathIfPresent));
  return real.filter((folder) => folder !== undefined);
}

/** Checks that code with a workspace could not make the user's folders, or what is in them. */
export async function refuseUserFoldersIn(workspace: string): Promise<void> {
  const kept = [
    ["logins to MCP servers are", stateFolder()],
    ["the user's settings for all workspaces are", settingsFolder()],
  ] as const;
  for (const [what, folder] of kept) {
    if (folder === undefined || !isInside(await realPlace(folder), workspace)) continue;
    throw new ConfigError(
      `Cannot use ${workspace} as workspace: ${what} kept in ${folder}; choose a folder of its own`,
    );
  }
}

/** Where a folder is, or would be made: a folder above it may be a link. */
async function realPlace(path: string): Promise<string> {
  const real = await realPathIfPresent(path);
  if (real !== undefined) return real;
  const above = dirname(path);
  return above === path ? path : join(await realPlace(above), basename(path));
}

async function realPathIfPresent(path: string): Promise<string | undefined> {
  if (!mayRead(path)) return undefined; // nor can it be used then
  try {
    return await Deno.realPath(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    if (error instanceof Deno.errors.PermissionDenied) return undefined; // nor can it be used then
    throw error;
  }
}
