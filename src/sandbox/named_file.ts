/**
 * Settings files that the user names, as on the command line. Naming one in a workspace accepts it as it is
 * then, unless code that ran there could have written it; a later change counts once the user has accepted it.
 *
 * @module
 */
import { basename, dirname, relative, resolve } from "node:path";
import { ConfigError } from "../base/errors.ts";
import { stderrLogger } from "../base/log.ts";
import { codeOf } from "../base/message_of.ts";
import { shellWord } from "../base/shell_word.ts";
import {
  isInside,
  isLoose,
  linkError,
  realPathIfSeen,
  stateOf,
  wayTo,
  workspacesOn,
} from "../process/trusted_path.ts";
import { type Entry, NAMED, OwnEntries, type TrustSetting } from "../files/own_entries.ts";
import { PinnedFolder } from "../files/pinned_folder.ts";
import { ifPresent, readHostileFile } from "../files/safe.ts";
import { workspaceOfSession } from "../files/workspace_state.ts";
import { parseFile } from "../json/document.ts";
import { couldWrite } from "./own_variables.ts";

/** The place of a file in a workspace, and its record there. */
interface Place {
  readonly workspace: string;
  /** Its path in the workspace, before links in it are followed. */
  readonly name: string;
  readonly record: OwnEntries;
  /** Whether the user has to see it before it counts, as code or a repository could have brought it. */
  readonly isUnseen: boolean;
}

/** A settings file that was read once: nothing that happens to it later changes what was checked. */
export class NamedFile {
  /** `undefined` if the user accepted it, and it is gone. */
  readonly text: string | undefined;
  /** `undefined` for a file outside workspaces, which is the user's own. */
  readonly place: Place | undefined;
  /** Whether it counts as it is. */
  readonly counts: boolean;
  /** The version that counted last, if any: without its text if that was too long to keep. */
  readonly former: Entry | undefined;
  readonly #isNew: boolean;

  constructor(text: string | undefined, place?: Place, trust?: TrustSetting) {
    const known = place?.record.entryOf(place.name);
    this.text = text;
    this.place = place;
    this.#isNew = known === undefined && trust !== "all";
    this.counts = place === undefined || trust === "all" ||
      (known === undefined
        ? text === undefined || !place.isUnseen
        : text !== undefined && place.record.has(place.name, text));
    this.former = known?.digest === NAMED.digest ? undefined : known;
  }

  /** Records that the user has named it for the first time, which accepts it if it counts. */
  async note(): Promise<void> {
    if (!this.#isNew) return;
    if (this.counts) await this.accept();
    else await this.place?.record.restore(this.place.name, NAMED);
  }

  /** Records that the user accepts it as it is; returns whether that could be recorded. */
  async accept(): Promise<boolean> {
    return await this.place?.record.set(this.place.name, this.text, this.text) ?? false;
  }
}

/** Options of {@linkcode readNamedFile}. */
interface NamedFileOptions {
  /** The workspace of the session. Others are found. */
  readonly workspace?: string | undefined;
  /** The file's purpose, for errors, such as `sandbox settings`. */
  readonly what: string;
  /** The record to look in. @default {"settings"} */
  readonly kind?: "settings" | "policies";
  /** Whether a change counts before the user has accepted it. */
  readonly trust?: TrustSetting | undefined;
}

/**
 * Reads a settings file; `undefined` if it does not exist. In a workspace, its path may lead
 * through links in `.ipybox`, but through no others: code could have put them there so that another
 * file of the user is read.
 */
export async function readNamedFile(
  path: string,
  { workspace, what, kind = "settings", trust }: NamedFileOptions,
): Promise<NamedFile | undefined> {
  const own = workspace === undefined
    ? []
    : [await realPathIfSeen(resolve(workspace)), await workspaceOfSession(workspace)];
  const { steps, real } = await wayTo(path);
  const workspaces = await workspacesOn(steps, own);
  const isIn = (path: string, folderOf = (workspace: string) => workspace) =>
    workspaces.some((workspace) => isInside(path, folderOf(workspace)));
  const link = steps.find(({ path, isLink }) => isLink && isIn(path) && !isIn(path, stateOf));
  if (link !== undefined) throw linkError(path, { what, link: link.path, real });
  if (workspaces.length === 0) { // the user's own: it may be a pipe, as from `<(command)`
    const text = await ifPresent(Deno.readTextFile(path)).catch((error: unknown) => {
      if (!(error instanceof Deno.errors.IsADirectory)) throw error;
      throw new ConfigError(`Cannot use ${path} as ${what}: it is a directory`);
    });
    // Windows editors write a byte order mark, which the other reader leaves out, too.
    return text === undefined ? text : new NamedFile(text.replace(/^\ufeff/, ""));
  }
  const text = await readPinned(real);
  if (text === undefined) return undefined;
  const places = await Promise.all(workspaces.map(async (workspace) => {
    const first = steps.find(({ path }) => dirname(path) === workspace);
    const record = await OwnEntries.open(workspace, kind);
    return { workspace, name: relative(workspace, first?.named ?? real), record };
  }));
  // Code can make folders that count as workspaces, but no records.
  const known = places.find(({ name, record }) => record.entryOf(name) !== undefined);
  const place = known ?? places.find(({ workspace }) => own.includes(workspace)) ?? places[0];
  const open = known === undefined
    ? workspaces.filter((workspace) => steps.some((step) => isLoose(step, workspace)))
    : [];
  const isUnseen = (await Promise.all(open.map(couldWrite))).includes(true);
  return new NamedFile(text, place && { ...place, isUnseen }, trust);
}

/** Reads a file by its real path, and nothing behind a link that code may have put there meanwhile. */
async function readPinned(real: string): Promise<string | undefined> {
  try {
    using folder = PinnedFolder.at(dirname(real));
    return await readHostileFile(`${folder.path}/${basename(real)}`).catch((error: unknown) => {
      throw folder.named(error);
    });
  } catch (error) {
    if (codeOf(error) === "ENOENT") return undefined;
    throw error;
  }
}

/** Options of {@linkcode useNamedFile}. */
interface UseOptions<T> extends Omit<NamedFileOptions, "kind"> {
  /** Checks JSON from a source. Throws if it is invalid. */
  readonly parse: (value: unknown, source: string) => T;
}

/**
 * Reads the version of a JSON settings file that counts; `undefined` if the file does not exist. Until a change
 * is accepted, the former text counts.
 *
 * @throws {ConfigError} For example, if no accepted former text was kept.
 */
export async function useNamedFile<T>(
  path: string,
  { parse, ...options }: UseOptions<T>,
): Promise<T | undefined> {
  const file = await readNamedFile(path, options);
  if (file?.text === undefined) return undefined;
  const { text, counts, former, place: { workspace = "." } = {} } = file;
  const source = `${options.what} ${path}`;
  const read = (text: string, source: string) => parse(parseFile(source, text).value, source);
  const current = counts ? read(text, source) : undefined;
  await file.note();
  if (counts) return current;
  const fix = `Review and accept it with \`ipybox trust ${shellWord(workspace)}\``;
  if (former === undefined) {
    throw new ConfigError(
      `Cannot use ${path} as ${options.what}: code that ran in ${workspace} could have written it. ${fix}`,
    );
  }
  const changed = `${path} has changed since you used it last`;
  if (former.text === undefined) {
    throw new ConfigError(`${changed}, and its former text was too long to keep. ${fix}`);
  }
  stderrLogger().warn(`${changed}, and its former text is used. ${fix}`);
  return read(
    former.text,
    `former ${source} (used until you accept the current one with \`ipybox trust\`)`,
  );
}
