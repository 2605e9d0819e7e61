import { resolve } from "node:path";
import { isInReach, reliablePath } from "../process/reliable_path.ts";
import { isWide, workspacesAbove } from "./nested_workspace.ts";
import { findProtectedPaths } from "./protected_paths.ts";

/** What {@linkcode requireOwnProgram} is told. */
export interface OwnProgramOptions {
  /** The workspace, if one is known; others that the program lies in are found. */
  readonly workspace?: string | undefined;
  /** What the program is, for errors, such as `Python`. */
  readonly what: string;
}

/**
 * Refuses a program that executed code may have put there. One in a workspace must be in what every
 * session protects, such as a virtual environment, by a way without links; the last of it may be one,
 * as an environment's `bin/python` is.
 *
 * @param program The program's path. A name without a slash is left to the search path.
 * @param options The workspace, and what the program is.
 * @throws {ConfigError} Code may have put it there.
 */
export async function requireOwnProgram(
  program: string,
  options: OwnProgramOptions,
): Promise<void> {
  if (!program.includes("/")) return;
  const { workspace, what } = options;
  const path = resolve(program);
  const real = await Deno.realPath(path).catch(() => path); // what is not there is not run either
  const around = [...await workspacesAbove(path), ...await workspacesAbove(real)];
  const known = workspace === undefined ? [] : [await Deno.realPath(workspace)];
  for (const folder of new Set([...known, ...around])) {
    if (isWide(folder) || !await isInReach(path, folder)) continue; // wide ones have no sandbox
    const { readOnly } = await findProtectedPaths(folder);
    await reliablePath(path, { workspace: folder, what, anchors: readOnly });
  }
}
