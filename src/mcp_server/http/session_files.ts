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
import {
  type Entry,
  listInside,
  openInside,
  PathError,
  pathParts,
  writeInside,
} from "../../files/inside_folder.ts";
import type { RemoteWorkspace } from "../../place/workspace_files.ts";
import { untilSent } from "./answers.ts";
import type { SessionPool } from "./sessions.ts";

/** The host's own state, which clients cannot access. */
const OWN_STATE = ".ipybox";
const GENERATED = "mcptools";

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
  const pooled = await pool.find(owner, id);
  if (pooled === undefined) throw new Refused(404, "No such session");
  using uses = new DisposableStack();
  uses.use(pooled.use());
  try {
    const isFolder = path === "" || path.endsWith("/");
    const parts = path === "" ? [] : pathParts(decoded(isFolder ? path.slice(0, -1) : path));
    if (parts[0] === OWN_STATE) throw new Refused(403, `Clients cannot access ${OWN_STATE}`);
    const far = await pooled.session.remoteWorkspace();
    if (isFolder || request.method !== "PUT") {
      requireMethod(request, "GET");
      if (isFolder) {
        const entries = await entriesOf(parts, { here: pooled.folder, far });
        return Response.json(entries, { headers: { "cache-control": "no-store" } });
      }
      const bytes = await contentOf(parts, { here: pooled.folder, far });
      // Its length is not sent, because code may write to the file during the transfer.
      const response = new Response(bytes, { headers: DOWNLOAD });
      return untilSent(response, { use: uses.move() });
    }
    if (parts[0] === GENERATED) throw new Refused(403, `${GENERATED} is generated`);
    const body = request.body ?? new Blob([]).stream();
    const pieces = uploadedPieces(body);
    if (far === undefined) await writeInside(pooled.folder, parts, pieces);
    else await far.write(parts, pieces);
    return new Response(null, { status: 204 });
  } catch (error) {
    if (error instanceof ConfigError) throw new Refused(409, error.message);
    if (error instanceof EnvironmentNotReadyError) throw new Refused(503, error.message);
    if (!(error instanceof PathError)) throw error;
    throw new Refused(error.reason === "missing" ? 404 : 403, error.message);
  }
}

/** The entries of a folder: those of the code's workspace, and those that ipybox has stored here. */
async function entriesOf(parts: readonly string[], { here, far }: Places): Promise<Entry[]> {
  const own = await unlessMissing(listInside(here, parts));
  const there = await unlessMissing(far?.list(parts));
  const found = there ?? own;
  if (found === undefined) throw new PathError("missing", `${parts.join("/")} does not exist`);
  const names = new Set(there?.map(({ name }) => name));
  const others = there === undefined ? [] : own?.filter(({ name }) => !names.has(name)) ?? [];
  const hidden = parts.length === 0 ? OWN_STATE : undefined;
  return [...found, ...others].filter(({ name }) => name !== hidden)
    .sort((a, b) => a.name < b.name ? -1 : 1);
}

async function unlessMissing<T>(found: Promise<T> | undefined): Promise<T | undefined> {
  try {
    return await found;
  } catch (error) {
    if (error instanceof PathError && error.reason === "missing") return undefined;
    throw error;
  }
}

/** Where a session's files are. */
interface Places {
  readonly here: string;
  readonly far: RemoteWorkspace | undefined;
}

/** A file of the code's workspace, or one that ipybox has stored here, such as an image. */
async function contentOf(
  parts: readonly string[],
  { here, far }: Places,
): Promise<ReadableStream<Uint8Array>> {
  try {
    if (far !== undefined) return await far.read(parts);
  } catch (error) {
    if (!(error instanceof PathError) || error.reason !== "missing") throw error;
  }
  return (await openInside(here, parts)).bytes;
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

/** Yields an upload's bytes. Unwanted ones are left unread, as in `readWhole()`. */
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
    reader.releaseLock();
  }
}
