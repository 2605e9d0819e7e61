/**
 * Files that programs in the kernels of a workspace can make again, such as matplotlib's list of fonts. It
 * outlives kernels. Code writes it, so the host reads nothing of it.
 *
 * @module
 */
import { join } from "node:path";
import { cacheFolder, isUnwritable, usableIn } from "../files/user_folders.ts";
import { nameFor, WORKSPACE } from "../files/workspace_folders.ts";

/**
 * The variables that lead programs there, and where in it. LlamaIndex leaves the data that it brings
 * unused if `NLTK_DATA` or `TIKTOKEN_CACHE_DIR` is set.
 */
const VARIABLES: Readonly<Record<string, string>> = {
  XDG_CACHE_HOME: "",
  DATA_GYM_CACHE_DIR: "tiktoken",
  MPLCONFIGDIR: "matplotlib",
  TORCHINDUCTOR_CACHE_DIR: "torchinductor",
  TRITON_CACHE_DIR: "triton",
};

/** Where the cache of a workspace is, by its real path; `undefined` if the user's cache cannot be used. */
export function cachePath(workspace: string): string | undefined {
  return usableIn(cachesFolder(), nameFor(workspace));
}

/** Makes the folder, for a workspace's real path; `undefined` if the user's cache cannot be used. */
export async function workspaceCache(workspace: string): Promise<string | undefined> {
  const own = cachePath(workspace);
  if (own === undefined) return undefined;
  const cache = join(own, "cache");
  try {
    await Deno.mkdir(cache, { recursive: true, mode: 0o700 });
    await Deno.writeTextFile(join(own, WORKSPACE), workspace, { mode: 0o600 });
  } catch (error) {
    if (isUnwritable(error)) return undefined;
    throw error;
  }
  return cache;
}

/** The variables for a cache. */
export function cacheVariables(cache: string): Record<string, string> {
  return Object.fromEntries(
    Object.entries(VARIABLES).map(([name, place]) => [name, join(cache, place)]),
  );
}

/** Where the caches of all workspaces are. */
export function cachesFolder(): string | undefined {
  return usableIn(cacheFolder(), "workspaces");
}
