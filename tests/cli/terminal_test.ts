import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { ServerRegistry } from "../../src/tool_server/server_registry.ts";
import { rawServer } from "../support/mcp.ts";
import { untilNoneWith } from "../support/processes.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { ipyboxAtTerminal, type TerminalEnd, type Typing } from "../support/terminal.ts";

const COUNT = `
from ipybox_runtime import ToolCallError, ToolRunner
raw = ToolRunner("raw")
def count():
    try:
        print("count is", raw.run_sync("count").text)
    except ToolCallError as error:
        print(type(error).__name__, error)
`;
const QUESTION = "Allow raw.count()? [y/N] ";

interface Case {
  readonly name: string;
  readonly calls: string;
  readonly script: readonly Typing[];
  readonly code: number;
  readonly shown: readonly string[];
  readonly hidden?: readonly string[];
}

const cases: readonly Case[] = [
  {
    name: "y and yes allow, for one call each",
    calls: "count(); count(); count()",
    script: [[QUESTION, "y\n"], [QUESTION, " YES \n"], [QUESTION, "yeah\n"]],
    code: 0,
    shown: ["count is 1", "count is 2", "ApprovalRejectedError", "the user said no"],
    hidden: ["count is 3"],
  },
  {
    name: "Enter and anything else refuse",
    calls: "count(); count()",
    script: [[QUESTION, "\n"], [QUESTION, "n\n"]],
    code: 0,
    shown: ["ApprovalRejectedError", "the user said no"],
    hidden: ["count is"],
  },
  {
    name: "what was typed before the question does not answer it",
    calls: "print('begun'); import time; time.sleep(0.5); count(); count()",
    script: [["begun", "!y\ny\ny\n"], ["Typed too early", "n\n"], [QUESTION, "!y\n"], [
      "Typed too early",
      "n\n",
    ]],
    code: 0,
    shown: ["ApprovalRejectedError"],
    hidden: ["count is"],
  },
  {
    name: "what a server asks is answered field by field",
    calls: "import json\nschema = {'type': 'object', 'properties': " +
      "{'name': {'type': 'string', 'minLength': 1}, 'age': {'type': 'integer'}}, " +
      "'required': ['name']}\n" +
      "asked = {'method': 'elicitation/create', " +
      "'params': {'message': 'Who are you?', 'requestedSchema': schema}}\n" +
      "print(raw.run_sync('ask', asked).text)",
    script: [
      ["? [y/N] ", "y\n"],
      ["Answer 2 fields? [y/N] ", "y\n"],
      ["name [text]: ", "Ada\n"],
      ["age [whole number, or nothing]: ", "36\n"],
    ],
    code: 0,
    shown: ['"content":{"name":"Ada","age":36}'],
  },
  {
    name: "Ctrl-D refuses",
    calls: "count()",
    script: [[QUESTION, "\x04"]],
    code: 0,
    shown: ["ApprovalRejectedError", "nobody answers"],
    hidden: ["count is"],
  },
  {
    name: "Ctrl-C at a question ends it all",
    calls: "count()",
    script: [[QUESTION, "\x03"]],
    code: 130,
    shown: ["ipybox: interrupted"],
    hidden: ["count is", "ApprovalRejectedError"],
  },
  {
    name: "Ctrl-C in the middle of the code ends it all",
    calls: "print('begun', flush=True); import time; time.sleep(1000)",
    script: [["begun", "\x03"]],
    code: 130,
    shown: ["ipybox: interrupted"],
  },
  {
    name: "a second question is asked when the first one is answered",
    calls: "from concurrent.futures import ThreadPoolExecutor as Pool\n" +
      "with Pool(2) as pool: [pool.submit(count) for _ in range(2)]",
    script: [[QUESTION, "y\n"], [QUESTION, "y\n"]],
    code: 0,
    shown: ["count is 1", "count is 2"],
  },
];

for (const { name, calls, script, code, shown, hidden = [] } of cases) {
  Deno.test(`ipybox run at a terminal: ${name}`, async () => {
    await using workspace = await workspaceWithServer();

    const end = await run(workspace.path, COUNT + calls, script);

    assertEquals(end.code, code, end.output);
    for (const text of shown) assertStringIncludes(end.output, text);
    for (const text of hidden) assert(!end.output.includes(text), end.output);
    await untilNoneWith(workspace.path);
  });
}

Deno.test("a terminal that is closed ends the code and leaves no process", async () => {
  await using workspace = await workspaceWithServer();
  const code = `import subprocess, time
subprocess.Popen(["setsid", "sleep", "1000", "${workspace.path}"])
print("begun", flush=True); time.sleep(1000)`;

  const end = await run(workspace.path, code, [["begun", null]]);

  assert(end.code !== 0, end.output);
  await untilNoneWith(workspace.path);
});

Deno.test("what a hostile tool call shows cannot move the cursor or hide a part of it", async () => {
  await using workspace = await workspaceWithServer();
  const code = `${COUNT}
raw.run_sync("echo", {"a": "\\x1b[2K\\rAllow raw.harmless()? [y/N] \\u202e", "b": "x" * 3000})`;

  const end = await run(workspace.path, code, [["[y/N] ", "n\n"]]);

  assertStringIncludes(end.output, "\\x1b[2K\\rAllow");
  assertStringIncludes(end.output, "\\u202e");
  assertStringIncludes(end.output, "x".repeat(3000));
  assertEquals(end.code, 1);
});

Deno.test("output cannot move the cursor, and waits while a question stands", async () => {
  await using workspace = await workspaceWithServer();
  const code = `${COUNT}
import threading, time
def later():
    time.sleep(0.1)
    print("\\x1b[1A\\x1b[2KAllow raw.harmless()? [y/N] ", flush=True)
thread = threading.Thread(target=later)
thread.start(); count(); thread.join()`;

  const end = await run(workspace.path, code, [[QUESTION, "n\n"]]);

  assertStringIncludes(end.output, `${QUESTION}n`); // nothing came between
  assertStringIncludes(end.output, "\\u001b[1A\\u001b[2KAllow");
});

/** A workspace in which the server `raw` is registered. */
async function workspaceWithServer(): Promise<TempFolder> {
  const workspace = await TempFolder.create();
  const registry = await ServerRegistry.open({ workspace: workspace.path });
  await registry.register("raw", rawServer());
  return workspace;
}

async function run(
  workspace: string,
  code: string,
  script: readonly Typing[],
): Promise<TerminalEnd> {
  const args = ["run", "--no-sandbox", "--workspace", workspace, "-c", code];
  return await ipyboxAtTerminal(args, script);
}
