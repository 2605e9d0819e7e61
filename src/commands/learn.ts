import { isArray, isObject, type Json, type JsonObject, writeJson } from "../apigen/json.ts";
import { learnResults } from "../apigen/learn.ts";
import { declaresResult, type PackageTool, readPackage } from "../apigen/package.ts";
import { signatureOf } from "../apigen/signature.ts";
import { ToolCallError } from "../base/errors.ts";
import { ToolRunner } from "../calls/runner.ts";
import { type ExactObject, isExactObject, parseExact, sealObject } from "../json/exact.ts";
import { withShapes } from "../servers/shapes.ts";
import { type CommandIo, EXIT, type ParsedArgs, UsageError } from "./command.ts";
import { approvalOf } from "./executor_options.ts";
import { mcptoolsOf } from "./shared.ts";
import { askAtTerminal } from "./terminal/answerer.ts";
import { printable } from "./terminal/columns.ts";

interface LearnOptions {
  readonly workspace: string;
  readonly parsed: ParsedArgs;
  readonly io: CommandIo;
}

/** Calls a server's read-only tools that declare no results. Each call needs approval, like calls by code. */
export async function learn(server: string, options: LearnOptions): Promise<number> {
  const { workspace, io } = options;
  const root = mcptoolsOf(workspace);
  const tools = await readPackage(root, server);
  if (tools === undefined) {
    throw new UsageError(`No Python API for server "${server}": see \`ipybox register --help\``);
  }
  const open = tools.filter(({ definition }) => !declaresResult(definition));
  const reading = open.filter(({ annotations }) => annotations.readOnlyHint === true);
  const calls = reading.flatMap((tool) => {
    const args = exampleOf(tool.definition);
    return args === undefined ? [] : [{ tool, args }];
  });
  io.err(
    `${server}: ${open.length} of ${tools.length} tools do not declare their results; ` +
      `${reading.length} of them are read-only, and ${calls.length} of those have examples or ` +
      "need no arguments",
  );
  const failed = await callAll(server, calls, options);
  await withShapes(workspace, async (shapes) => {
    await learnResults(root, server, shapes.filter((shape) => shape.server === server));
  });
  const called = new Set(calls.map(({ tool }) => tool.name));
  for (const tool of await readPackage(root, server) ?? []) {
    const { name, module, definition, results } = tool;
    if (!called.has(name) || failed.has(name)) continue;
    if (results === undefined) io.err(`${server}.${module}: its result is not JSON`);
    else {
      const signature = signatureOf({ server, module, tool: name }, definition, results);
      io.out(`from mcptools.${server} import ${module}\n${printable(signature)}\n`);
    }
  }
  return failed.size === 0 ? EXIT.ok : EXIT.failed;
}

interface ExampleCall {
  readonly tool: PackageTool;
  readonly args: ExactObject;
}

/** Makes the calls, and returns the names of the tools that failed. */
async function callAll(
  server: string,
  calls: readonly ExampleCall[],
  { workspace, parsed, io }: LearnOptions,
): Promise<ReadonlySet<string>> {
  const { policy, ...modes } = await approvalOf(parsed, workspace, io.log);
  const { decide, answer } = askAtTerminal(io);
  await using runner = await ToolRunner.start({
    workspace,
    approval: policy ?? modes,
    log: io.log,
  });
  using _approver = runner.channel.attach(decide);
  using _answerer = runner.elicitations.attach(answer);
  const failed = new Set<string>();
  for (const { tool: { name, module }, args } of calls) {
    io.signal.throwIfAborted();
    try {
      const call = { serverName: server, toolName: name, arguments: args };
      const { isError } = await runner.calls.callTool(call, { signal: io.signal });
      if (isError !== true) continue;
      io.err(`${server}.${module}: the tool failed`);
    } catch (error) {
      if (!(error instanceof ToolCallError)) throw error;
      io.err(`${server}.${module}: ${printable(error.message)}`);
    }
    failed.add(name);
  }
  return failed;
}

/** A tool's first example of its arguments, as a whole or for each required one. */
function exampleOf(definition: JsonObject): ExactObject | undefined {
  const schema = definition.get("inputSchema");
  const example = isObject(schema) ? wholeExample(schema) ?? partsOf(schema) : new Map();
  const exact = example === undefined ? undefined : parseExact(writeJson(example));
  return isExactObject(exact) ? sealObject(exact) : undefined;
}

function wholeExample(schema: JsonObject): Json | undefined {
  const examples = schema.get("examples");
  return isArray(examples) ? examples.find(isObject) : undefined;
}

function partsOf(schema: JsonObject): JsonObject | undefined {
  const required = schema.get("required");
  const properties = schema.get("properties");
  const parts = new Map<string, Json>();
  for (const name of isArray(required) ? required : []) {
    const property = isObject(properties) ? properties.get(String(name)) : undefined;
    const example = isObject(property) ? valueExample(property) : undefined;
    if (example === undefined) return undefined;
    parts.set(String(name), example);
  }
  return parts;
}

function valueExample(property: JsonObject): Json | undefined {
  const examples = property.get("examples");
  const first = isArray(examples) ? examples[0] : undefined;
  return first ?? property.get("default") ?? property.get("const");
}
