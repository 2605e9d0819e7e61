import { isAbsolute, join } from "node:path";
import { ConfigError } from "../base/errors.ts";
import { codeOf } from "../base/message_of.ts";
import { hostEnv, mayUse } from "../base/permission.ts";
import { isInside, ownId } from "../process/trusted_path.ts";

/** A kind of user folder: the variable that moves it, and its path in the home directory. */
interface Place {
  readonly variable: string;
  readonly inHome: string;
}

const CACHE: Place = {
  variable: "XDG_CACHE_HOME",
  inHome: Deno.build.os === "darwin" ? "Library/Caches" : ".cache",
};
const STATE: Place = { variable: "XDG_STATE_HOME", inHome: ".local/state" };
const DATA: Place = { variable: "XDG_DATA_HOME", inHome: ".local/share" };
const SETTINGS: Place = { variable: "XDG_CONFIG_HOME", inHome: ".config" };

/** The user's logins, accepted settings and running sessions. Executed code must never see it. */
export function stateFolder(): string | undefined {
  return ownFolder(STATE);
}

/** A file or folder of the user's state: see {@linkcode stateFolder}. */
export function inState(name: string): string | undefined {
  const state = stateFolder();
  return state === undefined ? undefined : join(state, name);
}

/** A folder in `parent`, if that is known and Deno's permissions allow using the folder. */
export function usableIn(parent: string | undefined, name: string): string | undefined {
  const folder = parent === undefined ? undefined : join(parent, name);
  return folder !== undefined && mayUse(folder) ? folder : undefined;
}

/** Whether an error says that the user's folders are not writable, as in some containers. */
export function isUnwritable(error: unknown): boolean {
  return error instanceof Deno.errors.PermissionDenied ||
    codeOf(error) === "EROFS";
}

/** Why something cannot be kept, and the fix. */
export const UNWRITABLE =
  "the state folder (~/.local/state/ipybox) is not writable. Set XDG_STATE_HOME to one that is";

/** The user's settings for all workspaces, such as a policy. Executed code must never write there. */
export function settingsFolder(): string | undefined {
  return ownFolder(SETTINGS);
}

/** The folder for data that can be recreated: Python environments, and folders to start programs in. */
export function cacheFolder(): string | undefined {
  return ownFolder(CACHE);
}

/** The folder for the user's data other than settings, such as the workspaces of projects. */
export function dataFolder(): string | undefined {
  return ownFolder(DATA);
}

/** The variables that move the user's folder with this path. */
export function variablesOf(path: string): readonly string[] {
  for (const place of [CACHE, STATE, DATA, SETTINGS]) {
    const found = find(place);
    if (found === undefined || !isInside(path, found.folder)) continue;
    return found.name === place.variable ? [found.name] : [found.name, place.variable];
  }
  return [];
}

function ownFolder(place: Place): string | undefined {
  const found = find(place);
  if (found !== undefined) keepToUser(found);
  return found?.folder;
}

/** Checks a folder of ours as ssh checks `~/.ssh`: its owner and mode, but nothing above it. */
function keepToUser({ folder, name }: { readonly folder: string; readonly name: string }): void {
  const user = ownId();
  if (user === undefined || !mayUse(folder)) return;
  const info = statIfSeen(folder);
  if (info === undefined) return;
  if (info.uid === user) return void closeToOthers(folder, info.mode ?? 0);
  if (user === 0 || info.uid === 0) return; // root may use anybody's folders, and is trusted
  throw new ConfigError(
    `Cannot use ${folder}: it belongs to another user; set ${name} to a folder of your own`,
  );
}

function closeToOthers(folder: string, mode: number): void {
  if ((mode & 0o022) === 0) return;
  try {
    Deno.chmodSync(folder, mode & 0o755);
  } catch {
    // Its file system has no modes, or is read-only: its files are as they were created.
  }
}

function statIfSeen(path: string): Deno.FileInfo | undefined {
  try {
    return Deno.statSync(path);
  } catch {
    return undefined; // missing, or closed to this user: using it says so
  }
}

/** The path of a user folder, and the variable that determines it. */
function find({ variable, inHome }: Place): { folder: string; name: string } | undefined {
  for (const [name, below] of [[variable, ""], ["HOME", inHome]] as const) {
    const set = hostEnv(name);
    if (set === undefined || !isAbsolute(set)) continue; // as the XDG specification requires
    return { folder: join(set, below, "ipybox"), name };
  }
  return undefined;
}
