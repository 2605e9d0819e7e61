/** How much of a folder and of a text is looked at: a server decides on both. */
const MAX_ENTRIES = 500;
const MAX_DEPTH = 4;
const MAX_TEXT = 64 * 1024;
/** A shorter name may be a word. */
const MIN_LENGTH = 4;

/**
 * Finds a file that a server wrote into its own folder and speaks of by its relative path.
 *
 * @param folder The folder that it started in.
 * @param text What it says.
 * @returns The path, as it says it; `undefined` where there is none.
 */
export async function fileNamedIn(folder: string, text: string): Promise<string | undefined> {
  const said = text.slice(0, MAX_TEXT);
  if ((await Deno.permissions.query({ name: "read", path: folder })).state !== "granted") {
    return undefined;
  }
  let entries = 0;
  let level = [""];
  for (let depth = 0; depth < MAX_DEPTH && level.length > 0; depth++) {
    const below: string[] = [];
    for (const parent of level) {
      for await (const { name, isFile, isDirectory } of readFolder(`${folder}/${parent}`)) {
        if (++entries > MAX_ENTRIES) return undefined;
        const path = `${parent}${name}`;
        if (isDirectory) below.push(`${path}/`);
        if (isFile && path.length >= MIN_LENGTH && isNamed(path, said)) return path;
      }
    }
    level = below;
  }
  return undefined;
}

/** The server may have removed it again. */
async function* readFolder(path: string): AsyncGenerator<Deno.DirEntry> {
  try {
    yield* Deno.readDir(path);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}

/** Whether a path stands in a text for itself, and not as a part of a longer name. */
function isNamed(path: string, text: string): boolean {
  for (let at = text.indexOf(path); at !== -1; at = text.indexOf(path, at + path.length)) {
    if (!/[\w-]/.test(text.charAt(at - 1)) && !/[\w-]/.test(text.charAt(at + path.length))) {
      return true;
    }
  }
  return false;
}
