/** The settings files of a workspace that do not count yet. */
import { resolve } from "node:path";
import { ConfigError } from "../base/errors.ts";
import { OwnEntries } from "../files/own_entries.ts";
import { readNamedFile } from "../sandbox/named_file.ts";
import { lstatIfPresent } from "../files/safe.ts";
import { acceptVariables, ownVariables, readVariables } from "../sandbox/own_variables.ts";
import type { ParsedArgs } from "./command.ts";
import { changedLines } from "./foreign_rows.ts";
import { namedPolicies, waitingPolicy } from "./policy_file.ts";
import type { WaitingSetting } from "./setting_question.ts";
import { printable } from "./terminal/columns.ts";

/** The variables in the workspace's `.env` that do not count. */
export async function unacceptedVariables(workspace: string): Promise<WaitingSetting[]> {
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

/** Settings files in the workspace that options name, or once named, but that do not count as they are. */
export async function changedNamedFiles(
  workspace: string,
  parsed: ParsedArgs,
): Promise<WaitingSetting[]> {
  const given = ["sandbox-config", "placement"].map((option) => parsed.value(option) ?? "")
    .filter((path) => /[./]/.test(path) && !path.startsWith("ssh:"));
  const { names } = await OwnEntries.open(workspace, "settings");
  const found = new Map<string, WaitingSetting>();
  for (const each of [...given, ...names.map((name) => `${workspace}/${name}`)]) {
    const named = await readNamedFile(each, { workspace, what: "settings" })
      .catch((error: unknown) => {
        if (!(error instanceof ConfigError)) throw error; // reported where the file is used
      });
    if (named?.text === undefined || named.counts || named.place?.workspace !== workspace) continue;
    const { text, former, place: { name: file } } = named;
    const path = printable(`${workspace}/${file}`);
    const heading = former === undefined
      ? `Code that ran here could have written ${path}`
      : `${path} has changed since you used it last`;
    found.set(file, {
      name: `settings ${file}`,
      value: text,
      file,
      parts: [{ heading, lines: changedLines(former?.text, text) }],
      question: "Use it as it is now?",
      accepted: `Accepted ${path}`,
      refused: `${path} was not accepted`,
      accept: () => named.accept(),
    });
  }
  return [...found.values()];
}

/** The policies in the workspace that a command reads, or all, if they count only in part. */
export async function waitingPolicies(
  workspace: string,
  parsed: ParsedArgs,
  { all = false } = {},
): Promise<WaitingSetting[]> {
  const approve = parsed.value("approve") ?? "ask";
  if (approve === "allow" || approve === "deny") return [];
  const named = approve === "ask" || approve === "reads" ? undefined : resolve(approve);
  const found: WaitingSetting[] = [];
  for (const file of all ? [undefined, ...await namedPolicies(workspace)] : [named]) {
    if (all && file !== undefined && await lstatIfPresent(file) === undefined) continue;
    found.push(...await waitingPolicy(workspace, file));
  }
  return found;
}
