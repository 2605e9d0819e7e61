import { basename, dirname, isAbsolute, join } from "node:path";
import type { ProgramPath } from "../process/program.ts";
import { isInside } from "../process/trusted_path.ts";

/**
 * Finds what must be readable for a program to start: itself, and the installation that it belongs to,
 * such as a Node.js or a virtual environment below the home directory.
 */
export async function programFiles(
  file: ProgramPath,
  home: string | undefined,
): Promise<string[]> {
  if (!await isThere(file)) return [];
  const files = new Set<string>([file]);
  for (const program of [file, await Deno.realPath(file)]) {
    files.add(program);
    for (const prefix of await installations(program)) {
      if (!isBroad(prefix, home)) files.add(prefix);
    }
  }
  return [...files];
}

/** Whether a folder holds too much to be opened because something in it is named. */
export function isBroad(folder: string, home: string | undefined): boolean {
  if (SHARED.includes(folder)) return true;
  return home !== undefined && (isInside(home, folder) || folder === join(home, ".local"));
}

const SHARED: readonly string[] = ["/", "/etc", "/home", "/opt", "/root", "/tmp", "/var"];

/** The folders above `bin/` and what is in it, and above `node_modules/`. */
async function installations(program: string): Promise<string[]> {
  const found: string[] = [];
  const bin = dirname(program);
  if (basename(bin) === "bin") found.push(dirname(bin));
  const modules = program.indexOf("/node_modules/");
  if (modules !== -1) {
    const above = program.slice(0, modules);
    found.push(basename(above) === "lib" ? dirname(above) : `${above}/node_modules`);
  }
  const environment = await readIfThere(join(dirname(bin), "pyvenv.cfg"));
  const base = /^home\s*=\s*(.+)$/m.exec(environment ?? "")?.[1]?.trim();
  if (base !== undefined && isAbsolute(base)) found.push(dirname(base));
  return found;
}

async function isThere(file: string): Promise<boolean> {
  return await Deno.stat(file).then(({ isFile }) => isFile, () => false);
}

async function readIfThere(file: string): Promise<string | undefined> {
  return await Deno.readTextFile(file).catch(() => undefined); // most programs have none
}
