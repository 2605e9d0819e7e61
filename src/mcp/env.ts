import { join } from "node:path";
import { type Logger, silentLogger } from "../base/log.ts";
import { lstatIfPresent } from "../files/safe.ts";
import { ownNames, readVariables } from "../sandbox/own_variables.ts";

/** Reads the variables of a workspace's `.env` that are the user's, rather than executed code's. */
export async function readDotenv(
  workspace: string,
  log: Logger = silentLogger,
): Promise<Record<string, string>> {
  const path = join(workspace, ".env");
  if ((await lstatIfPresent(path))?.isSymlink) {
    log.warn(`${path} is ignored: code can write what a link leads to. Put a copy in its place`);
  }
  const all = Object.entries(await readVariables(workspace));
  if (all.length === 0) return {};
  const names = await ownNames(workspace);
  const own = names === undefined ? all : all.filter(([name]) => names.includes(name));
  if (own.length < all.length) {
    const others = all.filter((entry) => !own.includes(entry)).map(([name]) => name);
    log.warn(
      `${path}: ignored ${listed(others)}, which code that ran here may have added. ` +
        "Review the file and accept it with `ipybox trust`",
    );
  }
  return Object.fromEntries(own);
}

/** Names in a sentence. Code may have written thousands. */
function listed(names: readonly string[]): string {
  const shown = names.slice(0, 5).map((name) => name.slice(0, 50));
  return [...shown, ...names.length > 5 ? [`${names.length - 5} more`] : []].join(", ");
}
