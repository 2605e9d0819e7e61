/**
 * Remembers the Pythons that the user named.
 *
 * Importing the modules that kernels need takes more than a second, so it is done again only when
 * the interpreter or a folder that it imports from has changed, as when packages are installed,
 * upgraded or removed.
 *
 * @module
 */
import { join } from "node:path";
import { mayRead } from "../base/permission.ts";
import { ifPresent } from "../files/safe.ts";
import { cacheFolder, usableIn } from "../files/user_folders.ts";
import { sha256 } from "../json/digest.ts";
import type { Interpreter } from "./interpreter.ts";
import { KERNEL_MODULES, readMarker, replaceMarker } from "./managed.ts";

/** The recorded facts about the Python at a path, if they still hold. */
export async function recallNamed(
  executable: string,
  cacheDir: string | undefined,
): Promise<Interpreter | undefined> {
  const folder = usableFolder(cacheDir);
  if (folder === undefined) return undefined;
  const interpreter = await readMarker(recordIn(folder, executable));
  if (interpreter?.executable !== executable) return undefined; // such as a shim
  const { changed = {} } = interpreter;
  if (!(executable in changed)) return undefined;
  for (const [path, time] of Object.entries(changed)) {
    if (!mayRead(path)) return undefined;
    const info = await ifPresent(Deno.stat(path));
    if (info?.mtime?.getTime() !== time) return undefined;
  }
  return interpreter;
}

/** Remembers a Python that kernels can use. */
export async function rememberNamed(
  interpreter: Interpreter,
  cacheDir: string | undefined,
): Promise<void> {
  const folder = usableFolder(cacheDir);
  if (folder === undefined) return;
  await Deno.mkdir(folder, { recursive: true, mode: 0o755 });
  await replaceMarker(recordIn(folder, interpreter.executable), interpreter);
}

/** Forgets a Python that kernels can no longer use. */
export async function forgetNamed(
  executable: string,
  cacheDir: string | undefined,
): Promise<void> {
  const folder = usableFolder(cacheDir);
  if (folder !== undefined) await ifPresent(Deno.remove(recordIn(folder, executable)));
}

/** The folder of the records; `undefined` if it cannot be used. */
function usableFolder(cacheDir: string | undefined): string | undefined {
  const cache = cacheFolder();
  return usableIn(cacheDir ?? (cache && join(cache, "python")), "named");
}

/** The file for a Python. Its name changes if kernels need other modules. */
function recordIn(folder: string, executable: string): string {
  const key = sha256(JSON.stringify([executable, KERNEL_MODULES]));
  return join(folder, `${key.slice(0, 32)}.json`);
}
