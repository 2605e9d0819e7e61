import { join } from "node:path";
import { parse } from "@std/dotenv";
import { type Logger, silentLogger } from "../base/log.ts";
import { isPlainFile, lstatIfPresent, readHostileFile } from "../files/safe.ts";
import { foreignDotenv } from "../sandbox/workspace.ts";

/** Reads a workspace's `.env`, unless executed code may have written it. */
export async function readDotenv(
  workspace: string,
  log: Logger = silentLogger,
): Promise<Record<string, string>> {
  const path = join(workspace, ".env");
  const status = await lstatIfPresent(path);
  if (status?.isDirectory) return {}; // a virtual environment of that name
  if (status?.isSymlink) {
    log.warn(`${path} is ignored: code can write what a link leads to. Put a copy in its place`);
    return {};
  }
  const text = await readHostileFile(path);
  return text === undefined || !await isOwn(workspace, log) ? {} : parse(text);
}

/** Whether a workspace has a `.env` file of the user's own, which executed code cannot write. */
export async function hasOwnDotenv(
  workspace: string,
  log: Logger = silentLogger,
): Promise<boolean> {
  return await isPlainFile(join(workspace, ".env")) && await isOwn(workspace, log);
}

async function isOwn(workspace: string, log: Logger): Promise<boolean> {
  const why = await foreignDotenv(workspace);
  if (why !== undefined) log.warn(`${join(workspace, ".env")} is ignored: ${why}`);
  return why === undefined;
}
