import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { ServerRegistry } from "../../src/servers/registry.ts";
import { ipybox } from "../support/cli.ts";
import { inThisProcess } from "../support/command_io.ts";
import { CommandProcess } from "../support/command_process.ts";
import { rawServer } from "../support/mcp.ts";
import { untilNoneWith } from "../support/processes.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { ipyboxAtTerminal, type TerminalEnd, type Typing } from "../support/terminal.ts";
import { until } from "../support/wait.ts";

/** A question and the end of what is bold. */
const QUESTION =
  "Allow? [y]es [n]o [c]ell [a]lways [s]ession [e]dit [d]etails, then Enter: \x1b[0m";
const COUNT = "from ipybox_runtime import ToolRunner as R; raw = R('raw')\r";
const CALL = "print('it', 'is', raw.run_sync('count', {}).text)\r";
const LEAVE = "\x04";
const BEGUN = "import time, pathlib; print('be' 'gun', flush=True); ";
/** Waits for the mark `typed`. */
const TYPED = "[time.sleep(0.01) for _ in iter(pathlib.Path('typed').exists, True)]; ";

interface Case {
  readonly name: string;
  readonly script: readonly Typing[];
  readonly shown: readonly string[];
  readonly hidden?: readonly string[];
}

/**
 * What happens at the terminal, by session. Each case goes on at the prompt that the one before left, with
 * its own numbers: where a case says `In [1]`, as many are added as the kernel has counted by then.
 */
const sessions: Readonly<Record<string, readonly Case[]>> = {
  "what is typed, results and errors": [
    {
      name: "a block goes on until an empty line, indented by the kernel",
      script: [
        ["In [1]: ", "for i in (1, 2):\r"],
        ["...:     ", "print('i', 'is', i)\r"],
        ["...:     ", "\r"],
        ["In [2]: ", "f(1,\r"],
        ["...: ", "\x03"],
        ["^C", ""],
        ["In [2]: ", LEAVE],
      ],
      shown: ["\ni is 1\ni is 2\n", "f(1,", "^C"],
      hidden: ["NameError"],
    },
    {
      name: "an empty line ends a cell magic, too",
      script: [
        ["In [1]: ", "%%capture said\r"],
        ["...: ", "print('caught')\r"],
        ["...: ", "\r"],
        ["In [2]: ", "said.stdout\r"],
        ["In [3]: ", LEAVE],
      ],
      shown: ["'caught\\n'"],
    },
    {
      name: "what is pasted is one cell",
      script: [
        ["In [1]: ", "\x1b[200~def f(x):\n    return x + 1\n\nprint(f(41))\x1b[201~\r"],
        ["In [2]: ", LEAVE],
      ],
      shown: ["...:     return x + 1", "\n42\n"],
    },
    {
      name: "Tab completes or lists, ? documents",
      script: [
        ["In [1]: ", "some_long_name = 5; some_other = 1\r"],
        ["In [2]: ", "some_lo\t"],
        ["some_long_name", " + 1\r"],
        ["In [3]: ", "some_\t"],
        ["some_long_name  some_other", "\x15len?\r"],
        ["In [4]: ", LEAVE],
      ],
      shown: ["]: 6\n", "Return the number of items in a container."],
    },
    {
      name: "names that executed code chose cannot steer the terminal or the line",
      script: [
        ["In [1]: ", "class A: __dir__ = lambda s: ['zz\\x1b[2J', 'zz\\nprint(1)', 'zz\\u202e']\r"],
        ["In [2]: ", "a = A()\r"],
        ["In [3]: ", "a.zz\t"],
        ["a.zz", "\x15'st' 'ill'\r"],
        ["In [4]: ", LEAVE],
      ],
      shown: ["'still'"],
      hidden: ["zz\x1b[2J", "zz\u202e"],
    },
    {
      name: "what is typed while a cell runs is the next one",
      script: [
        ["In [1]: ", `${BEGUN}${TYPED}\r`],
        ["begun", "6 * 7\r", "typed"],
        ["In [3]: ", LEAVE],
      ],
      shown: ["In [2]: 6 * 7", "]: 42\n"],
    },
    {
      name: "cells share variables, show results and errors, and are numbered",
      script: [
        ["In [1]: ", "a = 6\r"],
        ["In [2]: ", "a * 7\r"],
        ["In [3]: ", "_ + 1\r"],
        ["In [4]: ", "1 / 0\r"],
        ["In [5]: ", "import sys; print('no end', file=sys.stderr, end='')\r"],
        ["In [6]: ", "import no_such_module\r"],
        ["In [7]: ", "exit\r"],
      ],
      shown: [
        "\nOut[2]: 42\n",
        "\nOut[3]: 43\n",
        "ZeroDivisionError: division by zero\n",
        "no end\n",
        "\n[ipybox] To install it: :install no_such_module\n",
      ],
    },
  ],
  "what is asked, a kernel that hangs, interrupts, kernels that end, calls and commands": [
    {
      name: "Ctrl-D at a question refuses, and the session goes on",
      script: [
        ["In [1]: ", COUNT],
        ["In [2]: ", CALL],
        [QUESTION, "\x04"],
        ["In [3]: ", "6 * 7\r"],
        ["In [4]: ", LEAVE],
      ],
      shown: ["the question was closed", "]: 42\n"],
    },
    {
      name: "Ctrl-C at a question interrupts the cell, which then makes no call",
      script: [
        ["In [1]: ", COUNT],
        ["In [2]: ", CALL],
        [QUESTION, "\x03"],
        ["the variables are kept.", ""],
        ["In [3]: ", CALL],
        [QUESTION, "y\n"],
        ["In [4]: ", LEAVE],
      ],
      shown: ["KeyboardInterrupt", "it is 1\n"],
    },
    {
      name: "output cannot move the cursor, and waits while a question stands",
      script: [
        ["In [1]: ", COUNT],
        [
          "In [2]: ",
          "import threading; t = threading.Timer(0.2, print, ['\\x1b[2AAllow' + '?']); t.start(); " +
          "raw.run_sync('count', {}); t.join()\r",
        ],
        [QUESTION, "n no\n"],
        ["In [3]: ", LEAVE],
      ],
      shown: [`${QUESTION}n no`, "\\u001b[2AAllow?"],
    },
    {
      name: "input() and getpass() ask, and neither the history nor the screen keeps a password",
      script: [
        ["In [1]: ", "x = input('Name? ')\r"],
        ["Code asks: \x1b[0mName? ", "Adaa\x7f\n"],
        ["In [2]: ", "import getpass; p = getpass.getpass('Key\\x1b[2J: ')\r"],
        ["Code asks (your input is hidden): \x1b[0mKey\\x1b[2J: ", "s3kret\x15s3cret\n"],
        ["In [3]: ", "print(x.upper(), p[::-1], 'cret' in str(In[:-1]))\r"],
        ["In [4]: ", "\x1b[A\x1b[A\x1b[A"],
        ["x = input('Name? ')", "\x15"],
        ["In [4]: ", LEAVE],
      ],
      shown: ["ADA terc3s False\n"],
      hidden: ["s3kret", "s3cret"],
    },
    {
      name: "code that asks for ever ends by Ctrl-C that is pressed again and again",
      script: [
        [
          "In [1]: ",
          "\x1b[200~def ask():\n  while 1:\n    try: input('more? ')\n    except BaseException: pass\n\x1b[201~\r",
        ],
        ["In [2]: ", "ask()\r"],
        ["Code asks: \x1b[0mmore? ", "\x03"],
        ["Code asks: \x1b[0mmore? ", "\x03"],
        ["The kernel was restarted; variables are lost.", ""],
        ["In [1]: ", LEAVE],
      ],
      shown: [],
    },
    {
      name: "debuggers take their commands",
      script: [
        ["In [1]: ", "f = lambda n: 1 / n\r"],
        ["In [2]: ", "f(0)\r"],
        ["ZeroDivisionError: division", ""],
        ["In [3]: ", "%debug\r"],
        ["ipdb> ", "p 'n', 'is', n\n"],
        ["('n', 'is', 0)", ""],
        ["ipdb> ", "q\n"],
        ["In [4]: ", "count = 3; breakpoint(); count += 1\r"],
        ["ipdb> ", "count = 40\n"],
        ["ipdb> ", "c\n"],
        ["In [5]: ", "count\r"],
        ["In [6]: ", LEAVE],
      ],
      shown: ["Code asks: \x1b[0mipdb> ", "]: 41\n"],
    },
    {
      name:
        "at what code asks, Ctrl-D is its end and Ctrl-C interrupts, as often as code goes on asking",
      script: [
        ["In [1]: ", "a = 1; input('end? ')\r"],
        ["Code asks: \x1b[0mend? ", "\x04"],
        ["EOFError", ""],
        ["In [2]: ", "input('stop? ')\r"],
        ["Code asks: \x1b[0mstop? ", "\x03"],
        ["the variables are kept.", ""],
        ["In [3]: ", "import code; code.interact(banner='', exitmsg='left', local=globals())\r"],
        ["Code asks: ", "\x03"],
        ["KeyboardInterrupt", ""],
        ["Code asks: ", "import time; time.sleep(2.1); print('a', 'is', a)\n"],
        ["a is 1", ""],
        ["Code asks: ", "\x03"],
        ["KeyboardInterrupt", ""],
        ["Code asks: ", "time.sleep(2.1)\n"],
        ["Code asks: ", "\x03"],
        ["KeyboardInterrupt", ""],
        ["Code asks: ", "\x04"],
        ["left", ""],
        ["In [4]: ", "a + 40\r"],
        ["In [5]: ", LEAVE],
      ],
      shown: ["]: 41\n", "KeyboardInterrupt: Interrupted by user"],
      hidden: ["The kernel was restarted", "kernelbase.py", "Still running"],
    },
    {
      name: "a kernel that does not answer is waited for until Ctrl-C, and nothing runs unasked",
      script: [
        ["In [1]: ", "import time; k = get_ipython().kernel\r"],
        ["In [2]: ", "k.do_is_complete = lambda code: time.sleep(10**6)\r"],
        ["In [3]: ", "for i in (1, 2):\r"],
        ["Press Ctrl-C to stop waiting", "\x03"],
        ["Cancelled", "\x15:help\r"],
        [":reset", ""],
        ["In [3]: ", ":reset\r"],
        ["In [1]: ", LEAVE],
      ],
      shown: ["for i in (1, 2):"],
      hidden: ["SyntaxError", "...: ", "IndentationError"],
    },
    {
      name: "Ctrl-C interrupts a cell, and the variables are kept",
      script: [
        ["In [1]: ", "a = 1; print('be' 'gun', flush=True); import time; time.sleep(1000)\r"],
        ["begun", "\x03"],
        ["In [2]: ", "a + 40\r"],
        ["In [3]: ", LEAVE],
      ],
      shown: ["KeyboardInterrupt", "Interrupted; the variables are kept.", "]: 41\n"],
    },
    {
      name: "a second Ctrl-C ends a cell that is stuck, with its kernel",
      script: [
        [
          "In [1]: ",
          "a = 1; import signal, time; signal.signal(2, signal.SIG_IGN); print('be' 'gun'); time.sleep(999)\r",
        ],
        ["begun", "\x03"],
        ["Still running. Press Ctrl-C again", "\x03"],
        ["The kernel was restarted; variables are lost.", ""],
        ["In [1]: ", "a\r"],
        ["In [2]: ", LEAVE],
      ],
      shown: ["NameError: name 'a' is not defined"],
    },
    {
      name: "a kernel that dies says so, and a fresh one goes on",
      script: [
        ["In [1]: ", "import os; os._exit(3)\r"],
        ["The kernel was restarted", ""],
        ["In [1]: ", "6 * 7\r"],
        ["In [2]: ", LEAVE],
      ],
      shown: ["The kernel died and its variables are lost: it exited with code 3", "]: 42\n"],
    },
    {
      name: "calls are asked about, and what was typed ahead answers nothing and is no cell",
      script: [
        ["In [1]: ", COUNT],
        ["In [2]: ", BEGUN + TYPED + CALL],
        ["begun", "y\ry\r", "typed"],
        [QUESTION, "y\n"],
        ["In [3]: ", CALL],
        [QUESTION, "n not now\n"],
        ["In [4]: ", LEAVE],
      ],
      shown: [
        "\nYou pressed that key before",
        "  | raw.count()\n",
        "it is 1\n",
        "ApprovalRejectedError",
        "refused: not now",
      ],
      hidden: ["NameError", "it is 2"],
    },
    {
      name: "commands begin with a colon",
      script: [
        ["In [1]: ", "a = 1\r"],
        ["In [2]: ", ":servers\r"],
        ["In [2]: ", ":tools no such\r"],
        ["No tools found", ":tools --x\r"],
        ["Unknown option --x", ":nothing\r"],
        ["see :help", ":help\r"],
        ["In [2]: ", ":reset\r"],
        ["In [1]: ", "a\r"],
        ["In [2]: ", ":quit\r"],
      ],
      shown: ["raw", "No command :nothing", ":tools [QUERY]", "NameError"],
    },
  ],
};

for (const [what, cases] of Object.entries(sessions)) {
  Deno.test(`ipybox repl: ${what}`, async (t) => {
    await using home = await Home.withServer();
    const script: Typing[] = [];
    const expected: { begin: number; shown: string[]; hidden: string[] }[] = []; // begin: its row
    let counted = 0; // cells of the kernel before this case
    for (const [i, { script: own, shown, hidden = [] }] of cases.entries()) {
      const texts = (some: readonly string[]) => some.map((text) => renumbered(text, counted));
      expected.push({ begin: script.length, shown: texts(shown), hidden: texts(hidden) });
      for (const [text, typed, ...mark] of i === cases.length - 1 ? own : own.slice(0, -1)) {
        script.push([renumbered(text, counted), typed, ...mark]);
        if (text.includes("kernel was restarted") || typed === ":reset\r") counted = 0;
      }
      const [, last = "1"] = /In \[(\d+)\]/.exec(own.at(-1)?.[0] ?? "") ?? [];
      counted += Number(last) - 1;
    }

    const end = await home.repl(script);

    const parts = [...end.parts, end.output.slice(end.parts.join("").length)];
    for (const [i, { name }] of cases.entries()) {
      await t.step(name, () => {
        const [{ begin = 0, shown = [], hidden = [] } = {}, next] = expected.slice(i);
        const output = parts.slice(begin + 1, (next?.begin ?? parts.length) + 1).join("");
        for (const text of shown) assertStringIncludes(output, text, end.output);
        for (const text of hidden) assert(!output.includes(text), end.output);
      });
    }
    assertEquals(end.code, 0, end.output);
    assertEquals(end.parts.length, script.length, end.output);
    await untilNoneWith(home.workspace);
  });
}

/** A text in which the kernel had counted some cells before. */
function renumbered(text: string, counted: number): string {
  return text.replace(
    /\b(In |Out)\[(\d+)\]/g,
    (_, what, number) => `${what}[${Number(number) + counted}]`,
  );
}

Deno.test("ipybox repl fits a narrow terminal: what it says, and lines of wide characters", async () => {
  await using home = await Home.withServer();

  const { output } = await home.repl([
    ["In [1]: ", "s = '日本x😀'\x1b[D\x1b[D\x7f\x01\x0b\x19; len(s)\r"],
    ["In [2]: ", "\x1b[A\x1b[A\x1b[B\x1b[B s, 'of', len(s)\r"],
    ["In [3]: ", "\x12len(s"],
    ["(search: len(s): ", "\r"],
    ["In [4]: ", ":help\r"],
    ["In [4]: ", LEAVE],
  ], 40);

  // Where the line breaks depends on the folder's name, whose length varies.
  assertMatch(output, /^ipybox in \S+ ·\s+sandbox\s+off · 1 server · :help\r?\n/);
  for (const row of output.split(/\r?\n/, 2)) assert(row.length <= 40, row);
  assertStringIncludes(output, "]: 3\n");
  assertStringIncludes(output, "]: ('日本😀', 'of', 3)\n");
  const help = output.slice(output.indexOf(":help", output.indexOf("In [4]: ")));
  const rows = help.split(/\r?\n/).filter((row) => row.startsWith("  "));
  assert(rows.length > 20, output);
  assertEquals(rows.filter((row) => row.length > 40), []);
});

Deno.test("ipybox repl keeps no history where executed code could read and write it, and says why there is no kernel", async () => {
  await using home = await Home.create();
  await home.register();

  const script: readonly Typing[] = [
    ["Let code call raw? [y/N] ", "n\n"],
    ["In [1]: ", ":servers\r"],
    ["In [1]: ", "1\r"],
  ];
  const { output, code } = await home.repl(script, 80, {
    XDG_STATE_HOME: join(home.workspace, "state"),
    IPYBOX_PYTHON: "/no/such/python",
  });

  assertEquals(code, 3, output);
  for (const text of ["Input will not be saved", "/no/such/python"]) {
    assertStringIncludes(output, text);
  }
  const folder = Deno.readDir(join(home.workspace, "state", "ipybox"));
  assertEquals(await Array.fromAsync(folder, ({ name }) => name), ["trust"]); // what was refused
});

Deno.test("ipybox repl takes the terminal again after Ctrl-Z and fg, ends with it, and keeps what was typed", async () => {
  await using home = await Home.create();

  const script: readonly Typing[] = [
    ["In [1]: ", "4 "],
    ["4 ", "\x1a"],
    ["Stopped", "!fg\n"],
    ["In [1]: 4 ", "+ 2\r"],
    ["In [2]: ", "\x1b[A * 7\r"], // with lines, and not keys, the arrow would be part of the code
    ["In [3]: ", "print('be' 'gun', flush=True); import time; time.sleep(1000)\r"],
    ["begun", null], // which ends the shell, too
  ];
  const first = await home.repl(script, 80, {}, true);

  assertStringIncludes(first.output, "]: 6\n");
  assertStringIncludes(first.output, "]: 18\n");
  await untilNoneWith(home.workspace);

  const { output } = await home.repl(
    [
      ["In [1]: ", "\x1b[A\x1b[A\r"],
      ["In [2]: ", "30 + \x18\x05"],
      ["Not changed: ", "3\r"],
      ["In [3]: ", LEAVE],
    ],
    80,
    { EDITOR: "no-such-editor --wait" },
  );

  assertStringIncludes(output, "In [1]: 4 + 2 * 7");
  for (const result of ["]: 18\n", "]: 33\n"]) assertStringIncludes(output, result);
  assertMatch(output, /Not changed: .*no-such-editor/);
  const { mode } = await Deno.stat(join(home.state, "ipybox", "history"));
  assertEquals((mode ?? 0) & 0o777, 0o600);
});

Deno.test("ipybox repl colors code that is typed, and tracebacks, which are never bold", async () => {
  await using home = await Home.withServer();
  const script: readonly Typing[] = [
    ["In [1]: ", "s = '日本\x1b[D\x1b[D\x1b[C本\x05'; l"],
    ["l", "en(s)\r"],
    ["Out[1]:", ""],
    ["In [2]: ", "Allow = type('Allow', (Exception,), {})\r"],
    ["In [3]: ", "raise Allow('?')\r"],
    ["In [4]: ", LEAVE],
  ];

  const { output } = await home.repl(script, 80, { NO_COLOR: "" });

  const prompt = "\x1b[1;32mIn [1]: \x1b[0m";
  const string = "\x1b[32m'日本本'\x1b[0m";
  assertStringIncludes(output, `${prompt}s = ${string}; len(s)`);
  assertMatch(output, /^ipybox in \S+ · sandbox off · 1 server · :help\r?\n/); // without colors
  assertMatch(output, /Out\[1\]:\S+ 3\n/);
  const rows = ["36mCell In[3], line 1", "32m----> 1 raise Allow('?')", "31mAllow: ?"];
  for (const row of rows) assertStringIncludes(output, `\x1b[${row}\x1b[0m`);
});

Deno.test("ipybox repl lends the terminal to an editor, and takes what it wrote", async () => {
  await using home = await Home.create();
  const editor = join(home.state, "editor");
  await Deno.writeTextFile(
    editor,
    `#!/bin/sh
stat -c 'mode %a' "$1"
echo "name \${1##*/}"
case "$1" in "$PWD"/*) echo own folder;; esac
case $(cat "$1") in
"") ;;
*fails*) exit 3;;
*waits*) echo waiting; exec sleep 1000;;
*) trap : INT; echo 'press Ctrl-C'; until read line; do :; done; printf '%s\r\nx * 7\r\n' "$(cat "$1") - $line" > "$1";;
esac
`,
    { mode: 0o700 },
  );
  const edits = "\x18\x05";
  const script: readonly Typing[] = [
    // Ctrl-C reaches what starts in the background, too, such as the check of the Python.
    ["In [1]: ", "'ready'\r"],
    ["Out[1]: 'ready'", ""],
    ["In [2]: ", `x = 6${edits}`],
    ["press Ctrl-C", "\x03"],
    ["^C", "2\n"], // a moment later, once ipybox has received the signal, too
    ["...: x * 7", "\r"],
    ["Out[2]: 28", ""],
    ["In [3]: ", `'fails'${edits}`],
    ["Not changed: the editor exited with code 3", " * 2\r"],
    ["Out[3]: 'failsfails'", ""],
    ["In [4]: ", `'waits'${edits}`],
    ["waiting", "\x03"],
    ["Not changed: the editor exited with code 130", " + '!'\r"],
    ["Out[4]: 'waits!'", ""],
    ["In [5]: ", `'no'\x18 + ' editor'\x05\r`],
    ["Out[5]: 'no editor'", ""],
    ["In [6]: ", `${edits}40 + 2\r`],
    ["Out[6]: 42", ""],
    ["In [7]: ", LEAVE],
  ];

  const { output, code } = await home.repl(script, 80, { VISUAL: editor, EDITOR: "/no/such" });

  assertEquals(code, 0, output);
  assertStringIncludes(output, "mode 600\nname cell.py\nown folder\npress Ctrl-C\n");
  assertStringIncludes(output, "x = 6 - 2");
  assert(!output.includes("\x1b[?2004hmode"), output);
});

Deno.test("ipybox repl --session goes on where it was left", async () => {
  await using home = await Home.create();
  const args = ["repl", "--session", "ana", "--no-sandbox", "--workspace", home.workspace];
  const options = { cwd: home.workspace, env: { XDG_STATE_HOME: home.state } };
  const at = (script: readonly Typing[]) => ipyboxAtTerminal(args, script, options);
  const first = await at([["In [1]: ", "a = 40; print('be' + 'fore')\r"], ["In [2]: ", LEAVE]]);
  assertEquals(first.code, 0, first.output);
  assertStringIncludes(first.output, "Session ana continues");

  const second = await at([
    ["In [2]: ", "print('a', 'is', a + 2)\r"],
    ["In [3]: ", ":servers\r"],
    ["In [3]: ", LEAVE],
  ]);
  assertEquals(second.code, 0, second.output);
  assertStringIncludes(second.output, "\na is 42\n");
  assert(!second.output.includes("before"), second.output);

  const misnamed = await inThisProcess(["repl", "--session", "a b"], { answers: [] });
  assertEquals(misnamed.code, 2, misnamed.stderr);
  assertStringIncludes(misnamed.stderr, 'Option --session: "a b" is not a session name');

  const taken = at([["In [3]: ", "open('begun', 'w').close()\r"]]);
  await until(() => Deno.stat(`${home.workspace}/begun`).then(() => true, () => false));
  await using commands = new CommandProcess(options);
  const sessions = async () => JSON.parse((await commands.run(["sessions", "--json"])).stdout);
  const attached = await commands.run(["attach", (await sessions())[0].id]);
  assertEquals(attached.code, 0, attached.stderr);
  const { code, output } = await taken;
  assertEquals(code, 1, output);
  assertMatch(output, /Another program, process \d+, has attached to session/);
  assert(!output.includes("restarted"), output);

  const [session, ...others] = await sessions();
  assertEquals([session.name, session.state, others], ["ana", "detached", []]);
  const ended = await commands.run(["sessions", "end", session.id]);
  assertEquals([ended.code, ended.stderr], [0, ""]);
});

Deno.test("ipybox repl without a terminal says what else there is", async () => {
  const { code, stdout, stderr } = await inThisProcess(["repl"]);

  assertEquals({ code, stdout }, { code: 2, stdout: "" });
  assertStringIncludes(stderr, "ipybox run -");
});

/** A workspace, and a state folder of its own, with the history. */
class Home implements AsyncDisposable {
  private constructor(readonly workspace: string, readonly state: string) {}

  static async create(): Promise<Home> {
    const workspace = await TempFolder.create();
    const state = await TempFolder.create();
    return new Home(workspace.path, state.path);
  }

  /** In this one, the server `raw` is registered. */
  static async withServer(): Promise<Home> {
    const home = await Home.create();
    await home.register();
    const env = { XDG_STATE_HOME: home.state };
    await ipybox(["trust", "--yes"], { cwd: home.workspace, env });
    return home;
  }

  /** Registers the server, but accepts it only where the tests have their state. */
  async register(): Promise<void> {
    const registry = await ServerRegistry.open({ workspace: this.workspace });
    await registry.register("raw", rawServer());
  }

  async repl(
    script: readonly Typing[],
    columns = 80,
    env: Readonly<Record<string, string>> = {},
    shell = false,
  ): Promise<TerminalEnd> {
    const args = ["repl", "--no-sandbox", "--workspace", this.workspace];
    return await ipyboxAtTerminal(args, script, {
      columns,
      cwd: this.workspace,
      env: { XDG_STATE_HOME: this.state, ...env },
      shell,
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const path of [this.workspace, this.state]) await Deno.remove(path, { recursive: true });
  }
}
