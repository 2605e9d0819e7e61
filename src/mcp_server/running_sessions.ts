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

/**
 * Has a session found by its user. Its file is locked for as long as this process lives: a port says
 * nothing, as any user can listen at one that a process has left.
 */
export async function announceSession(session: RunningSession): Promise<AsyncDisposable> {
  const folder = sessionsFolder();
  if (folder === undefined) return { [Symbol.asyncDispose]: () => Promise.resolve() };
  await prepareSessionsFolder();
  const name = join(folder, crypto.randomUUID());
  const path = `${name}.json`;
  const file = await Deno.open(name, { createNew: true, write: true, mode: 0o600 });
  await file.lock(true); // before others can see it
  await Deno.writeTextFile(name, JSON.stringify(session));
  await Deno.rename(name, path);
  return {
    async [Symbol.asyncDispose]() {
      await forget(path);
      file.close();
    },
  };
}

/** Finds the sessions of this user. Those that did not end cleanly are forgotten. */
export async function runningSessions(workspace?: string): Promise<RunningSession[]> {
  const folder = sessionsFolder();
  if (folder === undefined) return [];
  const found: RunningSession[] = [];
  for (const path of await recordsIn(folder)) {
    const session = await readRecord(path);
    if (session === undefined) await forget(path);
    else if (workspace === undefined || isInside(session.workspace, workspace)) found.push(session);
  }
  return found;
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

/** A record; `undefined` for one that is damaged, or whose process has ended. */
async function readRecord(path: string): Promise<RunningSession | undefined> {
  try {
    using file = await Deno.open(path, { read: true, write: true });
    if (await file.tryLock(true)) return undefined;
    return recordSchema.parse(JSON.parse(await Deno.readTextFile(path)));
  } catch (error) {
    const isDamaged = error instanceof SyntaxError || error instanceof z.ZodError;
    if (isDamaged || error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}

/** How long a session may take to answer. */
const ANSWER_MS = 10_000;

async function forget(path: string): Promise<void> {
  try {
    await Deno.remove(path);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}
