/**
 * Durable sessions: their records, and the state that a host leaves for the next one.
 *
 * A session's record says where to find it, or that it was lost. Everything that changes is kept by its
 * supervisor, so that hosts cannot disagree about it. Without a record, the supervisor ends.
 */
import { join } from "node:path";
import { z } from "zod";
import { ConfigError } from "../base/errors.ts";
import { DAY_MS } from "../base/numbers.ts";
import { pause } from "../base/signals.ts";
import type { Deadline } from "../base/deadline.ts";
import { randomToken } from "../base/tokens.ts";
import {
  ifPresent,
  isStillAt,
  openPlainFile,
  readHostileFile,
  replaceFile,
} from "../files/safe.ts";
import { sha256 } from "../json/digest.ts";
import { inState, stateFolder } from "../files/user_folders.ts";
import type { GatewayFacts, KernelGateway } from "../kernel/gateway.ts";
import {
  endSession,
  GarbageError,
  LeftBehindError,
  type SessionAddress,
  SessionGoneError,
  type SessionStatus,
  statusOf,
} from "../place/supervisor.ts";
import { realWorkspace } from "../sandbox/workspace.ts";
import type { DurableOptions } from "./options.ts";

/** Options of a durable session that its program finds by a note. */
export interface NotedOptions extends DurableOptions {
  /** The note, which is stored as JSON where code cannot see it. */
  readonly note?: unknown;
}

/** Other facts about a session that starts. */
interface BeginOptions {
  readonly placement: unknown;
  /** The Python that runs its supervisor, if kernels are elsewhere. */
  readonly python: string | undefined;
}

const VERSION = 1 as const;

const recordSchema = z.object({
  version: z.literal(VERSION),
  id: z.string().regex(/^[0-9a-f]{12}$/),
  name: z.string().optional(),
  workspace: z.string(),
  /** Identifies that folder, independent of its path. */
  place: z.string(),
  secret: z.string(),
  socket: z.string(),
  startedAt: z.number(),
  /** Where its kernel runs, if not on this machine: the placement, and its name. */
  placement: z.unknown().optional(),
  where: z.string().optional(),
  /** Its program's note for the next one. */
  note: z.unknown().optional(),
  /** How it was lost, as far as is known. */
  lost: z.object({
    exit: z.object({ code: z.number().nullable(), signal: z.string().nullable() }).nullable(),
    at: z.number(),
  }).optional(),
});

export type SessionRecord = Readonly<z.infer<typeof recordSchema>>;

const limit = z.number().nullable();

const factsSchema: z.ZodType<GatewayFacts> = z.object({
  token: z.string(),
  sessionDir: z.string(),
  stubs: z.string(),
  hasChecker: z.boolean(),
  sandboxed: z.boolean(),
  kernelsApart: z.boolean(),
  limits: z.object({
    memoryBytes: limit,
    processes: limit,
    fileBytes: limit,
    cpuSeconds: limit,
  }),
  copied: z.object({
    modules: z.object({
      here: z.string(),
      there: z.string(),
      within: z.string(),
    }).optional(),
    stubs: z.string(),
  }).optional(),
});

const keptSchema = z.object({
  version: z.literal(VERSION),
  gateway: factsSchema,
  kernel: z.object({ id: z.string(), session: z.string() }),
  toolToken: z.string(),
  shell: z.enum(["none", "approval", "escape"]),
  execution: z.object({
    id: z.string(),
    /** Empty if it is too long to keep. */
    code: z.string(),
    startedAt: z.number(),
    /** Whether a host has seen its end. */
    ended: z.boolean(),
    /** Its time limit, and how much of it was left at that time. */
    limit: z.object({
      timeoutMs: z.number().positive(),
      leftMs: z.number(),
      /** Whether the clock was running, because nobody was being asked. */
      runs: z.boolean(),
    }).optional(),
  }).optional(),
});

/** The state that a host leaves for the next one. */
type KeptState = Readonly<z.infer<typeof keptSchema>>;

/** The longest code that is kept for the next host, which needs it for line numbers. */
const MAX_CODE = 8 * 1024;

/** The rest of an execution's time limit. */
export interface LeftTime {
  readonly timeoutMs: number;
  readonly leftMs: number;
}

/** The time left to another host's execution. Only time with an attached host counts. */
export function leftTime(
  { limit }: NonNullable<KeptState["execution"]>,
  { heldMs }: SessionStatus,
): LeftTime | undefined {
  if (limit === undefined) return undefined;
  const { timeoutMs, leftMs, runs } = limit;
  return { timeoutMs, leftMs: leftMs - (runs ? heldMs : 0) };
}

/** The state of a session while this host is attached. */
export class SessionState {
  readonly #gateway: KernelGateway;
  #kept: Partial<KeptState>;
  #deadline: Deadline | undefined;

  constructor(gateway: KernelGateway, kept: Partial<KeptState>) {
    this.#gateway = gateway;
    this.#kept = { ...kept, version: VERSION };
  }

  /** Keeps state for the next host. Until the kernel exists, the session ends with this host. */
  keep(more: Partial<KeptState>): void {
    this.#kept = { ...this.#kept, ...more };
    this.#noteTime();
    if (this.#kept.kernel !== undefined) this.#gateway.keep(this.#kept);
  }

  /** Records that an execution starts or continues here, and how much time it has. */
  begin(id: string, code: string, deadline: Deadline): void {
    this.#deadline = deadline.timeoutMs === Infinity ? undefined : deadline;
    const { execution: before } = this.#kept;
    const execution = before?.id === id ? before : {
      id,
      code: code.length > MAX_CODE ? "" : code,
      startedAt: Date.now(),
      ended: false,
    };
    this.keep({ execution: { ...execution, limit: undefined } }); // keep() adds its time
  }

  /** Records that its clock was started or paused. */
  turn(): void {
    if (this.#deadline !== undefined) this.keep({});
  }

  /** Records that its end has been seen. */
  end(): void {
    this.#deadline = undefined;
    const { execution } = this.#kept;
    if (execution !== undefined) {
      this.keep({ execution: { ...execution, ended: true, limit: undefined } });
    }
  }

  #noteTime(): void {
    const { execution } = this.#kept;
    if (execution === undefined || this.#deadline === undefined) return;
    const { timeoutMs, leftMs, runs } = this.#deadline;
    this.#kept = {
      ...this.#kept,
      execution: { ...execution, limit: { timeoutMs, leftMs, runs } },
    };
  }
}

/** Reads the state that the previous host left. */
export function keptState({ id }: SessionRecord, { kept }: SessionStatus): KeptState {
  const parsed = keptSchema.safeParse(kept);
  if (parsed.success) return parsed.data;
  throw new ConfigError(
    `Cannot attach to session ${id}: the program that started it died before the session was ready, ` +
      `or has another version of ipybox; end it with \`ipybox sessions end ${id}\``,
    { cause: parsed.error },
  );
}

function sessionsRoot(): string {
  const root = inState("durable");
  if (root !== undefined) return root;
  throw new ConfigError("Durable sessions need a home directory: set HOME or XDG_STATE_HOME");
}

export function folderOf(id: string): string {
  return join(sessionsRoot(), id);
}

/** Rejects an invalid session name. */
export function checkSessionName(name: string): void {
  if (/^[\w.-]{1,64}$/.test(name)) return;
  throw new TypeError(`"${name}" is not a session name: use letters, digits, ".", "_" and "-"`);
}

export async function createSession(
  workspace: string,
  { idleMs = DAY_MS, maxMs = 7 * DAY_MS, name, note, placement, python }:
    & NotedOptions
    & BeginOptions,
) {
  for (const [option, value] of Object.entries({ idleMs, maxMs })) {
    if (value > 0 && Number.isFinite(value)) continue;
    throw new RangeError(`durable.${option} must be positive and finite, not ${value}`);
  }
  if (name !== undefined) checkSessionName(name);
  const id = randomToken().slice(0, 12);
  const folder = folderOf(id);
  await Deno.mkdir(folder, { recursive: true, mode: 0o700 });
  await Deno.lstat(folder); // without the permission to read it, nothing could remove it again
  const place = await placeOf(workspace);
  const startedAt = Date.now();
  const common = {
    version: VERSION,
    id,
    name,
    workspace,
    place,
    startedAt,
    placement,
    note,
  };
  const onSocket = ({ secret, socket, where }: SessionAddress) =>
    writeRecord({ ...common, secret, socket, where });
  return { id, secret: randomToken(), folder, idleMs, maxMs, python, onSocket };
}

/** Identifies the folder at a path, because another one may replace it. */
async function placeOf(path: string): Promise<string> {
  const { dev, ino } = await Deno.stat(path);
  return `${dev}:${ino}`;
}

async function writeRecord(record: SessionRecord): Promise<void> {
  await replaceFile(join(folderOf(record.id), "record.json"), JSON.stringify(record));
}

async function readRecord(id: string): Promise<SessionRecord | undefined> {
  const path = join(folderOf(id), "record.json");
  const text = await readHostileFile(path);
  if (text === undefined) return undefined;
  let found: unknown;
  try {
    found = JSON.parse(text);
  } catch (cause) {
    throw unreadable(id, path, "it is not JSON", cause);
  }
  const version = z.object({ version: z.number() }).safeParse(found);
  if (version.success && version.data.version > VERSION) {
    throw new ConfigError(
      `Cannot attach to session ${id}: a newer version of ipybox has started it; use that version`,
    );
  }
  const record = recordSchema.safeParse(found);
  if (record.success && record.data.id === id) return record.data;
  throw unreadable(id, path, "it is not a session's record", record.error);
}

/** The record of a session is unreadable, so nobody can find the session. */
class RecordError extends ConfigError {
  override readonly name: string = "RecordError";
}

function unreadable(id: string, path: string, why: string, cause: unknown): RecordError {
  return new RecordError(
    `Cannot read ${path}: ${why}; forget the session with \`ipybox sessions end ${id}\``,
    { cause },
  );
}

/** A session as it is listed. */
export interface ListedSession {
  readonly id: string;
  readonly record?: SessionRecord;
  /** Its status; `undefined` if it is lost. */
  readonly status?: SessionStatus;
  /** Why its status is unknown. */
  readonly error?: unknown;
}

/** Whether a session has not ended, as far as is known. */
export function isRunning({ status, error }: ListedSession): boolean {
  return status !== undefined || error !== undefined;
}

/** Whether a session belongs to a client of an HTTP server, and only that server can continue it. */
export function isOfClient(record: SessionRecord | undefined): boolean {
  return record?.note !== undefined;
}

/** Rejects a session of a client: it has another workspace's servers, policy and audit log. */
export function refuseOfClient(record: SessionRecord): void {
  if (!isOfClient(record)) return;
  throw new ConfigError(
    `Session ${record.id} belongs to a client of \`ipybox mcp --http --durable\`: only that server ` +
      "continues it, and asks you on its approval page",
  );
}

/** Whether its code was running when the last host detached: its later requests are unknown. */
export function wentOn({ status }: ListedSession): boolean {
  if (status === undefined || status.attached) return false;
  return keptSchema.safeParse(status.kept).data?.execution?.ended === false;
}

/** The name is already in use in the workspace. */
export class NameTakenError extends ConfigError {
  override readonly name: string = "NameTakenError";
  /** The session. */
  readonly id: string;

  constructor(name: string, id: string) {
    super(
      `Session ${id} of the workspace is already named ${name}: attach to it, or end it with ` +
        `\`ipybox sessions end ${id}\``,
    );
    this.id = id;
  }
}

/** How long to wait for another program that starts a session of the same name. */
const CLAIM_MS = 90_000;
const CLAIM_PAUSE_MS = 100;

/**
 * Reserves a name in a workspace until disposed, when the session has a record. Sessions with other
 * names can start meanwhile, because a start can take minutes if a placement does not respond.
 */
export async function claimName(
  name: string,
  workspace: string,
  waitMs: number = CLAIM_MS,
): Promise<AsyncDisposable> {
  const folder = join(sessionsRoot(), "claims");
  await Deno.mkdir(folder, { recursive: true, mode: 0o700 });
  const path = join(folder, sha256(JSON.stringify([workspace, name])));
  await using parts = new AsyncDisposableStack();
  for (const end = performance.now() + waitMs;;) {
    using opened = new DisposableStack();
    const claim = opened.use(await openPlainFile(path));
    if (await claim.tryLock(true) && await isStillAt(path, claim)) {
      await claim.truncate(); // left by a process that was killed
      await claim.write(new TextEncoder().encode(`${Deno.pid}`));
      parts.use(opened.move());
      parts.defer(() => ifPresent(Deno.remove(path)));
      break;
    }
    const holder = await ifPresent(Deno.readTextFile(path));
    if (performance.now() > end && holder !== undefined) {
      throw new ConfigError(
        `Cannot start a session named ${name}: process ${holder} has been starting it for ` +
          `${waitMs / 1000} s; try again, or end that process`,
      );
    }
    await pause(CLAIM_PAUSE_MS);
  }
  const taken = (await listSessions(workspace)).find(({ record }) => record?.name === name);
  if (taken !== undefined) throw new NameTakenError(name, taken.id);
  return parts.move();
}

/** The time limit for a session to start. A younger one may not yet have a record or a supervisor. */
const STARTING_MS = 10 * 60_000;

/** Lists the user's durable sessions, and those lost in the last day; older ones are removed. */
export async function listSessions(
  which: string | ((record: SessionRecord) => boolean) = () => true,
): Promise<ListedSession[]> {
  const isMeant = typeof which === "string"
    ? ({ workspace }: SessionRecord) => workspace === which
    : which;
  if (stateFolder() === undefined) return [];
  const ids: string[] = [];
  try {
    for await (const { name } of Deno.readDir(sessionsRoot())) {
      if (/^[0-9a-f]{12}$/.test(name)) ids.push(name);
    }
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
  const sessions = await Promise.all(ids.map(async (id): Promise<ListedSession | undefined> => {
    try {
      const record = await readRecord(id);
      if (record === undefined) {
        const { mtime } = await Deno.stat(folderOf(id));
        if (Date.now() - (mtime?.getTime() ?? 0) > STARTING_MS) await removeFolder(folderOf(id));
        return undefined; // it is being created, or its start failed
      }
      if (!isMeant(record)) return undefined;
      if (record.lost !== undefined) {
        if (Date.now() - record.lost.at < DAY_MS) return { id, record };
        await removeFolder(folderOf(id));
        return undefined;
      }
      try {
        return { id, record, status: await statusOf(record) };
      } catch (error) {
        if (!(error instanceof SessionGoneError)) return { id, record, error };
        const isOver = Date.now() - record.startedAt > STARTING_MS;
        if (isOver) await writeRecord({ ...record, lost: { exit: null, at: Date.now() } });
        return { id, record };
      }
    } catch (error) {
      const isOver = error instanceof Deno.errors.NotFound; // the session has just ended
      return isOver || typeof which === "string" ? undefined : { id, error };
    }
  }));
  return sessions.filter((session) => session !== undefined)
    .sort((one, other) => (one.record?.startedAt ?? 0) - (other.record?.startedAt ?? 0));
}

export async function findSession(id: string): Promise<SessionRecord> {
  const record = /^[0-9a-f]{12}$/.test(id) ? await readRecord(id) : undefined;
  if (record === undefined) {
    throw new ConfigError(
      `There is no durable session ${id}: it has ended or expired; ` +
        "`ipybox sessions` lists running ones",
    );
  }
  if (record.lost !== undefined) {
    const { exit } = record.lost;
    const how = exit === null
      ? "its processes have ended"
      : `its kernel gateway ended (${exit.signal ?? `exit code ${exit.code}`})`;
    throw new SessionGoneError(
      `Session ${id} is lost: ${how}, and its variables are gone; ` +
        `forget it with \`ipybox sessions end ${id}\``,
    );
  }
  const real = await realWorkspace(record.workspace).catch(() => undefined);
  if (real === record.workspace && await placeOf(real) === record.place) return record;
  throw new ConfigError(
    `Cannot attach to session ${id}: its workspace ${record.workspace} no longer exists; ` +
      `move it back, or end the session with \`ipybox sessions end ${id}\``,
  );
}

/** Ends a session and removes its record; throws if its other side could not be reached. */
export async function endDurable(id: string): Promise<void> {
  let left: LeftBehindError | undefined;
  try {
    const record = await readRecord(id);
    if (record !== undefined) await endSession(record);
  } catch (error) {
    if (error instanceof LeftBehindError) left = error;
    const isOver = error instanceof SessionGoneError || error instanceof GarbageError;
    // Without its record, a supervisor ends by itself.
    if (!isOver && left === undefined && !(error instanceof RecordError)) throw error;
  }
  await removeFolder(folderOf(id));
  if (left !== undefined) throw left;
}

/** Removes the folder of an ended session, unless another host may have attached to it. */
export async function removeEnded(id: string): Promise<void> {
  const record = await readRecord(id);
  const isOver = record === undefined || record.lost !== undefined ||
    await statusOf(record).then(() => false, (error) => error instanceof SessionGoneError);
  if (isOver) await removeFolder(folderOf(id));
}

/** Removes the folder of an ended session. Its supervisor does that, too. */
async function removeFolder(folder: string): Promise<void> {
  await Deno.remove(folder, { recursive: true }).catch((error: unknown) => {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  });
}
