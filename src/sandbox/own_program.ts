import { resolve } from "node:path";
import { ConfigError } from "../errors.ts";
import { isInReach, reliablePath } from "../process/reliable_path.ts";
import { lastingPaths } from "./lasting_paths.ts";
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
 * session so far has protected, such as a virtual environment that was there before the first, by a way
 * without links; the last of it may be one, as an environment's `bin/python` is.
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
    await requireLasting(path, folder, what);
  }
}

async function requireLasting(path: string, workspace: string, what: string): Promise<void> {
  const { readOnly } = await findProtectedPaths(workspace);
  const { paths, record } = await lastingPaths(workspace, readOnly);
  try {
    await reliablePath(path, { workspace, what, anchors: paths });
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    await reliablePath(path, { workspace, what, anchors: readOnly }); // says what else is wrong
    throw new ConfigError(
      `Cannot use ${path} as ${what}: executed code could replace or have made it: it lies in ` +
        (record === undefined
          ? "the workspace, and ipybox cannot remember what was there before code ran, because its " +
            "state folder (XDG_STATE_HOME) cannot be used. Use one outside of the workspace"
          : "what was not there when code first ran in the workspace, or was made anew since. Use " +
            "one outside of the workspace; or, if you made it while no code ran there, end all " +
            `sessions there and: rm '${record}'`),
      { cause: error },
    );
  }
}
