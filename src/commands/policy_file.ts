/** `ipybox policy init` and `edit`, and the policy's part of `trust`. */
import { join } from "node:path";
import {
  acceptPolicy,
  findPolicies,
  type FoundPolicy,
  readInWorkspace,
  shownPolicy,
  WORKSPACE_POLICY,
  writeWorkspacePolicy,
} from "../approval/rules/file.ts";
import { parsePolicy } from "../approval/rules/parse.ts";
import { PolicyRules } from "../approval/rules/rules.ts";
import { ConfigError } from "../base/errors.ts";
import { OwnEntries } from "../files/own_entries.ts";
import { UNWRITABLE } from "../files/user_folders.ts";
import { ServerRegistry } from "../servers/registry.ts";
import { agrees, type CommandIo, EXIT, type ParsedArgs, UsageError } from "./command.ts";
import { changedLines } from "./foreign_rows.ts";
import { grantsOf, isUnconditional } from "./policy_consents.ts";
import { askAbout, type WaitingSetting } from "./setting_question.ts";
import { printable } from "./terminal/columns.ts";
import { editText } from "./terminal/editor.ts";

const DELETING = `{
      // Matched by name: a tool that deletes under another name needs approval.
      "name": "deleting",
      "effect": "deny",
      "kind": "tool",
      "tool": ["*delete*", "*Delete*", "*remove*", "*Remove*"],
      "reason": "Nothing is deleted here"
    }`;

const READING = `{
      "name": "reading",
      "effect": "allow",
      "kind": "tool",
      "annotations": { "readOnlyHint": true }
    }`;

/** The file that `ipybox policy init` writes; `servers` is the JSON of the servers whose annotations count. */
const PRESETS: Readonly<Record<string, (servers: string) => string>> = {
  reads: (servers) =>
    `{
  // Reading is allowed, all else needs approval, and nothing is deleted.
  // That a tool only reads is a claim of its server, which counts for these servers:
  "trustedServers": ${servers},
  "rules": [
    ${READING},
    ${DELETING}
  ]
}
`,
  readonly: (servers) =>
    `{
  // Reading is allowed. A tool that does more is denied if its server says so, and needs approval if
  // not. That a tool only reads is a claim of its server, which counts for these servers:
  "trustedServers": ${servers},
  "rules": [
    ${READING},
    {
      "name": "changing",
      "effect": "deny",
      "kind": "tool",
      "annotations": { "readOnlyHint": false },
      "reason": "Only reading is allowed here"
    },
    ${DELETING}
  ]
}
`,
  strict: () =>
    `{
  // Each call and each shell command needs approval, and nothing is deleted.
  "rules": [
    { "name": "everything", "effect": "ask" },
    ${DELETING}
  ]
}
`,
};

/** Writes a policy to begin with. */
export async function init(
  workspace: string,
  preset: string,
  io: CommandIo,
): Promise<number> {
  const textOf = Object.hasOwn(PRESETS, preset) ? PRESETS[preset] : undefined;
  if (textOf === undefined) {
    const names = Object.keys(PRESETS).join(", ");
    throw new UsageError(`There is no preset "${preset}": use one of ${names}`);
  }
  const path = printable(join(workspace, WORKSPACE_POLICY));
  if ((await readInWorkspace(workspace)).text !== undefined) {
    throw new ConfigError(`There is a policy already: edit ${path}, or remove it first`);
  }
  const registry = await ServerRegistry.open({ workspace });
  const names = registry.entries.filter(([name, params]) => registry.isOwn(name, params))
    .map(([name]) => name);
  const text = textOf(JSON.stringify(names));
  await writeWorkspacePolicy(workspace, text);
  io.err(`Wrote ${path}`);
  return await accept(workspace, text, io);
}

/** Lets the person edit the workspace's policy, and accepts the result. */
export async function edit(
  workspace: string,
  parsed: ParsedArgs,
  io: CommandIo,
): Promise<number> {
  if (!io.interactive) throw new ConfigError("There is no terminal for an editor");
  const path = printable(join(workspace, WORKSPACE_POLICY));
  const { text: before, counts } = await readInWorkspace(workspace);
  if (before === undefined) {
    throw new UsageError("There is no policy to edit: `ipybox policy init` writes one");
  }
  const text = await editedPolicy(before, io);
  if ((await readInWorkspace(workspace)).text !== before) {
    throw new ConfigError(`Not changed: ${path} was changed while you edited it`);
  }
  await writeWorkspacePolicy(workspace, text);
  // A policy that was never accepted may have come with a repository: show it as ipybox reads it.
  if (counts) return await accept(workspace, text, io);
  for (const policy of await waitingPolicy(workspace)) {
    requireKept(await askAbout(policy, parsed, io));
  }
  return EXIT.ok;
}

/** Accepts a policy that the person wrote or created. */
async function accept(workspace: string, text: string, io: CommandIo): Promise<number> {
  const path = printable(join(workspace, WORKSPACE_POLICY));
  for (const warning of warningsOf(new PolicyRules([parsePolicy(path, text)]))) {
    io.log.warn(warning);
  }
  requireKept(await acceptPolicy(workspace, text));
  io.err(`Accepted ${path}`);
  return EXIT.ok;
}

/** The policy as edited by the person, once it is valid. */
async function editedPolicy(before: string, io: CommandIo): Promise<string> {
  for (let draft = before;;) {
    const edited = await io.lend(() => editText(draft, { name: "policy.json", signal: io.signal }));
    if ("problem" in edited) throw new ConfigError(`Not changed: ${edited.problem}`);
    if (edited.text === draft) {
      throw new ConfigError("Not changed: no changes were made in the editor");
    }
    draft = edited.text;
    try {
      parsePolicy("policy.json", draft);
      return draft;
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      io.err(printable(error.message));
    }
    if (!await agrees(io, "Edit it again?")) throw new ConfigError("The policy was not changed");
  }
}

/** The workspace's policy, or a named one, if it is in the workspace and counts only in part. */
export async function waitingPolicy(workspace: string, file?: string): Promise<WaitingSetting[]> {
  const found = await findPolicies({ workspace, file });
  return found.filter(({ file: { place, counts } }) => place?.workspace === workspace && !counts)
    .map(aboutPolicy);
}

/** The policies in a workspace that were named before, except the workspace's own. */
export async function namedPolicies(workspace: string): Promise<string[]> {
  const { names } = await OwnEntries.open(workspace, "policies");
  return names.filter((name) => name !== WORKSPACE_POLICY).map((name) => join(workspace, name));
}

/** The question to a person about a policy of a workspace. */
function aboutPolicy({ source, path, file }: FoundPolicy): WaitingSetting {
  const { text, former, place } = file;
  const name = place?.name ?? WORKSPACE_POLICY;
  const before = former?.text === undefined ? undefined : source.former;
  const shown = printable(path);
  const verb = before === undefined ? "says" : "has changed since you accepted it";
  const { narrow, wide } = grantsOf(source.document);
  return {
    name: `policy ${name}`,
    value: text ?? null,
    file: name,
    parts: [
      {
        heading: `${shown} ${text === undefined ? "is gone" : verb}`,
        lines: changedLines(before && shownPolicy(before), shownPolicy(source.document)),
      },
      ...narrow,
      ...wide,
    ],
    warnings: warningsOf(new PolicyRules([source])),
    widest: wide.flatMap(({ lines }) => lines),
    question: "Accept it?",
    accepted: `Accepted ${shown}`,
    refused: "The policy was not accepted",
    accept: () => file.accept(),
  };
}

function requireKept(isKept: boolean): void {
  if (!isKept) throw new ConfigError(`Cannot save this: ${UNWRITABLE}`);
}

/** Warns about rules that do something other than they seem to. */
export function warningsOf(rules: PolicyRules): string[] {
  const trusted = rules.sources.some(({ document }) => document.trustedServers.length > 0);
  return rules.sources.flatMap(({ name, document }) =>
    document.rules.flatMap((rule, index) => {
      if (rule.effect !== "allow") return [];
      const at = `${name} rule ${index + 1}`;
      if (rule.annotations !== undefined && !trusted) {
        return [`${at} allows nothing: it needs annotations, and no server is in trustedServers`];
      }
      return isUnconditional(rule) ? [`${at} allows every call that can be judged`] : [];
    })
  );
}
