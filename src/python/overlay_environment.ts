import { dirname, join } from "node:path";
import { ifPresent, readHostileBytes } from "../files/safe.ts";
import { removeTree } from "../files/remove_tree.ts";
import { baseIn } from "../sandbox/installation.ts";
import type { PythonEnvironment } from "./managed.ts";

/** A virtual environment that shares the packages of another one, for any installer. */
export interface OverlayEnvironment {
  /** Its interpreter, which anything with write access to the environment can replace. */
  readonly executable: string;
  readonly sitePackages: string;
}

/** Makes the environment if it is missing or a build replaced its interpreter. Does not start Python. */
export async function openOverlay(
  folder: string,
  python: PythonEnvironment,
): Promise<OverlayEnvironment> {
  const overlay = overlayIn(folder, python);
  const base = await baseInterpreter(python);
  const config = `home = ${
    dirname(base)
  }\ninclude-system-site-packages = false\nversion = ${python.version}\n`;
  if (await isIntact(folder, { base, config })) return overlay;
  const fresh = `${folder}.${crypto.randomUUID()}.tmp`;
  const made = overlayIn(fresh, python);
  const removed = join(dirname(folder), "removed"); // beside what installers write to
  await Deno.mkdir(dirname(made.executable), { recursive: true });
  await Deno.symlink(base, made.executable);
  await Deno.writeTextFile(join(fresh, CONFIG), config);
  if ((await ifPresent(Deno.lstat(folder)))?.isDirectory) {
    // Its interpreter was upgraded or removed; the packages stay. An installer may have changed the
    // folder, so only move names directly in it, and write nothing there.
    await Deno.rename(join(folder, "lib"), join(fresh, "lib"));
    await removeTree(folder, { through: removed });
  } else {
    await Deno.mkdir(made.sitePackages, { recursive: true });
  }
  try {
    await Deno.rename(fresh, folder);
  } catch (error) {
    await removeTree(fresh, { through: removed });
    if (!await isIntact(folder, { base, config })) throw error; // else another process was first
  }
  return overlay;
}

const CONFIG = "pyvenv.cfg";

/** Whether an environment still has the interpreter it was made with. */
async function isIntact(
  folder: string,
  { base, config }: { readonly base: string; readonly config: string },
): Promise<boolean> {
  const link = await Deno.readLink(join(folder, "bin", "python")).catch(() => undefined);
  if (link !== base || !await isFile(base)) return false;
  const bytes = await readHostileBytes(join(folder, CONFIG), config.length);
  return bytes !== undefined && new TextDecoder().decode(bytes) === config;
}

/** The paths in a virtual environment, which need not exist. */
function overlayIn(folder: string, python: PythonEnvironment): OverlayEnvironment {
  return {
    executable: join(folder, "bin", "python"),
    sitePackages: sitePackagesOf(folder, python),
  };
}

/** The folder of an environment's packages. */
export function sitePackagesOf(prefix: string, python: PythonEnvironment): string {
  return join(prefix, "lib", `python${minorVersion(python)}`, "site-packages");
}

/** The folders from an environment down to its packages. Installers can write to each. */
export function packageLevels(sitePackages: string): string[] {
  const version = dirname(sitePackages);
  const lib = dirname(version);
  return [dirname(lib), lib, version, sitePackages];
}

/** Looks for links on the way to an environment's packages: what an installer builds may put them there. */
export async function judgePackages(
  sitePackages: string,
): Promise<"plain" | "missing" | { readonly notPlain: string }> {
  for (const path of packageLevels(sitePackages)) {
    const info = await ifPresent(Deno.lstat(path));
    if (info === undefined) return "missing";
    if (!info.isDirectory) return { notPlain: path };
  }
  return "plain";
}

/** The part of the version that determines which packages an interpreter can use. */
export function minorVersion({ version }: PythonEnvironment): string {
  return version.split(".").slice(0, 2).join(".");
}

/** The interpreter outside of any virtual environment. */
async function baseInterpreter(python: PythonEnvironment): Promise<string> {
  // Without this file, it is not a virtual environment.
  const config = await ifPresent(Deno.readTextFile(join(python.prefix, CONFIG))) ?? "";
  const folder = baseIn(config) ?? dirname(await Deno.realPath(python.executable));
  for (const name of [`python${minorVersion(python)}`, "python3"]) {
    const path = join(folder, name);
    if (await isFile(path)) return path;
  }
  return await Deno.realPath(python.executable);
}

async function isFile(path: string): Promise<boolean> {
  return await Deno.stat(path).then((info) => info.isFile, () => false);
}
