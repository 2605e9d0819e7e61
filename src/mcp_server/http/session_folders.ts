import { dirname, join } from "node:path";
import { isPlainFolder, makePlainFolder } from "../../mcp/hostile_files.ts";

/**
 * The folders of a workspace's sessions. They are in its `.ipybox`, where neither the workspace's own
 * code nor that of other sessions sees them.
 *
 * @param workspace The workspace.
 * @returns The folder that they are in.
 */
export function sessionFolders(workspace: string): string {
  return join(workspace, ".ipybox", "sessions");
}

/**
 * Makes the folder of all sessions, and keeps others from cleaning it up.
 *
 * @param workspace The workspace.
 * @returns Disposing it lets them. The system does so when this process dies.
 * @throws {ConfigError} Something else is in its place.
 */
export async function useSessionFolders(workspace: string): Promise<Disposable> {
  const folder = sessionFolders(workspace);
  await makePlainFolder(dirname(folder));
  await makePlainFolder(folder);
  const lock = await openLock(folder);
  try {
    await lock.lock(false); // shared with other servers of this workspace
    return lock;
  } catch (error) {
    lock.close();
    throw error;
  }
}

/**
 * Does something with a workspace's sessions while no process uses any of them.
 *
 * @param workspace The workspace.
 * @param visit What is done; it gets the folder that they are in.
 * @returns Whether it was done, or there are none: `false` means that they are in use.
 */
export async function whileUnused(
  workspace: string,
  visit: (folder: string) => Promise<void>,
): Promise<boolean> {
  const folder = sessionFolders(workspace);
  if (!await isPlainFolder(dirname(folder)) || !await isPlainFolder(folder)) return true;
  using lock = await openLock(folder);
  if (!await lock.tryLock(true)) return false;
  await visit(folder);
  return true;
}

async function openLock(folder: string): Promise<Deno.FsFile> {
  return await Deno.open(join(folder, "lock"), { create: true, write: true, mode: 0o600 });
}
