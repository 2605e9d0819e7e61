import { join } from "node:path";
import { parse } from "@std/dotenv";
import { type Logger, silentLogger } from "../base/log.ts";
import { DOTENV_NOTE } from "../sandbox/protect.ts";
import { isPlainFile, lstatIfPresent, readHostileFile } from "../files/safe.ts";

/** Reads a workspace's `.env`, unless executed code may have written it. */
export async function readDotenv(
  workspace: string,
  log: Logger = silentLogger,
): Promise<Record<string, string>> {
  const text = await readHostileFile(join(workspace, ".env"));
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
  const note = join(workspace, DOTENV_NOTE);
  if (await lstatIfPresent(note) === undefined) return true; // a link, as a repository may have, counts
  log.warn(
    `${join(workspace, ".env")} is ignored: code that ran here may have written it. ` +
      `If it is yours: rm '${note}'`,
  );
  return false;
}
