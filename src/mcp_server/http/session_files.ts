import { join } from "node:path";
import { ConfigError, EnvironmentNotReadyError } from "../../base/errors.ts";
import { Deadline } from "../../base/deadline.ts";
import { abortable } from "../../base/signals.ts";
import {
  BODY_TIMEOUT_MS,
  Refused,
  requireMethod,
  tooLarge,
  tooSlow,
} from "../../calls/http_checks.ts";
import { ifPresent } from "../../files/safe.ts";
import {
  type Entry,
  PathError,
  pathParts,
  type WorkspaceFiles,
} from "../../place/workspace_files.ts";
import { STATE_FOLDER } from "../../process/trusted_path.ts";
import { GENERATED } from "../../sandbox/workspace.ts";
import { usedUntilSent } from "./answers.ts";
import type { PooledSession, SessionPool } from "./sessions.ts";

/**
 * Answers requests for a session's files, at `/sessions/ID/files/PATH`: `GET` and `PUT`. `GET` of a path
 * that ends with a slash lists a folder.
 */
export async function serveFiles(
  request: Request,
  owner: string,
  pool: SessionPool,
): Promise<Response | undefined> {
  const { pathname } = new URL(request.url);
  const [, id, path] = /^\/sessions\/([^/]+)\/files\/(.*)$/.exec(pathname) ?? [];
  if (id === undefined || path === undefined) return undefined;
  const pooled = pool.find(owner, id);
  if (pooled === undefined) throw new Refused(404, "No such session");
  return await usedUntilSent(pooled.use(), async () => {
    return await answer(request, path, pooled).catch((error: unknown) => {
      if (error instanceof ConfigError) throw new Refused(409, error.message);
      if (error instanceof EnvironmentNotReadyError) throw new Refused(503, error.message);
      if (!(error instanceof PathError)) throw error;
      throw new Refused(STATUS[error.reason], error.message);
    });
  });
}

async function answer(
  request: Request,
  path: string,
  { session, place }: PooledSession,
): Promise<Response> {
  const isFolder = path === "" || path.endsWith("/");
  const parts = path === "" ? [] : pathParts(decoded(isFolder ? path.slice(0, -1) : path));
  if (parts[0] === STATE_FOLDER) throw new Refused(403, `Clients cannot access ${STATE_FOLDER}`);
  const files = await session.workspaceFiles();
  // If code does not see this machine's workspace, only ipybox writes to it, such as images.
  const own = session.showsWorkspace ? undefined : place.path;
  if (isFolder || request.method !== "PUT") {
    requireMethod(request, "GET");
    if (isFolder) {
      const entries = await entriesOf(parts, { files, own });
      return Response.json(entries, { headers: { "cache-control": "no-store" } });
    }
    // Its length is not sent, because code may write to the file during the transfer.
    return new Response(await contentOf(parts, { files, own }), { headers: DOWNLOAD });
  }
  if (parts[0] === GENERATED) throw new Refused(403, `${GENERATED} is generated`);
  await files.write(parts, uploadedPieces(request.body ?? new Blob([]).stream()));
  return new Response(null, { status: 204 });
}

const STATUS = { missing: 404, refused: 403, unanswered: 503 } as const;

/** Where a session's files are. */
interface Places {
  readonly files: WorkspaceFiles;
  /** The folder on this machine that code does not see. */
  readonly own: string | undefined;
}

async function entriesOf(parts: readonly string[], { files, own }: Places): Promise<Entry[]> {
  const others = own === undefined ? [] : await ownEntries(join(own, ...parts));
  const found = await files.list(parts).catch((error: unknown) => {
    if (isMissing(error) && others.length > 0) return [];
    throw error;
  });
  const names = new Set(found.map(({ name }) => name));
  const hidden = parts.length === 0 ? STATE_FOLDER : undefined;
  return [...found, ...others.filter(({ name }) => !names.has(name))]
    .filter(({ name }) => name !== hidden)
    .sort((a, b) => a.name < b.name ? -1 : 1);
}

async function contentOf(
  parts: readonly string[],
  { files, own }: Places,
): Promise<ReadableStream<Uint8Array>> {
  try {
    return await files.read(parts);
  } catch (error) {
    const path = own === undefined || !isMissing(error) ? undefined : join(own, ...parts);
    if (path === undefined || !(await ifPresent(Deno.lstat(path)))?.isFile) throw error;
    return (await Deno.open(path)).readable;
  }
}

function isMissing(error: unknown): boolean {
  return error instanceof PathError && error.reason !== "refused";
}

/** The entries of a folder on this machine; none if it does not exist. */
async function ownEntries(folder: string): Promise<Entry[]> {
  const entries: Entry[] = [];
  for (const { name } of await ifPresent(Array.fromAsync(Deno.readDir(folder))) ?? []) {
    const { isFile, size, mtime } = await Deno.lstat(join(folder, name));
    const modified = (mtime ?? new Date(0)).toISOString();
    entries.push({ name, type: isFile ? "file" : "folder", size: isFile ? size : 0, modified });
  }
  return entries;
}

/** Code may have written the file, so no browser should render it as a page. */
const DOWNLOAD = {
  "content-type": "application/octet-stream",
  "content-disposition": "attachment",
  "x-content-type-options": "nosniff",
  "cache-control": "no-store",
} as const;

function decoded(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    throw new Refused(400, "The path is not well-formed");
  }
}

const MAX_UPLOAD_BYTES = 2 ** 30;

/** Yields an upload's bytes, or cancels it. */
export async function* uploadedPieces(
  body: ReadableStream<Uint8Array>,
): AsyncGenerator<Uint8Array> {
  const reader = body.getReader();
  const next = async (): Promise<Uint8Array | undefined> => {
    using deadline = new Deadline(BODY_TIMEOUT_MS);
    try {
      return (await abortable(reader.read(), deadline.signal)).value;
    } catch (error) {
      throw deadline.passed ? tooSlow() : error;
    }
  };
  let size = 0;
  try {
    for (let piece = await next(); piece !== undefined; piece = await next()) {
      size += piece.length;
      if (size > MAX_UPLOAD_BYTES) throw tooLarge(MAX_UPLOAD_BYTES);
      yield piece;
    }
  } finally {
    void reader.cancel().catch(() => {}); // it has already failed
  }
}
