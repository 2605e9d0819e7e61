/** `ipybox policy init`, and the policy's part of `trust`. */
import { join } from "node:path";
import {
  acceptedPolicy,
  acceptPolicy,
  findPolicies,
  type FoundPolicy,
  readWorkspacePolicy,
  shownPolicy,
  WORKSPACE_POLICY,
  writeWorkspacePolicy,
} from "../approval/rules/file.ts";
import { PolicyRules } from "../approval/rules/rules.ts";
import { ConfigError } from "../base/errors.ts";
import { UNWRITABLE } from "../files/user_folders.ts";
import { ServerRegistry } from "../servers/registry.ts";
import { type CommandIo, EXIT, type ParsedArgs, UsageError } from "./command.ts";
import { changedLines } from "./foreign_rows.ts";
import { grantsOf, isUnconditional } from "./policy_consents.ts";
import { askAbout, fileQuestion, type FileSetting } from "./setting_question.ts";
import { printable } from "./terminal/columns.ts";

function pathOf(workspace: string): string {
  return join(workspace, ".ipybox", "policy.json");
}

const DELETING = `{
      // By its name: a tool that deletes under another one needs approval.
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
  // That a tool only reads is a claim of its server. It counts for these servers:
  "trustedServers": ${servers},
  "rules": [
    ${READING},
    ${DELETING}
  ]
}
`,
  readonly: (servers) =>
    `{
  // Reading is allowed, and all else is denied where a server says that a tool does more. What it does
  // not say needs approval. That a tool only reads is a claim of its server. It counts for these servers:
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
  // Each call needs approval, also that of a shell command, and nothing is deleted.
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
  { parsed, io }: { readonly parsed: ParsedArgs; readonly io: CommandIo },
): Promise<number> {
  const textOf = Object.hasOwn(PRESETS, preset) ? PRESETS[preset] : undefined;
  if (textOf === undefined) {
    const names = Object.keys(PRESETS).join(", ");
    throw new UsageError(`There is no preset "${preset}": use one of ${names}`);
  }
  const path = printable(pathOf(workspace));
  if (await readWorkspacePolicy(workspace) !== undefined) {
    throw new ConfigError(`There is a policy already: edit ${path}, or remove it first`);
  }
  const registry = await ServerRegistry.open({ workspace });
  const names = registry.entries.filter(([name, params]) => registry.isOwn(name, params))
    .map(([name]) => name);
  await writeWorkspacePolicy(workspace, textOf(JSON.stringify(names)));
  io.err(`Wrote ${path}`);
  if (io.interactive || parsed.has("yes")) {
    await acceptPolicyOf(workspace, parsed, io);
    return EXIT.ok;
  }
  io.err("It allows nothing until you accept it: `ipybox trust`");
  return EXIT.ok;
}

/** Shows the workspace's policy unless it counts already, and records that the person accepts it. */
export async function acceptPolicyOf(
  workspace: string,
  parsed: ParsedArgs,
  io: CommandIo,
): Promise<void> {
  const policy = await unacceptedPolicy(workspace);
  if (policy === undefined) return;
  const question = fileQuestion(await aboutPolicy(workspace, policy), parsed, io);
  requireKept(await askAbout(question, parsed, io));
}

/** The workspace's policy, if there is one that does not count yet. */
export async function unacceptedPolicy(workspace: string): Promise<FoundPolicy | undefined> {
  const path = pathOf(workspace);
  return (await findPolicies({ workspace })).find((found) =>
    found.path === path && found.source.former !== undefined
  );
}

/** How a person is asked about a policy of a workspace. */
export async function aboutPolicy(
  workspace: string,
  { source, path, text }: FoundPolicy,
): Promise<FileSetting> {
  const former = await acceptedPolicy(workspace);
  const shown = printable(path);
  const verb = former === undefined ? "says" : "has changed since you accepted it";
  const { narrow, wide } = grantsOf(source.document);
  return {
    name: "policy",
    value: text ?? null,
    file: WORKSPACE_POLICY,
    parts: [
      {
        heading: `${shown} ${text === undefined ? "is gone" : verb}`,
        lines: changedLines(former, shownPolicy(source)),
      },
      ...narrow,
      ...wide,
    ],
    warnings: warningsOf(new PolicyRules([source])),
    widest: wide.flatMap(({ lines }) => lines),
    question: "Accept it?",
    accepted: `Accepted ${shown}`,
    refused: "The policy was not accepted",
    accept: () => acceptPolicy(workspace, text),
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
