import { join } from "node:path";
import { ConfigError } from "../../base/errors.ts";
import { type Logger, stderrLogger } from "../../base/log.ts";
import { shellWord } from "../../base/shell_word.ts";
import { NamedFile, readNamedFile } from "../../sandbox/named_file.ts";
import { readInFolder, replaceHostileFile } from "../../files/safe.ts";
import { OwnEntries, type TrustSetting } from "../../files/own_entries.ts";
import { settingsFolder } from "../../files/user_folders.ts";
import type { PolicyRules, PolicySource } from "./rules.ts";

/** Options of {@linkcode loadPolicy}. */
export interface LoadPolicyOptions {
  /** The workspace, with its `.ipybox/policy.json`. Relative paths in arguments start there. */
  readonly workspace?: string;
  /**
   * A file to use instead of the workspace's and the user's. In a workspace, its text counts when
   * it is first named; changes then count as in the workspace's own policy.
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
  /**
   * Its parsed content, with the former content unless the user accepted this exact text on this
   * machine.
   */
  readonly source: PolicySource;
  readonly path: string;
  readonly file: NamedFile;
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
 * with `ipybox trust`, the stricter of it and the version that they accepted before decides. A
 * deleted file is a change, too. If the accepted version was too long to keep, every call needs
 * approval. Naming a file accepts its current text.
 *
 * @param options The workspace, or a file to use instead.
 * @returns The joined policies, or `undefined` if there is no file.
 * @throws {ConfigError} A file is invalid, the named one is missing or behind a link that executed code
 * could replace, or the user's file is in a workspace.
 */
export async function loadPolicy(
  options: LoadPolicyOptions = {},
): Promise<PolicyRules | undefined> {
  const { log = stderrLogger() } = options;
  const found = await findPolicies(options);
  if (options.file !== undefined) { for (const { file } of found) await file.note(); }
  warnUnaccepted(found, log);
  if (found.length === 0) return undefined;
  const { joinPolicies } = await reading();
  return joinPolicies(found.map(({ source }) => source), options);
}

/** Finds the policies that {@linkcode loadPolicy} joins. Records nothing. */
export async function findPolicies(
  { workspace, file, trust }: LoadPolicyOptions,
): Promise<FoundPolicy[]> {
  const found: FoundPolicy[] = [];
  for (const [name, path] of file === undefined ? policyFiles(workspace) : [[file, file]]) {
    const read = file !== undefined
      ? await readNamedFile(path, { workspace, what: "policy", kind: "policies", trust })
      : name === WORKSPACE_POLICY && workspace !== undefined
      ? await readInWorkspace(workspace, trust)
      : await readUsers(path, workspace);
    if (read === undefined && file !== undefined) throw new ConfigError(`No policy file "${file}"`);
    if (read === undefined || (read.text === undefined && read.counts)) continue;
    found.push({ source: await sourceOf(name, read), path, file: read });
  }
  return found;
}

/** Reads the user's policy for all workspaces, which may be a link, but not into a workspace. */
async function readUsers(
  path: string,
  workspace: string | undefined,
): Promise<NamedFile | undefined> {
  const file = await readNamedFile(path, { workspace, what: "policy" });
  if (file?.place === undefined) return file;
  throw new ConfigError(
    `Cannot use ${path} as policy: it is in the workspace ${file.place.workspace}, where executed code ` +
      "can change it: move it out of that workspace, or work in another folder",
  );
}

/** An accepted policy whose text was not kept: it may have denied anything. */
const UNKNOWN = '{"rules": [{"effect": "ask", "reason": "its text was too long to keep"}]}';

/** Parses a policy. If it does not count, the accepted one comes with it, or one without rules. */
async function sourceOf(
  name: string,
  { text = "{}", counts, former }: NamedFile,
): Promise<PolicySource> {
  const { parsePolicy } = await reading();
  const source = parsePolicy(name, text);
  if (counts) return source;
  const known = former === undefined ? "{}" : former.text ?? UNKNOWN;
  return { ...source, former: parsePolicy(`former ${name}`, known).document };
}

/** Reads a workspace's policy, valid or not. It may have come with a repository. */
export async function readInWorkspace(
  workspace: string,
  trust?: TrustSetting,
): Promise<NamedFile> {
  const text = await readInFolder(join(workspace, ".ipybox"), "policy.json");
  const record = await OwnEntries.open(workspace, "policies");
  const place = { workspace, name: WORKSPACE_POLICY, record, isUnseen: true };
  return new NamedFile(text, place, trust);
}

/** Replaces the text of a workspace's policy. */
export async function writeWorkspacePolicy(workspace: string, text: string): Promise<void> {
  await replaceHostileFile(join(workspace, WORKSPACE_POLICY), text);
}

/** Records that the user accepts the text of a workspace's policy. Returns whether it could. */
export async function acceptPolicy(workspace: string, text: string): Promise<boolean> {
  return await (await OwnEntries.open(workspace, "policies")).set(WORKSPACE_POLICY, text, text);
}

/** A policy as it was parsed, not as it is written: the file's layout could hide rules. */
export function shownPolicy(document: PolicySource["document"]): string {
  return JSON.stringify(document, null, 2);
}

/** Warns of policies that are not accepted. */
export function warnUnaccepted(found: readonly FoundPolicy[], log: Logger): void {
  for (const policy of found) {
    if (policy.source.former !== undefined) log.warn(notAccepted(policy));
  }
}

function notAccepted({ path, file: { text, place } }: FoundPolicy): string {
  if (text === undefined) {
    return `Policy ${path} is gone, and what it denied is still not allowed: ` +
      "accept its removal with `ipybox trust`";
  }
  const isNamed = place !== undefined && place.name !== WORKSPACE_POLICY;
  return `You have not accepted the current version of policy ${path}: it allows nothing new. ` +
    `Review and accept it with \`ipybox trust${isNamed ? ` ${shellWord(place.workspace)}` : ""}\``;
}

/** The policy files of a workspace, whether or not they exist. */
export function policyFiles(workspace: string | undefined): Map<string, string> {
  const files = new Map<string, string>();
  if (workspace !== undefined) files.set(WORKSPACE_POLICY, join(workspace, WORKSPACE_POLICY));
  const settings = settingsFolder();
  if (settings !== undefined) files.set("the user's policy.json", join(settings, "policy.json"));
  return files;
}
