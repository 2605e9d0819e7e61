/** The settings files of a workspace that do not count yet. */
import { OwnEntries } from "../files/own_entries.ts";
import { readHostileFile } from "../files/safe.ts";
import { acceptVariables, ownVariables, readVariables } from "../sandbox/own_variables.ts";
import type { ParsedArgs } from "./command.ts";
import { changedLines } from "./foreign_rows.ts";
import { aboutPolicy, unacceptedPolicy } from "./policy_file.ts";
import type { FileSetting } from "./setting_question.ts";
import { printable } from "./terminal/columns.ts";

/** The variables in the workspace's `.env` that do not count. */
export async function unacceptedVariables(workspace: string): Promise<FileSetting[]> {
  const found = await readVariables(workspace);
  const own = await ownVariables(workspace, found);
  const others = Object.entries(found.variables).filter(([name]) => !Object.hasOwn(own, name));
  if (others.length === 0) return [];
  const path = printable(`${workspace}/.env`);
  const heading = `${path} has variables that you or code which ran here wrote (${others.length})`;
  return [{
    name: "variables",
    value: others,
    file: ".env",
    parts: [{ heading, lines: others.map(([name]) => name) }],
    question: "Let MCP servers and kernels use them?",
    accepted: `Accepted the variables in ${path}`,
    refused: `The variables in ${path} were not accepted`,
    accept: () => acceptVariables(workspace, found),
  }];
}

/** The settings of code's sandbox that have changed since the user named their file. */
export async function changedSandboxSettings(workspace: string): Promise<FileSetting[]> {
  const own = await OwnEntries.open(workspace, "settings");
  const found: FileSetting[] = [];
  for (const file of own.names) {
    const path = printable(`${workspace}/${file}`);
    const text = await readHostileFile(`${workspace}/${file}`);
    if (text === undefined || own.has(file, text)) continue;
    const heading = `The sandbox settings in ${path} have changed since you used them last`;
    found.push({
      name: `settings ${file}`,
      value: text,
      file,
      parts: [{ heading, lines: changedLines(own.entryOf(file)?.text, text) }],
      question: "Use them for code's sandbox?",
      accepted: `Accepted the sandbox settings in ${path}`,
      refused: `The sandbox settings in ${path} were not accepted`,
      accept: () => own.set(file, text, text),
    });
  }
  return found;
}

/** The workspace's policy, if a command reads it, and it counts only in part. */
export async function waitingPolicy(
  workspace: string,
  parsed: ParsedArgs,
): Promise<FileSetting[]> {
  if (!["ask", "reads"].includes(parsed.value("approve") ?? "ask")) return [];
  const policy = await unacceptedPolicy(workspace);
  return policy === undefined ? [] : [await aboutPolicy(workspace, policy)];
}
