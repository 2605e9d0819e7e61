import { isAbsolute, join } from "node:path";
import { mayRead } from "../process/permission.ts";
import { isInside } from "../process/trusted_path.ts";

/** How much of a text, and how many files that it may name, are looked at: a server decides on both. */
const MAX_TEXT = 64 * 1024;
const MAX_FILES = 50;
const MAX_LENGTH = 500;

/** What stands between the words of a text, and around the paths in them. */
const SEPARATORS = /[\s"'`()[\]{}<>,;|]/;

/** Finds a file that a server wrote into its own folder and speaks of by its path. */
export async function fileNamedIn(folder: string, text: string): Promise<string | undefined> {
  if (!mayRead(folder)) return undefined;
  const paths = new Set<string>();
  for (const word of text.slice(0, MAX_TEXT).split(SEPARATORS)) {
    if (paths.size >= MAX_FILES) break;
    const path = pathIn(folder, word);
    if (path !== undefined) paths.add(path);
  }
  for (const path of paths) if (await isFile(join(folder, path))) return path;
  return undefined;
}

/** The path below a folder that a word stands for, if it may be one. */
function pathIn(folder: string, word: string): string | undefined {
  if (word.length > MAX_LENGTH || !/[./]/.test(word)) return undefined;
  const path = (isInside(word, folder) ? word.slice(folder.length + 1) : word)
    .replace(/[.:!?]{1,3}$/, "").replace(/^\.\//, "");
  const isBelow = path !== "" && !isAbsolute(path) && !path.includes("\0") &&
    !path.split("/").includes("..");
  return isBelow ? path : undefined;
}

async function isFile(path: string): Promise<boolean> {
  try {
    return (await Deno.lstat(path)).isFile;
  } catch {
    return false; // the server decides what is there; most words are no files
  }
}
