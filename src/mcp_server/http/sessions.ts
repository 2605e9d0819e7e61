import { cp } from "node:fs/promises";
import { basename, join, relative } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { z } from "zod";
import { silentLogger } from "../../base/log.ts";
import { ReadyPool } from "../../base/ready_pool.ts";
import { Deadline } from "../../base/deadline.ts";
import { onAbort } from "../../base/signals.ts";
import { endDurable, listSessions } from "../../executor/durable.ts";
import { isPlainFolder } from "../../files/safe.ts";
import { type VariableLookup, variableLookup, WORKSPACE_VARIABLE } from "../../mcp/params.ts";
import { parsePlacement, type Placement } from "../../place/placement.ts";
import { isInside } from "../../process/trusted_path.ts";
import { PackageFolder } from "../../python/packages.ts";
import { Session, type SessionOptions } from "../session.ts";
import { DEFAULT_SESSIONS, type OwnerSettings } from "./bearer_tokens.ts";
import { basisOf, readyPython, sessionServers } from "./session_basis.ts";
import {
  durableSessions,
  makeSessionFolder,
  NOBODY,
  removeSession,
  SessionCleanup,
  type SessionFolder,
} from "./session_folders.ts";

/** How an MCP server over HTTP keeps its sessions. */
export interface HttpSessionsOptions {
  /**
   * The maximum number of concurrent sessions. Each has a kernel. A token may hold as many of them as
   * its own `maxSessions` allows; tokens without it share the rest equally, with at least one each.
   *
   * @default {8}
   */
  maxSessions?: number;
  /**
   * Whether sessions outlive the server: the workspace's next server continues them when their clients
   * come back, even if this one was killed. Needs `tokens`.
   *
   * @default {false}
   */
  durable?: boolean;
  /**
   * How many unused sessions to keep ready for new clients, each with a folder and a running kernel.
   * They are replaced when the workspace's servers, their modules, its settings or its Python change,
   * or when their kernel dies. Cannot be combined with `durable`.
   *
   * @default {{ size: 0 }}
   */
  pool?: { readonly size: number };
  /**
   * How long a session may go unused before it is closed, in milliseconds.
   *
   * @default {3600000}
   */
  sessionIdleMs?: number;
}

const IDLE_MS = 3_600_000;

/** Rejects options that sessions started ahead cannot have. */
export function refuseReady(
  { pool, durable }: HttpSessionsOptions,
): void {
  const size = pool?.size ?? 0;
  if (!(Number.isSafeInteger(size) && size >= 0)) {
    throw new RangeError(`pool.size must be a whole number of 0 or more, not ${size}`);
  }
  if (size > 0 && durable) {
    throw new TypeError(
      "pool and durable cannot be combined: the owner of a durable session is fixed when it starts",
    );
  }
}

interface SessionPoolOptions extends HttpSessionsOptions {
  /** The workspace, whose servers sessions get. */
  readonly workspace: string;
  readonly session: SessionOptions;
  /** The owners of sessions and their settings. */
  readonly owners: ReadonlyMap<string, OwnerSettings>;
}

export interface PooledSession extends Created {
  /** Its client's description of itself, in the older era. */
  readonly initialize?: Note["initialize"];
  /** Marks it as in use until disposed. */
  use(): Disposable;
  onClose(callback: () => void): void;
}

/** The limit on sessions is reached, in total or for this owner. */
export class TooManySessionsError extends Error {
  override readonly name: string = "TooManySessionsError";
}

const shown = z.string().transform((text) => text.slice(0, 100));

/** The parts of an older client's description of itself that tools need. */
export const initializeSchema = z.object({
  protocolVersion: shown,
  capabilities: z.object({
    elicitation: z.object({
      form: z.object({}).optional(),
      url: z.object({}).optional(),
    }).optional(),
  }),
  clientInfo: z.object({ name: shown, version: shown }),
});

const noteSchema = z.object({
  owner: z.string(),
  isDefault: z.boolean(),
  initialize: initializeSchema.optional(),
});

/** The facts known about a session when it is opened. */
type Note = Readonly<z.infer<typeof noteSchema>>;

/** A durable session that a previous server left. */
interface Left {
  readonly id: string;
  /** Where its kernel runs, regardless of the current settings. */
  readonly placement: Placement | undefined;
  /** How long it has had no server, in milliseconds. */
  readonly aloneMs: number;
}

/** A session and its folder, without a client. */
interface Created {
  /** Its handle, which only its owner can use. */
  readonly id: string;
  readonly session: Session;
  readonly place: SessionFolder;
}

/** A session that was started ahead, with a running kernel. */
interface ReadySession extends Created, AsyncDisposable {
  /** Its basis: see {@linkcode basisOf}. */
  readonly basis: string;
}

interface Entry extends PooledSession, Note {
  readonly closing: AbortController;
  /** Closes it after a time without use. */
  readonly idle: Deadline;
}

/**
 * The sessions of an HTTP server, each with a kernel and its own folder.
 *
 * A session belongs to the owner who opened it: to others its handle is invalid. Its folder, with the
 * user's files, is kept until it is old.
 */
export class SessionPool implements AsyncDisposable {
  readonly #options: SessionPoolOptions;
  readonly #entries = new Map<string, Entry>();
  /** Default sessions that are being opened, by their owners. */
  readonly #defaults = new Map<string, Promise<Entry>>();
  readonly #opening = new Set<Promise<Entry>>();
  readonly #ending = new Set<Promise<void>>();
  #closed = false;
  readonly #cleanup: SessionCleanup;
  readonly #ready: ReadyPool<ReadySession> | undefined;
  /** How many sessions each owner has, including those that are being opened or ending. */
  readonly #held = new Map<string, number>();

  constructor(options: SessionPoolOptions) {
    this.#options = options;
    const { workspace, pool: { size } = { size: 0 } } = options;
    const { log = silentLogger } = options.session;
    this.#cleanup = new SessionCleanup(workspace, log);
    this.#cleanup.begin();
    if (size === 0) return;
    this.#ready = new ReadyPool({
      size,
      start: (signal) => this.#prepare(signal),
      isFit: async ({ session, basis }) =>
        basis === await basisOf(this.#options) && await session.isReady(),
      log,
    });
    this.#ready.keep();
  }

  /**
   * Continues the durable sessions that a previous server left, so that their users are asked about
   * waiting calls. Sessions whose token was removed end.
   */
  async recall(): Promise<void> {
    const { durable, owners, workspace, session: { log } } = this.#options;
    if (!durable) return;
    await sessionServers(this.#options); // an error here would lose all sessions for their clients
    for (const { id: durableId, record, status } of await durableSessions(workspace)) {
      if (record === undefined || status?.attached !== false) continue; // ended, or is in use
      const id = basename(record.workspace);
      const note = noteSchema.safeParse(record.note).data;
      if (note === undefined || record.name !== id) continue;
      try {
        if (owners.has(note.owner)) {
          const placement = record.placement === undefined
            ? undefined
            : parsePlacement(record.placement);
          this.#count(note.owner, 1);
          await this.#open(note, { id, placement, aloneMs: status.aloneMs ?? 0 });
          continue;
        }
        log?.warn(`Ending session ${id}: its token is no longer one of the server's`);
        await endDurable(durableId);
        await PackageFolder.remove(record.workspace);
      } catch (error) {
        log?.error(`Session ${id}: ${error}`);
      }
    }
  }

  /** Called when the server stops. The cells of durable sessions continue. */
  onDisconnect(): void {
    for (const { session } of this.#entries.values()) session.onDisconnect();
  }

  /** Opens a session. Its kernel starts in the background. */
  async open(owner: string, initialize?: Note["initialize"]): Promise<PooledSession> {
    return await this.#open({ owner, initialize, isDefault: false });
  }

  /** The owner's default session, opened on first use. */
  async default(owner: string): Promise<PooledSession> {
    const open = () =>
      this.#open({ owner, isDefault: true }).finally(() => this.#defaults.delete(owner));
    return this.#entries.values().find((entry) => entry.isDefault && entry.owner === owner) ??
      await this.#defaults.getOrInsertComputed(owner, open);
  }

  /** Finds a session by its handle. */
  find(owner: string, id: string): Entry | undefined {
    const entry = this.#entries.get(id);
    return entry?.owner === owner ? entry : undefined;
  }

  /** How many sessions an owner may have. Shares are equal, so that no owner can lock out the others. */
  shareOf(owner: string): number {
    const { maxSessions = DEFAULT_SESSIONS, owners } = this.#options;
    const own = owners.get(owner)?.maxSessions;
    if (own !== undefined) return own;
    const given = [...owners.values()].flatMap(({ maxSessions }) => maxSessions ?? []);
    const left = maxSessions - given.reduce((sum, share) => sum + share, 0);
    return Math.max(1, Math.floor(left / (owners.size - given.length)));
  }

  /** Closes a session: its kernel and its MCP servers end. */
  async close(owner: string, id: string): Promise<boolean> {
    const entry = this.find(owner, id);
    if (entry === undefined) return false;
    await this.#end(entry);
    return true;
  }

  /** Closes all sessions, including those that are being opened. Durable ones keep running. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    const unused = this.#ready?.[Symbol.asyncDispose]();
    await Promise.allSettled(this.#opening);
    const isLeft = this.#options.durable;
    await Promise.all([...this.#entries.values()].map((entry) => this.#end(entry, { isLeft })));
    await Promise.all(this.#ending);
    await unused;
    await this.#cleanup[Symbol.asyncDispose]();
  }

  async #open(note: Note, left?: Left): Promise<Entry> {
    if (this.#closed) throw new DOMException("The server is stopping", "AbortError");
    const opening = this.#make(note, left);
    this.#opening.add(opening);
    try {
      return await opening;
    } finally {
      this.#opening.delete(opening);
    }
  }

  /** Creates a session's entry. A session that a previous server left is already counted. */
  async #make(note: Note, left?: Left): Promise<Entry> {
    const { owner } = note;
    if (left === undefined) await this.#take(owner);
    try {
      const created = (left === undefined ? await this.#readyFor(owner) : undefined) ??
        await this.#create(left?.id ?? crypto.randomUUID(), note, left);
      created.session.begin();
      const entry = this.#entry(note, created, left?.aloneMs);
      this.#entries.set(entry.id, entry);
      return entry;
    } catch (error) {
      this.#count(owner, -1);
      throw error;
    }
  }

  /** Creates a session's folder, and a session in it that has not started. */
  async #create(id: string, note?: Note, left?: Left): Promise<Created> {
    const { workspace, session } = this.#options;
    const owner = note?.owner ?? NOBODY;
    const continues = left !== undefined;
    using stack = new DisposableStack();
    const place = stack.use(await makeSessionFolder(workspace, id, { owner, continues }));
    const folder = place.path;
    if (!continues) await this.#copyApis(folder);
    const created = new Session({
      ...session,
      ...this.#placed(owner, left),
      workspace: folder,
      servers: await sessionServers(this.#options),
      variables: await this.#variables(folder),
      parentWorkspace: workspace, // its decisions count, and its audit log outlives the session
      label: `session ${id}`,
      shownPath: (path) => filePathOf({ id, folder }, path),
      ...(note && this.#durably(id, note)),
      continues,
    });
    stack.move();
    return { id, session: created, place };
  }

  /** Where a session's kernel runs, and with which Python. */
  #placed(owner: string, left: Left | undefined): SessionOptions {
    const { owners, session } = this.#options;
    const placement = left === undefined
      ? owners.get(owner)?.placement ?? session.placement
      : left.placement;
    const isCommon = isDeepStrictEqual(placement, session.placement);
    return { placement, python: isCommon ? session.python : undefined };
  }

  /** Takes a session that was started ahead. */
  async #readyFor(owner: string): Promise<Created | undefined> {
    if (this.#options.owners.get(owner)?.placement !== undefined) return undefined; // its kernels run elsewhere
    await using unused = new AsyncDisposableStack();
    const ready = await this.#ready?.take({ waits: false });
    if (ready === undefined) return undefined;
    unused.use(ready);
    ready.place.belongTo(owner);
    unused.move();
    return ready;
  }

  /** Creates a session for the next client. */
  async #prepare(signal: AbortSignal): Promise<ReadySession> {
    await readyPython(this.#options.session, signal);
    const basis = await basisOf(this.#options);
    const { id, session, place } = await this.#create(crypto.randomUUID());
    const end = async () => {
      try {
        await session[Symbol.asyncDispose]();
        await PackageFolder.remove(place.path);
      } finally {
        place[Symbol.dispose]();
      }
      await removeSession(place.path);
    };
    // end() waits for it and gets its errors
    using _stop = onAbort(signal, () => void session[Symbol.asyncDispose]().catch(() => {}));
    try {
      signal.throwIfAborted();
      await session.prepare();
    } catch (error) {
      await end();
      throw error;
    }
    session.log.debug(`Session ${id} is ready for a client`);
    return { id, session, place, basis, [Symbol.asyncDispose]: end };
  }

  #durably(id: string, note: Note): SessionOptions {
    const { durable, sessionIdleMs: idleMs = IDLE_MS } = this.#options;
    if (!durable) return {};
    const onEnded = () => {
      const entry = this.#entries.get(id);
      if (entry !== undefined) this.#end(entry);
    };
    return { durable: { name: id, idleMs, note }, onEnded };
  }

  /** Counts one more session of an owner, if the limits allow it. */
  async #take(owner: string): Promise<void> {
    const { maxSessions = DEFAULT_SESSIONS } = this.#options;
    const share = this.shareOf(owner);
    const held = () => this.#held.get(owner) ?? 0;
    const isFull = () =>
      held() >= share || this.#held.values().reduce((sum, held) => sum + held, 0) >= maxSessions;
    if (isFull()) await Promise.all(this.#ending);
    if (isFull()) {
      throw new TooManySessionsError(
        held() >= share && share < maxSessions
          ? `Your token already has its share of the sessions: ${held()} of ${maxSessions}. Close one, ` +
            "or ask whoever runs ipybox for more"
          : `All ${maxSessions} sessions are in use: close one, or start ipybox with a higher --max-sessions`,
      );
    }
    this.#count(owner, 1);
  }

  #count(owner: string, more: number): void {
    this.#held.set(owner, (this.#held.get(owner) ?? 0) + more);
  }

  #entry(note: Note, { id, session, place }: Created, aloneMs = 0): Entry {
    const closing = new AbortController();
    const { sessionIdleMs: idleMs = IDLE_MS } = this.#options;
    const idle = new Deadline(idleMs, {
      leftMs: Math.max(0, idleMs - aloneMs),
      keepsAlive: false,
      onPassed: () => this.#end(entry),
    });
    const entry: Entry = {
      ...note,
      id,
      session,
      place,
      closing,
      idle,
      onClose: (callback) => closing.signal.addEventListener("abort", callback, { once: true }),
      use: () => idle.use(),
    };
    return entry;
  }

  #end(entry: Entry, { isLeft = false } = {}): Promise<void> {
    entry.idle[Symbol.dispose]();
    if (!this.#entries.delete(entry.id)) return Promise.resolve(); // it is already closing
    if (!isLeft) entry.session.end();
    const ending = this.#dispose(entry, isLeft).finally(() => this.#ending.delete(ending));
    this.#ending.add(ending);
    return ending;
  }

  async #dispose(entry: Entry, isLeft: boolean): Promise<void> {
    entry.closing.abort();
    try {
      await entry.session[Symbol.asyncDispose]();
      if (isLeft) return;
      if (this.#options.durable) await endUnattached(entry.place.path);
      await PackageFolder.remove(entry.place.path);
    } catch (error) {
      entry.session.log.error(`Session ${entry.id} did not close cleanly: ${error}`);
    } finally {
      entry.place[Symbol.dispose]();
      this.#count(entry.owner, -1);
      this.#cleanup.begin();
    }
  }

  /** Copies the workspace's Python APIs to a session's folder. */
  async #copyApis(folder: string): Promise<void> {
    const generated = join(this.#options.workspace, "mcptools");
    if (await isPlainFolder(generated)) {
      await cp(generated, join(folder, "mcptools"), { recursive: true });
    }
  }

  /** Variables come from the workspace's `.env`: code could write one in a session's folder. */
  async #variables(folder: string): Promise<VariableLookup> {
    const { workspace, session: { log } } = this.#options;
    const lookup = await variableLookup(workspace, { log });
    return (name) => name === WORKSPACE_VARIABLE ? folder : lookup(name);
  }
}

/** Ends a session that its server could not continue, unless another program has attached to it. */
async function endUnattached(folder: string): Promise<void> {
  for (const { id, status } of await listSessions(folder)) {
    if (!status?.attached) await endDurable(id);
  }
}

/** The path of a session's file on this server. */
function filePathOf(
  { id, folder }: { readonly id: string; readonly folder: string },
  path: string,
): string {
  if (!isInside(path, folder)) return path; // images are elsewhere
  return `/sessions/${id}/files/${
    relative(folder, path).split("/").map(encodeURIComponent).join("/")
  }`;
}
