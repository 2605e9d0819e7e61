import { delimiter, isAbsolute, relative, resolve } from "node:path";

/**
 * Leaves out of a search path what executed code may write to. Package runners put such folders in
 * front, as `npx` does with the working directory's `node_modules/.bin`.
 *
 * @param path The search path.
 * @param untrusted Absolute folders whose programs the host must not run.
 * @returns The path without those folders, what is in them, and folders relative to whatever the
 * working directory is.
 */
export function trustedPath(path: string, untrusted: readonly string[]): string {
  const isTrusted = (folder: string) =>
    isAbsolute(folder) && !untrusted.some((root) => isInside(folder, root));
  return path.split(delimiter).filter(isTrusted).join(delimiter);
}

/**
 * Whether a path is a folder or in it, whatever dots and slashes they are written with. Symbolic links
 * are not looked at.
 *
 * @param path The path, absolute.
 * @param folder The folder, absolute.
 * @returns Whether it is.
 */
export function isInside(path: string, folder: string): boolean {
  const below = relative(resolve(folder), resolve(path));
  return below === "" || (below !== ".." && !below.startsWith("../") && !isAbsolute(below));
}
