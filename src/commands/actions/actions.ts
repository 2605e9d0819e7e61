import { z } from "zod";
import {
  createAction,
  listActions,
  readAction,
  type SavedAction,
} from "../../apigen/saved_actions.ts";
import { visible } from "../../approval/call_text.ts";
import { EnvironmentNotReadyError } from "../../base/errors.ts";
import { type CodeExecutor, startOwn } from "../../executor/code_executor.ts";
import type { Output } from "../../kernel/outputs.ts";
import { askAtTerminal } from "../terminal/answerer.ts";
import { runAction } from "./code_action.ts";
import {
  type Command,
  type CommandIo,
  EXIT,
  type ParsedArgs,
  table,
  UsageError,
} from "../command.ts";
import {
  APPROVE,
  APPROVE_SHELL,
  executorOptions,
  kernelOptions,
  SESSION,
  TIMEOUT,
} from "../executor_options.ts";
import { printable } from "../../base/log.ts";
import { workspaceOf } from "../shared.ts";

export const command: Command = {
  usage: [
    "[list] [OPTIONS]",
    "new CATEGORY.NAME [OPTIONS]",
    "show CATEGORY.NAME [--impl] [OPTIONS]",
    "check [CATEGORY.NAME…] [OPTIONS]",
    "run CATEGORY.NAME [--arg NAME=VALUE…] [OPTIONS]",
  ].join("\n"),
  positional: { max: Infinity },
  options: {
    arg: {
      value: "NAME=VALUE",
      many: true,
      help: "An argument of the action, parsed by its type: plain text, or JSON",
    },
    impl: { help: "Show the implementation instead of the interface" },
    "no-types": { help: "Skip the type checker" },
    json: { help: "Print the result as JSON" },
    approve: APPROVE,
    "approve-shell": APPROVE_SHELL,
    timeout: TIMEOUT,
    ...SESSION,
  },
  notes: [
    "A saved action is a package gentools/CATEGORY/NAME with api.py, its typed",
    "interface, impl.py and __init__.py; new creates a working one to start from.",
    "Actions run, and are checked, in the sandbox.",
    "",
    "Examples:",
    "",
    "  ipybox actions new sales.by_region",
    "  ipybox actions check",
    "  ipybox actions run github.commits_of_top_repos --arg username=torvalds",
  ].join("\n"),
  helpAbout,
  run,
};

/** The interface of the action to run: its arguments, their types and descriptions. */
async function helpAbout(parsed: ParsedArgs): Promise<string | undefined> {
  const [action, name] = parsed.positional;
  if (action !== "run" || name === undefined) return undefined;
  const source = await readAction(await workspaceOf(parsed), name, "api");
  if (source === undefined) throw unknown(name);
  const lines = printable(source.trimEnd()).replaceAll(/^(?=.)/gm, "  ");
  return `The interface of ${printable(name)}:\n\n${lines}\n`;
}

async function run(parsed: ParsedArgs, io: CommandIo): Promise<number> {
  const [action = "list", ...names] = parsed.positional;
  if (action === "check") return await check(names, parsed, io);
  const act = ON_ONE.get(action);
  if (act === undefined && action !== "list") {
    throw new UsageError(`Unknown action "${action}": use list, new, show, check or run`);
  }
  const unexpected = names[act === undefined ? 0 : 1];
  if (unexpected !== undefined) throw new UsageError(`Unexpected argument "${unexpected}"`);
  if (act === undefined) return await list(parsed, io);
  const [name] = names;
  if (name === undefined) throw new UsageError("Specify a saved action as CATEGORY.NAME");
  return await act(name, parsed, io);
}

/** The functions for one saved action. */
const ON_ONE = new Map([["new", create], ["show", show], ["run", runOne]]);

async function list(parsed: ParsedArgs, io: CommandIo): Promise<number> {
  const saved = await listActions(await workspaceOf(parsed));
  if (parsed.has("json")) io.out(JSON.stringify(saved, null, 2) + "\n");
  else if (saved.length === 0) io.err("There are no saved actions in gentools/");
  else {
    const rows = saved.map(({ name, summary }) => [name, visible(summary)] as const);
    io.out(table(rows).map((line) => `${line.slice(2).trimEnd()}\n`).join(""));
  }
  return EXIT.ok;
}

async function create(name: string, parsed: ParsedArgs, io: CommandIo): Promise<number> {
  let files: string[];
  try {
    files = await createAction(await workspaceOf(parsed), name);
  } catch (cause) {
    if (cause instanceof TypeError) throw new UsageError(cause.message, { cause });
    throw cause;
  }
  io.out(files.map((file) => `${file}\n`).join(""));
  return EXIT.ok;
}

async function show(name: string, parsed: ParsedArgs, io: CommandIo): Promise<number> {
  const part = parsed.has("impl") ? "impl" : "api";
  const source = await readAction(await workspaceOf(parsed), name, part);
  if (source === undefined) throw unknown(name);
  io.out(io.stdoutIsTerminal ? printable(source) : source);
  return EXIT.ok;
}

async function check(
  names: readonly string[],
  parsed: ParsedArgs,
  io: CommandIo,
): Promise<number> {
  const workspace = await workspaceOf(parsed);
  const saved = chosen(await listActions(workspace), names);
  if (saved.length === 0) {
    io.err("There are no saved actions in gentools/");
    return EXIT.ok;
  }
  await using executor = await startOwn({
    ...kernelOptions(parsed, io, workspace),
    spareKernel: false,
    approval: "deny",
    installer: "command",
    signal: io.signal,
  });
  const problems = await problemsOf(saved, executor, { types: !parsed.has("no-types"), io });
  if (parsed.has("json")) {
    io.out(JSON.stringify(Object.fromEntries(problems), null, 2) + "\n");
  } else {
    for (const [name, found] of problems) {
      io.out(`${found.length === 0 ? "ok     " : "failed "} ${name}\n`);
      for (const problem of found) io.out(`          ${visible(problem)}\n`);
    }
  }
  return [...problems.values()].some((found) => found.length > 0) ? EXIT.failed : EXIT.ok;
}

/** The saved actions with these names, or all. */
function chosen(saved: readonly SavedAction[], names: readonly string[]): readonly SavedAction[] {
  if (names.length === 0) return saved;
  return names.map((name) => {
    const action = saved.find((each) => each.name === name);
    if (action === undefined) throw unknown(name);
    return action;
  });
}

/** Imports the actions in the sandbox, where they cannot call anything, and checks interfaces and types. */
async function problemsOf(
  saved: readonly SavedAction[],
  executor: CodeExecutor,
  { types, io }: { readonly types: boolean; readonly io: CommandIo },
): Promise<Map<string, string[]>> {
  const names = saved.map(({ name }) => name);
  const { outputs } = await executor.execute(checkCode(names, { types }), { signal: io.signal });
  const found = problemsIn(outputs);
  if (found !== null) {
    return new Map(
      names.map((name) => [name, found?.[name] ?? ["the check ended without output"]]),
    );
  }
  throw new EnvironmentNotReadyError(
    "Cannot check types: the type checker ty is not installed beside the Python that runs code",
    "Run `ipybox setup`, or skip types with --no-types",
  );
}

async function runOne(name: string, parsed: ParsedArgs, io: CommandIo): Promise<number> {
  const workspace = await workspaceOf(parsed);
  const timeoutMs = parsed.milliseconds("timeout");
  const code = runCode(name, argumentsOf(parsed));
  if (await readAction(workspace, name, "api") === undefined) throw unknown(name);
  await using executor = await startOwn({
    ...await executorOptions(parsed, io, workspace),
    spareKernel: false,
  });
  return await runAction(executor, code, {
    io,
    json: parsed.has("json"),
    timeoutMs,
    exits: true,
    ...askAtTerminal(io),
    resultIn,
  });
}

function argumentsOf(parsed: ParsedArgs): Readonly<Record<string, string>> {
  const texts = parsed.values("arg").map((pair): [string, string] => {
    const [, name, value = ""] = /^([^=]+)=(.*)$/s.exec(pair) ?? [];
    if (name !== undefined) return [name, value];
    throw new UsageError(`Option --arg takes NAME=VALUE: received "${pair}"`);
  });
  return Object.fromEntries(texts);
}

function unknown(name: string): UsageError {
  return new UsageError(`No saved action "${name}": see \`ipybox actions list\``);
}

const MIME_TYPE = "application/vnd.ipybox.actions+json";

/** Checks actions, and their types where the kernel's Python has the type checker. */
function checkCode(
  names: readonly string[],
  { types }: { readonly types: boolean },
): string {
  return call(`check(${literal(names)}, ${types ? "True" : "False"})`);
}

/** Runs an action with its arguments as text, which is parsed by the types of its parameters. */
export function runCode(name: string, texts: Readonly<Record<string, string>>): string {
  return call(`run(${JSON.stringify(name)}, ${literal(texts)})`);
}

/** Parses the problems of each action; `null` if the type checker is not installed. */
function problemsIn(
  outputs: readonly Output[],
): Readonly<Record<string, string[]>> | null | undefined {
  return checked.safeParse(sentIn(outputs)).data?.problems;
}

/** Parses an action's result. */
export function resultIn(outputs: readonly Output[]): unknown {
  return outcome.safeParse(sentIn(outputs)).data?.result;
}

const checked = z.object({ problems: z.record(z.string(), z.array(z.string())).nullable() });
const outcome = z.object({ result: z.unknown() });

/** Creates an expression, so that the user's namespace is unchanged. */
function call(expression: string): string {
  return `__import__("ipybox_runtime.actions").actions.${expression};`;
}

/** A value as a Python expression: a quoted JSON string is also a quoted Python string. */
function literal(value: unknown): string {
  return `__import__("json").loads(${JSON.stringify(JSON.stringify(value))})`;
}

function sentIn(outputs: readonly Output[]): unknown {
  const last = outputs.findLast((output) =>
    output.type === "display_data" && MIME_TYPE in output.data
  );
  return last?.type === "display_data" ? last.data[MIME_TYPE] : undefined;
}
