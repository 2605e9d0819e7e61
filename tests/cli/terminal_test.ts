import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { auditedQuestions } from "../support/audited_questions.ts";
import { inThisProcess } from "../support/command_io.ts";
import { exists } from "../support/files.ts";
import { workspaceWithServer } from "../support/mcp_workspace.ts";
import { untilNoneWith } from "../support/processes.ts";
import { TempFolder } from "../support/temp_folder.ts";
import {
  ipyboxAtTerminal,
  type TerminalEnd,
  type TerminalOptions,
  type Typing,
} from "../support/terminal.ts";

const COUNT = `
from ipybox_runtime import ToolCallError, ToolRunner
raw = ToolRunner("raw")
def call(tool, said, args):
    try:
        text = f"{said} {raw.run_sync(tool, args).text}"
    except ToolCallError as error:
        text = f"{type(error).__name__} {error}"
    print(text + "\\n", end="")  # in one piece, as threads print at the same time
def count(**args): call("count", "count is", args)
def echo(**args): call("echo", "echoed", args)
`;
const CALL = "  | raw.count()\n";
/** The end of a question, which is in bold. */
const END = "\x1b[0m";
const QUESTION = `Allow? [y]es [n]o [c]ell [a]lways [s]ession [e]dit [d]etails, then Enter: ${END}`;
const WHY = "Why? (Enter for no reason) ";
const HOW = "with [a]ny arguments, or [e]xactly these? ";

interface Case {
  readonly name: string;
  readonly calls: string;
  readonly script: readonly Typing[];
  /** How the session ends, if not well. */
  readonly code?: number;
  readonly shown: readonly string[];
  readonly hidden?: readonly string[];
  readonly audited?: readonly string[];
  /** Looks at the case's output more closely. */
  readonly check?: (output: string) => void;
}

/** The cases of each session, in order: what settles all calls of a tool comes last. */
const sessions: readonly (readonly Case[])[] = [
  [
    {
      // The terminal keeps lines until the first question is asked; afterwards, they are read and dropped.
      name: "what was typed before the question does not answer it",
      calls: "import time, pathlib\n" +
        "def until(mark): [time.sleep(0.01) for _ in iter(pathlib.Path(mark).exists, True)]\n" +
        "print('begun', flush=True); until('first'); count()\n" +
        "print('goes on', flush=True); until('second'); count()",
      script: [
        ["begun", "!y\ny\ny\n", "first"],
        ["before the question was shown", ""],
        [QUESTION, "n no\n"],
        ["goes on", "!y\n", "second"],
        [QUESTION, "n no\n"],
      ],
      shown: ["ApprovalRejectedError"],
      hidden: ["count is"],
    },
    {
      name: "a line that was begun before the question does not end as its answer",
      calls: "import time, pathlib\n" +
        "def until(mark): [time.sleep(0.01) for _ in iter(pathlib.Path(mark).exists, True)]\n" +
        "print('begun', flush=True); until('first'); count()",
      script: [
        ["begun", "!y", "first"],
        [QUESTION, "\n"],
        ["Ctrl-C  cancel", ""],
        [QUESTION, "nx\x7f no\n"],
      ],
      shown: ["refused: no"],
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
        ["[d]etails, then Enter: ", "y\n"],
        ["Answer 2 fields? raw gets what you type. [y/N] ", "y\n"],
        ["Answer to raw (text): ", "Ada\n"],
        ["Answer to raw (whole number, or nothing): ", "36\n"],
      ],
      shown: ['"content":{"name":"Ada","age":36}'],
      audited: ["raw.elicitation/create elicitation terminal accept"],
    },
    {
      name: "what a hostile tool call shows cannot move the cursor, hide or pass for a question",
      calls:
        'call("echo", "echoed", {"a": "\\x1b[2K\\rAllow raw.harmless()? \\u202e", "b": "x" * 3000,\n' +
        '  "c": " " * 66 + "Allow? [y]es", "d": "\\u3000\\u115f\\ufe0f\\u2800"})',
      script: [["d shows them", "d\n"], ["Line, according to the code", "n no\n"]],
      shown: ["refused: no"],
      hidden: ["echoed"],
      check: checkHostileCall,
    },
    {
      name: "ns refuses for the session",
      calls: "call('cwd', 'is in', {}); call('cwd', 'is in', {})",
      script: [[QUESTION, "ns too much\n"], [HOW, "a\n"]],
      shown: [
        "refused: too much",
        "refused: remembered for this session, for any arguments: too much",
      ],
      hidden: ["is in"],
    },
    {
      name: "Ctrl-D refuses",
      calls: "echo()",
      script: [[QUESTION, "\x04"]],
      shown: ["ApprovalRejectedError", "was closed"],
      hidden: ["echoed"],
    },
    {
      name: "y and yes allow, for one call each; n refuses",
      calls: "count(); count(); count()",
      script: [[QUESTION, "y\n"], [QUESTION, " YES \n"], [QUESTION, "n\n"], [WHY, "\n"]],
      shown: [CALL, "count is 1", "count is 2", "ApprovalRejectedError", "the user gave no reason"],
      hidden: ["count is 3"],
    },
    {
      name: "Enter and what is no answer are answered with help, and decide nothing",
      calls: "count()",
      script: [
        [QUESTION, "\n"],
        ["Ctrl-C  cancel", ""],
        [QUESTION, "yeah\n"],
        ["Ctrl-C  cancel", ""],
        [QUESTION, "y n\n"],
        ["Ctrl-C  cancel", ""],
        [QUESTION, "n\n"],
        [WHY, "\n"],
      ],
      shown: ["  nc refuse such calls in this cell\n", "ApprovalRejectedError"],
      hidden: ["count is"],
    },
    {
      name: "d shows all, and the question stands",
      calls: "count(long='x' * 3000 + 'END')",
      script: [
        ["more characters: d shows them", "d\n"],
        ["destructiveHint: true", ""],
        [QUESTION, "y\n"],
      ],
      shown: ["xEND'\n", "raw_server.ts", "count is 3"],
    },
    {
      name: "s allows for the session: any arguments, or exactly these",
      calls: "count(); count(n=1); count(n=2); count(n=2); count(n=3); count(n=4)",
      script: [
        [QUESTION, "s e\n"],
        [QUESTION, "y\n"],
        [QUESTION, "s\n"],
        [HOW, "what\n"],
        ["No decision made", ""],
        [QUESTION, "s\n"],
        [HOW, "e\n"],
        [QUESTION, "s\n"],
        [HOW, "a\n"],
      ],
      shown: ["count is 9"],
    },
    {
      name: "Ctrl-C in the middle of the code ends it all",
      calls: "print('begun', flush=True); import time; time.sleep(1000)",
      script: [["begun", "\x03"]],
      code: 130,
      shown: ["ipybox: interrupted"],
    },
  ],
  [
    {
      name: "a second question is asked when the first one is answered, and counted before",
      calls: "from concurrent.futures import ThreadPoolExecutor as Pool\n" +
        "with Pool(3) as pool: [pool.submit(count) for _ in range(3)]",
      script: [["Allow?", "d\n"], ["Allow? (2 more waiting) [y]es ", "y\n"], [
        "Allow? (1 more waiting) ",
        "y\n",
      ], [QUESTION, "y\n"]],
      shown: ["count is 1", "count is 2", "count is 3"],
    },
    {
      name: "one answer for the session settles the others that wait",
      calls: "from concurrent.futures import ThreadPoolExecutor as Pool\n" +
        "with Pool(3) as pool: [pool.submit(count) for _ in range(3)]",
      script: [["Allow?", "s a\n"]],
      shown: ["count is 4", "count is 5", "count is 6"],
    },
    {
      name: "Ctrl-C at a question ends it all",
      calls: "echo()",
      script: [[QUESTION, "\x03"]],
      code: 130,
      shown: ["ipybox: interrupted"],
      hidden: ["echoed", "ApprovalRejectedError"],
    },
  ],
];

/** What is printed before each case. */
const MARK = "---- ";

for (const cases of sessions) {
  Deno.test(`ipybox run at a terminal: ${cases.map(({ name }) => name).join("; ")}`, async () => {
    await using workspace = await workspaceWithServer();
    const code = cases.map(({ calls }, i) => `print("${MARK}${i}", flush=True)\n${calls}\n`);

    const end = await run(
      workspace.path,
      COUNT + code.join(""),
      cases.flatMap((each) => each.script),
    );

    assertEquals(end.code, cases.at(-1)?.code ?? 0, end.output);
    const outputs = end.output.split(MARK).slice(1);
    for (const [i, { name, shown, hidden = [], check }] of cases.entries()) {
      const output = outputs[i] ?? "";
      for (const text of shown) assertStringIncludes(output, text, name);
      for (const text of hidden) assert(!output.includes(text), `${name}: ${output}`);
      check?.(output);
    }
    const audited = cases.flatMap((each) => each.audited ?? []);
    assertEquals(await auditedQuestions(workspace.path), audited);
    await untilNoneWith(workspace.path);
  });
}

Deno.test("ipybox mcp says to whoever starts it by hand what it waits for", async () => {
  await using workspace = await workspaceWithServer();

  const end = await ipyboxAtTerminal(
    ["mcp", "--workspace", workspace.path],
    [["Waiting for an MCP client on stdin", "\x03"]],
  );

  assertEquals(end.code, 0, end.output);
});

Deno.test("the help's options and paragraphs fit a narrow terminal", async () => {
  const { code, output } = await ipyboxAtTerminal(["run", "--help"], [], { columns: 50 });

  const lines = output.split(/\r?\n/);
  const options = lines.slice(lines.indexOf("Options:") + 1, lines.indexOf("  -h, --help"));
  assertEquals([code, options.slice(0, 2)], [0, [
    "  -c, --code CODE",
    "          Run this code instead of a file",
  ]]);
  assertEquals(options.filter((line) => line.length > 50), []);
  const notes = lines.slice(lines.indexOf("  -h, --help"));
  assertEquals(notes.slice(3, 6), [
    "The code's stdout and stderr are passed through as",
    "they are produced. ARGS are in sys.argv;",
    "sys.exit(N) in the code sets the exit code.",
  ]);
});

Deno.test("what is allowed always is not asked about in the next run", async () => {
  await using workspace = await workspaceWithServer();
  const first = await run(workspace.path, `${COUNT}count()`, [[QUESTION, "a\n"], [HOW, "a\n"]]);
  assertStringIncludes(first.output, "Remembered. `ipybox policy forget` undoes it.");
  assertStringIncludes(first.output, "count is 1");

  const args = ["run", "--no-sandbox", "-c", `${COUNT}count()`];
  const second = await inThisProcess(args, { workspace: workspace.path, answers: [] });

  assertEquals([second.code, second.stdout], [0, "count is 1\n"], second.stderr);
});

Deno.test("an editor has the terminal and a file for itself, and what it leaves is shown and sent", async () => {
  await using workspace = await workspaceWithServer();
  await using own = await TempFolder.create(); // an editor is not in the workspace
  const editor = `${own.path}/editor.py`;
  await Deno.writeTextFile(
    editor,
    `import os, sys
path = sys.argv[1]
sys.stderr.write(f"FILE {path} {os.stat(path).st_mode & 0o777:o} {os.getcwd() == os.path.dirname(path)}\\n")
text = open(path).read()
sys.stderr.write("EDITOR " + repr(text) + "\\n")
open(path, "w").write(text.replace("two", "three").replace("1.0", input("VALUE? ")))`,
  );
  const args = `{"n": 1.0, "s": "a", "text": "one\\ntwo\\n", "z": "\u202e"}`;
  const code = `${COUNT}print(raw.run_sync("echo", ${args}).text)`;
  const script: Typing[] = [
    [QUESTION, "e\n"],
    ["Edit which? ", "j\n"],
    ["VALUE? ", "2.0\n"],
    ["Edited:", ""],
    [QUESTION, "e 1\n"],
    ["VALUE? ", "\n"],
    ["Not changed", ""],
    [QUESTION, "y\n"],
  ];

  const end = await run(workspace.path, code, script, { env: { EDITOR: `python3 ${editor}` } });

  assertEquals(end.code, 0, end.output);
  assertStringIncludes(end.output, "\n  1  3 lines  | text\n  j  all arguments as JSON\n");
  const json =
    '{\\n  "n": 1.0,\\n  "s": "a",\\n  "text": "one\\\\ntwo\\\\n",\\n  "z": "\\\\u202e"\\n}\\n';
  assertStringIncludes(end.output, `EDITOR '${json}'`);
  assertStringIncludes(end.output, "EDITOR 'one\\nthree\\n'");
  assertStringIncludes(
    end.output,
    "Edited:\n  | raw.echo(n=2.0, s='a', text='one\\nthree\\n', z='\\u202e')\n",
  );
  assertStringIncludes(
    end.output,
    '"arguments":{"n":2.0,"s":"a","text":"one\\nthree\\n","z":"\\u202e"}',
  );
  const files = [...end.output.matchAll(/FILE (\S+) (\d+) (\w+)/g)];
  assertEquals(files.map(([, file = ""]) => file.split("/").at(-1)), [
    "arguments.json",
    "text.txt",
  ]);
  for (const [, file = "", mode, isThere] of files) {
    assertEquals([mode, isThere, file.startsWith(workspace.path)], ["600", "True", false]);
    assertEquals(await exists(file), false);
  }
});

function checkHostileCall(output: string): void {
  const [, shown = ""] = output.split("Line, according to the code")[0]?.split("  | raw.echo(") ??
    [];
  const whole = output.split("  | raw.echo(")[2]?.split("\nServer:")[0] ?? "";
  const text = whole.replaceAll("\n  | ", "");
  assertStringIncludes(text, "\\x1b[2K\\rAllow raw.harmless()? \\u202e");
  assertStringIncludes(text, "x".repeat(3000));
  assertStringIncludes(text, "\\u3000\\u115f\\ufe0f\\u2800");
  assert(!shown.includes("\nAllow? [y]es'"), shown);
  for (const row of whole.split("\n")) assert(row.length <= 80, row);
  for (const row of whole.split("\n").slice(1)) assert(row.startsWith("  | "), row);
}

Deno.test("code can color its output, not put an editor there that is run, and ends with the terminal, leaving no process", async () => {
  await using workspace = await workspaceWithServer();
  const folder = `${workspace.path}/bin`;
  await Deno.mkdir(folder);
  for (const name of ["planted", "nano"]) {
    await Deno.writeTextFile(`${folder}/${name}`, `#!/bin/sh\ntouch ${workspace.path}/ran\n`, {
      mode: 0o755,
    });
  }
  const code = `${COUNT}
print("\\x1b[1;31mred"); count(n=1); print("\\x1b[4mlined\\x1b[0m plain")
import subprocess, time
subprocess.Popen(["setsid", "sleep", "1000", "${workspace.path}"])
print("begun", flush=True); time.sleep(1000)`;
  const PATH = `${folder}:${Deno.env.get("PATH")}`;
  const script: Typing[] = [
    ["[d]etails, then Enter: ", "e\n"],
    ["planted is not on the PATH", ""],
    ["[d]etails, then Enter: ", "n no\n"],
    ["begun", null],
  ];

  const env = { EDITOR: "planted -w", PATH, NO_COLOR: "" };
  const { code: ended, output } = await run(workspace.path, code, script, { env });

  assert(ended !== 0, output);
  for (const text of ["refused: no", "\x1b[31mred\x1b[0m\n", "\x1b[31;4mlined\x1b[0m plain"]) {
    assertStringIncludes(output, text);
  }
  assertEquals(await exists(`${workspace.path}/ran`), false);
  await untilNoneWith(workspace.path);
});

async function run(
  workspace: string,
  code: string,
  script: readonly Typing[],
  options: TerminalOptions = {},
): Promise<TerminalEnd> {
  const args = ["run", "--no-sandbox", "--workspace", workspace, "-c", code];
  return await ipyboxAtTerminal(args, script, { cwd: workspace, ...options });
}
