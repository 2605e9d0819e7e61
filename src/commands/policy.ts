import { isObject } from "../apigen/json.ts";
import { type PackageTool, readPackage } from "../apigen/package.ts";
import { describeCall } from "../approval/call_text.ts";
import { approvalPolicy } from "../approval/policy.ts";
import type { ApprovalCall } from "../approval/request.ts";
import {
  approvalCall,
  type PolicyExplanation,
  type PolicyRules,
  runPolicyTests,
} from "../approval/rules/rules.ts";
import { problemLines } from "../json/problems.ts";
import { isServerName } from "../mcp/params.ts";
import { parametersOf } from "../mcp/tools.ts";
import {
  findPolicies,
  type FoundPolicy,
  policyFiles,
  warnUnaccepted,
} from "../approval/rules/file.ts";
import { joinPolicies } from "../approval/rules/parse.ts";
import { type PolicyCall, policyCallSchema, policyJsonSchema } from "../approval/rules/schema.ts";
import { type Command, type CommandIo, EXIT, type ParsedArgs, UsageError } from "./command.ts";
import {
  type ConsentFinding,
  findConsents,
  forgetConsents,
  listConsents,
} from "./policy_consents.ts";
import { edit, init, warningsOf } from "./policy_file.ts";
import { printable } from "./terminal/columns.ts";
import { mcptoolsOf, WORKSPACE, workspaceOf } from "./shared.ts";

export const command: Command = {
  usage: [
    "init [PRESET] [OPTIONS]",
    "edit [OPTIONS]",
    "check [FILE] [OPTIONS]",
    "test [OPTIONS]",
    "explain SERVER.TOOL [ARGUMENTS] [OPTIONS]",
    "explain --shell LINE [OPTIONS]",
    "consents [OPTIONS]",
    "forget ID… | --all",
    "schema",
  ].join("\n"),
  positional: { min: 1, max: Infinity },
  options: {
    shell: { value: "LINE", help: "Explain the decision on this shell command" },
    file: { value: "FILE", help: "Use this policy instead of the workspace's and your own" },
    yes: { help: "Accept an edited policy without asking" },
    all: { help: "Forget all remembered decisions" },
    json: { help: "Print the result as JSON" },
    workspace: WORKSPACE,
  },
  notes: [
    "init writes .ipybox/policy.json from a PRESET. reads (the default) allows tools",
    "that only read, denies tools that delete, and asks about the rest; readonly",
    "denies all tools known to do more than read; strict asks about each call and",
    "shell command. Servers say which of their tools only read. ipybox believes those",
    "in the file's trustedServers: init lists the servers that you registered. edit",
    "opens the file in VISUAL or EDITOR, checks it and accepts it.",
    "",
    "Policies are .ipybox/policy.json in the workspace and your own,",
    "~/.config/ipybox/policy.json. The workspace's may have come with a repository:",
    "until you accept it with `ipybox trust`, ipybox asks about calls that it allows.",
    "check and test treat it as accepted.",
    "",
    "ARGUMENTS is a JSON object. Instead of SERVER.TOOL, you can give a call as a",
    "JSON object, as in a policy's tests. consents lists the decisions remembered",
    "permanently; forget removes them.",
    "",
    "Examples:",
    "",
    "  ipybox policy init reads",
    "  ipybox policy check ~/policy.json",
    `  ipybox policy explain files.read_file '{"path": "notes.txt"}'`,
    "  ipybox policy explain --shell 'git log -3'",
    "  ipybox policy forget 1c0ffee5",
  ].join("\n"),
  run,
};

/** How many arguments actions take. */
const TAKEN = new Map([["explain", 2], ["check", 1], ["init", 1]]);

async function run(parsed: ParsedArgs, io: CommandIo): Promise<number> {
  const [action, ...rest] = parsed.positional;
  const most = TAKEN.get(action ?? "") ?? 0;
  const unexpected = action === "forget" ? undefined : rest[most];
  if (unexpected !== undefined) throw new UsageError(`Unexpected argument "${unexpected}"`);
  if (action === "schema") {
    io.out(JSON.stringify(policyJsonSchema(), null, 2) + "\n");
    return EXIT.ok;
  }
  const workspace = await workspaceOf(parsed);
  const json = parsed.has("json");
  if (action === "consents") return await listConsents(workspace, io, json);
  if (action === "forget") {
    return await forgetConsents(workspace, io, { ids: rest, all: parsed.has("all") });
  }
  if (action === "init" || action === "edit") {
    if (parsed.has("file")) {
      throw new UsageError(`${action} works on the workspace's policy: it takes no --file`);
    }
    if (action === "init") return await init(workspace, rest[0] ?? "reads", io);
    return await edit(workspace, parsed, io);
  }
  if (action !== "check" && action !== "test" && action !== "explain") {
    const known = "init, edit, check, test, explain, consents, forget or schema";
    throw new UsageError(`Unknown action "${action}": use ${known}`);
  }
  const call = action === "explain" ? callOf(rest, parsed) : undefined;
  const options = {
    workspace,
    file: fileOf(parsed, action === "check" ? rest[0] : undefined),
    log: io.log,
  };
  const found = await findPolicies(options);
  warnUnaccepted(found, io.log);
  if (call !== undefined) {
    const rules = joinPolicies(found.map(({ source }) => source), options);
    return await explain(rules, { call, workspace }, io, json);
  }
  // Treated as accepted: their author wants to know whether they are right.
  const written = found.map(({ source: { name, document } }) => ({ name, document }));
  const rules = joinPolicies(written, options);
  if (rules === undefined) {
    const places = [...policyFiles(workspace).values()].join(" or ");
    throw new UsageError(`No policy found: write one to ${places}`);
  }
  if (action === "test") return await test(rules, { workspace, io, json });
  return check(rules, found, io, json);
}

function fileOf(parsed: ParsedArgs, named: string | undefined): string | undefined {
  const file = parsed.value("file");
  if (named === undefined || file === undefined) return named ?? file;
  throw new UsageError("Name the file once: as FILE or with --file");
}

function check(
  rules: PolicyRules,
  found: readonly FoundPolicy[],
  io: CommandIo,
  json: boolean,
): number {
  const files = found.map(({ source }) => ({
    file: source.name,
    rules: source.document.rules.length,
    tests: source.document.tests.length,
    accepted: source.former === undefined,
  }));
  const warnings = warningsOf(rules);
  if (json) io.out(JSON.stringify({ files, warnings }, null, 2) + "\n");
  else {
    for (const file of files) {
      io.out(`${file.file}: ${counted(file.rules, "rule")}, ${counted(file.tests, "test")}\n`);
    }
    for (const warning of warnings) io.log.warn(warning);
  }
  return EXIT.ok;
}

function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

async function test(
  rules: PolicyRules,
  { workspace, io, json }: {
    readonly workspace: string;
    readonly io: CommandIo;
    readonly json: boolean;
  },
): Promise<number> {
  const known = async (call: ApprovalCall) => withHints(call, await toolsOf(call, workspace));
  const results = (await runPolicyTests(rules, known)).map((result) => ({
    ...result,
    call: describeCall(result.call),
    passed: result.mode === result.expect,
  }));
  const failed = results.filter(({ passed }) => !passed);
  if (json) io.out(JSON.stringify(results, null, 2) + "\n");
  else {
    for (const { test, call, expect, mode, reason } of failed) {
      io.out(
        printable(`${test} failed: ${call}\n  expected ${expect}, got ${mode}: ${reason}`) + "\n",
      );
    }
    io.out(`${results.length - failed.length} passed, ${failed.length} failed\n`);
  }
  return failed.length === 0 ? EXIT.ok : EXIT.failed;
}

async function explain(
  rules: PolicyRules | undefined,
  { call, workspace }: { readonly call: PolicyCall; readonly workspace: string },
  io: CommandIo,
  json: boolean,
): Promise<number> {
  const asked = await asTheRunHasIt(approvalCall(call), workspace, io);
  const explanation = rules?.explain(asked) ?? withoutRules(asked);
  const consents = await findConsents(workspace, asked);
  io.out(
    json
      ? JSON.stringify({ ...explanation, consents }, null, 2) + "\n"
      : printable(explanationText(explanation, consents)),
  );
  return EXIT.ok;
}

/** The call with its tool's own name, by which rules match, and with its server's hints. */
async function asTheRunHasIt(
  call: ApprovalCall,
  workspace: string,
  io: CommandIo,
): Promise<ApprovalCall> {
  const { kind, serverName, toolName } = call;
  if (kind !== "tool") return call;
  const tools = await toolsOf(call, workspace);
  if (tools === undefined) {
    if (call.annotations === undefined) {
      io.err(printable(
        `Server "${serverName}" has no generated package here, so the annotations of ` +
          `"${toolName}" are not known: register it, or give the call as JSON with "annotations"`,
      ));
    }
    return call;
  }
  if (tools.some(({ name }) => name === toolName)) return withHints(call, tools);
  const found = tools.find(({ module }) => module === toolName);
  if (found === undefined) {
    io.err(printable(`Server "${serverName}" has no tool "${toolName}": see \`ipybox tools\``));
    return call;
  }
  io.err(printable(`${serverName}.${toolName} is the tool "${found.name}"`));
  return withHints({ ...call, toolName: found.name }, tools);
}

/** The tools in the generated package of a call's server. */
async function toolsOf(
  { kind, serverName }: ApprovalCall,
  workspace: string,
): Promise<PackageTool[] | undefined> {
  if (kind !== "tool" || !isServerName(serverName)) return undefined;
  return await readPackage(mcptoolsOf(workspace), serverName);
}

/** The call with its server's description of the tool, but its own annotations if it has any. */
function withHints(call: ApprovalCall, tools: readonly PackageTool[] = []): ApprovalCall {
  const found = tools.find(({ name }) => name === call.toolName);
  const schema = found?.definition.get("inputSchema");
  return {
    ...call,
    annotations: call.annotations ?? found?.annotations,
    parameters: isObject(schema) ? parametersOf(schema) : undefined,
  };
}

function withoutRules(call: ApprovalCall): PolicyExplanation {
  const { mode } = approvalPolicy({}).decide(call);
  return { mode, reason: "There is no policy", findings: [] };
}

function explanationText(
  { mode, reason, findings }: PolicyExplanation,
  consents: readonly ConsentFinding[],
): string {
  const lines = [`${mode}: ${reason}`];
  for (const { rule, written, effect, doubt } of findings) {
    lines.push(`    ${rule}: ${effect}${doubt === undefined ? "" : `, may match: ${doubt}`}`);
    lines.push(`        ${JSON.stringify(written)}`);
  }
  const valid = consents.filter(({ changes }) => changes.length === 0);
  const consent = valid.find(({ decision }) => decision === "deny") ?? valid[0];
  if (mode === "ask" && consent !== undefined) {
    lines.unshift(
      `${consent.decision}: ${consent.rule}, unless the tool has changed since; otherwise`,
    );
  }
  for (const { rule, decision, changes } of consents) {
    const lapsed = changes.length === 0 ? "" : `, lapsed: ${changes.join("; ")}`;
    lines.push(`    ${rule}: ${decision}${lapsed}`);
  }
  return lines.join("\n") + "\n";
}

function callOf(rest: readonly string[], parsed: ParsedArgs): PolicyCall {
  const [call, args] = rest;
  const command = parsed.value("shell");
  if ((call === undefined) === (command === undefined)) {
    throw new UsageError("Specify either SERVER.TOOL or --shell LINE");
  }
  if (command !== undefined) return { kind: "shell", command };
  if (call?.startsWith("{")) return checked(jsonOf(call));
  const [, server, tool] = /^([^.]+)\.(.+)$/s.exec(call ?? "") ?? [];
  if (server === undefined) throw new UsageError(`"${call}" is not SERVER.TOOL`);
  return checked({ kind: "tool", server, tool, arguments: jsonOf(args ?? "{}") });
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new UsageError(`"${text}" is not JSON`);
  }
}

function checked(call: unknown): PolicyCall {
  const parsed = policyCallSchema.safeParse(call);
  if (parsed.success) return parsed.data;
  throw new UsageError(`This is not a call: ${problemLines(parsed.error)}`);
}
