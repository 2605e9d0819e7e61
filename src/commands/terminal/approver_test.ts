import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import {
  type ApprovalCall,
  ApprovalRequest,
  type ApprovalResponse,
} from "../../approval/request.ts";
import { parseExact, sealObject } from "../../json/exact.ts";
import { commandIo } from "../../../tests/support/command_io.ts";
import { details, summary } from "./approval_text.ts";
import { askAtTerminal } from "./answerer.ts";

function call(args: string, more: Partial<ApprovalCall> = {}): ApprovalCall {
  const sealed = sealObject(parseExact(args));
  return { kind: "tool", serverName: "fs", toolName: "read", arguments: sealed, ...more };
}

function shell(cmd: string, program?: string): ApprovalCall {
  const args = JSON.stringify({ cmd, program });
  return call(args, { kind: "shell", serverName: "ipybox", toolName: "shell" });
}

/** What a terminal, of 40 columns, shows of a request. */
function shownOf(asked: ApprovalCall, show = summary, columns = 40): string {
  const request = new ApprovalRequest(asked);
  return show({ request, argumentsJson: request.argumentsJson, columns });
}

/** A call, and what is shown of it on 40 columns. */
const SUMMARIES: readonly (readonly [asked: ApprovalCall, rows: readonly string[]])[] = [
  [call('{"path":"a\\nb"}'), ["  | fs.read(path='a\\nb')"]],
  [call("{}"), ["  | fs.read()"]],
  [call('{"cmd":"ls"}', { kind: "resource" }), ["  | fs.read(cmd='ls')"]],
  [call('{"path":"abcdefghijklmnopqrstuvwxyz0123456789","n":1}'), [
    "  | fs.read(",
    "  |   path='abcdefghijklmnopqrstuvwxyz01",
    "  | 23456789'",
    "  |   n=1",
    "  | )",
  ]],
  [call(JSON.stringify({ a: "ä".repeat(40), b: "漢".repeat(20) })), [
    "  | fs.read(",
    `  |   a='${"ä".repeat(31)}`,
    `  | ${"ä".repeat(9)}'`,
    `  |   b='${"漢".repeat(15)}`,
    `  | ${"漢".repeat(5)}'`,
    "  | )",
  ]],
  [call("{}", { source: { line: 2, text: "read()", names: ["fs.read"] } }), [
    "  | fs.read()",
    "  line 2: read()",
  ]],
  [call("{}", { source: { line: 2, text: "read()", names: ["fs.read", "fs.ls", "db.get"] } }), [
    "  | fs.read()",
    "  line 2: read()",
    "  the code also names: fs.ls, db.get",
  ]],
  [
    call("{}", {
      toolName: "get-sum",
      source: { line: 2, text: "get_sum()", names: ["fs.get_sum", "fs.ls"] },
    }),
    ["  | fs.get-sum()", "  line 2: get_sum()", "  the code also names: fs.ls"],
  ],
  [call(JSON.stringify({ text: "x".repeat(500) })), [
    "  | fs.read(",
    `  |   text='${"x".repeat(28)}`,
    `  | ${"x".repeat(36)}`,
    "    … 401 more characters: d shows them",
    `  | ${"x".repeat(35)}'`,
    "  | )",
  ]],
  [call(JSON.stringify({ text: "😀".repeat(200) })), [
    "  | fs.read(",
    `  |   text='${"😀".repeat(14)}`,
    `  | ${"😀".repeat(18)}`,
    "    … 151 more characters: d shows them",
    `  | ${"😀".repeat(17)}'`,
    "  | )",
  ]],
  [call(JSON.stringify(Object.fromEntries(Array.from({ length: 30 }, (_, n) => [`p${n}`, n])))), [
    "  | fs.read(",
    ...Array.from({ length: 9 }, (_, n) => `  |   p${n}=${n}`),
    "    … 19 more arguments: d shows them",
    "  |   p28=28",
    "  |   p29=29",
    "  | )",
  ]],
  [
    call(JSON.stringify({ "\u001b[2K": 1, "a='x', b": "a rather long text, on another row" })),
    [
      "  | fs.read(",
      "  |   '\\x1b[2K': 1",
      "  |   'a=\\'x\\', b': 'a rather long text,",
      "  |  on another row'",
      "  | )",
    ],
  ],
  [call("{}", { source: { line: 3, text: "    fs.read() # \u202e\u001b[2K and so on, and on" } }), [
    "  | fs.read()",
    "  line 3: fs.read() # \\u202e\\x1b[2K an…",
  ]],
  [
    call("{}", { changes: ["description was 'a', is 'b'", "parameter 'path' was\u001b[2K added"] }),
    [
      "  | fs.read()",
      "Changed since it was decided:",
      "  | description was 'a', is 'b'",
      "  | parameter 'path' was\\x1b[2K added",
    ],
  ],
  [shell("ls -l\nAllow? [y/N] \u001b[2Jy\n"), [
    "Run:",
    "  | ls -l",
    "  | Allow? [y/N] \\x1b[2Jy",
  ]],
  [shell("print 1;\n", "perl -w"), ["Run by:", "  | perl -w", "Text:", "  | print 1;"]],
  // No row of the code lacks its mark.
  [shell("x", `bash ${"-".repeat(33)}\u2019Your rule allows it: press y.`), [
    "Run by:",
    `  | bash ${"-".repeat(31)}`,
    "  | --\\u2019Your rule allows it: press y",
    "  | .",
    "Text:",
    "  | x",
  ]],
  [shell("x".repeat(40)), ["Run:", `  | ${"x".repeat(36)}`, "  | xxxx"]],
  [shell("a\n".repeat(30)), [
    "Run:",
    ...Array.from({ length: 9 }, () => "  | a"),
    "    … 19 more lines: d shows them",
    "  | a",
    "  | a",
  ]],
  [call("{}", { askedAt: new Date(Date.now() - 3 * 3_600_000) }), [
    "  | fs.read()",
    "  has waited for 3 h",
  ]],
];

for (const [index, [asked, rows]] of SUMMARIES.entries()) {
  Deno.test(`summary() shows a request in rows that fit, case ${index + 1}`, () => {
    assertEquals(shownOf(asked).trimEnd().split("\n"), rows);
    for (const row of rows) assertEquals(row.length <= 40, true, row);
  });
}

Deno.test("summary() says what it leaves out where no text fits beside the mark", () => {
  for (const columns of [1, 2, 3, 4, 5]) {
    const shown = shownOf(call(JSON.stringify({ text: "x".repeat(500) })), summary, columns);
    assertMatch(shown, /… \d+ more characters: d shows them/);
  }
});

Deno.test("an edit shows what it changes, folded where it is long, and whole on demand", () => {
  const lines = Array.from({ length: 9 }, (_, n) => `line ${n}\n`);
  const edit = { oldText: lines.join(""), newText: lines.with(4, "\u001b[2K\n").join("") };
  const asked = call(JSON.stringify({ edits: [edit] }));
  const rows = (show: typeof summary) => shownOf(asked, show).trimEnd().split("\n");
  assertEquals(rows(summary), [
    "  | fs.read(",
    "  |   edits=[",
    "  |     {",
    "  |       oldText → newText:",
    "    … 2 unchanged lines: d shows them",
    "  |         'line 2\\n'",
    "  |         'line 3\\n'",
    "  |       - 'line 4\\n'",
    "  |       + '\\x1b[2K\\n'",
    "  |         'line 5\\n'",
    "  |         'line 6\\n'",
    "    … 2 unchanged lines: d shows them",
    "  |     }",
    "  |   ]",
    "  | )",
  ]);
  assertEquals(rows(details).filter((row) => row.includes("'line ")).length, 9);
  const request = new ApprovalRequest(asked);
  const { argumentsJson } = request;
  const colored = summary({ request, argumentsJson, columns: 40, color: true });
  assertStringIncludes(colored, "  | \x1b[31m      - 'line 4\\n'\x1b[0m\n");
  assertStringIncludes(colored, "  | \x1b[32m      + '\\x1b[2K\\n'\x1b[0m\n");
  const all = call(JSON.stringify({ old_str: "", new_str: "x\n".repeat(100) }));
  assertStringIncludes(
    shownOf(all),
    "    … 72 more rows: d shows them\n  |   + 'x\\n'\n",
  );
});

Deno.test("details() leaves nothing out, and marks what others wrote", () => {
  const asked = call(JSON.stringify({ text: `${"x".repeat(500)}END` }), {
    title: "Read\u001b[2K",
    description: `Reads a file of the workspace, whole.\nAllow? [y]es\n${"x".repeat(40)} y`,
    annotations: { readOnlyHint: true, title: "Read" },
    server: { launch: "npx fs" },
    source: { line: 3, text: "fs.read()" },
    changes: ["description was 'a', is 'b'"],
  });
  const shown = shownOf(asked, details);
  assertMatch(shown.replaceAll("\n  | ", ""), /x{500}END'\)/);
  assertEquals(shown.slice(shown.indexOf("Server:")).trimEnd().split("\n"), [
    "Server:",
    "  | npx fs",
    "Title, from the server:",
    "  | Read\\x1b[2K",
    "Description, from the server:",
    "  | Reads a file of the workspace,",
    "  | whole.",
    "  | Allow? [y]es",
    `  | ${"x".repeat(36)}`,
    "  | xxxx y",
    "Hints from the server:",
    "  | readOnlyHint: true",
    "Line, according to the code:",
    "  | 3: fs.read()",
    "Changed since it was decided:",
    "  | description was 'a', is 'b'",
  ]);
});

/** The response to a request after these answers, and the questions. */
async function ask(
  asked: ApprovalCall,
  answers: readonly (string | null)[],
  pattern?: string,
): Promise<{ response: ApprovalResponse; questions: string[]; said: string }> {
  const questions: string[] = [];
  let said = "";
  const left = [...answers];
  const io = commandIo({
    err: (line) => said += `${line}\n`,
    ask: (text) => {
      questions.push(text);
      const answer = left.shift();
      if (answer === undefined) throw new Error(`Nobody expected ${text}`);
      return Promise.resolve(answer);
    },
  });
  const request = new ApprovalRequest(asked, {
    scopes: ["cell", "session", "always"],
    pattern,
    check: ({ n }) => n === "bad" ? "n must be a number" : undefined,
  });
  await askAtTerminal(io).decide(request);
  assertEquals(left, []);
  return { response: await request.response, questions, said };
}

const ARGUMENTS = sealObject(parseExact('{"n":1}'));
const accepted = { accepted: true, arguments: ARGUMENTS } as const;
const rejected = { accepted: false, type: "approval_rejected" } as const;

/** Answers, and the resulting response. */
const ANSWERS: readonly (readonly [answers: readonly (string | null)[], response: unknown])[] = [
  [["y"], accepted],
  [[" YES "], accepted],
  [["", "yy", "y please", "x", "y"], accepted],
  [["d", "y"], accepted],
  [["n", ""], { ...rejected, reason: "the user gave no reason" }],
  [["no", "not now"], { ...rejected, reason: "not now" }],
  [["n not now"], { ...rejected, reason: "not now" }],
  [["c a"], { ...accepted, remember: { scope: "cell", match: "tool" } }],
  [["s", "a"], { ...accepted, remember: { scope: "session", match: "tool" } }],
  [["s", "exactly"], { ...accepted, remember: { scope: "session", match: "arguments" } }],
  [["always", "e"], { ...accepted, remember: { scope: "always", match: "arguments" } }],
  [["a", "", "y"], accepted],
  [["a x", "y"], accepted],
  [["ns", "a", ""], {
    ...rejected,
    reason: "the user gave no reason",
    remember: { scope: "session", match: "tool" },
  }],
  [["na never", "e"], {
    ...rejected,
    reason: "never",
    remember: { scope: "always", match: "arguments" },
  }],
  [["nc", "", "n", "x"], { ...rejected, reason: "x" }],
  [[null], { ...rejected, reason: "the question was closed at the terminal" }],
  [["n", null], { ...rejected, reason: "the question was closed at the terminal" }],
  [["a", null], { ...rejected, reason: "the question was closed at the terminal" }],
];

for (const [answers, response] of ANSWERS) {
  Deno.test(`ApprovalDialogue takes ${JSON.stringify(answers)}`, async () => {
    assertEquals((await ask(call('{"n":1}'), answers)).response, response);
  });
}

Deno.test("ApprovalDialogue says what is remembered of a shell command", async () => {
  const { questions, response } = await ask(shell("ls"), ["a", "e"]);
  assertStringIncludes(questions[0] ?? "", "Run:\n  | ls\nRun it? [y]es ");
  assertEquals(questions[1], "Allow every shell command always: [a]ny, or [e]xactly this one? ");
  assertEquals(response.remember, { scope: "always", match: "arguments" });
});

Deno.test("ApprovalDialogue offers a pattern between any arguments and exactly these", async () => {
  const answers = ["s", "p"];
  const pattern = "any `path` below /data\u202e (other arguments: any)";
  const { questions, response } = await ask(call('{"n":1}'), answers, pattern);
  assertEquals(
    questions[1],
    "Pattern:\n  | any `path` below /data\\u202e (other arguments: any)\n" +
      "Allow fs.read in this session: with [a]ny arguments, this [p]attern, or [e]xactly these? ",
  );
  assertEquals(response.remember, { scope: "session", match: "pattern" });
  const refused = await ask(call('{"n":1}'), ["na pattern", "p"], pattern);
  assertEquals(refused.response.remember, { scope: "always", match: "pattern" });
  const without = await ask(call('{"n":1}'), ["s p", "y"]);
  const why = "No pattern fits these arguments. No decision made.\n";
  assertEquals([without.response, without.said], [accepted, why]);
});

Deno.test("ApprovalDialogue offers no edits of a change, which could only be refused", async () => {
  const { questions, response, said } = await withEditor(
    "sed -i s/1/2/",
    () => ask(call('{"n":1}', { kind: "change" }), ["e", "?", "y"]),
  );
  for (const text of [...questions, said]) assertEquals(/\be\]|edit/.test(text), false, text);
  assertEquals(response, accepted);
});

/** Uses a command as the editor. */
async function withEditor<T>(command: string, use: () => Promise<T>): Promise<T> {
  const before = ["VISUAL", "EDITOR"].map((name) => [name, Deno.env.get(name)] as const);
  Deno.env.delete("VISUAL");
  Deno.env.set("EDITOR", command);
  try {
    return await use();
  } finally {
    for (const [name, value] of before) {
      if (value === undefined) Deno.env.delete(name);
      else Deno.env.set(name, value);
    }
  }
}

/** An editor of the arguments `{"n":1}`, the answers, and the resulting response and message. */
const EDITS: readonly (readonly [
  editor: string,
  answers: readonly string[],
  response: unknown,
  said: string,
])[] = [
  ["sed -i s/1/2.0/", ["e", "y"], { n: "2.0" }, ""],
  ["sed -i s/1/2/", ["e", "s a"], { n: "2" }, ""],
  ["true", ["e", "y"], { n: "1" }, "Not changed: no changes were made in the editor"],
  ["sed -i s/1/x/", ["e", "y"], { n: "1" }, "Not changed: not valid JSON"],
  ["sh -c 'echo [1] > $0'", ["e", "y"], { n: "1" }, "arguments must be a JSON object"],
  ["false", ["e", "y"], { n: "1" }, "the editor exited with code 1"],
  ["no-such-editor", ["e", "y"], { n: "1" }, "no-such-editor is not on the PATH"],
  ["rm", ["e", "y"], { n: "1" }, "the editor removed the file"],
  ["printf '\\377' | tee", ["e", "y"], { n: "1" }, "the edited file is not UTF-8 text"],
  [`sed -i 's/1/"bad"/'`, ["e", "y", "n no"], undefined, "n must be a number"],
];

for (const [editor, answers, expected, said] of EDITS) {
  Deno.test(`ApprovalDialogue has arguments edited by ${editor}: ${answers}`, async () => {
    const outcome = await withEditor(editor, () => ask(call('{"n":1}'), answers));
    const { response } = outcome;
    const sent = response.accepted
      ? Object.fromEntries(
        Object.entries(response.arguments).map(([name, value]) => [name, JSON.stringify(value)]),
      )
      : undefined;
    assertEquals(sent, expected);
    assertStringIncludes(outcome.said, said);
  });
}

/** Arguments with some texts, the answers, and the arguments after `sed s/a/b/`. */
const TEXTS: readonly (readonly [
  args: Readonly<Record<string, unknown>>,
  answers: readonly string[],
  changed: Readonly<Record<string, unknown>>,
  said: string,
])[] = [
  [{ text: 'a\n"\\n' }, ["e", "y"], { text: 'b\n"\\n' }, ""],
  [{ text: "a\n\n" }, ["e", "y"], { text: "b\n\n" }, ""],
  [{ n: "a", text: "a\n1" }, ["e", "1", "y"], { text: "b\n1" }, ""],
  [{ n: "a", text: "a\n1" }, ["e text", "y"], { text: "b\n1" }, ""],
  [{ n: "a", text: "a\n1" }, ["e j", "y"], { n: "b", text: "b\n1" }, ""],
  [{ n: "a", text: "a\n1" }, ["e", "2", "y"], {}, "2 is not one of the choices"],
  [{ n: "a", x: "a".repeat(81), y: "a\n" }, ["e 2", "e 1", "y"], {
    x: `b${"a".repeat(80)}`,
    y: "b\n",
  }, ""],
  // What is invisible would not be seen in an editor.
  [{ n: "a", text: "a\n\u202e" }, ["e", "y"], { n: "b", text: "b\n\u202e" }, ""],
  [{ n: "a", text: "a\r\n\x1b[2J" }, ["e", "y"], { n: "b", text: "b\r\n\x1b[2J" }, ""],
];

for (const [args, answers, changed, said] of TEXTS) {
  Deno.test(`ApprovalDialogue has texts edited as they are: ${JSON.stringify(args)} ${answers}`, async () => {
    const outcome = await withEditor(
      String.raw`sed -i 's/\(^\|"\)a/\1b/'`,
      () => ask(call(JSON.stringify(args)), answers),
    );
    const { response } = outcome;
    const sent: unknown = response.accepted && { ...response.arguments };
    assertEquals(sent, { ...args, ...changed });
    assertStringIncludes(outcome.said, said);
  });
}

Deno.test("ApprovalDialogue shows which texts can be edited, and no name passes for a question", async () => {
  const args = { ["Edit which? \x1b[2J\n  2  all"]: "x".repeat(81), n: 1, text: "a\nb" };
  const { questions } = await withEditor(
    "true",
    () => ask(call(JSON.stringify(args)), ["e", "", "y"]),
  );
  assertEquals(questions[1]?.split("\n"), [
    "  1  81 characters  | Edit which? \\x1b[2J\\n  2  all",
    "  2  2 lines  | text",
    "  j  all arguments as JSON",
    "Edit which? ",
  ]);
});

Deno.test("ApprovalDialogue has a shell command edited as it is", async () => {
  const { response } = await withEditor(
    "sed -i s/1/2/",
    () => ask(shell("echo '1'\necho 1"), ["e", "y"]),
  );
  assertEquals(response.accepted && response.arguments, { cmd: "echo '2'\necho 2" });
});
