import { basename, dirname, join } from "node:path";

/**
 * Whether code that works in a workspace could change a file: it lies in there, or the way to it leads
 * through there, and not through `.ipybox`.
 *
 * @param file The file, as an absolute path. It may be missing.
 * @param workspace The workspace, as an absolute path.
 * @returns Whether it could.
 */
export async function isInReach(file: string, workspace: string): Promise<boolean> {
  const [root, real, folder] = await Promise.all(
    [workspace, file, dirname(file)].map((path) => Deno.realPath(path).catch(() => path)),
  );
  const ways = [file, real, join(folder ?? "", basename(file))];
  return [workspace, root ?? workspace].some((folder) =>
    ways.some((path) =>
      path !== undefined && isInside(path, folder) && !isInside(path, join(folder, ".ipybox"))
    )
  );
}

function isInside(path: string, folder: string): boolean {
  return path.startsWith(folder.endsWith("/") ? folder : `${folder}/`);
}
