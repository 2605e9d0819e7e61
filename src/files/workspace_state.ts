/**
 * ipybox's own files about a workspace: permanent decisions, the audit log, observed results, and the
 * folders of sessions over HTTP. They are in the user's state folder, out of reach of repositories, of
 * agents' file tools, and of code, which sees only the folder of its own session.
 *
 * @module
 */
import { access, constants } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { codeOf } from "../base/message_of.ts";
import { realPathIfSeen } from "../process/trusted_path.ts";
import { ifPresent, lockUserFolder, lstatIfPresent, readHostileFile, replaceFile } from "./safe.ts";
import { isUnwritable, stateFolder, usableIn } from "./user_folders.ts";
import { nameFor, WORKSPACE } from "./workspace_folders.ts";

/** The file that identifies the workspace's folder: another one may take its place. */
const IDENTITY = "identity";
const CONSENTS = "consents.json";

/** The folder for a workspace; `undefined` if it does not exist yet. */
export async function workspaceState(workspace: string): Promise<string | undefined> {
  const place = await placeOf(workspace);
  if (place === undefined) return undefined;
  try {
    if (await lstatIfPresent(place.folder) === undefined) return undefined;
    await forgetDecisionsOfAnother(place);
    return place.folder;
  } catch (error) {
    if (!isUnwritable(error)) throw error; // or closed to this user
    return undefined;
  }
}

/** The path of the folder for a workspace, even before it exists; `undefined` if state cannot be kept. */
export async function usableStatePath(workspace: string): Promise<string | undefined> {
  const present = await workspaceState(workspace);
  if (present !== undefined) return present;
  const place = await placeOf(workspace);
  return place && await isWritable(place.root) ? place.folder : undefined;
}

async function isWritable(folder: string): Promise<boolean> {
  try {
    await access(folder, constants.W_OK);
    return true;
  } catch (error) {
    return codeOf(error) === "ENOENT" && await isWritable(dirname(folder));
  }
}

/** Makes the folder for a workspace; `undefined` if the user's state folder cannot be used. */
export async function makeWorkspaceState(workspace: string): Promise<string | undefined> {
  const present = await workspaceState(workspace);
  if (present !== undefined) return present;
  const place = await placeOf(workspace);
  try {
    return place && await make(place);
  } catch (error) {
    if (!isUnwritable(error)) throw error;
    return undefined;
  }
}

/** The path of the state of a workspace, whether it exists or not. */
export async function statePath(workspace: string): Promise<string | undefined> {
  return (await placeOf(workspace))?.folder;
}

/** Gives a workspace the state of the one that was at another path. */
export async function adoptState(
  workspace: string,
  former: string,
): Promise<"adopted" | "missing" | "occupied"> {
  const [place, old] = [await placeOf(workspace), await placeOf(former)];
  if (place === undefined || old === undefined) return "missing";
  using _lock = await lockUserFolder(place.root);
  if (await lstatIfPresent(old.folder) === undefined) return "missing";
  if (await lstatIfPresent(place.folder) !== undefined) return "occupied";
  await Deno.rename(old.folder, place.folder);
  await identify(place.folder, place.workspace);
  return "adopted";
}

/** The path of the folders of a workspace's sessions over HTTP, whether they exist or not. */
export async function sessionsPath(workspace: string): Promise<string | undefined> {
  const state = await statePath(workspace);
  return state && join(state, SESSIONS);
}

/** The real path of the workspace whose session has this folder; `undefined` if no session has it. */
export async function workspaceOfSession(folder: string): Promise<string | undefined> {
  const sessions = dirname(await realPathIfSeen(resolve(folder)));
  const root = statesFolder();
  if (root === undefined || basename(sessions) !== SESSIONS) return undefined;
  const state = dirname(sessions);
  if (dirname(state) !== await realPathIfSeen(root)) return undefined;
  return await readHostileFile(join(state, WORKSPACE));
}

/** Removes the state of a workspace that is removed. */
export async function discardState(workspace: string): Promise<void> {
  const place = await placeOf(workspace);
  if (place !== undefined) await ifPresent(Deno.remove(place.folder, { recursive: true }));
}

/** The folder for the state of all workspaces; `undefined` if the user's state folder cannot be used. */
export function statesFolder(): string | undefined {
  return usableIn(stateFolder(), ROOT);
}

const ROOT = "workspaces";
const SESSIONS = "sessions";

interface Place {
  /** The workspace's real path. */
  readonly workspace: string;
  readonly root: string;
  readonly folder: string;
}

async function placeOf(path: string): Promise<Place | undefined> {
  const usable = statesFolder();
  if (usable === undefined) return undefined;
  const root = await realPathIfSeen(usable);
  const workspace = await ifPresent(Deno.realPath(path)) ?? resolve(path);
  return { workspace, root, folder: join(root, nameFor(workspace)) };
}

/** Makes the folder as a whole, unless another process has. */
async function make({ workspace, root, folder }: Place): Promise<string> {
  using _lock = await lockUserFolder(root);
  if (await lstatIfPresent(folder) !== undefined) return folder;
  const fresh = join(root, `.${crypto.randomUUID()}`);
  try {
    await Deno.mkdir(fresh, { mode: 0o700 });
    await identify(fresh, workspace);
    await Deno.rename(fresh, folder);
    return folder;
  } catch (error) {
    await ifPresent(Deno.remove(fresh, { recursive: true }));
    throw error;
  }
}

/** Records which workspace a folder belongs to. */
async function identify(folder: string, workspace: string): Promise<void> {
  await replaceFile(join(folder, WORKSPACE), workspace);
  await replaceFile(join(folder, IDENTITY), await identityOf(workspace) ?? "");
}

async function identityOf(workspace: string): Promise<string | undefined> {
  const info = await ifPresent(Deno.stat(workspace));
  return info && `${info.ino}:${info.birthtime?.getTime() ?? ""}`;
}

/** Sets aside the decisions made for another folder at this path, such as an earlier clone. */
async function forgetDecisionsOfAnother({ workspace, root, folder }: Place): Promise<void> {
  const known = await readHostileFile(join(folder, IDENTITY));
  const identity = await identityOf(workspace);
  if (!known || identity === undefined || identity === known) return;
  using _lock = await lockUserFolder(root);
  await ifPresent(Deno.rename(join(folder, CONSENTS), join(folder, `former-${CONSENTS}`)));
  await identify(folder, workspace);
}
