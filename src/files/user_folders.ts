import { dirname, isAbsolute, join } from "node:path";
import { ConfigError } from "../base/errors.ts";
import { codeOf } from "../base/message_of.ts";
import { hostEnv, mayRead, mayUse } from "../base/permission.ts";
import { foreignOn, isInside, isOpen, ownId } from "../process/trusted_path.ts";

/** A kind of folder of the user's: the variable that moves it, and where it is in the home directory. */
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

/** The folder that holds the logins to remote MCP servers. Executed code must never see it. */
export function loginsFolder(): string | undefined {
  const state = stateFolder();
  return state === undefined ? undefined : join(state, "logins");
}

/** The user's logins, registered servers and accepted policies. Executed code must never see it. */
export function stateFolder(): string | undefined {
  return ownFolder(STATE);
}

/** A folder in {@linkcode stateFolder}, if Deno's permissions allow using it. */
export function usableState(
  name: string,
  state: string | undefined = stateFolder(),
): string | undefined {
  return usableIn(state, name);
}

/** A folder in one that there may be, if Deno's permissions allow using it. */
export function usableIn(parent: string | undefined, name: string): string | undefined {
  const folder = parent === undefined ? undefined : join(parent, name);
  return folder !== undefined && mayUse(folder) ? folder : undefined;
}

/** Whether an error says that the user's folders are not writable, as in some containers. */
export function isUnwritable(error: unknown): boolean {
  return error instanceof Deno.errors.PermissionDenied ||
    codeOf(error) === "EROFS";
}

/** The user's settings for all workspaces, such as a policy. Executed code must never write there. */
export function settingsFolder(): string | undefined {
  return ownFolder(SETTINGS);
}

/** The folder that lists the running sessions of `ipybox mcp`. Executed code must never see it. */
export function sessionsFolder(): string | undefined {
  const state = stateFolder();
  return state === undefined ? undefined : join(state, "sessions");
}

/** The folder for temporary files, as Deno determines it. */
export function temporaryFolder(): string {
  return hostEnv("TMPDIR") || "/tmp";
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

/** Throws where another user may have made the folder first: ipybox obeys, and runs, what is in it. */
function ownFolder(place: Place): string | undefined {
  const found = find(place);
  if (found === undefined) return undefined;
  refuseForeign(found.folder, `set ${found.name} to a folder of your own`);
  refuseOpen(found.folder);
  return found.folder;
}

/** Throws where others can write to a folder of this user's, which they could also have moved there. */
function refuseOpen(folder: string): void {
  const user = ownId();
  if (user === undefined || !mayRead(folder)) return;
  const info = statIfSeen(folder);
  if (info?.uid !== user || !isOpen(info, user)) return;
  throw new ConfigError(
    `Cannot use ${folder}: others can write to it; see what is in it, and chmod go-w ${folder}`,
  );
}

function statIfSeen(path: string): Deno.FileInfo | undefined {
  try {
    return Deno.statSync(path);
  } catch {
    return undefined; // missing, or somebody else's
  }
}

/** Throws where another user may have made what is at a path in one of the user's folders. */
export function refuseForeign(
  path: string,
  fix = "remove it, and let only yourself create files there",
): void {
  const foreign = foreignOn(path);
  if (foreign === undefined) return;
  throw new ConfigError(
    `Cannot use ${path}: ${foreign} belongs to another user, and others can create files in ` +
      `${dirname(foreign)}; ${fix}`,
  );
}

/** Where a folder of the user's is, and the variable that says so. */
function find({ variable, inHome }: Place): { folder: string; name: string } | undefined {
  for (const [name, below] of [[variable, ""], ["HOME", inHome]] as const) {
    const set = hostEnv(name);
    if (set === undefined || !isAbsolute(set)) continue; // the XDG specification says so
    return { folder: join(set, below, "ipybox"), name };
  }
  return undefined;
}
