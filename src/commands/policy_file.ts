/** `ipybox policy init` and `edit`, and the policy's part of `trust`. */
import { join } from "node:path";
import {
  acceptedPolicy,
  acceptPolicy,
  findPolicies,
  type FoundPolicy,
  isAcceptedPolicy,
  readWorkspacePolicy,
  shownPolicy,
  writeWorkspacePolicy,
} from "../approval/rules/file.ts";
import { parsePolicy } from "../approval/rules/parse.ts";
import { PolicyRules } from "../approval/rules/rules.ts";
import { ConfigError } from "../base/errors.ts";
import { terminalSize } from "../base/terminal.ts";
import { UNWRITABLE } from "../files/user_folders.ts";
import { ServerRegistry } from "../servers/registry.ts";
import { agrees, type CommandIo, EXIT, type ParsedArgs, UsageError } from "./command.ts";
import { foreignChange, foreignText } from "./foreign_rows.ts";
import { grantsOf, isUnconditional } from "./policy_consents.ts";
import { askAbout, type SettingQuestion } from "./setting_question.ts";
import { printable } from "./terminal/columns.ts";
import { editText } from "./terminal/editor.ts";

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

/** Lets the person edit the workspace's policy, and accepts the result. */
export async function edit(
  workspace: string,
  parsed: ParsedArgs,
  io: CommandIo,
): Promise<number> {
  if (!io.interactive) throw new ConfigError("There is no terminal for an editor");
  const path = printable(pathOf(workspace));
  const before = await readWorkspacePolicy(workspace);
  if (before === undefined) {
    throw new UsageError("There is no policy to edit: `ipybox policy init` writes one");
  }
  const text = await editedPolicy(before, io);
  if (await readWorkspacePolicy(workspace) !== before) {
    throw new ConfigError(`Not changed: ${path} was changed while you edited it`);
  }
  const wasAccepted = await isAcceptedPolicy(workspace, before);
  await writeWorkspacePolicy(workspace, text);
  // A policy that they have never accepted may have come with a repository: they see it as ipybox reads it.
  if (!wasAccepted) {
    await acceptPolicyOf(workspace, parsed, io);
    return EXIT.ok;
  }
  for (const warning of warningsOf(new PolicyRules([parsePolicy(path, text)]))) {
    io.log.warn(warning);
  }
  await recordAccepted(workspace, text, io);
  return EXIT.ok;
}

/** The policy as the person leaves it in the editor, once it is a valid one. */
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

/** Rows on the screen besides the rules to accept. */
const MARGIN_ROWS = 4;

/** Shows the workspace's policy unless it counts already, and records that the person accepts it. */
export async function acceptPolicyOf(
  workspace: string,
  parsed: ParsedArgs,
  io: CommandIo,
): Promise<void> {
  const policy = await unacceptedPolicy(workspace);
  if (policy === undefined) return;
  requireKept(await askAbout(aboutPolicy(workspace, policy, parsed, io), parsed, io));
}

/** The workspace's policy, if there is one that does not count yet. */
export async function unacceptedPolicy(workspace: string): Promise<FoundPolicy | undefined> {
  const path = pathOf(workspace);
  return (await findPolicies({ workspace })).find((found) =>
    found.path === path && found.source.former !== undefined
  );
}

/** How a person is asked about a policy of a workspace. */
export function aboutPolicy(
  workspace: string,
  policy: FoundPolicy,
  parsed: ParsedArgs,
  io: CommandIo,
): SettingQuestion {
  const { source, path, text } = policy;
  const { columns, rows } = terminalSize();
  const { narrow, wide } = grantsOf(source.document);
  const show = async () => {
    const former = await acceptedPolicy(workspace);
    const verb = former === undefined ? "says" : "has changed since you accepted it";
    io.err(`${printable(path)} ${text === undefined ? "is gone" : verb}:`);
    io.err(foreignChange(former, shownPolicy(source), columns).trimEnd());
    for (const warning of warningsOf(new PolicyRules([source]))) io.log.warn(warning);
    for (const { heading, items } of [...narrow, ...wide]) {
      io.err(`${heading} (${items.length}):`);
      io.err(foreignText(items.join("\n"), columns).trimEnd());
    }
    if (parsed.has("yes") || !io.interactive) return;
    const height = wide.flatMap(({ items }) => items)
      .reduce((sum, item) => sum + foreignText(item, columns).split("\n").length - 1, 0);
    if (height <= rows - MARGIN_ROWS) return;
    throw new ConfigError(
      "The rules that allow any tool or command do not fit on this screen: " +
        `read ${path}, and accept it with \`ipybox trust --yes\``,
    );
  };
  return {
    show,
    question: "Accept it?",
    accepted: `Accepted ${printable(path)}`,
    refused: "The policy was not accepted",
    accept: () => acceptPolicy(workspace, text),
  };
}

async function recordAccepted(workspace: string, text: string, io: CommandIo): Promise<void> {
  requireKept(await acceptPolicy(workspace, text));
  io.err(`Accepted ${printable(pathOf(workspace))}`);
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
