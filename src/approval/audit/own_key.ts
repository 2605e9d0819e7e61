import { createHmac } from "node:crypto";
import { join } from "node:path";
import { randomToken } from "../../base/tokens.ts";
import { lockUserFolder, readHostileFile, replaceHostileFile } from "../../files/safe.ts";
import { isUnwritable, usableState } from "../../files/user_folders.ts";

/** The key of a workspace's log, which cannot come with a repository; `undefined` without a state folder. */
export async function ownKey(workspace: string): Promise<Uint8Array | undefined> {
  const folder = usableState("audit");
  if (folder === undefined) return undefined;
  try {
    const secret = await readOrMake(folder);
    return createHmac("sha256", secret).update(await Deno.realPath(workspace)).digest();
  } catch (error) {
    if (!isUnwritable(error)) throw error;
    return undefined;
  }
}

async function readOrMake(folder: string): Promise<string> {
  const path = join(folder, "secret");
  using _lock = await lockUserFolder(folder);
  const present = await readHostileFile(path);
  if (present !== undefined && present !== "") return present;
  const made = randomToken();
  await replaceHostileFile(path, made);
  return made;
}
