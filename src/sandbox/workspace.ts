import { lchown } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { ConfigError } from "../base/errors.ts";
import { messageOf } from "../base/message_of.ts";
import { mayRead } from "../base/permission.ts";
import { PinnedFolder, settlePath } from "../files/pinned_folder.ts";
import { runFolders } from "../files/private_folder.ts";
import { ifPresent, lstatIfPresent } from "../files/safe.ts";
import { cacheFolder, dataFolder, settingsFolder, stateFolder } from "../files/user_folders.ts";
import { workspaceOfSession } from "../files/workspace_state.ts";
import { sha256 } from "../json/digest.ts";
import { ownProgram, type ProgramPath } from "../process/program.ts";
import {
  isInside,
  isLoose,
  isWorkspace,
  realPathIfSeen,
  STATE_FOLDER,
  stateOf,
  type Step,
  wayTo,
  workspacesOn,
} from "../process/trusted_path.ts";
import { CODE_NOTE, recordVariables } from "./own_variables.ts";
import { homes } from "./installation.ts";
import { isRoot } from "./system_packages.ts";

/** The folder of generated modules in a workspace, which code only reads. */
export const GENERATED = "mcptools";

/** Whether a folder is too wide for a workspace: code could read the whole home directory. */
export function isWide(folder: string): boolean {
  return folder === "/" || homes().some((home) => isInside(home, folder));
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

/**
 * Finds ipybox's folders in the workspaces around one, or in and around a session's, which no
 * settings open to its code.
 */
export async function statesAround(workspace: string): Promise<string[]> {
  const served = await workspaceOfSession(workspace);
  const states: string[] = [];
  let folder = served ?? dirname(workspace);
  for (; !isWide(folder); folder = dirname(folder)) {
    if (await isWorkspace(folder)) states.push(stateOf(folder));
  }
  return states;
}

/**
 * Refuses a workspace that no sandbox can use, before anything is written to it: with a `.ipybox` in it,
 * it would count as a workspace from then on.
 */
export async function refuseUnfit(workspace: string): Promise<void> {
  const refused = (why: string) =>
    new ConfigError(
      `Cannot use ${workspace} as workspace: ${why}; name another folder (--workspace DIR)`,
    );
  if (isWide(workspace)) throw refused("sandboxed code could read the whole home directory");
  if (Deno.build.os === "linux" && isInside(workspace, "/dev")) {
    throw refused("the sandbox has its own /dev");
  }
  await refuseUserFoldersIn(workspace);
}

/** The real path of a project, which code reads and must not change. */
export async function projectPath(project: string, workspace: string): Promise<string> {
  const folder = await fitProject(project);
  if (!isInside(workspace, folder) && !isInside(folder, workspace)) return folder;
  throw new ConfigError(
    `Cannot use ${folder} as project: code writes to the workspace ${workspace}, and must not write to ` +
      "the project; choose a workspace outside it",
  );
}

/** The real path of a project. Throws if its code could read too much. */
export async function fitProject(project: string): Promise<string> {
  const folder = await Deno.realPath(project);
  if (isWide(folder)) {
    throw new ConfigError(
      `Cannot use ${folder} as project: code could read the whole home directory`,
    );
  }
  await refuseUserFoldersIn(folder);
  return folder;
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
 * Finds the user's folders of ipybox, which stay closed if a sandbox opens a folder around them:
 * its state, such as logins to MCP servers, the settings for all workspaces, and the files of other
 * sessions.
 */
export async function userFolders(): Promise<string[]> {
  const cache = cacheFolder();
  const others = cache === undefined ? [] : [join(cache, "run"), join(cache, "workspaces")];
  const folders = [stateFolder(), settingsFolder(), ...others].filter((folder) =>
    folder !== undefined
  );
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
  for (const [contents, folder] of kept) {
    if (folder === undefined || !isInside(await realPlace(folder), workspace)) continue;
    throw new ConfigError(
      `Cannot use ${workspace} as workspace: ${contents} stored in ${folder}; ` +
        "name another folder (--workspace DIR)",
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
  /** The program's name, for errors, such as `Python`. */
  readonly what: string;
}

/** Refuses a program that executed code could change: it, or a link on the way to it, is in a workspace. */
export async function requireOwnProgram(
  program: string,
  { workspace, what }: OwnProgramOptions,
): Promise<void> {
  const folder = await folderInReach(program, workspace);
  if (folder === undefined) return;
  throw new ConfigError(
    `Cannot use ${program} as ${what}: code of the workspace ${folder} could replace ` +
      `${resolve(program)}. Use one outside the workspace`,
  );
}

/** Whether executed code cannot have changed a program. */
export async function isOwnProgram(
  program: string,
  workspace: string | undefined,
): Promise<boolean> {
  return await folderInReach(program, workspace) === undefined;
}

/** The folder whose code could change a program. */
async function folderInReach(
  program: string,
  workspace: string | undefined,
): Promise<string | undefined> {
  if (!program.includes("/")) return undefined;
  const path = resolve(program);
  const ways = await Promise.all([path, await realPathIfSeen(path)].map(wayTo));
  const steps = ways.flatMap(({ steps }) => steps);
  const own = workspace === undefined ? [] : [await realPathIfSeen(workspace)];
  return [...own, ...await foldersOfCode(steps), ...await workspacesOn(steps)]
    .find((folder) => !isWide(folder) && steps.some((step) => isLoose(step, folder)));
}

/** The folders of ipybox that code, an installer or a server writes to, on the way to a path. */
async function foldersOfCode(steps: readonly Step[]): Promise<string[]> {
  const cache = cacheFolder();
  const names = ["workspaces", join("python", "packages"), join("python", "common")];
  const folders = cache === undefined ? [] : names.map((name) => join(cache, name));
  const found = await Promise.all(folders.map(realPathIfSeen));
  const run = await Promise.all(runFolders().map(realPathIfSeen));
  // The folder of a process has a folder for each writer.
  const writers = steps.map(({ path }) => dirname(path))
    .filter((folder) => run.includes(dirname(dirname(folder))));
  return [...found, ...writers];
}

/** Refuses a Deno that executed code could change. This process's own is read-only for it. */
export async function requireOwnDeno(deno: ProgramPath): Promise<void> {
  if (deno !== ownProgram()) await requireOwnProgram(deno, { what: "Deno" });
}

/** The part of a workspace that this process runs from, which code must not change. */
export function ownPart(workspace: string): string[] {
  const program = ownProgram();
  if (!isInside(program, workspace)) return [];
  const [name = ""] = program.slice(workspace.length + 1).split("/");
  return [join(workspace, name)];
}

/**
 * Creates the folders of a workspace that the host relies on, so that sandboxed code cannot create
 * them first.
 */
export async function makeOwnFolders(workspace: string): Promise<void> {
  using folder = PinnedFolder.open(workspace, { create: false });
  const owner = await Deno.lstat(workspace);
  const isRootsOwn = isRoot() === true && owner.uid !== 0;
  for (const [name, mode] of [[STATE_FOLDER, 0o700], [GENERATED, 0o755]] as const) {
    const path = `${workspace}/${name}`;
    const made = `${folder.path}/${name}`;
    try {
      await Deno.mkdir(made, { mode });
      // As root in a folder of another user, who must be able to use it later. No link is followed.
      if (isRootsOwn && owner.uid !== null) await lchown(made, owner.uid, owner.gid ?? 0);
    } catch (cause) {
      if (!(cause instanceof Deno.errors.AlreadyExists)) {
        throw new ConfigError(
          `Workspace "${workspace}" cannot be written to: ${
            messageOf(folder.named(cause))
          }. Choose another ` +
            "one (--workspace), or let code only read this folder: ipybox mcp --project",
          { cause },
        );
      }
    }
    if (!(await Deno.lstat(path)).isDirectory) {
      throw new ConfigError(`${path} must be a folder, not a file or a symbolic link: remove it`);
    }
  }
}

/**
 * Refuses an unsuitable workspace. In a suitable one, records the files from before code could
 * write.
 */
export async function admitWorkspace(workspace: string, hostPrivate: string): Promise<void> {
  await refuseUnfit(workspace);
  if (isInside(hostPrivate, workspace)) {
    throw new ConfigError(
      `Cannot use ${workspace} as workspace: ipybox keeps its own files in ${hostPrivate}, which ` +
        "code must not see; choose a separate folder",
    );
  }
  await makeOwnFolders(workspace);
  await refuseIgnoredCase(workspace);
  await beginWriting(workspace);
}

/** Refuses a workspace where a mount over one spelling of a name can leave the folder open by another one. */
async function refuseIgnoredCase(workspace: string): Promise<void> {
  if (Deno.build.os !== "linux") return; // Seatbelt's rules apply to all spellings
  const other = STATE_FOLDER.toUpperCase();
  if (await lstatIfPresent(join(workspace, other)) === undefined) return;
  for await (const { name } of Deno.readDir(workspace)) {
    if (name === other) return; // a folder of that name, beside ours
  }
  throw new ConfigError(
    `Cannot use ${workspace} as workspace: its file system ignores case, so code could change ipybox's ` +
      "settings by another spelling. Use a folder on another one, or `ipybox mcp --project`",
  );
}

/** Notes that code can write to a workspace from now on, and which variables are the user's. */
export async function beginWriting(workspace: string): Promise<void> {
  // Files in a session's folder belong to its code.
  if (await workspaceOfSession(workspace) === undefined) await recordVariables(workspace);
  await makeNote(join(workspace, CODE_NOTE));
}

/**
 * Creates an empty file. Anything that already exists is enough, such as a link in a workspace from
 * elsewhere.
 */
async function makeNote(path: string): Promise<void> {
  try {
    await Deno.writeTextFile(path, "", { createNew: true, mode: 0o600 });
  } catch (error) {
    if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
  }
}
