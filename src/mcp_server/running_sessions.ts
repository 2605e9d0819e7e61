/**
 * The sessions of `ipybox mcp` that run as this user, so that the user can find them from a terminal.
 *
 * A session's file holds the token with which approvals are decided. So it is readable by its user alone,
 * in a folder that the sandbox never opens and that no workspace may contain.
 *
 * @module
 */
import { join } from "node:path";
import { z } from "zod";
import { bodyOf, directClient } from "../base/http.ts";
import { isInside } from "../process/trusted_path.ts";
import { sessionsFolder } from "../files/user_folders.ts";

const recordSchema = z.object({
  workspace: z.string(),
  /** What it is called, where a server has several; else empty. */
  label: z.string(),
  /** The application's door, and what opens it. */
  url: z.url(),
  token: z.string(),
});

/** A session that runs. */
export type RunningSession = Readonly<z.infer<typeof recordSchema>>;

/** Makes the folder, before a sandbox starts: what is not there cannot be hidden. */
export async function prepareSessionsFolder(): Promise<void> {
  const folder = sessionsFolder();
  if (folder !== undefined) await Deno.mkdir(folder, { recursive: true, mode: 0o700 });
}

/** Has a session found by its user. */
export async function announceSession(session: RunningSession): Promise<AsyncDisposable> {
  const folder = sessionsFolder();
  if (folder === undefined) return { [Symbol.asyncDispose]: () => Promise.resolve() };
  await prepareSessionsFolder();
  const path = join(folder, `${crypto.randomUUID()}.json`);
  await Deno.writeTextFile(path, JSON.stringify(session), { createNew: true, mode: 0o600 });
  return { [Symbol.asyncDispose]: () => forget(path) };
}

/** Finds the sessions of this user. Those that did not end cleanly are forgotten. */
export async function runningSessions(workspace?: string): Promise<RunningSession[]> {
  const folder = sessionsFolder();
  if (folder === undefined) return [];
  const found: RunningSession[] = [];
  for (const path of await recordsIn(folder)) {
    const session = await readRecord(path);
    if (session === undefined || !await answers(session)) await forget(path);
    else if (workspace === undefined || isInside(session.workspace, workspace)) found.push(session);
  }
  return found;
}

/** Asks a session for a link to its approval page. */
export async function pageLinkOf(session: RunningSession): Promise<string> {
  const response = await ask(session, "POST", "/page-link");
  return z.object({ url: z.url() }).parse(await response.json()).url;
}

async function recordsIn(folder: string): Promise<string[]> {
  try {
    const entries = await Array.fromAsync(Deno.readDir(folder));
    const files = entries.filter(({ name, isFile }) => isFile && name.endsWith(".json"));
    return files.map(({ name }) => join(folder, name)).sort();
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return [];
    throw error;
  }
}

/** A record; `undefined` for one that is damaged or was removed in the meantime. */
async function readRecord(path: string): Promise<RunningSession | undefined> {
  try {
    return recordSchema.parse(JSON.parse(await Deno.readTextFile(path)));
  } catch (error) {
    const isDamaged = error instanceof SyntaxError || error instanceof z.ZodError;
    if (isDamaged || error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}

async function answers(session: RunningSession): Promise<boolean> {
  try {
    const response = await ask(session, "GET", "/status");
    await response.body?.cancel();
    return response.ok; // another program at the same port knows no such token
  } catch (error) {
    if (error instanceof TypeError) return false; // nobody is there
    throw error;
  }
}

async function ask(
  { url, token }: RunningSession,
  method: string,
  path: string,
): Promise<Response> {
  using client = directClient(new URL(url).hostname);
  const signal = AbortSignal.timeout(ANSWER_MS);
  const headers = { authorization: `Bearer ${token}` };
  const response = await fetch(new URL(path, url), { client, method, headers, signal });
  return new Response(bodyOf(response, signal), response);
}

/** How long a session may take to answer; a busy one is not forgotten for less. */
const ANSWER_MS = 10_000;

async function forget(path: string): Promise<void> {
  try {
    await Deno.remove(path);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}
