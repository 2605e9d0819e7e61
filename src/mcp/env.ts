import { join } from "node:path";
import { type Logger, silentLogger } from "../base/log.ts";
import type { TrustSetting } from "../files/own_entries.ts";
import { lstatIfPresent } from "../files/safe.ts";
import { ownVariables, readVariables } from "../sandbox/own_variables.ts";

/** The last warning about each file: it is read again for each start of a server. */
const warned = new Map<string, string>();

/** Reads the variables of a workspace's `.env` that are the user's, rather than executed code's; or all. */
export async function readDotenv(
  workspace: string,
  log: Logger = silentLogger,
  trust: TrustSetting = "recorded",
): Promise<Readonly<Record<string, string>>> {
  const path = join(workspace, ".env");
  if ((await lstatIfPresent(path))?.isSymlink) {
    log.warn(`${path} is ignored: code can write what a link leads to. Put a copy in its place`);
  }
  const file = await readVariables(workspace);
  if (trust === "all") return file.variables;
  const own = await ownVariables(workspace, file);
  const others = Object.keys(file.variables).filter((name) => !Object.hasOwn(own, name));
  const warning = others.length === 0
    ? ""
    : `${path}: ignored ${listed(others)}, which code that ran here may have written. ` +
      "Review the file and accept it with `ipybox trust`";
  if (warning !== "" && warned.get(path) !== warning) log.warn(warning);
  warned.set(path, warning);
  return own;
}

/** Names in a sentence. Code may have written thousands. */
function listed(names: readonly string[]): string {
  const shown = names.slice(0, 5).map((name) => name.slice(0, 50));
  return [...shown, ...names.length > 5 ? [`${names.length - 5} more`] : []].join(", ");
}
