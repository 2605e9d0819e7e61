import { join } from "node:path";
import { ConfigError } from "../../base/errors.ts";
import { type Logger, stderrLogger } from "../../base/log.ts";
import { shellWord } from "../../base/shell_word.ts";
import { readNamedFile } from "../../sandbox/named_file.ts";
import { isPlainFolder, readHostileFile, replaceHostileFile } from "../../files/safe.ts";
import { type Entry, NAMED, OwnEntries, type TrustSetting } from "../../files/own_entries.ts";
import { settingsFolder } from "../../files/user_folders.ts";
import type { PolicyRules, PolicySource } from "./rules.ts";

/** Options of {@linkcode loadPolicy}. */
export interface LoadPolicyOptions {
  /** The workspace, with its `.ipybox/policy.json`. Relative paths in arguments start there. */
  readonly workspace?: string;
  /**
   * A file to use instead of the workspace's and the user's. One in a workspace counts as it is when it is
   * first named; then as the workspace's own policy does.
   */
  readonly file?: string;
  /**
   * Which text of the workspace's policy counts: one that the user accepted on this machine, or any.
   *
   * @default {"recorded"}
   */
  readonly trust?: TrustSetting;
  /** Receives a warning if the workspace's policy has not been accepted yet. */
  readonly log?: Logger;
}

/** A policy file that applies to a workspace. */
export interface FoundPolicy {
  /** Its parsed content, with the former one unless the user accepted this very text on this machine. */
  readonly source: PolicySource;
  readonly path: string;
  /** `undefined` if the user accepted it, and it is gone. */
  readonly text: string | undefined;
  /** Where it is recorded, if it is in a workspace: by its path there. */
  readonly place?: { readonly workspace: string; readonly name: string } | undefined;
  /** Whether it is named for the first time. */
  readonly isNew?: boolean;
}

/** Loaded with the first policy: most workspaces have none. */
const reading = () => import("./parse.ts");

/** The workspace's policy: its path in the workspace, and its name in decisions. */
export const WORKSPACE_POLICY = ".ipybox/policy.json";

/**
 * Loads the policies for a workspace: its own in `.ipybox/policy.json`, and the user's in
 * `~/.config/ipybox/policy.json` (or below `XDG_CONFIG_HOME`).
 *
 * The workspace's may have come with a repository: until the user accepts its text on this machine,
 * with `ipybox trust`, the stricter of it and the version which they accepted before decides. A deleted
 * file is a change, too. An accepted version that was too long to keep asks about everything. Naming a file
 * accepts it as it is then.
 *
 * @param options The workspace, or a file to use instead.
 * @returns The joined policies, or `undefined` if there is no file.
 * @throws {ConfigError} A file is invalid, the named one is missing or behind a link that executed code
 * could replace, or the user's is in a workspace.
 */
export async function loadPolicy(
  options: LoadPolicyOptions = {},
): Promise<PolicyRules | undefined> {
  const { log = stderrLogger() } = options;
  const found = await findPolicies(options);
  for (const { place, text, source, isNew } of found) {
    if (!isNew || place === undefined) continue;
    if (source.former === undefined) await acceptPolicy(place.workspace, text, place.name);
    else await (await OwnEntries.open(place.workspace, "policies")).restore(place.name, NAMED);
  }
  warnUnaccepted(found, log);
  if (found.length === 0) return undefined;
  const { joinPolicies } = await reading();
  return joinPolicies(found.map(({ source }) => source), options);
}

/** Finds the policies that {@linkcode loadPolicy} joins. Records nothing. */
export async function findPolicies(options: LoadPolicyOptions): Promise<FoundPolicy[]> {
  const { workspace, file, trust } = options;
  if (file !== undefined) {
    const named = await readNamedFile(file, { workspace, what: "policy", kind: "policies" });
    if (named === undefined) throw new ConfigError(`No policy file "${file}"`);
    const { text, place } = named;
    const known = place?.record.entryOf(place.name);
    const counts = place === undefined || trust === "all" ||
      (known === undefined ? !place.isUnseen : place.record.has(place.name, text));
    const source = await sourceOf(file, text, { counts, known });
    const isNew = place !== undefined && known === undefined && trust !== "all";
    return [{ source, path: file, text, place, isNew }];
  }
  const found: FoundPolicy[] = [];
  for (const [name, path] of policyFiles(workspace)) {
    const isUsers = name !== WORKSPACE_POLICY || workspace === undefined;
    const text = await (isUsers ? readUsers(path, workspace) : readInWorkspace(path, workspace));
    const record = isUsers ? undefined : await OwnEntries.open(workspace, "policies");
    const known = record?.entryOf(name);
    const counts = record === undefined || trust === "all" ||
      (text === undefined ? known === undefined : record.has(name, text));
    if (text === undefined && counts) continue;
    const source = await sourceOf(name, text ?? "{}", { counts, known });
    found.push({ source, path, text, place: isUsers ? undefined : { workspace, name } });
  }
  return found;
}

/** Reads the user's policy for all workspaces, which may be a link, but not into a workspace. */
async function readUsers(path: string, workspace: string | undefined): Promise<string | undefined> {
  const file = await readNamedFile(path, { workspace, what: "policy" });
  if (file?.place === undefined) return file?.text;
  throw new ConfigError(
    `Cannot use ${path} as policy: it is in the workspace ${file.place.workspace}, where executed code ` +
      "can change it: move it out of that workspace, or work in another folder",
  );
}

/** An accepted policy whose text was not kept: it may have denied anything. */
const UNKNOWN = '{"rules": [{"effect": "ask", "reason": "its text was too long to keep"}]}';

/** Parses a policy; one that does not count comes with the one that did, without rules if none did. */
async function sourceOf(
  name: string,
  text: string,
  { counts, known }: { readonly counts: boolean; readonly known: Entry | undefined },
): Promise<PolicySource> {
  const { parsePolicy } = await reading();
  const source = parsePolicy(name, text);
  if (counts) return source;
  const isNone = known === undefined || known.digest === NAMED.digest;
  const former = isNone ? "{}" : known.text ?? UNKNOWN;
  return { ...source, former: parsePolicy(`former ${name}`, former).document };
}

/** Reads the text of a workspace's policy, whether or not it is a valid one. */
export async function readWorkspacePolicy(workspace: string): Promise<string | undefined> {
  return await readInWorkspace(join(workspace, WORKSPACE_POLICY), workspace);
}

/** Replaces the text of a workspace's policy. */
export async function writeWorkspacePolicy(workspace: string, text: string): Promise<void> {
  await replaceHostileFile(join(workspace, WORKSPACE_POLICY), text);
}

/**
 * Records that the user accepts the text of a policy in a workspace, or that it is gone; whether that could
 * be recorded.
 */
export async function acceptPolicy(
  workspace: string,
  text: string | undefined,
  name: string = WORKSPACE_POLICY,
): Promise<boolean> {
  const { parsePolicy } = await reading();
  const shown = text === undefined ? text : shownPolicy(parsePolicy(name, text));
  return await (await OwnEntries.open(workspace, "policies")).set(name, text, shown);
}

/** The version of it that the user accepted last, as it was shown, if it was kept. */
export async function acceptedPolicy(
  workspace: string,
  name: string = WORKSPACE_POLICY,
): Promise<string | undefined> {
  return (await OwnEntries.open(workspace, "policies")).entryOf(name)?.text;
}

/** A policy as it was parsed, not as it is written: the file's layout could hide rules. */
export function shownPolicy({ document }: PolicySource): string {
  return JSON.stringify(document, null, 2);
}

/** Warns of policies that are not accepted. */
export function warnUnaccepted(found: readonly FoundPolicy[], log: Logger): void {
  for (const policy of found) {
    if (policy.source.former !== undefined) log.warn(notAccepted(policy));
  }
}

function notAccepted({ path, text, place }: FoundPolicy): string {
  if (text === undefined) {
    return `Policy ${path} is gone, and what it denied is still not allowed: ` +
      "accept its removal with `ipybox trust`";
  }
  const isNamed = place !== undefined && place.name !== WORKSPACE_POLICY;
  return `You have not accepted the current version of policy ${path}: what only it allows does not count. ` +
    `Review and accept it with \`ipybox trust${isNamed ? ` ${shellWord(place.workspace)}` : ""}\``;
}

/** The policy files of a workspace, whether or not they exist. */
export function policyFiles(workspace: string | undefined): Map<string, string> {
  const files = new Map<string, string>();
  if (workspace !== undefined) {
    files.set(WORKSPACE_POLICY, join(workspace, ".ipybox", "policy.json"));
  }
  const settings = settingsFolder();
  if (settings !== undefined) files.set("the user's policy.json", join(settings, "policy.json"));
  return files;
}

/** Reads the workspace's policy if it exists. It may have come with a repository, and be a link. */
async function readInWorkspace(path: string, workspace: string): Promise<string | undefined> {
  return await isPlainFolder(join(workspace, ".ipybox")) ? await readHostileFile(path) : undefined;
}
