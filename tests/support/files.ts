/** Whether anything is at a path, even a link that leads nowhere. */
export async function exists(path: string): Promise<boolean> {
  return await Deno.lstat(path).then(() => true, () => false);
}

/**
 * Reads all files below a folder, as text.
 *
 * @param folder The folder; one that does not exist has none.
 * @returns Their texts by path below the folder, in order. Links are listed by what they point to.
 */
export async function filesBelow(folder: string): Promise<Map<string, string>> {
  const found: [string, string][] = [];
  const collect = async (path: string): Promise<void> => {
    for await (const { name, isDirectory, isSymlink } of Deno.readDir(path)) {
      const inner = `${path}/${name}`;
      if (isDirectory) await collect(inner);
      else if (isSymlink) found.push([inner, `-> ${await Deno.readLink(inner)}`]);
      else found.push([inner, await Deno.readTextFile(inner)]);
    }
  };
  try {
    await collect(folder);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
  found.sort(([a], [b]) => a < b ? -1 : 1);
  return new Map(found.map(([path, text]) => [path.slice(folder.length + 1), text]));
}
