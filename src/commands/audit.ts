import { visibleCode } from "../approval/call_text.ts";
import type { Fields } from "../audit/audit_entry.ts";
import { AuditFolder } from "../audit/audit_folder.ts";
import { verifyAuditLog } from "../audit/audit_reader.ts";
import { auditChanges, AuditTail } from "../audit/audit_tail.ts";
import { type Command, type CommandIo, EXIT, parseCommandLine, UsageError } from "./command.ts";
import { WORKSPACE, workspaceOf } from "./shared.ts";

/** `ipybox audit`: the log of calls and decisions. */
export const audit: Command = {
  name: "audit",
  summary: "Show or verify the log of tool calls and decisions",
  usage: "[OPTIONS]",
  options: {
    last: { short: "n", value: "N", help: "How many lines to show (default: 50)" },
    follow: { short: "f", help: "Go on with what is written from now on" },
    verify: { help: "Check that no line was changed, moved or taken out" },
    json: { help: "Print lines as they are in the log, or the outcome of --verify, as JSON" },
    workspace: WORKSPACE,
  },
  notes: [
    "The log is .ipybox/audit.jsonl in the workspace, with older lines in files",
    "beside it. A call has one line before it is sent, and one when it has ended.",
    "--verify ends with exit code 1 and names the first bad line if there is one.",
    "",
    "Examples:",
    "",
    "  ipybox audit --follow",
    "  ipybox audit --verify",
  ].join("\n"),
  run,
};

const MAX_ARGUMENTS = 200;

async function run(args: readonly string[], io: CommandIo): Promise<number> {
  const parsed = parseCommandLine(audit, args);
  const json = parsed.has("json");
  const last = parsed.positiveNumber("last") ?? 50;
  if (parsed.has("verify") && parsed.has("follow")) {
    throw new UsageError("Options --verify and --follow contradict each other");
  }
  const workspace = await workspaceOf(parsed);
  if (parsed.has("verify")) return await verify(workspace, io, json);
  const folder = new AuditFolder(workspace);
  using tail = new AuditTail(folder);
  const lines = new Lines(json);
  const shown: string[] = [];
  for await (const fields of tail.read()) {
    shown.push(lines.show(fields));
    if (shown.length > last) shown.shift();
  }
  for (const line of shown) io.out(line);
  if (!parsed.has("follow")) {
    if (shown.length === 0) io.err("There are no entries yet");
    return EXIT.ok;
  }
  for await (const _change of auditChanges(folder, io.signal)) {
    for await (const fields of tail.read()) io.out(lines.show(fields));
  }
  return io.signal.aborted ? EXIT.interrupted : EXIT.ok;
}

async function verify(workspace: string, io: CommandIo, json: boolean): Promise<number> {
  const verdict = await verifyAuditLog(workspace);
  const { ok, entries, first, sealed, unfinished, leftOut, bad } = verdict;
  if (json) io.out(JSON.stringify(verdict, null, 2) + "\n");
  else {
    if (bad !== undefined) io.out(`${bad.file}:${bad.line}: ${bad.problem}\n`);
    const parts = [entries === 1 ? "1 line is good" : `${entries} lines are good`];
    if (first !== undefined && first > 1) parts.push(`they begin with number ${first}`);
    if (sealed > 0) parts.push(`torn ones, sealed off: ${sealed}`);
    if (unfinished > 0) parts.push(`calls without an outcome: ${unfinished}`);
    if (leftOut > 0) parts.push(`requests that were only counted: ${leftOut}`);
    io.out(`${parts.join(", ")}\n`);
  }
  return ok ? EXIT.ok : EXIT.failed;
}

/** How many calls whose outcome is still to come are remembered. */
const MAX_OPEN = 10_000;

/** Writes the log's lines for people. Its text is not trusted: executed code chose parts of it. */
class Lines {
  readonly #json: boolean;
  /** The calls whose outcome is still to come, by their ids. */
  readonly #open = new Map<unknown, string>();

  constructor(json: boolean) {
    this.#json = json;
  }

  show(fields: Fields): string {
    if (this.#json) return JSON.stringify(fields) + "\n";
    return visibleCode(this.#text(fields)) + "\n";
  }

  #text(fields: Fields): string {
    const { time, id, outcome, status, durationMs } = fields;
    const end = `${status}, ${durationMs} ms`;
    if (outcome !== undefined) {
      const call = this.#open.get(outcome) ?? `request ${outcome}`;
      this.#open.delete(outcome);
      return `${time}  ended  ${call}  ${end}`;
    }
    if (id === undefined) return `${time}  ${incident(fields)}`;
    const { kind, server, tool, decision = "-", by, reason } = fields;
    const args = JSON.stringify(fields.edited ?? fields.arguments) ?? "";
    const short = args.length > MAX_ARGUMENTS ? `${args.slice(0, MAX_ARGUMENTS - 1)}…` : args;
    const call = `${kind} ${server}.${tool}`;
    if (status === undefined && this.#open.size < MAX_OPEN) this.#open.set(id, call);
    const who = [by, reason].filter((part) => part !== undefined).join(": ");
    const state = status === undefined ? "sent" : end;
    return `${time}  ${decision}  ${call}(${short})  ${state}${who && `  (${who})`}`;
  }
}

/** What a line says that is about the log itself. */
function incident({ sealed, leftOut, removed }: Fields): string {
  if (sealed !== undefined) return "a torn line was sealed off";
  if (leftOut !== undefined) return `too many requests to list them: ${JSON.stringify(leftOut)}`;
  if (removed !== undefined) return `old files were removed: ${JSON.stringify(removed)}`;
  return "something unknown";
}
