import { resolve } from "node:path";
import { ConfigError } from "../base/errors.ts";
import { type Entry, NAMED, OwnEntries, ownRecords } from "../files/own_entries.ts";
import { UNWRITABLE } from "../files/user_folders.ts";
import { isThere } from "../files/workspace_folders.ts";
import { ServerRegistry } from "../servers/registry.ts";
import { startEvidence } from "../servers/start_evidence.ts";
import { type Command, type CommandIo, EXIT, type ParsedArgs } from "./command.ts";
import { changedNamedFiles, unacceptedVariables, waitingPolicies } from "./file_settings.ts";
import { changedLines } from "./foreign_rows.ts";
import { launchParts } from "./register.ts";
import { askAbout, RefusedError, type WaitingSetting } from "./setting_question.ts";
import { workspaceAt } from "./shared.ts";
import { printable } from "./terminal/columns.ts";

export const command: Command = {
  usage: "[DIR] [OPTIONS]\n--list",
  positional: { max: 1 },
  options: {
    yes: { help: "Accept everything without asking" },
    revoke: { help: "Take back everything that you accepted there" },
    list: { help: "List what you accepted or registered, in all workspaces" },
  },
  notes: [
    "Settings in a workspace may have come with a repository, or from code that ran",
    "there, so they count only once you have seen them. This shows the others, and",
    "asks about each: new variables in .env, the policy, servers that you have not",
    "registered or whose files in the workspace have changed, and changed files that",
    "you named with --approve, --sandbox-config or --placement.",
    "",
    "What you accept is recorded on this machine, outside the workspace. DIR is the",
    "workspace (default: .).",
    "",
    "Examples:",
    "",
    "  ipybox trust",
    "  ipybox trust --yes   # in CI, where you wrote the settings yourself",
    "  ipybox trust --revoke ~/old-project",
  ].join("\n"),
  run,
};

async function run(parsed: ParsedArgs, io: CommandIo): Promise<number> {
  const [one, ...others] = Object.keys(command.options).filter((name) => parsed.has(name));
  if (one !== undefined) parsed.refuseBeside(one, others);
  if (parsed.has("list")) return await list(io);
  const [folder = "."] = parsed.positional;
  if (parsed.has("revoke")) return await revoke(folder, io);
  const workspace = await workspaceAt(folder);
  const { seen, failed } = await review(workspace, parsed, io, { again: true });
  if (seen + failed === 0) {
    io.err(`Nothing to accept: all settings in ${printable(workspace)} count`);
  }
  return failed === 0 ? EXIT.ok : EXIT.failed;
}

/**
 * Shows and asks about all settings that do not count yet; with `again`, also about those that the person
 * has refused. A refused setting counts as before.
 */
export async function review(
  workspace: string,
  parsed: ParsedArgs,
  io: CommandIo,
  { again = false } = {},
): Promise<{ readonly seen: number; readonly failed: number }> {
  const refusals = await OwnEntries.open(workspace, "refused");
  const ask = async (setting: WaitingSetting) => {
    try {
      if (!await askAbout(setting, parsed, io)) isKept = false;
      if (refusals.entryOf(setting.name)) await refusals.set(setting.name, undefined);
    } catch (error) {
      if (error instanceof RefusedError) await refusals.set(setting.name, setting.value);
      throw error;
    }
  };
  let seen = 0;
  let failed = 0;
  let isKept = true;
  const attempt = async (work: () => Promise<void>) => {
    try {
      await work();
    } catch (error) {
      io.signal.throwIfAborted(); // Ctrl-C answers no question
      if (!(error instanceof ConfigError)) throw error; // one setting must not prevent the others
      failed++;
      io.err(`ipybox: ${printable(error.message)}`);
    }
  };
  const finders = [ // in this order: variables determine what servers run
    () => unacceptedVariables(workspace),
    () => servers(workspace, io),
    () => changedNamedFiles(workspace, parsed),
    () => waitingPolicies(workspace, parsed, { all: again }),
  ];
  for (const find of finders) {
    await attempt(async () => {
      for (const setting of await find()) {
        if (!again && refusals.has(setting.name, setting.value)) continue;
        seen++;
        await attempt(() => ask(setting));
      }
    });
  }
  if (!isKept) {
    failed++;
    io.err(`ipybox: What you accepted counts in this process only: ${UNWRITABLE}`);
  }
  return { seen, failed };
}

/** Lists the accepted entries. */
async function list(io: CommandIo): Promise<number> {
  for (const { workspace, own } of await ownRecords()) {
    const { registrations = {}, settings = {}, policies = {}, variables = {} } = own;
    const names = (entries: Readonly<Record<string, Entry>>) =>
      Object.entries(entries).filter(([, { digest }]) => digest !== NAMED.digest)
        .map(([name]) => name).filter((name) => !name.includes(" "));
    const rows = [
      ["servers", names(registrations)],
      ["settings files", names(settings)],
      ["variables", names(variables)],
      ["policy", names(policies)],
    ] as const;
    const shown = rows.flatMap(([kind, found]) =>
      found.length === 0 ? [] : [`  ${kind}: ${printable(found.sort().join(", "))}\n`]
    );
    const gone = await isThere(workspace) ? "" : " (gone)";
    if (shown.length > 0) io.out(`${printable(workspace)}${gone}\n${shown.join("")}`);
  }
  return EXIT.ok;
}

/** Revokes all acceptances in a folder, which need not exist. */
async function revoke(folder: string, io: CommandIo): Promise<number> {
  for (const kind of ["registrations", "settings", "policies", "variables"] as const) {
    const own = await OwnEntries.open(folder, kind);
    if (!await own.replace({})) throw new ConfigError(`Nothing was revoked: ${UNWRITABLE}`);
  }
  io.err(`Settings in ${printable(resolve(folder))} count once you accept them again`);
  return EXIT.ok;
}

/** Servers that the user has not registered, or whose files in the workspace have changed since. */
async function servers(workspace: string, io: CommandIo): Promise<WaitingSetting[]> {
  const registry = await ServerRegistry.open({ workspace });
  const found: WaitingSetting[] = [];
  for (const [name, params] of registry.entries) {
    const isOwn = registry.isOwn(name, params);
    const setting = {
      name: `server ${name}`,
      file: ".ipybox/mcp.json",
      question: `Let code call ${name}?`,
      accepted: `Accepted MCP server "${name}"`,
      refused: `MCP server "${name}" was not accepted`,
    };
    try {
      const evidence = await startEvidence(name, params, { workspace, isOwn, log: io.log });
      if (isOwn && registry.isUnchanged(name, evidence)) continue;
      const reason = isOwn
        ? "its files in the workspace, or its sandbox settings, have changed since you registered it"
        : "you have not registered it";
      const change = registry.changeOf(name, params, evidence);
      const heading = "This has changed since you accepted it";
      found.push({
        ...setting,
        value: [params, evidence],
        title: `MCP server "${name}": ${reason}`,
        parts: [
          ...launchParts([name, params], evidence, workspace),
          ...change ? [{ heading, lines: changedLines(change.before, change.now) }] : [],
        ],
        accept: () => registry.adopt(name, params, evidence),
      });
    } catch (problem) {
      if (!(problem instanceof ConfigError)) throw problem;
      // Its variables are not set, so what it would start is unknown.
      const accept = () => Promise.resolve(false);
      if (!isOwn) found.push({ ...setting, value: problem.message, problem, parts: [], accept });
    }
  }
  return found;
}
