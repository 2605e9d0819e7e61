import { join } from "node:path";
import { readAuditLog, verifyAuditLog } from "../audit/audit_reader.ts";
import { type Command, type CommandIo, EXIT, parseCommandLine, UsageError } from "./command.ts";
import { printable } from "./printable.ts";
import { WORKSPACE, workspaceOf } from "./shared.ts";

/** `ipybox audit`: the log of calls and decisions. */
export const audit: Command = {
  name: "audit",
  summary: "Show or verify the log of tool calls and decisions",
  usage: "[OPTIONS]",
  options: {
    last: { short: "n", value: "N", help: "How many requests to show (default: 50)" },
    follow: { short: "f", help: "Go on with what is written from now on" },
    verify: { help: "Check that no line was changed, moved or taken out" },
    json: { help: "Print lines as they are in the log, or the outcome of --verify, as JSON" },
    workspace: WORKSPACE,
  },
  notes: [
    "The log is .ipybox/audit.jsonl in the workspace, with older lines in files",
    "beside it.",
    "--verify ends with exit code 1 and names the first bad line if there is one.",
    "",
    "Examples:",
    "",
    "  ipybox audit --follow",
    "  ipybox audit --verify",
  ].join("\n"),
  run,
};

type Fields = Readonly<Record<string, unknown>>;

async function run(args: readonly string[], io: CommandIo): Promise<number> {
  const parsed = parseCommandLine(audit, args);
  const json = parsed.has("json");
  const last = parsed.positiveNumber("last") ?? 50;
  if (parsed.has("verify") && parsed.has("follow")) {
    throw new UsageError("Options --verify and --follow contradict each other");
  }
  const workspace = await workspaceOf(parsed);
  if (parsed.has("verify")) return await verify(workspace, io, json);
  // Watched before it is read, so that no line falls between the two.
  using watcher = parsed.has("follow") ? await watch(workspace) : undefined;
  const close = () => watcher?.[Symbol.dispose](); // unlike close(), it may come twice
  io.signal.addEventListener("abort", close, { once: true });
  const shown: Fields[] = [];
  let seq = 0;
  for await (const fields of readAuditLog(workspace)) {
    shown.push(fields);
    if (shown.length > last) shown.shift();
    seq = Number(fields.seq);
  }
  for (const fields of shown) io.out(line(fields, json));
  if (watcher === undefined) {
    if (shown.length === 0) io.err("There are no entries yet");
    return EXIT.ok;
  }
  for await (const event of watcher) {
    if (!event.paths.some((path) => path.endsWith(".jsonl"))) continue;
    for await (const fields of readAuditLog(workspace, seq)) {
      io.out(line(fields, json));
      seq = Number(fields.seq);
    }
  }
  return io.signal.aborted ? EXIT.interrupted : EXIT.ok;
}

async function watch(workspace: string): Promise<Deno.FsWatcher> {
  const folder = join(workspace, ".ipybox");
  try {
    return Deno.watchFs(folder, { recursive: false });
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
    await Deno.mkdir(folder, { mode: 0o700 });
    return Deno.watchFs(folder, { recursive: false });
  }
}

async function verify(workspace: string, io: CommandIo, json: boolean): Promise<number> {
  const verdict = await verifyAuditLog(workspace);
  const { ok, entries, first, sealed, bad } = verdict;
  if (json) io.out(JSON.stringify(verdict, null, 2) + "\n");
  else {
    if (bad !== undefined) io.out(`${bad.file}:${bad.line}: ${bad.problem}\n`);
    const parts = [entries === 1 ? "1 line is good" : `${entries} lines are good`];
    if (first !== undefined && first > 1) parts.push(`they begin with number ${first}`);
    if (sealed > 0) parts.push(`torn ones, sealed off: ${sealed}`);
    io.out(`${parts.join(", ")}\n`);
  }
  return ok ? EXIT.ok : EXIT.failed;
}

/** One request as a line. The log's own text is not trusted: executed code chose parts of it. */
function line(fields: Fields, json: boolean): string {
  if (json) return JSON.stringify(fields) + "\n";
  const { time, kind, server, tool, decision = "-", by, reason, status, durationMs } = fields;
  if (fields.sealed !== undefined) return `${time}  a torn line was sealed off\n`;
  const args = JSON.stringify(fields.edited ?? fields.arguments) ?? "";
  const call = `${kind} ${server}.${tool}(${args.length > 200 ? `${args.slice(0, 199)}…` : args})`;
  const who = [by, reason].filter((part) => part !== undefined).join(": ");
  const text = `${time}  ${decision}  ${call}  ${status}, ${durationMs} ms${who && `  (${who})`}`;
  return printable(text).replaceAll("\n", "\\n") + "\n";
}
