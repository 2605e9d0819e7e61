import { dirname } from "node:path";
import { ConfigError } from "../base/errors.ts";
import { BearerTokens, type HttpToken } from "../mcp_server/http/bearer_tokens.ts";
import type { Placement } from "../place/placement.ts";
import { UsageError } from "./command.ts";
import { readUserFile } from "./shared.ts";

/** Reads a placement that a line names; paths are relative to the folder. */
type ReadPlacement = (where: string, folder: string) => Promise<Placement>;

/** Reads the file of `--token-file`. Errors name the line, but nothing that may be a token. */
export async function readTokenFile(
  file: string,
  readPlacement: ReadPlacement,
): Promise<HttpToken[]> {
  const tokens: HttpToken[] = [];
  const checked = new BearerTokens();
  for (const [index, line] of (await readUserFile(file)).split("\n").entries()) {
    const [token, ...settings] = line.trim().split(/\s+/);
    if (token === undefined || token === "" || token.startsWith("#")) continue;
    try {
      const entry = {
        token,
        ...await settingsOf(settings, (where) => readPlacement(where, dirname(file))),
      };
      checked.add(entry);
      tokens.push(entry);
    } catch (error) {
      const isTold = error instanceof UsageError || error instanceof ConfigError ||
        error instanceof TypeError || error instanceof RangeError;
      if (!isTold) throw error;
      throw new UsageError(`Line ${index + 1} of "${file}": ${error.message}`, { cause: error });
    }
  }
  return tokens;
}

async function settingsOf(
  settings: readonly string[],
  readPlacement: (where: string) => Promise<Placement>,
): Promise<Pick<HttpToken, "placement" | "maxSessions">> {
  const given = new Map<string, string>();
  for (const setting of settings) {
    const [, name, value] = /^(placement|sessions)=(.+)$/.exec(setting) ?? [];
    // The setting is not shown, because it may be another token.
    if (name === undefined || value === undefined) {
      throw new UsageError(
        "After the token, only placement=WHERE and sessions=N can follow, with spaces between them " +
          "and none in them; other tokens have their own lines",
      );
    }
    if (given.has(name)) throw new UsageError(`${name} is given twice: keep one`);
    given.set(name, value);
  }
  const sessions = given.get("sessions");
  if (sessions !== undefined && !/^[1-9]\d{0,5}$/.test(sessions)) {
    throw new UsageError(`sessions takes a whole number above 0: received "${sessions}"`);
  }
  const where = given.get("placement");
  return {
    placement: where === undefined ? undefined : await readPlacement(where),
    maxSessions: sessions === undefined ? undefined : Number(sessions),
  };
}
