import { visible } from "../approval/call_text.ts";
import {
  endDurable,
  folderOf,
  isOfClient,
  type ListedSession,
  listSessions,
  wentOn,
} from "../executor/durable.ts";
import { CallJournal, type WaitingCall } from "../calls/journal.ts";
import {
  type Command,
  type CommandIo,
  EXIT,
  type ParsedArgs,
  printTable,
  table,
  UsageError,
} from "./command.ts";
import { WORKSPACE, workspaceOf } from "./shared.ts";
import { ago, printable } from "./terminal/columns.ts";

export const command: Command = {
  usage: "[OPTIONS]\nshow ID… [OPTIONS]\nend ID… [OPTIONS]",
  positional: { max: Infinity },
  options: {
    workspace: {
      ...WORKSPACE,
      help: "Only the sessions of this workspace (default: all of yours)",
    },
    json: { help: "Print the sessions as JSON" },
  },
  notes: [
    "Sessions of `ipybox run --detach`, of --session NAME and of `ipybox mcp --http`",
    "with --durable outlive the program that started them: for at most a day without",
    "a program (over HTTP, --session-idle), and a week in all. Shows whether a",
    "program is attached, and the calls that wait for your decision: `ipybox attach`",
    "asks you. A session is lost if its kernel gateway ends or the machine restarts:",
    "its variables are gone, its files are not.",
    "",
    "Examples:",
    "",
    "  ipybox sessions",
    "  ipybox sessions show 3f2a9c01d4e8",
    "  ipybox sessions end 3f2a9c01d4e8",
  ].join("\n"),
  run,
};

async function run(parsed: ParsedArgs, io: CommandIo): Promise<number> {
  const [what = "list", ...ids] = parsed.positional;
  if (what === "list" ? ids.length > 0 : !["show", "end"].includes(what) || ids.length === 0) {
    throw new UsageError("Specify `show` or `end` and the ids of sessions, or nothing");
  }
  const workspace = parsed.has("workspace") ? await workspaceOf(parsed) : undefined;
  const listed = await listSessions(what === "list" ? workspace : undefined);
  const unknown = ids.find((id) => !listed.some((session) => session.id === id));
  if (unknown !== undefined) {
    throw new UsageError(
      `There is no session ${unknown}: \`ipybox sessions\` lists running ones`,
    );
  }
  if (what === "end") {
    for (const id of ids) await endDurable(id);
    return EXIT.ok;
  }
  const found = await described(
    listed.filter(({ id }) => what === "list" || ids.includes(id)),
    io,
  );
  if (parsed.has("json")) io.out(JSON.stringify(found, null, 2) + "\n");
  else if (what === "show") {
    for (const [at, session] of found.entries()) {
      if (at > 0) io.out("\n");
      printTable(rowsOf(session), io);
    }
  } else if (found.length === 0) {
    io.err("No sessions are running: see `ipybox run --help`, option --detach");
  } else {
    printTable(listOf(found), io);
  }
  return EXIT.ok;
}

type Described = ReturnType<typeof describe>;

/** Describes sessions whose calls wait, but without a program through which they can be decided. */
export async function linesOfAlone(
  isMeant: (session: { readonly workspace: string }) => boolean,
  io: CommandIo,
): Promise<string[]> {
  const sessions = await listSessions(isMeant);
  const found = await described(
    sessions.filter(({ status }) => status?.attached === false),
    io,
  );
  return found.filter(({ waiting }) => waiting.length > 0)
    .map((session) => `Session ${session.id} is ${lineOf(session)}`);
}

/** The only session without a program, for a command that does not name a session. */
export async function onlyDetached(io: CommandIo): Promise<string> {
  const listed = (await listSessions()).filter(({ record }) => !isOfClient(record));
  const [only, ...others] = listed.filter(({ status }) => status?.attached === false);
  if (only !== undefined && others.length === 0) return only.id;
  const example = only ?? listed[0];
  throw new UsageError(
    example === undefined
      ? "There is no session to attach to: `ipybox run --detach` starts one"
      : `Specify which session, as in \`ipybox attach ${example.id}\`:\n` +
        table(listOf(await described(listed, io))).join("\n"),
  );
}

async function described(
  sessions: readonly ListedSession[],
  io: CommandIo,
): Promise<Described[]> {
  return await Promise.all(
    sessions.map(async (session) => describe(session, await waitingIn(session, io))),
  );
}

function listOf(sessions: readonly Described[]): [string, string][] {
  return sessions.map((session) => [session.id, lineOf(session)]);
}

function describe(session: ListedSession, waiting: readonly WaitingCall[]) {
  const { id, record, status, error } = session;
  const state = error !== undefined
    ? "unreachable"
    : status === undefined
    ? "lost"
    : status.attached
    ? "attached"
    : "detached";
  return {
    id,
    name: record?.name,
    workspace: record?.workspace,
    where: record?.where, // if not on this machine
    state,
    startedAt: record && new Date(record.startedAt).toISOString(),
    detachedSeconds: status?.aloneMs == null ? undefined : Math.round(status.aloneMs / 1000),
    error: error instanceof Error ? error.message : undefined,
    wentOn: wentOn(session), // more calls may wait
    isOfClient: isOfClient(record),
    waiting: waiting.map(({ serverName, toolName, since }) => ({
      call: serverName === "" ? toolName : `${serverName}.${toolName}`,
      since: since.toISOString(),
    })),
  };
}

/** The undecided calls of a session. An unreadable journal must not hide the session. */
async function waitingIn(
  { id, status }: ListedSession,
  io: CommandIo,
): Promise<readonly WaitingCall[]> {
  if (status === undefined) return [];
  try {
    return await CallJournal.waitingIn(folderOf(id));
  } catch (error) {
    io.err(`ipybox: ${printable(error instanceof Error ? error.message : String(error))}`);
    return [];
  }
}

/** How many waiting calls are shown; code can make any number. */
const MAX_WAITING = 3;
const MAX_SHOWN = 100;

/** Facts about a session, with at most `most` waiting calls. */
function factsOf(session: Described, most: number): [label: string, text: string][] {
  const { name, workspace, where, startedAt, state, error, wentOn, waiting } = session;
  const isWaiting = waiting.length > 0;
  const mayWait = session.isOfClient ? "" : ", and may be waiting for you"; // its user cannot attach
  const facts: [string, string | undefined][] = [
    ["state", stateOf(session)],
    ["name", name],
    ["workspace", workspace],
    ["runs at", where],
    ["started", startedAt],
    ["problem", error],
    ["code", wentOn && !isWaiting ? `ran when its program left${mayWait}` : undefined],
    ...waiting.slice(0, most).map((call): [string, string] => ["waits", waitingText(call)]),
    ["waits", waiting.length > most ? "more calls wait" : undefined],
    ["decide", isWaiting && state === "detached" ? askerOf(session) : undefined],
  ];
  return facts.flatMap(([label, text]) => text === undefined ? [] : [[label, printable(text)]]);
}

function rowsOf(session: Described): [string, string][] {
  return [["session", session.id], ...factsOf(session, MAX_SHOWN)];
}

/** The words that replace the labels of facts on one line. */
const LEADS: Readonly<Record<string, string>> = {
  name: "named ",
  workspace: "in ",
  "runs at": "at ",
  code: "code ",
};

function lineOf(session: Described): string {
  return factsOf(session, MAX_WAITING).filter(([label]) => label !== "started")
    .map(([label, text]) => (LEADS[label] ?? "") + text).join("; ");
}

function stateOf({ state, detachedSeconds }: Described): string {
  return detachedSeconds === undefined ? state : `${state} for ${ago(detachedSeconds)}`;
}

function waitingText({ call, since }: Described["waiting"][number]): string {
  return `${clip(call)} has waited for ${ago((Date.now() - Date.parse(since)) / 1000)}`;
}

/** How to decide the waiting calls. */
function askerOf({ id, isOfClient }: Described): string {
  return isOfClient
    ? "start its `ipybox mcp --http --durable` again: the approval page asks you"
    : `\`ipybox attach ${id}\` asks you`;
}

function clip(name: string): string {
  const shown = visible(name); // on one line
  return shown.length > 60 ? `${shown.slice(0, 60)}…` : shown;
}
