import { dirname, join, resolve } from "node:path";
import { parseEnv } from "node:util";
import { FILE_IDENTITY, OwnEntries } from "../files/own_entries.ts";
import { lstatIfPresent, readHostileFile } from "../files/safe.ts";
import { lstatIfAllowed, realPathIfSeen } from "../process/trusted_path.ts";

/**
 * The file in a workspace whose presence shows that code could write to it. It must stay hidden
 * from code.
 */
export const CODE_NOTE = ".ipybox/code-ran";

/** The variables in a `.env`, no matter who wrote them. */
interface DotenvFile {
  readonly variables: Readonly<Record<string, string>>;
  /** Identifies the file: a replacement is another file; `null` if it is missing. */
  readonly identity: string | null;
}

const NO_FILE: DotenvFile = { variables: {}, identity: null };

/** Reads the `.env` of a workspace. A link or a folder counts as missing. */
export async function readVariables(workspace: string): Promise<DotenvFile> {
  const path = join(workspace, ".env");
  const status = await lstatIfPresent(path);
  if (!status?.isFile) return NO_FILE;
  const { dev, ino, birthtime } = status;
  const identity = birthtime === null ? null : `${dev}:${ino}:${birthtime.getTime()}`;
  return { variables: parseDotenv(await readHostileFile(path) ?? ""), identity };
}

/** The variables in the text of a `.env` file. */
export function parseDotenv(text: string): Record<string, string> {
  const variables = Object.entries(parseEnv(text.replace(/^\ufeff/, "")));
  return Object.fromEntries(
    variables.flatMap(([name, value]) => value === undefined ? [] : [[name, value]]),
  );
}

/**
 * The variables of a workspace's `.env` that are the user's: all until code could write there; then those whose
 * names were there before, or were accepted since. Their values may change in the file, which code does not
 * see. In a file that was put in its place, only the same values count.
 */
export async function ownVariables(
  workspace: string,
  { variables, identity }: DotenvFile,
): Promise<Readonly<Record<string, string>>> {
  const own = await recordOf(workspace);
  if (!own.exists) return await couldWrite(workspace) ? {} : variables;
  const isSame = identity !== null && own.has(FILE_IDENTITY, identity) &&
    !await couldWriteAbove(workspace); // code of a surrounding workspace may see this file
  const counts = ([name, value]: [string, string]) =>
    own.has(name, value) || (isSame && own.entryOf(name) !== undefined);
  return Object.fromEntries(Object.entries(variables).filter(counts));
}

/** Records, before code can write to a workspace for the first time, which variables are the user's. */
export async function recordVariables(workspace: string): Promise<void> {
  const own = await recordOf(workspace);
  if (own.exists) return;
  const file = await couldWrite(workspace) ? NO_FILE : await readVariables(workspace);
  await own.replace(entriesOf(file), true);
}

/** Accepts the variables of a file as they are; returns whether that could be recorded. */
export async function acceptVariables(workspace: string, file: DotenvFile): Promise<boolean> {
  return await (await recordOf(workspace)).replace(entriesOf(file));
}

function entriesOf({ variables, identity }: DotenvFile): Readonly<Record<string, string | null>> {
  return { ...variables, [FILE_IDENTITY]: identity };
}

async function recordOf(workspace: string): Promise<OwnEntries> {
  return await OwnEntries.open(workspace, "variables");
}

/** Whether code could write to a folder: it ran there, or in a surrounding workspace. */
export async function couldWrite(workspace: string): Promise<boolean> {
  return (await recordOf(workspace)).exists ||
    await lstatIfPresent(join(workspace, CODE_NOTE)) !== undefined ||
    await couldWriteAbove(workspace);
}

async function couldWriteAbove(workspace: string): Promise<boolean> {
  const real = await realPathIfSeen(resolve(workspace));
  for (let folder = dirname(real); folder !== dirname(folder); folder = dirname(folder)) {
    if ((await recordOf(folder)).exists) return true;
    if (await lstatIfAllowed(join(folder, CODE_NOTE)) !== undefined) return true;
  }
  return false;
}
