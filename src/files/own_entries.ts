import { join, resolve } from "node:path";
import { z } from "zod";
import { ConfigError } from "../base/errors.ts";
import { stderrLogger } from "../base/log.ts";
import { canonicalJson, sha256 } from "../json/digest.ts";
import { toExact } from "../json/exact.ts";
import { parsedJson } from "../json/plain.ts";
import { realPathIfSeen } from "../process/trusted_path.ts";
import { ifPresent, lockUserFolder, readHostileFile, replaceHostileFile } from "./safe.ts";
import { isUnwritable, stateFolder, usableIn } from "./user_folders.ts";
import { nameFor } from "./workspace_folders.ts";

const entries = z.record(
  z.string(),
  z.object({ digest: z.string(), text: z.string().optional() }),
);

/** A digest of an entry and maybe its text, which counts or is shown until a change is accepted. */
export interface Entry {
  readonly digest: string;
  readonly text?: string | undefined;
}

/** Which settings in a workspace count: those that the user made or accepted, or all that are there. */
export type TrustSetting = "recorded" | "all";

/** The parts of a workspace that a person can decide on, and those that they refused when asked. */
const KINDS = [
  "registrations",
  "policies",
  "settings",
  "variables",
  "refused",
] as const;

type OwnKind = typeof KINDS[number];

/** The entry among the variables that says which file they are in. No variable has this name. */
export const FILE_IDENTITY = "the file";

/** The record of a file that the user named, and has to see before it counts. */
export const NAMED: Entry = { digest: "" };

/** Longer texts are not kept, so that no record gets too large to be read; their readers fail closed. */
const MAX_TEXT = 16 * 1024;

const recordSchema = z.object({
  workspace: z.string(),
  own: z.partialRecord(z.enum(KINDS), entries),
});

/** The entries that a person made or accepted in a workspace, by name. */
type OwnRecord = Readonly<z.infer<typeof recordSchema>>;

type Entries = Readonly<Record<string, Entry>>;

/** Records that could not be saved in the user's state folder. */
const unkept = new Map<string, OwnRecord>();

/** Damaged records that were reported. */
const reported = new Set<string>();

/**
 * The entries of a workspace's files that the user made or accepted on this machine, such as
 * registered servers, recorded as digests of their content. The record, one file for each workspace, is in
 * the user's state folder, which code cannot reach, so it contains nothing that came with a repository or
 * was written by code.
 *
 * If that folder cannot be used, the record exists only in this process.
 */
export class OwnEntries {
  readonly #workspace: string;
  readonly #kind: OwnKind;
  #entries: Entries | undefined;

  private constructor(workspace: string, kind: OwnKind) {
    this.#workspace = workspace;
    this.#kind = kind;
  }

  /** Reads the record of a workspace. */
  static async open(workspace: string, kind: OwnKind): Promise<OwnEntries> {
    const own = new OwnEntries(await realPathIfSeen(resolve(workspace)), kind);
    await own.reload();
    return own;
  }

  /** Whether anything was ever recorded. */
  get exists(): boolean {
    return this.#entries !== undefined;
  }

  /** The names of all entries. */
  get names(): readonly string[] {
    return Object.keys(this.#entries ?? {});
  }

  /** Reads the changes of other processes since. */
  async reload(): Promise<void> {
    const record = unkept.get(this.#workspace) ?? await readRecord(this.#workspace);
    this.#entries = record.own[this.#kind];
  }

  /** Whether an entry is unchanged since the user made or accepted it. */
  has(name: string, value: unknown): boolean {
    return this.entryOf(name)?.digest === digestOf(this.#workspace, name, value);
  }

  /** The record of an entry, to {@linkcode restore}. */
  entryOf(name: string): Entry | undefined {
    const all = this.#entries ?? {};
    return Object.hasOwn(all, name) ? all[name] : undefined;
  }

  /** Restores an earlier record of an entry. */
  async restore(name: string, entry: Entry | undefined): Promise<boolean> {
    return await this.#record(({ [name]: _former, ...others } = {}) =>
      entry === undefined ? others : { ...others, [name]: entry }
    );
  }

  /**
   * Records that an entry is the user's own, and keeps its text; `undefined` removes it.
   * Resolves to whether other processes see that.
   */
  async set(name: string, value: unknown, text?: string): Promise<boolean> {
    const kept = text === undefined || text.length > MAX_TEXT ? {} : { text };
    const digest = value === undefined ? undefined : digestOf(this.#workspace, name, value);
    return await this.restore(name, digest === undefined ? undefined : { digest, ...kept });
  }

  /** Records entries instead of all earlier ones, or only if there are none. */
  async replace(values: Readonly<Record<string, unknown>>, ifNone = false): Promise<boolean> {
    const fresh = Object.entries(values).map(([name, value]) =>
      [name, { digest: digestOf(this.#workspace, name, value) }] as const
    );
    return await this.#record((all) => ifNone && all || Object.fromEntries(fresh));
  }

  async #record(change: (all: Entries | undefined) => Entries): Promise<boolean> {
    const [workspace, kind] = [this.#workspace, this.#kind];
    const after = ({ own }: OwnRecord): OwnRecord => ({
      workspace,
      own: { ...own, [kind]: change(own[kind]) },
    });
    const folder = recordsFolder();
    try {
      if (folder !== undefined) {
        using _lock = await lockUserFolder(folder);
        const record = after(await readRecord(workspace));
        await replaceHostileFile(join(folder, nameOf(workspace)), JSON.stringify(record) + "\n");
        this.#entries = record.own[kind];
        return true;
      }
    } catch (error) {
      if (!isUnwritable(error)) throw error; // the next process asks again
    }
    const record = after(unkept.get(workspace) ?? await readRecord(workspace));
    unkept.set(workspace, record);
    this.#entries = record.own[kind];
    return false;
  }
}

function digestOf(workspace: string, name: string, value: unknown): string {
  return sha256(canonicalJson(toExact([workspace, name, value])));
}

/** The records of all workspaces. */
export async function ownRecords(): Promise<OwnRecord[]> {
  const folder = recordsFolder();
  if (folder === undefined || await ifPresent(Deno.stat(folder)) === undefined) return [];
  const records: OwnRecord[] = [];
  for await (const { name } of Deno.readDir(folder)) {
    const record = name.endsWith(".json") ? await recordAt(join(folder, name)) : undefined;
    if (record) records.push(record);
  }
  return records.sort((one, other) => one.workspace < other.workspace ? -1 : 1);
}

function recordsFolder(): string | undefined {
  return usableIn(stateFolder(), "trust");
}

function nameOf(workspace: string): string {
  return `${nameFor(workspace)}.json`;
}

/** Reads a workspace's record. A damaged one accepts nothing: the user is asked again. */
async function readRecord(workspace: string): Promise<OwnRecord> {
  const folder = recordsFolder();
  if (folder === undefined) return { workspace, own: {} };
  const path = join(folder, nameOf(workspace));
  const record = await recordAt(path);
  if (record === undefined) return { workspace, own: {} };
  if (record?.workspace === workspace) return record;
  if (!reported.has(path)) {
    reported.add(path);
    stderrLogger().warn(
      `${path} is damaged, so no setting in ${workspace} counts: accept them again with \`ipybox trust\``,
    );
  }
  return { workspace, own: Object.fromEntries(KINDS.map((kind) => [kind, {}])) };
}

/** Reads a record; `undefined` without one of this user's, and `null` if it is damaged. */
async function recordAt(path: string): Promise<OwnRecord | undefined | null> {
  try {
    const text = await readHostileFile(path);
    return text === undefined ? text : recordSchema.safeParse(parsedJson(text)).data ?? null;
  } catch (error) {
    if (error instanceof Deno.errors.PermissionDenied) return undefined; // another user's
    if (error instanceof ConfigError) return null; // no plain file
    throw error;
  }
}
