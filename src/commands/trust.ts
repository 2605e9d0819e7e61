import { resolve } from "node:path";
import { ConfigError } from "../base/errors.ts";
import { OwnEntries, ownRecords } from "../files/own_entries.ts";
import { readHostileFile } from "../files/safe.ts";
import { acceptVariables, ownVariables, readVariables } from "../sandbox/own_variables.ts";
import { ServerRegistry } from "../servers/registry.ts";
import { startEvidence } from "../servers/start_evidence.ts";
import { agrees, type Command, type CommandIo, EXIT, type ParsedArgs } from "./command.ts";
import { foreignText } from "./foreign_rows.ts";
import { acceptFound, unacceptedPolicy } from "./policy_file.ts";
import { launchRows } from "./register.ts";
import { workspaceAt } from "./shared.ts";
import { printable, terminalSize } from "./terminal/columns.ts";

export const trust: Command = {
  usage: "[DIR] [OPTIONS]\n--list",
  positional: { max: 1 },
  options: {
    yes: { help: "Accept everything without asking" },
    revoke: { help: "Accept nothing there any more" },
    list: { help: "List what you accepted or registered, in all workspaces" },
  },
  notes: [
    "Settings in a workspace count once you have seen them: they may have come with a",
    "repository, or from code that ran there. This shows what does not count yet, and",
    "asks about each: new variables in .env, the policy, servers that you have not",
    "registered, those whose files in the workspace have changed since, and changed",
    "files in .ipybox that you used with --sandbox-config.",
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

const UNWRITABLE = "the state folder (~/.local/state/ipybox) is not writable";

/** A setting that does not count yet. */
interface Untrusted {
  /** Shows it. */
  show(): Promise<void> | void;
  readonly question: string;
  readonly accepted: string;
  readonly refused: string;
  /** Whether that could be recorded. */
  accept(): Promise<boolean>;
}

async function run(parsed: ParsedArgs, io: CommandIo): Promise<number> {
  if (parsed.has("list")) return await list(io);
  const [folder = "."] = parsed.positional;
  if (parsed.has("revoke")) return await revoke(folder, io);
  const workspace = await workspaceAt(folder);
  const { seen, failed } = await review(workspace, parsed, io);
  if (seen + failed === 0) {
    io.err(`Nothing to accept: all settings in ${printable(workspace)} count`);
  }
  return failed === 0 ? EXIT.ok : EXIT.failed;
}

/** Shows and asks about all that does not count yet. A setting that is refused counts as before. */
export async function review(
  workspace: string,
  parsed: ParsedArgs,
  io: CommandIo,
): Promise<{ readonly seen: number; readonly failed: number }> {
  const asking = (settings: readonly Untrusted[]) =>
    settings.map((setting) => () => decide(setting, parsed, io));
  const policy = async () => {
    if (!["ask", "reads"].includes(parsed.value("approve") ?? "ask")) return []; // it is not read
    const found = await unacceptedPolicy(workspace);
    return found === undefined ? [] : [() => acceptFound(workspace, found, parsed, io)];
  };
  let seen = 0;
  let failed = 0;
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
  const finders = [ // in this order: variables say what servers run
    async () => asking(await variables(workspace, io)),
    async () => asking(await servers(workspace, io)),
    async () => asking(await sandboxSettings(workspace, io)),
    policy,
  ];
  for (const find of finders) {
    await attempt(async () => {
      for (const decision of await find()) {
        seen++;
        await attempt(decision);
      }
    });
  }
  return { seen, failed };
}

/** Lists what is accepted. */
async function list(io: CommandIo): Promise<number> {
  for (const { workspace, own } of await ownRecords()) {
    const { registrations = {}, settings = {}, policies = {}, variables = {} } = own;
    const names = (entries: object) => Object.keys(entries).filter((name) => !name.includes(" "));
    const rows = [
      ["servers", names(registrations)],
      ["sandbox settings", names(settings)],
      ["variables", names(variables)],
      ["policy", names(policies)],
    ] as const;
    const shown = rows.flatMap(([what, found]) =>
      found.length === 0 ? [] : [`  ${what}: ${printable(found.sort().join(", "))}\n`]
    );
    if (shown.length > 0) io.out(`${printable(workspace)}\n${shown.join("")}`);
  }
  return EXIT.ok;
}

/** Accepts nothing in a folder any more, which need not exist. */
async function revoke(folder: string, io: CommandIo): Promise<number> {
  for (const kind of ["registrations", "settings", "policies", "variables"] as const) {
    const own = await OwnEntries.open(folder, kind);
    if (!await own.replace({})) throw new ConfigError(`Nothing was revoked: ${UNWRITABLE}`);
  }
  io.err(`Settings in ${printable(resolve(folder))} count once you accept them again`);
  return EXIT.ok;
}

async function decide(setting: Untrusted, parsed: ParsedArgs, io: CommandIo): Promise<void> {
  await setting.show();
  if (!parsed.has("yes")) {
    if (!io.interactive) {
      throw new ConfigError(
        `${setting.refused}: there is no terminal to ask on. Add --yes to accept`,
      );
    }
    if (!await agrees(io, setting.question)) throw new ConfigError(setting.refused);
  }
  if (!await setting.accept()) {
    throw new ConfigError(`${setting.refused}: ${UNWRITABLE}`);
  }
  io.err(setting.accepted);
}

/** The variables in the `.env` that code may have written. Values may be secret. */
async function variables(workspace: string, io: CommandIo): Promise<Untrusted[]> {
  const file = await readVariables(workspace);
  const own = await ownVariables(workspace, file);
  const others = Object.keys(file.variables).filter((name) => !Object.hasOwn(own, name));
  if (others.length === 0) return [];
  const path = printable(`${workspace}/.env`);
  return [{
    show: () => {
      io.err(`${path} has variables that you or code which ran here wrote (${others.length}):`);
      io.err(foreignText(others.join("\n"), terminalSize().columns).trimEnd());
    },
    question: "Let MCP servers and kernels use them?",
    accepted: `Accepted the variables in ${path}`,
    refused: `The variables in ${path} were not accepted`,
    accept: () => acceptVariables(workspace, file),
  }];
}

/** Servers that the user has not registered, or whose files in the workspace have changed since. */
async function servers(workspace: string, io: CommandIo): Promise<Untrusted[]> {
  const registry = await ServerRegistry.open({ workspace });
  const found: Untrusted[] = [];
  for (const [name, params] of registry.entries) {
    const isOwn = registry.isOwn(name, params);
    const refused = `MCP server "${name}" was not accepted`;
    const evidence = await startEvidence(name, params, { workspace, isOwn, log: io.log })
      .catch((error: unknown) => {
        if (error instanceof ConfigError) return error;
        throw error;
      });
    if (evidence instanceof ConfigError) {
      // What it would start is not known: its own variables are not set.
      if (!isOwn) found.push(unknown(evidence, refused));
      continue;
    }
    if (isOwn && registry.isUnchanged(name, evidence)) continue;
    found.push({
      show: () => {
        const what = isOwn
          ? "its files in the workspace, or its sandbox settings, have changed since you registered it"
          : "you have not registered it";
        io.err(
          [`MCP server "${name}": ${what}`, ...launchRows([name, params], evidence, workspace)]
            .join("\n"),
        );
      },
      question: `Let code call ${name}?`,
      accepted: `Accepted MCP server "${name}"`,
      refused,
      accept: () => registry.adopt(name, params, evidence),
    });
  }
  return found;
}

/** The settings of code's sandbox that have changed since the user named their file. */
async function sandboxSettings(workspace: string, io: CommandIo): Promise<Untrusted[]> {
  const own = await OwnEntries.open(workspace, "settings");
  const found: Untrusted[] = [];
  for (const name of own.names) {
    const path = printable(`${workspace}/${name}`);
    const text = await readHostileFile(`${workspace}/${name}`);
    if (text === undefined || own.has(name, text)) continue;
    found.push({
      show: () => {
        io.err(`The sandbox settings in ${path} have changed since you used them last:`);
        io.err(foreignText(text, terminalSize().columns).trimEnd());
      },
      question: "Use them for code's sandbox?",
      accepted: `Accepted the sandbox settings in ${path}`,
      refused: `The sandbox settings in ${path} were not accepted`,
      accept: () => own.set(name, text),
    });
  }
  return found;
}

function unknown(error: ConfigError, refused: string): Untrusted {
  const show = () => {
    throw error;
  };
  return { show, question: "", accepted: "", refused, accept: () => Promise.resolve(false) };
}
