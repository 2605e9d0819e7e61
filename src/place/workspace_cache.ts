/**
 * The cache of a workspace: files that programs in its kernels can make again, such as matplotlib's
 * list of fonts. It outlives kernels. Code writes it, so the host never reads it.
 *
 * @module
 */
import { join } from "node:path";
import { cacheFolder, isUnwritable, usableIn } from "../files/user_folders.ts";
import { nameFor, WORKSPACE } from "../files/workspace_folders.ts";

/**
 * The variables that point programs to it, with the paths in it. LlamaIndex ignores its bundled
 * data if `NLTK_DATA` or `TIKTOKEN_CACHE_DIR` is set.
 */
const VARIABLES: Readonly<Record<string, string>> = {
  XDG_CACHE_HOME: "",
  DATA_GYM_CACHE_DIR: "tiktoken",
  MPLCONFIGDIR: "matplotlib",
  TORCHINDUCTOR_CACHE_DIR: "torchinductor",
  TRITON_CACHE_DIR: "triton",
};

/**
 * The folder for a workspace, given its real path; `undefined` if the user's cache cannot be used.
 */
export function cachePath(workspace: string): string | undefined {
  return usableIn(cachesFolder(), nameFor(workspace));
}

/**
 * Creates the cache of a workspace, given its real path; `undefined` if the user's cache cannot be
 * used.
 */
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

/** The folder of the caches of all workspaces. */
export function cachesFolder(): string | undefined {
  return usableIn(cacheFolder(), "workspaces");
}
