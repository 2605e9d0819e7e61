/**
 * The sessions of `ipybox mcp` that run as this user, so that the user can find them from a terminal.
 *
 * A session's file contains the token for deciding approvals. Only its user can read it, in a
 * folder that the sandbox never opens and that no workspace may contain.
 */
import { z } from "zod";
import { bodyOf, directClient } from "../base/http.ts";
import { isInside } from "../process/trusted_path.ts";
import { lockedRecords, lockRecord } from "../files/locks.ts";
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
 * Announces a session with a file that stays locked: others can take over a port that was closed.
 */
export async function announceSession(session: RunningSession): Promise<AsyncDisposable> {
  const folder = inState("sessions");
  if (folder === undefined) return { [Symbol.asyncDispose]: () => Promise.resolve() };
  await prepareSessionsFolder();
  return await lockRecord(folder, session);
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
