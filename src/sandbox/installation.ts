import { join } from "node:path";
import { hostEnv, mayRead } from "../base/permission.ts";
import { isInside, lstatIfAllowed } from "../process/trusted_path.ts";

/** The home directory as named, and its real path: a link may lead there. */
export function homes(home: string | undefined = hostEnv("HOME")): string[] {
  if (home === undefined || home === "") return [];
  return [...new Set([home, mayRead(home) ? realPathSync(home) : home])];
}

function realPathSync(path: string): string {
  try {
    return Deno.realPathSync(path);
  } catch {
    return path; // it does not exist, so it leads nowhere
  }
}

/** Whether a folder contains too much to be readable just because something in it is named. */
export function isBroad(folder: string, home: string | undefined): boolean {
  return SHARED.includes(folder) ||
    homes(home).some((home) => isInside(home, folder) || folder === join(home, ".local"));
}

const SHARED: readonly string[] = ["/", "/etc", "/home", "/opt", "/root", "/tmp", "/var"];

/** The folder of the Python that an environment is based on, from the text of its `pyvenv.cfg`. */
export function baseIn(settings: string): string | undefined {
  const line = settings.split("\n").find((line) => /^\s*home\s*=/i.test(line)) ?? "";
  return line.slice(line.indexOf("=") + 1).trim() || undefined;
}

/** The folder of the programs of an environment's packages; none for other folders of packages. */
export function programsOf(packages: string): string[] {
  const prefix = /^(.+)\/lib\/python[^/]*\/site-packages$/.exec(packages)?.[1];
  return prefix === undefined ? [] : [`${prefix}/bin`];
}

/** The parts of a Python's folder that it needs to start and to import its packages. */
const PYTHON_PARTS: readonly string[] = ["bin", "lib", "lib64", "pyvenv.cfg"];

/**
 * The parts of a Python's folder (`sys.prefix`, a real path) that a sandbox shows: all, unless it
 * contains the home directory, the workspace or a folder that many share. It does for a Python that
 * was built with `--prefix=$HOME`, and for an environment with projects in its folder.
 */
export async function pythonFolders(
  prefix: string,
  workspace: string,
  home: string | undefined = hostEnv("HOME"),
): Promise<string[]> {
  const isShared = prefix !== workspace && isInside(workspace, prefix);
  if (!isShared && !isBroad(prefix, home)) return [prefix];
  const parts = PYTHON_PARTS.map((name) => join(prefix, name));
  const found = await Promise.all(parts.map(lstatIfAllowed));
  return parts.filter((_, index) => found[index] !== undefined);
}
