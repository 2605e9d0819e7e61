/**
 * The sessions of `ipybox mcp` that run as this user, so that the user can find them from a terminal.
 *
 * A session's file contains the token for deciding approvals. Only its user can read it, in a
 * folder that the sandbox never opens and that no workspace may contain.
 */
import { join } from "node:path";
import { z } from "zod";
import { bodyOf, directClient } from "../base/http.ts";
import { isInside } from "../process/trusted_path.ts";
import { ifPresent } from "../files/safe.ts";
import { inState } from "../files/user_folders.ts";

const recordSchema = z.object({
  workspace: z.string(),
  /** Its name, if the server has several; otherwise empty. */
  label: z.string(),
  /** The address and the token of the application's door. */
  url: z.url(),
  token: z.string(),
});

export type RunningSession = Readonly<z.infer<typeof recordSchema>>;

/** Creates the folder before a sandbox starts, because a missing folder cannot be hidden. */
export async function prepareSessionsFolder(): Promise<void> {
  const folder = inState("sessions");
  if (folder !== undefined) await Deno.mkdir(folder, { recursive: true, mode: 0o700 });
}

/**
 * Announces a session with a file that stays locked until its process ends: others can take over a
 * port that was closed.
 */
export async function announceSession(session: RunningSession): Promise<AsyncDisposable> {
  const folder = inState("sessions");
  if (folder === undefined) return { [Symbol.asyncDispose]: () => Promise.resolve() };
  await prepareSessionsFolder();
  return await lockRecord(folder, session);
}

const RECORD = ".json";

/** Writes a locked record, readable only by this user. Disposing it removes the record. */
async function lockRecord(folder: string, record: RunningSession): Promise<AsyncDisposable> {
  const fresh = join(folder, crypto.randomUUID());
  await using parts = new AsyncDisposableStack();
  const file = await Deno.open(fresh, { createNew: true, write: true, mode: 0o600 });
  parts.defer(() => file.close());
  parts.defer(() => ifPresent(Deno.remove(fresh + RECORD))); // another process may be quicker
  parts.defer(() => ifPresent(Deno.remove(fresh)));
  await file.lock(true);
  await Deno.writeTextFile(fresh, JSON.stringify(record));
  await Deno.rename(fresh, fresh + RECORD); // nobody ever sees it unlocked or incomplete
  return parts.move();
}

/** Finds the sessions of this user, and removes the records of those that did not end cleanly. */
export async function runningSessions(workspace?: string): Promise<RunningSession[]> {
  const folder = inState("sessions");
  if (folder === undefined) return [];
  const sessions = (await lockedRecords(folder))
    .flatMap((text) => recordSchema.safeParse(JSON.parse(text)).data ?? []); // otherwise of another version
  return sessions.filter((session) =>
    workspace === undefined || isInside(session.workspace, workspace)
  );
}

/** Reads the records of living processes, and removes those of others. */
async function lockedRecords(folder: string): Promise<string[]> {
  const texts: string[] = [];
  const entries = await ifPresent(Array.fromAsync(Deno.readDir(folder))) ?? [];
  const records = entries.filter(({ name, isFile }) => isFile && name.endsWith(RECORD));
  for (const path of records.map(({ name }) => join(folder, name)).sort()) {
    try {
      using file = await Deno.open(path, { read: true, write: true });
      if (await file.tryLock(true)) await Deno.remove(path);
      else texts.push(await Deno.readTextFile(path));
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) throw error; // it has ended in the meantime
    }
  }
  return texts;
}

/** Asks a session for a link to its approval page. */
export async function pageLinkOf(session: RunningSession): Promise<string> {
  const { url, token } = session;
  using client = directClient(new URL(url).hostname);
  const signal = AbortSignal.timeout(ANSWER_MS);
  const headers = { authorization: `Bearer ${token}` };
  const response = await fetch(new URL("/page-link", url), {
    client,
    method: "POST",
    headers,
    signal,
  });
  const text = await new Response(bodyOf(response, signal), response).text();
  return z.object({ url: z.url() }).parse(JSON.parse(text)).url;
}

/** The time limit for a session to answer. */
const ANSWER_MS = 10_000;
