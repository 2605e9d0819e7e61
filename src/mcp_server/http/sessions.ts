import { cp } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { z } from "zod";
import { ConfigError } from "../../base/errors.ts";
import { CallJournal } from "../../calls/journal.ts";
import { endDurable, folderOf, isRunning, listSessions } from "../../executor/durable.ts";
import { isPlainFolder } from "../../files/safe.ts";
import { withSettingsOf } from "../../mcp/launch.ts";
import {
  type ServerParams,
  type VariableLookup,
  variableLookup,
  WORKSPACE_VARIABLE,
} from "../../mcp/params.ts";
import { PackageFolder } from "../../python/packages.ts";
import { ServerRegistry } from "../../servers/registry.ts";
import {
  makeSessionFolder,
  SessionCleanup,
  type SessionFolder,
  sessionFolders,
} from "./session_folders.ts";
import { Session, type SessionOptions } from "../session.ts";
import { copyWorkspace } from "./workspace_share.ts";

/** How an MCP server over HTTP keeps its sessions. */
export interface HttpSessionsOptions {
  /**
   * How many concurrent sessions there may be. Each has a kernel. If there are several tokens, each may
   * hold an equal share of them, one at least.
   *
   * @default {8}
   */
  maxSessions?: number;
  /**
   * How sessions get the workspace's files, without its secrets and the state of ipybox: `"read-only"`
   * lets their code read them where they are, which needs the sandbox; with `"copy"`, each session's
   * folder starts with copies.
   *
   * @default {undefined} not at all
   */
  shareWorkspace?: "read-only" | "copy";
  /**
   * Whether sessions outlive the server: the next one of the workspace continues them when their clients
   * come back, also after it was killed. Needs `tokens`.
   *
   * @default {false}
   */
  durable?: boolean;
  /**
   * How long a session may go unused before it is closed, in milliseconds.
   *
   * @default {3600000}
   */
  sessionIdleMs?: number;
  /**
   * How many folders of ended sessions are kept of each token: those that ended last. Older ones are
   * removed when the server starts and when a session ends, and so are those in which nothing changed
   * for 30 days.
   *
   * @default {100}
   */
  keepSessions?: number;
}

const IDLE_MS = 3_600_000;

/** Options of {@linkcode SessionPool}. */
interface SessionPoolOptions extends HttpSessionsOptions {
  /** The workspace whose servers sessions start with, and in which their folders are. */
  readonly workspace: string;
  /** How each session's kernel and approvals are set up. */
  readonly session: Omit<SessionOptions, "workspace">;
  /** Who may have sessions; they share them equally. */
  readonly owners: ReadonlySet<string>;
}

/** A session of a pool. */
export interface PooledSession {
  /** Its handle, which only its owner can use. */
  readonly id: string;
  readonly session: Session;
  /** Its workspace. */
  readonly folder: string;
  /** What its client, of the older era, has said of itself. */
  readonly initialize: Note["initialize"];
  /** Counts as use until disposed. */
  use(): Disposable;
  /** Called once when it is closed, for whatever reason. */
  onClose(callback: () => void): void;
}

/** There are as many sessions as there may be, or as this owner may have. */
export class TooManySessionsError extends Error {
  override readonly name: string = "TooManySessionsError";
}

const shown = z.string().transform((text) => text.slice(0, 100));

/** What a client of the older era has said of itself, as far as tools need it. */
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
  /** Whether it is the one of an owner who names none. */
  isDefault: z.boolean(),
  initialize: initializeSchema.optional(),
});

/** What is known of a session when it is opened. */
type Note = Readonly<z.infer<typeof noteSchema>>;

/** A durable session that the server before has left. */
interface Absent {
  readonly note: Note;
  returning?: Promise<Entry | undefined>;
}

interface Entry extends PooledSession {
  readonly place: SessionFolder;
  readonly owner: string;
  readonly isDefault: boolean;
  readonly closing: AbortController;
  uses: number;
  idle: ReturnType<typeof setTimeout> | undefined;
}

/**
 * The sessions of an HTTP server, each with a kernel and its own folder.
 *
 * A session belongs to the owner who opened it: for others its handle means nothing. Its folder outlives it,
 * as the files in there are its user's, until it is old.
 */
export class SessionPool implements AsyncDisposable {
  readonly #options: SessionPoolOptions;
  readonly #entries = new Map<string, Entry>();
  /** Durable sessions of the server before, which no client has asked for yet. */
  readonly #absent = new Map<string, Absent>();
  readonly #defaults = new Map<string, Promise<Entry>>();
  readonly #opening = new Set<Promise<Entry>>();
  readonly #ending = new Set<Promise<void>>();
  #closed = false;
  readonly #cleanup: SessionCleanup;
  /** How many sessions each owner has: those that are opened, absent or have not ended yet, too. */
  readonly #held = new Map<string, number>();

  /** @param options Where sessions work, and how many there may be. */
  constructor(options: SessionPoolOptions) {
    this.#options = options;
    const { workspace, keepSessions: keep = 100, session: { log } } = options;
    this.#cleanup = new SessionCleanup({ workspace, keep, log });
    this.#cleanup.begin();
  }

  /**
   * Finds the durable sessions that the server before has left. Those whose calls wait for a decision
   * continue, so that their user is asked. Those whose owner may have none any more end.
   */
  async recall(): Promise<void> {
    const { workspace, durable, owners, session: { log } } = this.#options;
    if (!durable) return;
    for (const { id: durableId, record, status } of await listSessions()) {
      if (status === undefined || status.attached) continue; // over, or another program's
      if (record === undefined || dirname(record.workspace) !== sessionFolders(workspace)) continue;
      const id = basename(record.workspace);
      const note = noteSchema.safeParse(record.note).data;
      if (note === undefined || record.name !== id) continue;
      if (!owners.has(note.owner)) {
        log?.warn(`Ending session ${id}: its token is not among the server's any more`);
        await endDurable(durableId).then(() => PackageFolder.remove(record.workspace))
          .catch((error) => log?.error(`Session ${id} did not end: ${error}`));
        continue;
      }
      this.#absent.set(id, { note });
      this.#count(note.owner, 1);
      const isNeeded = await CallJournal.waitingIn(folderOf(durableId))
        .then((calls) => calls.length > 0, () => true); // whoever continues it hears why
      if (isNeeded) {
        this.find(note.owner, id).catch((error) => log?.error(`Session ${id}: ${error}`));
      }
    }
  }

  /** The server stops. What runs in durable sessions goes on. */
  leave(): void {
    for (const { session } of this.#entries.values()) session.leave();
  }

  /** Opens a session. Its kernel starts in the background. */
  async open(owner: string, initialize?: Note["initialize"]): Promise<PooledSession> {
    return await this.#open({ owner, initialize, isDefault: false });
  }

  /** The session of an owner who names none; opened when it is first asked for. */
  async default(owner: string): Promise<PooledSession> {
    const known = this.#defaults.get(owner);
    if (known !== undefined) return await known;
    const opening = this.#default(owner);
    this.#defaults.set(owner, opening);
    const forget = () => {
      if (this.#defaults.get(owner) === opening) this.#defaults.delete(owner);
    };
    opening.then((entry) => entry.onClose(forget), forget);
    return await opening;
  }

  /** Finds a session by its handle. One that the server before has left continues. */
  async find(owner: string, id: string): Promise<PooledSession | undefined> {
    return await this.#find(owner, id);
  }

  /** Closes a session: its kernel and its MCP servers end. */
  async close(owner: string, id: string): Promise<boolean> {
    const entry = await this.#find(owner, id);
    if (entry === undefined) return false;
    await this.#end(entry);
    return true;
  }

  /** Closes all sessions, also those that are being opened. Durable ones are left. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    await Promise.allSettled(this.#opening);
    const isLeft = this.#options.durable;
    await Promise.all([...this.#entries.values()].map((entry) => this.#end(entry, { isLeft })));
    await Promise.all(this.#ending);
    await this.#cleanup[Symbol.asyncDispose]();
  }

  async #find(owner: string, id: string): Promise<Entry | undefined> {
    const entry = this.#entries.get(id);
    if (entry !== undefined) return entry.owner === owner ? entry : undefined;
    const absent = this.#absent.get(id);
    if (absent?.note.owner !== owner) return undefined;
    return await (absent.returning ??= this.#return(id, absent.note).finally(() => {
      delete absent.returning;
    }));
  }

  async #default(owner: string): Promise<Entry> {
    const [id] = [...this.#absent].find(([, { note }]) => note.isDefault && note.owner === owner) ??
      [...this.#entries].find(([, entry]) => entry.isDefault && entry.owner === owner) ?? [];
    const found = id === undefined ? undefined : await this.#find(owner, id);
    return found ?? await this.#open({ owner, isDefault: true });
  }

  /** Continues a session of the server before, unless it has ended in the meantime. */
  async #return(id: string, note: Note): Promise<Entry | undefined> {
    await this.#forgetEnded();
    return this.#absent.has(id) ? await this.#open(note, id) : undefined;
  }

  /** Absent sessions end without this server: their time is over, or a person ends them. */
  async #forgetEnded(): Promise<void> {
    if (this.#absent.size === 0) return;
    const running = (await listSessions()).filter(isRunning).map(({ record }) => record?.name);
    for (const [id, { note }] of this.#absent) {
      if (!running.includes(id) && this.#absent.delete(id)) this.#count(note.owner, -1);
    }
  }

  async #open(note: Note, absent?: string): Promise<Entry> {
    if (this.#closed) throw new DOMException("The server is stopping", "AbortError");
    const opening = this.#make(note, absent);
    this.#opening.add(opening);
    try {
      return await opening;
    } finally {
      this.#opening.delete(opening);
    }
  }

  async #make(note: Note, absent: string | undefined): Promise<Entry> {
    const { workspace, session } = this.#options;
    const { owner } = note;
    const continues = absent !== undefined;
    if (!continues) await this.#take(owner);
    using stack = new DisposableStack();
    try {
      const id = absent ?? crypto.randomUUID();
      const place = stack.use(await makeSessionFolder(workspace, id, { owner, continues }));
      const folder = place.path;
      if (!continues) await this.#copyApis(folder);
      const opened = new Session({
        ...this.#options.session,
        workspace: folder,
        nestedWorkspace: true, // in a place that no code reaches
        servers: await this.#servers(),
        variables: await this.#variables(folder),
        consents: session.consents ?? workspace, // what its own folder says must not count
        auditLog: { workspace, session: id }, // which outlives the session, and no server of it writes to
        packages: session.packages ?? workspace, // beside its own, which go with it
        label: `session ${id}`,
        ...this.#shared(folder),
        ...this.#durably(id, note),
        continues,
      });
      opened.begin();
      const entry = this.#entry(note, id, opened, place);
      stack.move();
      this.#entries.set(id, entry);
      this.#absent.delete(id);
      this.#watch(entry);
      return entry;
    } catch (error) {
      if (!continues) this.#count(owner, -1);
      throw error;
    }
  }

  /** How a session outlives this server. */
  #durably(id: string, note: Note): Pick<SessionOptions, "durable" | "onEnded"> {
    const { durable, workspace, sessionIdleMs: idleMs = IDLE_MS } = this.#options;
    if (!durable) return {};
    const group = `${workspace} ${note.owner}`;
    const onEnded = () => {
      const entry = this.#entries.get(id);
      if (entry !== undefined) this.#end(entry);
    };
    return { durable: { name: id, idleMs, note, group }, onEnded };
  }

  /** How a session gets the workspace's files. */
  #shared(folder: string): Pick<SessionOptions, "sandbox" | "fill"> {
    const { workspace, shareWorkspace, session: { sandbox } } = this.#options;
    switch (shareWorkspace) {
      case "read-only":
        return { sandbox: { ...(typeof sandbox === "object" ? sandbox : {}), project: workspace } };
      case "copy":
        return { fill: (signal) => copyWorkspace(workspace, folder, signal) };
      case undefined:
        return {};
    }
  }

  /** Counts one more session of an owner. Equal shares: no owner can keep all others out. */
  async #take(owner: string): Promise<void> {
    const { maxSessions = 8, owners } = this.#options;
    const share = Math.max(1, Math.floor(maxSessions / owners.size));
    const held = () => this.#held.get(owner) ?? 0;
    const isFull = () =>
      held() >= share || this.#held.values().reduce((sum, held) => sum + held, 0) >= maxSessions;
    if (isFull()) await this.#forgetEnded();
    if (isFull()) {
      const own = held();
      const these = own >= share && share < maxSessions
        ? `Your token already has its share of the sessions: ${own} of ${maxSessions}`
        : `All ${maxSessions} sessions are in use`;
      throw new TooManySessionsError(
        `${these}: close one, or start ipybox with a higher --max-sessions`,
      );
    }
    this.#count(owner, 1);
  }

  #count(owner: string, more: number): void {
    this.#held.set(owner, (this.#held.get(owner) ?? 0) + more);
  }

  #entry(note: Note, id: string, session: Session, place: SessionFolder): Entry {
    const closing = new AbortController();
    const entry: Entry = {
      ...note,
      initialize: note.initialize,
      id,
      session,
      place,
      folder: place.path,
      closing,
      uses: 0,
      idle: undefined,
      onClose: (callback) => closing.signal.addEventListener("abort", callback, { once: true }),
      use: () => {
        entry.uses++;
        clearTimeout(entry.idle);
        let used = false;
        return {
          [Symbol.dispose]: () => {
            if (used) return;
            used = true;
            entry.uses--;
            this.#watch(entry);
          },
        };
      },
    };
    return entry;
  }

  /** Closes a session once it has not been used for long enough. */
  #watch(entry: Entry): void {
    clearTimeout(entry.idle);
    if (entry.uses > 0 || entry.closing.signal.aborted) return;
    const { sessionIdleMs = IDLE_MS } = this.#options;
    entry.idle = setTimeout(() => this.#end(entry), sessionIdleMs);
    Deno.unrefTimer(entry.idle);
  }

  #end(entry: Entry, { isLeft = false } = {}): Promise<void> {
    clearTimeout(entry.idle);
    if (!this.#entries.delete(entry.id)) return Promise.resolve(); // it is closing already
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
      if (this.#options.durable) await endUnattached(entry.folder);
      await PackageFolder.remove(entry.folder);
    } catch (error) {
      entry.session.log.error(`Session ${entry.id} did not close cleanly: ${error}`);
    } finally {
      entry.place[Symbol.dispose]();
      this.#count(entry.owner, -1);
      this.#cleanup.begin();
    }
  }

  /** A session's folder starts with the Python APIs that the workspace has. */
  async #copyApis(folder: string): Promise<void> {
    const generated = join(this.#options.workspace, "mcptools");
    if (await isPlainFolder(generated)) {
      await cp(generated, join(folder, "mcptools"), { recursive: true });
    }
  }

  /** The workspace's `.env` is the user's; one in a session's folder would be the code's. */
  async #variables(folder: string): Promise<VariableLookup> {
    const { workspace, session: { log } } = this.#options;
    const lookup = await variableLookup(workspace, { log });
    return (name) => name === WORKSPACE_VARIABLE ? folder : lookup(name);
  }

  /** A session's registry has no file: a server that may write to its folder could write there, too. */
  async #servers(): Promise<ServerRegistry> {
    const { workspace, session: { servers, log } } = this.#options;
    const registry = await ServerRegistry.open({ workspace, servers });
    const own = registry.entries.filter(([name, params]) => registry.isOwn(name, params));
    const others = registry.names.filter((name) => !own.some(([other]) => other === name));
    if (others.length > 0) {
      // Only the operator decides on servers, not clients.
      log?.warn(
        `Not available in sessions because you have not registered them: ${others.join(", ")} in ` +
          `${registry.path}. See \`ipybox servers\`, then \`ipybox register\``,
      );
    }
    const settled: Record<string, ServerParams> = {};
    for (const entry of own) {
      try {
        settled[entry[0]] = await withSettingsOf(workspace, entry);
      } catch (error) {
        if (!(error instanceof ConfigError)) throw error;
        log?.warn(`Not available in sessions: ${entry[0]}. ${error.message}`);
      }
    }
    return await ServerRegistry.open({ servers: settled });
  }
}

/** Ends a session that its server could not continue. One that another program has is left to it. */
async function endUnattached(folder: string): Promise<void> {
  for (const { id, status } of await listSessions(folder)) {
    if (!status?.attached) await endDurable(id);
  }
}
