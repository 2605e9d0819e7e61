import { join } from "node:path";
import { ConfigError } from "../../base/errors.ts";
import { type Logger, stderrLogger } from "../../base/log.ts";
import { ifPresent, isPlainFolder, readHostileFile, replaceHostileFile } from "../../files/safe.ts";
import { OwnEntries, type TrustSetting } from "../../files/own_entries.ts";
import { isInReach } from "../../process/trusted_path.ts";
import { settingsFolder } from "../../files/user_folders.ts";
import { refuseInOther } from "../../sandbox/workspace.ts";
import type { PolicyRules, PolicySource } from "./rules.ts";

/** Options of {@linkcode loadPolicy}. */
export interface LoadPolicyOptions {
  /** The workspace, with its `.ipybox/policy.json`. Relative paths in arguments start there. */
  readonly workspace?: string;
  /** A file to use instead of the workspace's and the user's. */
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
 * file is a change, too. An accepted version that was too long to keep asks about everything. A named file
 * needs no acceptance.
 *
 * @param options The workspace, or a file to use instead.
 * @returns The joined policies, or `undefined` if there is no file.
 * @throws {ConfigError} A file is invalid, the named one is missing, or one is in a workspace
 * where executed code could change it.
 */
export async function loadPolicy(
  options: LoadPolicyOptions = {},
): Promise<PolicyRules | undefined> {
  const { log = stderrLogger() } = options;
  const { file, workspace } = options;
  const found = await findPolicies(options);
  if (file !== undefined) await requireOutOfReach(file, workspace);
  warnUnaccepted(found, log);
  if (found.length === 0) return undefined;
  const { joinPolicies } = await reading();
  return joinPolicies(found.map(({ source }) => source), options);
}

/** Finds the policies that {@linkcode loadPolicy} joins. A named one may lie anywhere. */
export async function findPolicies(options: LoadPolicyOptions): Promise<FoundPolicy[]> {
  const { workspace, file, trust } = options;
  if (file !== undefined) {
    const text = await readNamed(file);
    const { parsePolicy } = await reading();
    return [{ source: parsePolicy(file, text), path: file, text }];
  }
  const found: FoundPolicy[] = [];
  for (const [name, path] of policyFiles(workspace)) {
    const folder = name === WORKSPACE_POLICY ? workspace : undefined;
    const text = folder === undefined
      ? await ifPresent(Deno.readTextFile(path)) // the user's may be a link
      : await readInWorkspace(path, folder);
    const counts = folder === undefined || trust === "all" ||
      await isAcceptedPolicy(folder, text);
    if (text === undefined && counts) continue;
    const { parsePolicy } = await reading();
    const source = parsePolicy(name, text ?? "{}");
    if (text !== undefined) await requireOutOfReach(path, workspace);
    found.push({ source: counts ? source : await withFormer(source, folder), path, text });
  }
  return found;
}

/** An accepted policy whose text was not kept: it may have denied anything. */
const UNKNOWN = '{"rules": [{"effect": "ask", "reason": "its text was too long to keep"}]}';

/** A policy that is not accepted, with the one that was: one without rules if none was. */
async function withFormer(source: PolicySource, workspace: string): Promise<PolicySource> {
  const { parsePolicy } = await reading();
  const entry = (await OwnEntries.open(workspace, "policies")).entryOf(WORKSPACE_POLICY);
  const text = entry === undefined ? "{}" : entry.text ?? UNKNOWN;
  return { ...source, former: parsePolicy(`former ${source.name}`, text).document };
}

/** Whether the user has accepted the text of a workspace's policy, or that it has none. */
async function isAcceptedPolicy(
  workspace: string,
  text: string | undefined,
): Promise<boolean> {
  const own = await OwnEntries.open(workspace, "policies");
  if (text === undefined) return own.entryOf(WORKSPACE_POLICY) === undefined;
  return own.has(WORKSPACE_POLICY, text);
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
 * Records that the user accepts the text of a workspace's policy, or that it is gone; whether that could
 * be recorded.
 */
export async function acceptPolicy(workspace: string, text: string | undefined): Promise<boolean> {
  const { parsePolicy } = await reading();
  const shown = text === undefined ? text : shownPolicy(parsePolicy(WORKSPACE_POLICY, text));
  return await (await OwnEntries.open(workspace, "policies")).set(WORKSPACE_POLICY, text, shown);
}

/** The policy that the user accepted last, as it was shown, if it was kept. */
export async function acceptedPolicy(workspace: string): Promise<string | undefined> {
  return (await OwnEntries.open(workspace, "policies")).entryOf(WORKSPACE_POLICY)?.text;
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

function notAccepted({ path, text }: FoundPolicy): string {
  if (text === undefined) {
    return `Policy ${path} is gone, and what it denied is still not allowed: ` +
      "accept its removal with `ipybox trust`";
  }
  return `You have not accepted the current version of policy ${path}: what only it allows does not count. ` +
    "Review and accept it with `ipybox trust`";
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

/** Refuses a policy that executed code could change: the code it judges, or that of another workspace. */
async function requireOutOfReach(file: string, workspace: string | undefined): Promise<void> {
  if (workspace !== undefined && await isInReach(file, workspace)) {
    throw new ConfigError(
      `Policy "${file}" is in the workspace, where executed code can change it: ` +
        `move it to ${
          join(workspace, ".ipybox")
        } or out of the workspace, or work in another folder`,
    );
  }
  await refuseInOther(file, { workspace, what: "policy" });
}

async function readNamed(file: string): Promise<string> {
  try {
    return await Deno.readTextFile(file);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
    throw new ConfigError(`No policy file "${file}"`, { cause: error });
  }
}

/** Reads the workspace's policy if it exists. It may have come with a repository, and be a link. */
async function readInWorkspace(path: string, workspace: string): Promise<string | undefined> {
  return await isPlainFolder(join(workspace, ".ipybox")) ? await readHostileFile(path) : undefined;
}
