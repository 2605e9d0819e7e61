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
import { isInside, isWorkspace, realPathIfSeen, stateOf, wayTo } from "../process/trusted_path.ts";
import { NAMED, OwnEntries, type TrustSetting } from "../files/own_entries.ts";
import { PinnedFolder } from "../files/pinned_folder.ts";
import { ifPresent, readHostileFile } from "../files/safe.ts";
import { workspaceOfSession } from "../files/workspace_state.ts";
import { couldWrite } from "./own_variables.ts";

/** Where a file is in a workspace, and what is known about it there. */
interface Place {
  readonly workspace: string;
  /** Its path in the workspace, before links in that are followed. */
  readonly name: string;
  readonly record: OwnEntries;
  /** Whether it is named for the first time, and code could have written it. */
  readonly isUnseen: boolean;
}

/** A file that was read once: nothing that happens to it later changes what was checked. */
export interface NamedFile {
  readonly text: string;
  /** `undefined` for a file outside workspaces, which is the user's own. */
  readonly place: Place | undefined;
}

/** Options of {@linkcode readNamedFile}. */
interface NamedFileOptions {
  /** The workspace of the session. Others are found. */
  readonly workspace?: string | undefined;
  /** The file's purpose, for errors, such as `sandbox settings`. */
  readonly what: string;
  /** The record to look in. @default {"settings"} */
  readonly kind?: "settings" | "policies";
}

/**
 * Reads a settings file; `undefined` if it does not exist. In a workspace, its path may lead through links in
 * `.ipybox`, but through no others: code could have put them there to have a file of the user's read.
 */
export async function readNamedFile(
  path: string,
  options: NamedFileOptions,
): Promise<NamedFile | undefined> {
  const { names, own, steps, real } = await workspacesOn(path, options);
  if (names.size === 0) { // the user's own: it may be a pipe, as of `<(command)`
    const text = await ifPresent(Deno.readTextFile(path)).catch((error: unknown) => {
      if (!(error instanceof Deno.errors.IsADirectory)) throw error;
      throw new ConfigError(`Cannot use ${path} as ${options.what}: it is a directory`);
    });
    // Windows' editors write a mark, which the other reader leaves out, too.
    return text === undefined ? text : { text: text.replace(/^\ufeff/, ""), place: undefined };
  }
  const text = await readPinned(real);
  if (text === undefined) return undefined;
  const { kind = "settings" } = options;
  const places = await Promise.all(
    [...names].map(async ([workspace, name]) => {
      return { workspace, name, record: await OwnEntries.open(workspace, kind) };
    }),
  );
  // Code can make folders that count as workspaces, but no records.
  const known = places.find(({ name, record }) => record.entryOf(name) !== undefined);
  const place = known ?? places.find(({ workspace }) => own.includes(workspace)) ?? places[0];
  const isUnseen = known === undefined && await isOfCode(steps, names.keys());
  return { text, place: place && { ...place, isUnseen } };
}

/** The workspaces that a path leads through, each with the file's name there. */
async function workspacesOn(
  path: string,
  { workspace, what }: NamedFileOptions,
) {
  const own = workspace === undefined
    ? []
    : [await realPathIfSeen(resolve(workspace)), await workspaceOfSession(workspace)];
  const { steps, real } = await wayTo(path);
  const names = new Map<string, string>();
  for (const { path: step, named, isLink } of steps) {
    const above = dirname(step);
    if (!names.has(above) && (own.includes(above) || await isWorkspace(above))) {
      names.set(above, relative(above, named));
    }
    const around = [...names.keys()].filter((folder) => isInside(step, folder));
    const isAside = around.some((folder) => isInside(step, stateOf(folder)));
    if (!isLink || around.length === 0 || isAside) continue;
    throw new ConfigError(
      `Cannot use ${path} as ${what}: ${step} is a symbolic link in the workspace, which executed ` +
        `code could replace. Use its target, ${real}, or replace it with a copy`,
    );
  }
  return { names, own, steps, real };
}

/** Whether code of a workspace could have written what a path leads to. */
async function isOfCode(
  steps: readonly { readonly path: string }[],
  workspaces: Iterable<string>,
): Promise<boolean> {
  for (const workspace of workspaces) {
    const isOpen = steps.some(({ path }) =>
      path !== workspace && isInside(path, workspace) && !isInside(path, stateOf(workspace))
    );
    if (isOpen && await couldWrite(workspace)) return true;
  }
  return false;
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

/** Records that the user has named a file, so that they can accept it, if naming alone does not. */
export async function noteNamedFile(
  path: string,
  options: NamedFileOptions,
): Promise<NamedFile | undefined> {
  const file = await readNamedFile(path, options);
  if (file?.place?.isUnseen) await file.place.record.restore(file.place.name, NAMED);
  return file;
}

/** Options of {@linkcode useNamedFile}. */
interface UseOptions<T> extends Omit<NamedFileOptions, "kind"> {
  /** Reads a text from a source. Throws if it is invalid. */
  readonly parse: (text: string, source: string) => T;
  readonly trust?: TrustSetting | undefined;
}

/**
 * Reads the version of a settings file that counts; `undefined` if the file does not exist. Until a change is
 * accepted, the former text counts.
 *
 * @throws {ConfigError} Among others: there is no former text that was accepted and kept.
 */
export async function useNamedFile<T>(
  path: string,
  { parse, trust, ...options }: UseOptions<T>,
): Promise<T | undefined> {
  const file = await (trust === "all" ? readNamedFile : noteNamedFile)(path, options);
  if (file === undefined) return undefined;
  const { text, place } = file;
  const source = `${options.what} ${path}`;
  if (place === undefined || trust === "all") return parse(text, source);
  const { name, record, workspace } = place;
  const known = record.entryOf(name);
  if (known === undefined) {
    const parsed = parse(text, source);
    await record.set(name, text, text);
    return parsed;
  }
  if (record.has(name, text)) return parse(text, source);
  const fix = `Review and accept it with \`ipybox trust ${shellWord(workspace)}\``;
  if (known.digest === NAMED.digest) {
    throw new ConfigError(
      `Cannot use ${path} as ${options.what}: code that ran in ${workspace} could have written it. ${fix}`,
    );
  }
  const changed = `${path} has changed since you used it last`;
  if (known.text === undefined) {
    throw new ConfigError(`${changed}, and its former text was too long to keep. ${fix}`);
  }
  stderrLogger().warn(`${changed}, and its former text is used. ${fix}`);
  return parse(
    known.text,
    `former ${source} (used until you accept the current one with \`ipybox trust\`)`,
  );
}
