import { callName, visibleCode } from "../approval/call_text.ts";
import type { Fields } from "../approval/audit/entry.ts";
import { AuditFolder } from "../approval/audit/folder.ts";
import { verifyAuditLog } from "../approval/audit/reader.ts";
import { auditChanges, AuditTail } from "../approval/audit/tail.ts";
import { formatBytes } from "../kernel/text.ts";
import { type Command, type CommandIo, EXIT, type ParsedArgs } from "./command.ts";
import { WORKSPACE, workspaceOf } from "./shared.ts";

export const command: Command = {
  usage: "[OPTIONS]",
  options: {
    last: { short: "n", value: "N", help: "How many calls to show (default: 50)" },
    follow: { short: "f", help: "Keep printing new entries" },
    verify: { help: "Check that no line was changed, moved or removed" },
    json: { help: "Print the log's own lines, or the result of --verify, as JSON" },
    workspace: WORKSPACE,
  },
  notes: [
    "The log is audit.jsonl in the folder that `ipybox where` prints; older lines are",
    "in files next to it. Each row is a call: when it arrived, how it ended, what was",
    "called, how long the tool took, and who decided. With --follow, a row appears",
    "when the call ends. With --json, -n counts the log's own lines: one before a",
    "call is sent, and one after it has ended. If a line is bad, --verify names the",
    "first one and exits with code 1.",
    "",
    "Examples:",
    "",
    "  ipybox audit --follow",
    "  ipybox audit --verify",
  ].join("\n"),
  run,
};

const MAX_ARGUMENTS = 200;

/** The size of a log that takes a while to read, in bytes. */
const LONG_LOG = 2 ** 28;

async function run(parsed: ParsedArgs, io: CommandIo): Promise<number> {
  const json = parsed.has("json");
  const last = parsed.positiveNumber("last") ?? 50;
  if (parsed.has("verify")) parsed.refuseBeside("verify", ["follow"]);
  const workspace = await workspaceOf(parsed);
  const folder = parsed.has("follow")
    ? await AuditFolder.make(workspace) // to be watched
    : await AuditFolder.find(workspace);
  const size = await folder.size();
  if (size > LONG_LOG) io.err(`Reading ${formatBytes(size)} of ${folder.path}`);
  if (parsed.has("verify")) return await verify(workspace, io, json);
  using tail = new AuditTail(folder);
  const rowsOf = json ? lineRows : callRows();
  const textOf = json ? ({ fields }: Row) => JSON.stringify(fields) : callText;
  const shown: Row[] = [];
  for await (const fields of tail.read(io.signal)) {
    const { begun } = rowsOf(fields);
    if (begun !== undefined) shown.push(begun);
    if (shown.length > last) shown.shift();
  }
  const print = (row: Row) => io.out(textOf(row) + "\n");
  // A call is logged when it is decided, which can be long after it arrived.
  if (!json) shown.sort((a, b) => timeOf(a) - timeOf(b));
  shown.forEach(print);
  if (!parsed.has("follow")) {
    if (shown.length === 0) io.err("No entries yet");
    return EXIT.ok;
  }
  for await (const _change of auditChanges(folder, io.signal)) {
    for await (const fields of tail.read()) {
      const { ended } = rowsOf(fields);
      if (ended !== undefined) print(ended);
    }
  }
  return io.signal.aborted ? io.signal.reason.exitCode : EXIT.ok;
}

async function verify(workspace: string, io: CommandIo, json: boolean): Promise<number> {
  const verdict = await verifyAuditLog(workspace);
  const { ok, entries, first, sealed, unfinished, bad } = verdict;
  if (json) io.out(JSON.stringify(verdict, null, 2) + "\n");
  else {
    if (bad !== undefined) io.out(`${bad.file}:${bad.line}: ${bad.problem}\n`);
    const parts = [entries === 1 ? "1 line is intact" : `${entries} lines are intact`];
    if (first !== undefined && first > 1) parts.push(`they begin with number ${first}`);
    if (sealed > 0) parts.push(`torn ones, sealed off: ${sealed}`);
    if (unfinished > 0) parts.push(`calls without an outcome: ${unfinished}`);
    io.out(`${parts.join(", ")}\n`);
  }
  return ok ? EXIT.ok : EXIT.failed;
}

/** How many calls without an outcome are remembered. */
const MAX_OPEN = 10_000;

/** A row of the output: a line of the log and, for a call, the line with its outcome. */
interface Row {
  readonly fields: Fields;
  end: Fields;
}

/** Returns the row that a line of the log begins, and the one that it completes. */
type RowMaker = (fields: Fields) => { readonly begun?: Row; readonly ended?: Row | undefined };

function lineRows(fields: Fields): ReturnType<RowMaker> {
  const row = { fields, end: fields };
  return { begun: row, ended: row };
}

function callRows(): RowMaker {
  const open = new Map<unknown, Row>(); // calls without an outcome, by their ids
  return (fields) => {
    const { id, outcome, status } = fields;
    if (outcome !== undefined) {
      const ended = open.get(outcome);
      open.delete(outcome);
      if (ended !== undefined) ended.end = fields;
      return { ended };
    }
    const row = { fields, end: fields };
    const isOpen = id !== undefined && status === undefined;
    if (isOpen && open.size < MAX_OPEN) open.set(id, row);
    return { begun: row, ended: isOpen ? undefined : row };
  };
}

/** When a row's call arrived, in milliseconds. */
function timeOf({ fields }: Row): number {
  return Date.parse(String(fields.time)) || 0;
}

/** A row's text, which is not trusted: executed code chose parts of it. */
function callText(row: Row): string {
  const text = row.fields.id === undefined ? incident(row.fields) : describe(row);
  return `${LOCAL_TIME.format(timeOf(row))}  ${visibleCode(text)}`;
}

function describe({ fields, end: { status, durationMs } }: Row): string {
  const { kind, server, tool, decision, by, reason, waitMs } = fields;
  const isQuestion = kind === "elicitation" || kind === "input";
  const args = JSON.stringify(fields.edited ?? fields.arguments) ?? "";
  const short = args.length > MAX_ARGUMENTS ? `${args.slice(0, MAX_ARGUMENTS - 1)}…` : args;
  const waited = typeof waitMs === "number" ? waitMs : 0;
  const took = (decision === "allow" || isQuestion) && typeof durationMs === "number"
    ? `  ${duration(durationMs - waited)}`
    : "";
  const after = by === "approver" ? ` after ${duration(waited)}` : "";
  const decider = by === undefined
    ? ""
    : `  (${by}${after}${reason === undefined ? "" : `: ${reason}`})`;
  const state = decision === "deny" && !isQuestion ? "refused" : status ?? "no end";
  const name = callName({ serverName: String(server), toolName: String(tool) });
  return `${String(state).padEnd(STATE_WIDTH)}  ${name}(${short})${took}${decider}`;
}

const STATE_WIDTH = "approved".length;

function duration(ms: number): string {
  return ms < 1000 ? `${Math.max(Math.round(ms), 0)} ms` : `${(ms / 1000).toFixed(1)} s`;
}

/** The Swedish format is like ISO 8601. */
const LOCAL_TIME = new Intl.DateTimeFormat("sv", { dateStyle: "short", timeStyle: "medium" });

/** Describes a line about the log itself. */
function incident({ sealed, removed, lost }: Fields): string {
  if (sealed !== undefined) return "a torn line was sealed off";
  if (removed !== undefined) return `old files were removed: ${JSON.stringify(removed)}`;
  if (lost !== undefined) return `lines were missing here: ${JSON.stringify(lost)}`;
  return "something unknown";
}
