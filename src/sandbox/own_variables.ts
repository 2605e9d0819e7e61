import { dirname, join, resolve } from "node:path";
import { parse } from "@std/dotenv";
import { z } from "zod";
import {
  isPlainFile,
  lockUserFolder,
  lstatIfPresent,
  readHostileFile,
  replaceHostileFile,
} from "../files/safe.ts";
import { isUnwritable, usableState } from "../files/user_folders.ts";
import { lstatIfAllowed, realPathIfSeen } from "../process/trusted_path.ts";
import { sha256 } from "../json/digest.ts";

/**
 * The names in a workspace's `.env` that are the user's: those from before code could write there, and
 * those that they accepted since. The record is in the user's state folder, which code cannot reach.
 */
type Names = readonly string[];

/** The file in a workspace whose presence says that code could write to it. It must stay hidden from code. */
export const CODE_NOTE = ".ipybox/code-ran";

/** Reads the variables of a workspace's `.env`, whoever wrote them; of none that is a link or a folder. */
export async function readVariables(workspace: string): Promise<Record<string, string>> {
  const path = join(workspace, ".env");
  if (!await isPlainFile(path)) return {};
  return parse(await readHostileFile(path) ?? "");
}

/** The names that count; `undefined` if all do, because no code could write the file yet. */
export async function ownNames(workspace: string): Promise<Names | undefined> {
  const real = await realPathIfSeen(resolve(workspace));
  const names = await recorded(real);
  if (names !== undefined) return names;
  return await couldWrite(real) ? [] : undefined;
}

/** Records, before code can write to a workspace for the first time, which names are the user's. */
export async function recordNames(workspace: string): Promise<void> {
  const real = await realPathIfSeen(resolve(workspace));
  if (await recorded(real) !== undefined) return;
  const names = await couldWrite(real) ? [] : Object.keys(await readVariables(real));
  await record(real, (earlier) => earlier ?? names);
}

/** Accepts the names that are in the file now; whether that could be recorded. */
export async function acceptNames(workspace: string, names: Names): Promise<boolean> {
  const real = await realPathIfSeen(resolve(workspace));
  return await record(real, (earlier = []) => [...new Set([...earlier, ...names])]);
}

/** Whether code could write to a folder: it ran there, or in a workspace around it. */
async function couldWrite(workspace: string): Promise<boolean> {
  if (await lstatIfPresent(join(workspace, CODE_NOTE)) !== undefined) return true;
  for (let folder = dirname(workspace); folder !== dirname(folder); folder = dirname(folder)) {
    if (await recorded(folder) !== undefined) return true;
    if (await lstatIfAllowed(join(folder, CODE_NOTE)) !== undefined) return true;
  }
  return false;
}

const recordSchema = z.object({ workspace: z.string(), names: z.array(z.string()) });

/** Records where the user's state folder cannot be used, for this process. */
const unkept = new Map<string, Names>();

function placeOf(
  workspace: string,
): { readonly folder: string; readonly path: string } | undefined {
  const folder = usableState("variables");
  if (folder === undefined) return undefined;
  return { folder, path: join(folder, `${sha256(workspace).slice(0, 32)}.json`) };
}

/** A damaged record accepts nothing. */
async function recorded(workspace: string): Promise<Names | undefined> {
  const place = placeOf(workspace);
  const text = place && await readHostileFile(place.path);
  if (text === undefined) return unkept.get(workspace);
  try {
    const { success, data } = recordSchema.safeParse(JSON.parse(text));
    return success && data.workspace === workspace ? data.names : [];
  } catch (error) {
    if (error instanceof SyntaxError) return [];
    throw error;
  }
}

async function record(
  workspace: string,
  change: (earlier: Names | undefined) => Names,
): Promise<boolean> {
  const place = placeOf(workspace);
  try {
    if (place !== undefined) {
      using _lock = await lockUserFolder(place.folder);
      const names = change(await recorded(workspace));
      await replaceHostileFile(place.path, JSON.stringify({ workspace, names }) + "\n");
      return true;
    }
  } catch (error) {
    if (!isUnwritable(error)) throw error;
  }
  unkept.set(workspace, change(unkept.get(workspace)));
  return false;
}
