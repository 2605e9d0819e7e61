import { dirname, join, resolve } from "node:path";
import { z } from "zod";
import { parse } from "@std/dotenv";
import {
  lockUserFolder,
  lstatIfPresent,
  readHostileFile,
  replaceHostileFile,
} from "../files/safe.ts";
import { isUnwritable, usableState } from "../files/user_folders.ts";
import { sha256 } from "../json/digest.ts";
import { lstatIfAllowed, realPathIfSeen } from "../process/trusted_path.ts";

/** The file in a workspace whose presence says that code could write to it. It must stay hidden from code. */
export const CODE_NOTE = ".ipybox/code-ran";

/** The variables in a `.env`, whoever wrote them. */
export interface DotenvFile {
  readonly variables: Readonly<Record<string, string>>;
  /** Which file it is. One in its place is another one; `null` if there is none. */
  readonly identity: string | null;
}

const NO_FILE: DotenvFile = { variables: {}, identity: null };

/** Reads the `.env` of a workspace. One that is a link, or a folder, counts as none. */
export async function readVariables(workspace: string): Promise<DotenvFile> {
  const path = join(workspace, ".env");
  const status = await lstatIfPresent(path);
  if (!status?.isFile) return NO_FILE;
  const { dev, ino, birthtime } = status;
  const identity = birthtime === null ? null : `${dev}:${ino}:${birthtime.getTime()}`;
  return { variables: parse(await readHostileFile(path) ?? ""), identity };
}

/**
 * The variables of a workspace's `.env` that are the user's: all until code could write there; then those whose
 * names were there before, or were accepted since. Their values may change in the file, which code does not
 * see. In a file that was put in its place, only the same values count.
 */
export async function ownVariables(
  workspace: string,
  file: DotenvFile,
): Promise<Readonly<Record<string, string>>> {
  const real = await realPathIfSeen(resolve(workspace));
  const own = await recorded(real);
  if (own === undefined) return await couldWrite(real) ? {} : file.variables;
  const isSame = file.identity !== null && file.identity === own.identity &&
    !await couldWriteAbove(real); // code of a workspace around it may see this file
  const counts = ([name, value]: [string, string]) =>
    Object.hasOwn(own.values, name) && (isSame || own.values[name] === digestOf(real, name, value));
  return Object.fromEntries(Object.entries(file.variables).filter(counts));
}

/** Records, before code can write to a workspace for the first time, which variables are the user's. */
export async function recordVariables(workspace: string): Promise<void> {
  const real = await realPathIfSeen(resolve(workspace));
  if (await recorded(real) !== undefined) return;
  const file = await couldWrite(real) ? NO_FILE : await readVariables(real);
  await record(real, (earlier) => earlier ?? recordOf(real, file));
}

/** Accepts the variables of a file as they are; whether that could be recorded. */
export async function acceptVariables(workspace: string, file: DotenvFile): Promise<boolean> {
  const real = await realPathIfSeen(resolve(workspace));
  return await record(real, () => recordOf(real, file));
}

/** Whether code could write to a folder: it ran there, or in a workspace around it. */
async function couldWrite(workspace: string): Promise<boolean> {
  return await lstatIfPresent(join(workspace, CODE_NOTE)) !== undefined ||
    await couldWriteAbove(workspace);
}

async function couldWriteAbove(workspace: string): Promise<boolean> {
  for (let folder = dirname(workspace); folder !== dirname(folder); folder = dirname(folder)) {
    if (await recorded(folder) !== undefined) return true;
    if (await lstatIfAllowed(join(folder, CODE_NOTE)) !== undefined) return true;
  }
  return false;
}

/** What is recorded of a workspace's `.env`, in the user's state folder, which code cannot reach. */
const recordSchema = z.object({
  workspace: z.string(),
  identity: z.string().nullable(),
  /** Digests of the values by name. */
  values: z.record(z.string(), z.string()),
});

type VariablesRecord = Readonly<z.infer<typeof recordSchema>>;

/** Records where the user's state folder cannot be used, for this process. */
const unkept = new Map<string, VariablesRecord>();

function recordOf(workspace: string, { variables, identity }: DotenvFile): VariablesRecord {
  const values = Object.entries(variables)
    .map(([name, value]) => [name, digestOf(workspace, name, value)] as const);
  return { workspace, identity, values: Object.fromEntries(values) };
}

function digestOf(...texts: readonly string[]): string {
  return sha256(JSON.stringify(texts));
}

function placeOf(
  workspace: string,
): { readonly folder: string; readonly path: string } | undefined {
  const folder = usableState("variables");
  if (folder === undefined) return undefined;
  return { folder, path: join(folder, `${sha256(workspace).slice(0, 32)}.json`) };
}

/** A damaged record accepts nothing. */
async function recorded(workspace: string): Promise<VariablesRecord | undefined> {
  const text = await recordText(placeOf(workspace)?.path);
  if (text === undefined) return unkept.get(workspace);
  const nothing = recordOf(workspace, NO_FILE);
  try {
    const { success, data } = recordSchema.safeParse(JSON.parse(text));
    return success && data.workspace === workspace ? data : nothing;
  } catch (error) {
    if (error instanceof SyntaxError) return nothing;
    throw error;
  }
}

async function recordText(path: string | undefined): Promise<string | undefined> {
  try {
    return path && await readHostileFile(path);
  } catch (error) {
    if (error instanceof Deno.errors.PermissionDenied) return undefined; // a folder of another user
    throw error;
  }
}

async function record(
  workspace: string,
  change: (earlier: VariablesRecord | undefined) => VariablesRecord,
): Promise<boolean> {
  const place = placeOf(workspace);
  try {
    if (place !== undefined) {
      using _lock = await lockUserFolder(place.folder);
      const text = JSON.stringify(change(await recorded(workspace))) + "\n";
      await replaceHostileFile(place.path, text);
      return true;
    }
  } catch (error) {
    if (!isUnwritable(error)) throw error;
  }
  unkept.set(workspace, change(unkept.get(workspace)));
  return false;
}
