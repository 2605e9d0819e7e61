import { ConfigError } from "../base/errors.ts";
import { acceptNames, ownNames, readVariables } from "../sandbox/own_variables.ts";
import { ServerRegistry } from "../servers/registry.ts";
import { startEvidence } from "../servers/start_evidence.ts";
import { agrees, type Command, type CommandIo, EXIT, type ParsedArgs } from "./command.ts";
import { foreignText } from "./foreign_rows.ts";
import { acceptFound, unacceptedPolicy } from "./policy_file.ts";
import { launchRows } from "./register.ts";
import { WORKSPACE, workspaceOf } from "./shared.ts";
import { printable, terminalSize } from "./terminal/columns.ts";

export const trust: Command = {
  usage: "[OPTIONS]",
  options: {
    yes: { help: "Accept everything without asking" },
    workspace: WORKSPACE,
  },
  notes: [
    "Settings in a workspace count once you have seen them: they may have come with a",
    "repository, or from code that ran there. This shows what does not count yet, and",
    "asks about each: new variables in .env, the policy, servers that you have not",
    "registered, and those whose files in the workspace have changed since.",
    "",
    "What you accept is recorded on this machine, outside the workspace.",
    "",
    "Examples:",
    "",
    "  ipybox trust",
    "  ipybox trust --yes   # in CI, where you wrote the settings yourself",
  ].join("\n"),
  run,
};

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
  const workspace = await workspaceOf(parsed);
  let seen = 0;
  let failed = 0;
  const attempt = async (decision: () => Promise<void>) => {
    seen++;
    try {
      await decision();
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error; // one setting must not prevent the others
      failed++;
      io.err(`ipybox: ${printable(error.message)}`);
    }
  };
  for (const find of [variables, servers]) { // in this order: variables say what servers run
    for (const setting of await find(workspace, io)) {
      await attempt(() => decide(setting, parsed, io));
    }
  }
  const policy = await unacceptedPolicy(workspace);
  if (policy !== undefined) await attempt(() => acceptFound(workspace, policy, parsed, io));
  if (seen === 0) io.err(`Nothing to accept: all settings in ${printable(workspace)} count`);
  return failed === 0 ? EXIT.ok : EXIT.failed;
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
    throw new ConfigError(
      `${setting.refused}: the state folder (~/.local/state/ipybox) is not writable`,
    );
  }
  io.err(setting.accepted);
}

/** The variables that were added to the `.env` since code could write it. Values may be secret. */
async function variables(workspace: string, io: CommandIo): Promise<Untrusted[]> {
  const own = await ownNames(workspace);
  const all = Object.keys(await readVariables(workspace));
  const added = own === undefined ? [] : all.filter((name) => !own.includes(name));
  if (added.length === 0) return [];
  const path = printable(`${workspace}/.env`);
  return [{
    show: () => {
      io.err(`${path} has variables that you or code which ran here added (${added.length}):`);
      io.err(foreignText(added.join("\n"), terminalSize().columns).trimEnd());
    },
    question: "Let MCP servers and kernels use them?",
    accepted: `Accepted the variables in ${path}`,
    refused: `The variables in ${path} were not accepted`,
    accept: () => acceptNames(workspace, added),
  }];
}

/** Servers that the user has not registered, or whose files in the workspace have changed since. */
async function servers(workspace: string, io: CommandIo): Promise<Untrusted[]> {
  const registry = await ServerRegistry.open({ workspace });
  const found: Untrusted[] = [];
  for (const [name, params] of registry.entries) {
    const isOwn = registry.isOwn(name, params);
    const refused = `MCP server "${name}" was not accepted`;
    const evidence = await startEvidence(name, params, { workspace, log: io.log })
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
          ? "files of the workspace that it runs have changed since you registered it"
          : "you have not registered it";
        io.err([`MCP server "${name}": ${what}`, ...launchRows(name, params, evidence)].join("\n"));
      },
      question: `Let code call ${name}?`,
      accepted: `Accepted MCP server "${name}"`,
      refused,
      accept: () => registry.adopt(name, params, evidence),
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
