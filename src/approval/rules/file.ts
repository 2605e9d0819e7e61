import { join } from "node:path";
import type { z } from "zod";
import { ConfigError } from "../../base/errors.ts";
import { parseFile, pointerOf } from "../../json/document.ts";
import { oneLine } from "../../json/problems.ts";
import { type Logger, stderrLogger } from "../../base/log.ts";
import { ifPresent, isPlainFolder, readHostileFile } from "../../files/safe.ts";
import { OwnEntries } from "../../files/own_entries.ts";
import { isInReach } from "../../process/trusted_path.ts";
import { settingsFolder } from "../../files/user_folders.ts";
import { PolicyRules, type PolicySource } from "./rules.ts";
import { type PolicyRule, policySchema } from "./schema.ts";

/** Options of {@linkcode loadPolicy}. */
export interface LoadPolicyOptions {
  /** The workspace, with its `.ipybox/policy.json`. Relative paths in arguments start there. */
  readonly workspace?: string;
  /** A file to use instead of the workspace's and the user's. */
  readonly file?: string;
  /** Receives a warning if the workspace's policy has not been accepted yet. */
  readonly log?: Logger;
}

/** A policy file that applies to a workspace. */
export interface FoundPolicy {
  /** Its parsed content. */
  readonly source: PolicySource;
  /** Its path. */
  readonly path: string;
  /** Its text. */
  readonly text: string;
  /** Whether it is the user's own, or they accepted this very text on this machine. */
  readonly accepted: boolean;
}

/** The name of the workspace's policy in decisions. */
const WORKSPACE_POLICY = ".ipybox/policy.json";

/**
 * Parses a policy.
 *
 * @param name The file name, for errors and decisions.
 * @param text Its text.
 * @returns The policy.
 * @throws {ConfigError} The policy is invalid; the message contains lines, columns and JSON
 * pointers.
 */
export function parsePolicy(name: string, text: string): PolicySource {
  const located = parseFile(name, text, { comments: true });
  const parsed = policySchema.safeParse(located.value);
  if (parsed.success) return { name, document: parsed.data };
  const problems = parsed.error.issues.flatMap((issue) => problemsOf(issue, []))
    .map(({ path, message }) => {
      const pointer = pointerOf(path);
      const { line, column } = located.placeOf(pointer);
      return `${name}:${line}:${column}: ${
        oneLine(pointer === "" ? message : `${pointer}: ${message}`)
      }`;
    });
  throw new ConfigError(`Invalid policy\n${problems.join("\n")}`, { cause: parsed.error });
}

/**
 * Loads the policies for a workspace: its own in `.ipybox/policy.json`, and the user's in
 * `~/.config/ipybox/policy.json` (or below `XDG_CONFIG_HOME`).
 *
 * The workspace's may have come with a repository: until the user accepts its text on this machine,
 * with `ipybox policy accept`, calls that it allows need approval. A named file needs no
 * acceptance.
 *
 * @param options The workspace, or a file to use instead.
 * @returns The joined policies, or `undefined` if there is no file.
 * @throws {ConfigError} A file is invalid, the named one is missing, or it is in the workspace
 * where executed code could change it.
 */
export async function loadPolicy(
  options: LoadPolicyOptions = {},
): Promise<PolicyRules | undefined> {
  const { log = stderrLogger() } = options;
  const found = await findPolicies(options);
  for (const policy of found) {
    if (!policy.accepted) log.warn(notAccepted(policy));
  }
  return joinPolicies(found.map(asAccepted), options);
}

/** Finds the policies that {@linkcode loadPolicy} joins, with the rules as written. */
export async function findPolicies(options: LoadPolicyOptions): Promise<FoundPolicy[]> {
  const { workspace, file } = options;
  if (file !== undefined) {
    const text = await readNamed(file);
    const source = parsePolicy(file, text);
    await requireOutOfReach(file, workspace);
    return [{ source, path: file, text, accepted: true }];
  }
  const found: FoundPolicy[] = [];
  for (const [name, path] of policyFiles(workspace)) {
    const text = await readIfThere(path, workspace);
    if (text === undefined) continue;
    const source = parsePolicy(name, text);
    await requireOutOfReach(path, workspace);
    const accepted = workspace === undefined || name !== WORKSPACE_POLICY ||
      (await OwnEntries.open(workspace, "policies")).has(name, text);
    found.push({ source, path, text, accepted });
  }
  return found;
}

/** Joins policies; `undefined` if there are none. */
export function joinPolicies(
  sources: readonly PolicySource[],
  { workspace }: LoadPolicyOptions,
): PolicyRules | undefined {
  const home = Deno.env.get("HOME");
  return sources.length === 0 ? undefined : new PolicyRules(sources, { workspace, home });
}

/**
 * Records that the user accepts the text of a workspace's policy. Returns whether it could be
 * recorded.
 */
export async function acceptPolicy(workspace: string, text: string): Promise<boolean> {
  await (await OwnEntries.open(workspace, "policies")).set(WORKSPACE_POLICY, text);
  return (await OwnEntries.open(workspace, "policies")).has(WORKSPACE_POLICY, text);
}

/** The warning about a policy that is not accepted. */
export function notAccepted({ path }: FoundPolicy): string {
  return `You have not accepted the current version of policy ${path}: calls that it allows need approval. ` +
    "Review and accept it with `ipybox policy accept`";
}

/**
 * The policy with the effect that it has: unless it is accepted, calls that it would allow need
 * approval.
 */
function asAccepted({ source, accepted }: FoundPolicy): PolicySource {
  if (accepted) return source;
  const { name, document } = source;
  const rules = document.rules.map((rule): PolicyRule =>
    rule.effect === "allow"
      ? {
        ...rule,
        effect: "ask",
        reason: "it would allow this, but you have not accepted its file",
      }
      : rule
  );
  return { name, document: { ...document, rules, trustedServers: [] } };
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

/** Refuses a policy that the code it judges could change, now or for the next session. */
async function requireOutOfReach(file: string, workspace: string | undefined): Promise<void> {
  if (workspace === undefined || !await isInReach(file, workspace)) return;
  throw new ConfigError(
    `Policy "${file}" is in the workspace, where executed code can change it: ` +
      `move it to ${join(workspace, ".ipybox")} or out of the workspace, or work in another folder`,
  );
}

async function readNamed(file: string): Promise<string> {
  try {
    return await Deno.readTextFile(file);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
    throw new ConfigError(`No policy file "${file}"`, { cause: error });
  }
}

/** Reads a policy file if it exists. Code may have created the workspace's; the user's may be a link. */
async function readIfThere(
  path: string,
  workspace: string | undefined,
): Promise<string | undefined> {
  if (workspace !== undefined && path.startsWith(`${workspace}/.ipybox/`)) {
    return await isPlainFolder(join(workspace, ".ipybox"))
      ? await readHostileFile(path)
      : undefined;
  }
  return await ifPresent(Deno.readTextFile(path));
}

interface Problem {
  readonly path: readonly PropertyKey[];
  readonly message: string;
}

/** The problems of an issue. For a union, those of the only alternative with the right type. */
function problemsOf(issue: z.core.$ZodIssue, base: readonly PropertyKey[]): Problem[] {
  const path = [...base, ...issue.path];
  if (issue.code === "invalid_key") {
    return issue.issues.map(({ message }) => ({ path, message }));
  }
  if (issue.code !== "invalid_union") {
    // An unknown name is its own location.
    const keys = issue.code === "unrecognized_keys" ? issue.keys : [];
    return keys.length === 0
      ? [{ path, message: issue.message }]
      : keys.map((key) => ({ path: [...path, key], message: "Unknown name" }));
  }
  const branches = issue.errors.filter((errors) =>
    !errors.some((error) => error.code === "invalid_type" && error.path.length === 0)
  );
  const [meant] = branches;
  if (branches.length !== 1 || meant === undefined) return [{ path, message: issue.message }];
  return meant.flatMap((inner) => problemsOf(inner, path));
}
