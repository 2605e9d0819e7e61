import { ConfigError } from "../../errors.ts";
import { BeneathError, openBeneath, pathParts, writeBeneath } from "../../mcp/beneath.ts";
import { Refused, requireMethod } from "../../tool_server/door.ts";
import type { SessionPool } from "./session_pool.ts";
import type { RequestBudget } from "./request_budget.ts";
import { untilSent } from "./until_sent.ts";
import { uploadedPieces } from "./upload.ts";

/** What {@linkcode serveFiles} works with. */
export interface FileServices {
  /** The sessions. */
  readonly pool: SessionPool;
  /** What requests may take. */
  readonly budget: RequestBudget;
}

/** The host's own state, which is no concern of clients. */
const OWN_STATE = ".ipybox";
const GENERATED = "mcptools";

/**
 * Answers requests for the files of a session, at `/sessions/ID/files/PATH`: `GET` gives a file, `PUT`
 * makes or replaces one.
 */
export async function serveFiles(
  request: Request,
  owner: string,
  { pool, budget }: FileServices,
): Promise<Response | undefined> {
  const { pathname } = new URL(request.url);
  const [, id, path] = /^\/sessions\/([^/]+)\/files\/(.*)$/.exec(pathname) ?? [];
  if (id === undefined || path === undefined) return undefined;
  const pooled = pool.find(owner, id);
  if (pooled === undefined) throw new Refused(404, "There is no such session");
  using uses = new DisposableStack();
  uses.use(pooled.use());
  try {
    uses.use(budget.forFile(owner));
    await pooled.session.filled;
    const parts = pathParts(decoded(path));
    if (parts[0] === OWN_STATE) throw new Refused(403, `${OWN_STATE} is not for clients`);
    if (request.method !== "PUT") {
      requireMethod(request, "GET");
      const file = await openBeneath(pooled.folder, parts);
      // Its length is not told: code may write to it meanwhile.
      const response = new Response(file.bytes, { headers: DOWNLOAD });
      return untilSent(response, { use: uses.move() });
    }
    if (parts[0] === GENERATED) throw new Refused(403, `${GENERATED} is generated`);
    const body = request.body ?? new Blob([]).stream();
    await writeBeneath(pooled.folder, parts, uploadedPieces(body, budget.piecesOf(owner)));
    return new Response(null, { status: 204 });
  } catch (error) {
    if (error instanceof ConfigError) throw new Refused(409, error.message);
    if (!(error instanceof BeneathError)) throw error;
    throw new Refused(error.reason === "missing" ? 404 : 403, error.message);
  }
}

/** Code may have written the file: no browser should take it for a page. */
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
