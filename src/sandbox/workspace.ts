import { basename, dirname, join, resolve } from "node:path";
import { ConfigError } from "../base/errors.ts";
import { mayRead } from "../base/permission.ts";
import { settlePath } from "../files/pinned_folder.ts";
import { ifPresent, readHostileFile } from "../files/safe.ts";
import { cacheFolder, dataFolder, settingsFolder, stateFolder } from "../files/user_folders.ts";
import { sha256 } from "../json/digest.ts";
import { ownProgram, type ProgramPath } from "../process/program.ts";
import {
  isInReach,
  isInside,
  lstatIfAllowed,
  ownId,
  pathsOnWay,
  realPathIfSeen,
  reliablePath,
} from "../process/trusted_path.ts";
import { baseIn, homes } from "./installation.ts";
import { CODE_NOTE, findProtectedPaths, lastingPaths, STATE_FOLDER } from "./protect.ts";

/** Whether a folder is too wide for a workspace: code could read the whole home directory. */
export function isWide(folder: string): boolean {
  return folder === "/" || homes().some((home) => isInside(home, folder));
}

/** Finds the workspaces that contain a path. */
async function workspacesAbove(path: string): Promise<string[]> {
  const found: string[] = [];
  const owner = (await lstatIfAllowed(path))?.uid;
  for (let folder = dirname(path); !isWide(folder); folder = dirname(folder)) {
    if (await hasState(folder, owner)) found.push(folder);
  }
  return found;
}

/** Finds the workspaces whose code may decide where a path leads: the path or a link on it is in them. */
async function workspacesOn(path: string): Promise<Set<string>> {
  const found = new Set<string>();
  for (const each of await pathsOnWay(path)) {
    const folder = dirname(each);
    if (isWide(folder) || found.has(folder)) continue; // wide folders have no sandbox
    const info = await lstatIfAllowed(each);
    // What is missing can be made by this user's code, and by that of the folder's owner.
    const owners = info ? [info.uid] : [ownId(), (await lstatIfAllowed(folder))?.uid];
    for (const owner of owners) if (await hasState(folder, owner)) found.add(folder);
  }
  return found;
}

/** A file that the host obeys. */
interface ObeyedFileOptions {
  readonly workspace: string | undefined;
  /** What the file is, for errors, such as `sandbox settings`. */
  readonly what: string;
}

/**
 * Refuses a file that code of another workspace could change, or where its path leads. Workspaces
 * around this one do not count: they are refused, or the user accepted them.
 */
export async function refuseInOther(
  path: string,
  { workspace, what }: ObeyedFileOptions,
): Promise<void> {
  const own = workspace && await realPathIfSeen(resolve(workspace));
  for (const folder of await workspacesOn(path)) {
    if (own !== undefined && isInside(own, folder)) continue;
    if (!await isInReach(path, folder)) continue;
    throw new ConfigError(
      `Cannot use ${path} as ${what}: it leads through the workspace ${folder}, whose code could change ` +
        `it: move it to ${join(folder, STATE_FOLDER)} or out of that workspace`,
    );
  }
}

/** Follows the path of settings, and refuses what code of any workspace could replace. */
export async function settingsPath(
  path: string,
  options: ObeyedFileOptions & { readonly workspace: string },
): Promise<string> {
  const real = await reliablePath(path, options);
  await refuseInOther(path, options);
  return real;
}

/** The real path of a workspace. From now on, writing to it follows no links. */
export async function realWorkspace(path: string): Promise<string> {
  const workspace = await ifPresent(Deno.realPath(path));
  if (workspace !== undefined) {
    settlePath(workspace);
    return workspace;
  }
  throw new ConfigError(
    `Workspace "${resolve(path)}" does not exist: create it or name another`,
  );
}

/** Finds ipybox's state of the workspaces around one, which no settings open to its code. */
export async function statesAround(workspace: string): Promise<string[]> {
  return (await workspacesAbove(workspace)).map((folder) => join(folder, STATE_FOLDER));
}

/**
 * Refuses a workspace that no sandbox can use, before anything is written to it: with a `.ipybox` in it,
 * it would count as a workspace from then on.
 */
export async function refuseUnfit(workspace: string): Promise<void> {
  const refused = (why: string) =>
    new ConfigError(`Cannot use ${workspace} as workspace: ${why}; choose a separate folder`);
  if (isWide(workspace)) throw refused("sandboxed code could read the whole home directory");
  if (Deno.build.os === "linux" && isInside(workspace, "/dev")) {
    throw refused("the sandbox has a /dev of its own");
  }
  await refuseUserFoldersIn(workspace);
}

/** Refuses a workspace inside another one, whose code could write files that this one's host obeys. */
export async function refuseNested(workspace: string): Promise<void> {
  const [outer] = await workspacesAbove(workspace);
  if (outer === undefined) return;
  throw new ConfigError(
    `Cannot use ${workspace} as workspace: it is in the workspace ${outer}, whose code may have ` +
      `written files here that ipybox would obey. If ${outer} is no longer a workspace, remove ` +
      `${
        join(outer, STATE_FOLDER)
      }; if you trust what its code did, add --nested-workspace (\`nestedWorkspace\`)`,
  );
}

/** Refuses a workspace that contains others, whose files its code could change. */
export function refuseNesting(workspace: string, states: readonly string[]): void {
  const [first] = states;
  if (first === undefined) return;
  throw new ConfigError(
    `Cannot use ${workspace} as workspace: it contains the workspace ${
      dirname(first)
    }, whose files ` +
      `its code could change. Choose a separate folder; if ${dirname(first)} is no longer a ` +
      `workspace, remove ${first}; or add --nested-workspace (\`nestedWorkspace\`)`,
  );
}

/** Another user's folder does not count, because their code cannot write to the files of this one. */
async function hasState(folder: string, owner: number | null | undefined): Promise<boolean> {
  const state = await lstatIfAllowed(join(folder, STATE_FOLDER));
  return state !== undefined && (owner === undefined || state.uid === owner);
}

/** What a sandbox shows of a project. */
export interface ProjectPaths {
  /** The paths that code can read. */
  readonly readable: readonly string[];
  /** The paths in them that it cannot read: secrets, and the state of workspaces. */
  readonly unreadable: readonly string[];
}

/**
 * Finds what code can see of a project that it must not change. Code can put nothing there that an
 * agent program, an editor or a shell would obey, so such names need no protection.
 *
 * The workspace may be in the project's own `.ipybox`, which is hidden: those of HTTP sessions are.
 */
export async function projectPaths(project: string, workspace: string): Promise<ProjectPaths> {
  const folder = await Deno.realPath(project);
  const isOwn = isInside(workspace, join(folder, STATE_FOLDER));
  if (!isOwn && (isInside(workspace, folder) || isInside(folder, workspace))) {
    throw new ConfigError(
      `Cannot use ${folder} as project: code writes to the workspace ${workspace}, and must not write to ` +
        "the project; choose a workspace outside it",
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
 * Creates the workspace of a project, if it is missing. It is in the user's data folder, separate
 * from the project.
 */
export async function projectWorkspace(project: string): Promise<string> {
  const data = dataFolder();
  if (data === undefined) {
    throw new ConfigError(
      "Cannot find the project's workspace because HOME is not set: specify one with --workspace",
    );
  }
  const folder = await Deno.realPath(project);
  const name = `${basename(folder)}-${sha256(folder).slice(0, 12)}`;
  const path = join(data, "workspaces", name);
  await Deno.mkdir(path, { recursive: true, mode: 0o700 });
  return await Deno.realPath(path);
}

/**
 * Finds the user's folders of ipybox, which no sandbox opens, whatever its settings are: the one
 * with its state, such as logins to MCP servers, and the one with the settings for all workspaces.
 */
export async function userFolders(): Promise<string[]> {
  const folders = [stateFolder(), settingsFolder()].filter((folder) => folder !== undefined);
  const real = await Promise.all(folders.map(realPathIfPresent));
  return real.filter((folder) => folder !== undefined);
}

/** Refuses a workspace or project whose code could see or, in a workspace, change folders of ipybox. */
export async function refuseUserFoldersIn(workspace: string): Promise<void> {
  const kept = [
    ["logins to MCP servers are", stateFolder()],
    ["the user's settings for all workspaces are", settingsFolder()],
    ["packages of all workspaces, and ipybox's own files, are", cacheFolder()],
  ] as const;
  for (const [what, folder] of kept) {
    if (folder === undefined || !isInside(await realPlace(folder), workspace)) continue;
    throw new ConfigError(
      `Cannot use ${workspace} as workspace: ${what} stored in ${folder}; choose a separate folder`,
    );
  }
}

/** The real path of a folder, or the one it would have once created: a parent may be a link. */
async function realPlace(path: string): Promise<string> {
  const real = await realPathIfPresent(path);
  if (real !== undefined) return real;
  const above = dirname(path);
  return above === path ? path : join(await realPlace(above), basename(path));
}

async function realPathIfPresent(path: string): Promise<string | undefined> {
  if (!mayRead(path)) return undefined; // it cannot be used either
  try {
    return await ifPresent(Deno.realPath(path));
  } catch (error) {
    if (error instanceof Deno.errors.PermissionDenied) return undefined; // it cannot be used either
    throw error;
  }
}

/** Options of {@linkcode requireOwnProgram}. */
interface OwnProgramOptions {
  /** The workspace, if known; other workspaces around the program are found. */
  readonly workspace?: string;
  /** What the program is, for errors, such as `Python`. */
  readonly what: string;
  /**
   * Whether this process is the program: then it is enough that code cannot change it from now on.
   *
   * @default {false}
   */
  readonly isRunning?: boolean;
}

/**
 * Refuses a program that executed code may have put there. A program in a workspace must be in
 * something that every session so far has protected, such as a virtual environment that existed
 * before the first one. The path to it must have no links; only its last component may be one, as
 * an environment's `bin/python` is.
 *
 * The same holds for what decides which Python an environment's programs run.
 */
export async function requireOwnProgram(
  program: string,
  options: OwnProgramOptions,
): Promise<void> {
  if (!program.includes("/")) return;
  const { workspace, what, isRunning = false } = options;
  const path = resolve(program);
  const real = await realPathIfSeen(path); // a missing program is not run either
  const known = workspace === undefined ? [] : [await Deno.realPath(workspace)];
  await requireOwn(path, { known, what, isRunning });
  for (const each of new Set([path, real])) {
    for (const settings of environmentSettings(each)) {
      await requireOwn(settings, { known, what: `settings of ${path}`, isRunning });
      const base = await baseOf(settings);
      if (base === undefined) continue;
      await requireOwn(base, { known, what: `base of ${path}`, isRunning });
    }
  }
}

/** Refuses a Deno that executed code may have put there, or could change if it is this process's own. */
export async function requireOwnDeno(deno: ProgramPath): Promise<void> {
  await requireOwnProgram(deno, { what: "Deno", isRunning: deno === ownProgram() });
}

async function requireOwn(
  path: string,
  { known, ...check }: Checked & { readonly known: readonly string[] },
): Promise<void> {
  for (const folder of new Set([...known, ...await workspacesOn(path)])) {
    if (isWide(folder) || !await isInReach(path, folder)) continue;
    await requireLasting(path, folder, check);
  }
}

/**
 * The files in which Python looks for its environment, whether or not they exist: beside the program
 * and above. conda makes none, so code could add one where the workspace itself is the environment.
 */
function environmentSettings(program: string): string[] {
  const folder = dirname(program);
  if (basename(folder) !== "bin" && !/^(?:python|pypy)/.test(basename(program))) return [];
  return [folder, dirname(folder)].map((place) => join(place, "pyvenv.cfg"));
}

/** A file in the folder of the Python from which an environment takes the standard library. */
async function baseOf(settings: string): Promise<string | undefined> {
  if (!mayRead(settings)) return undefined;
  const { PermissionDenied, NotADirectory } = Deno.errors;
  const text = await readHostileFile(settings).catch((error: unknown) => {
    if (error instanceof PermissionDenied || error instanceof NotADirectory) return undefined;
    throw error;
  });
  const home = baseIn(text ?? "");
  if (home === undefined) return undefined;
  return join(resolve("/", home), "python"); // where the host starts programs
}

type Checked = Required<Pick<OwnProgramOptions, "what" | "isRunning">>;

async function requireLasting(
  path: string,
  workspace: string,
  { what, isRunning }: Checked,
): Promise<void> {
  const { readOnly } = await findProtectedPaths(workspace);
  if (isRunning) return void await reliablePath(path, { workspace, what, anchors: readOnly });
  const { paths, record } = await lastingPaths(workspace, readOnly);
  try {
    await reliablePath(path, { workspace, what, anchors: paths });
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    await reliablePath(path, { workspace, what, anchors: readOnly }); // reports any other problem
    throw new ConfigError(
      `Cannot use ${path} as ${what}: executed code could replace it or may have created it: it is in ` +
        (record === undefined
          ? "the workspace, and ipybox cannot record what existed before code ran, because its " +
            "state folder (XDG_STATE_HOME) cannot be used. Use one outside the workspace"
          : "something that did not exist when code first ran in the workspace, or was recreated since, or " +
            "the workspace was moved. Use one outside the workspace; or, if you created it while no code " +
            `ran there, end all sessions there and: rm -f '${record}' '${
              join(workspace, CODE_NOTE)
            }'`),
      { cause: error },
    );
  }
}
