import { BearerTokens, EVERYBODY } from "../../src/mcp_server/http/bearer_tokens.ts";
import {
  KEPT_FOLDERS,
  lockOf,
  makeSessionFolder,
} from "../../src/mcp_server/http/session_folders.ts";

/**
 * Leaves as many folders of ended sessions in a workspace as a server keeps of a token.
 *
 * @param workspace The workspace.
 * @param token Whose sessions they were; `undefined` for a server without tokens.
 * @param last When the last of them ended; those before ended a second apart.
 * @returns Their names, the oldest first.
 */
export async function leaveEndedSessions(
  workspace: string,
  token?: string,
  last = new Date(),
): Promise<string[]> {
  const tokens = new BearerTokens();
  if (token !== undefined) tokens.add(token);
  const [owner = EVERYBODY] = tokens.owners.keys();
  const names: string[] = [];
  for (let after = KEPT_FOLDERS - 1; after >= 0; after--) {
    const name = crypto.randomUUID();
    const { path, [Symbol.dispose]: end } = await makeSessionFolder(workspace, name, { owner });
    end();
    const endedAt = new Date(last.getTime() - after * 1000);
    await Deno.utime(lockOf(path), endedAt, endedAt);
    names.push(name);
  }
  return names;
}
