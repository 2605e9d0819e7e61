/** Cells are checked before they run: what is certain to fail stops them, and nothing else does. */
import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import type { CheckReport } from "../../src/check/report.ts";
import { CodeExecutionError, EnvironmentNotReadyError } from "../../src/base/errors.ts";
import type { CodeExecutor } from "../../src/executor/code_executor.ts";
import type { ServerParams } from "../../src/mcp/params.ts";
import { TestExecutor } from "../support/executor.ts";
import { McpHost } from "../support/mcp_client.ts";
import { stepsOf } from "../support/steps.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { rejection, until } from "../support/wait.ts";

const CREATE = {
  name: "create_issue",
  inputSchema: {
    type: "object",
    properties: {
      title: { type: "string" },
      labels: { type: "array", items: { type: "string" } },
      state: { enum: ["open", "closed"] },
      count: { type: "integer" },
      author: { type: "object", properties: { name: { type: "string" } } },
      edits: {
        type: "array",
        items: {
          type: "object",
          properties: {
            oldText: { type: "string" },
            newText: { type: "string" },
            meta: {
              type: "object",
              properties: { "page-size": { type: "integer" } },
              additionalProperties: false,
            },
          },
          required: ["oldText"],
        },
      },
    },
    required: ["title"],
  },
};

const LIST = {
  name: "list-issues",
  inputSchema: { type: "object", properties: { owner: { type: "string" } }, required: ["owner"] },
  outputSchema: {
    type: "object",
    properties: {
      issues: {
        type: "array",
        items: {
          type: "object",
          properties: { number: { type: "integer" } },
          required: ["number"],
        },
      },
    },
    required: ["issues"],
  },
};

function tracker(...tools: readonly object[]): ServerParams {
  const definitions = tools.map((tool) => JSON.stringify(tool)).join();
  const file = new URL("../fixtures/mcp/echo_server.ts", import.meta.url).pathname;
  return {
    command: Deno.execPath(),
    args: ["run", "--no-config", "--no-lock", file, definitions],
  };
}

interface Ran {
  /** How often an approver was asked. */
  readonly calls: readonly string[];
  readonly notes: readonly string[];
  readonly text: string | null;
  readonly error: CodeExecutionError | undefined;
}

async function run(executor: CodeExecutor, code: string): Promise<Ran> {
  const calls: string[] = [];
  const notes: string[] = [];
  try {
    for await (const event of executor.stream(code, { timeoutMs: 60_000 })) {
      if (event.type === "note") notes.push(event.text);
      if (event.type === "approval") {
        calls.push(`${event.request}`);
        await event.request.accept();
      }
      if (event.type === "result") {
        return { calls, notes, text: event.result.text, error: undefined };
      }
    }
    throw new Error("There was no result");
  } catch (error) {
    if (!(error instanceof CodeExecutionError)) throw error;
    return { calls, notes, text: error.text, error };
  }
}

/** Expects a check of code to find this; unlike a cell's, it has time on any machine. */
async function wrong(executor: CodeExecutor, code: string, ...messages: readonly string[]) {
  const { problems, isComplete } = await executor.check(code);
  assertEquals(problems.map(({ ename, evalue }) => `${ename}: ${evalue}`), messages, code);
  assert(isComplete);
}

/** Expects that nothing is certain to be wrong with code. */
async function passes(
  executor: CodeExecutor,
  code: string,
): Promise<Ran & { readonly report: CheckReport }> {
  const report = await executor.check(code);
  assertEquals([report.problems, report.isComplete], [[], true], code);
  return { ...await run(executor, code), report };
}

Deno.test("names that nothing has set stop a cell, and no others do", async (t) => {
  await using test = await TestExecutor.start({ sandbox: false });
  const { executor, workspace } = test;
  const step = stepsOf(t);

  await step("an undefined name, with its place and the nearest name", async () => {
    await executor.execute("issue_count = 3");
    const { error } = await run(
      executor,
      'print("ran")\nwith open("f", "w"):\n    x = 1 + issue_cuont',
    );
    assertEquals(
      error?.traceback,
      [
        "Traceback (most recent call last):",
        "  Cell, line 3",
        "    x = 1 + issue_cuont",
        "            ^^^^^^^^^^^",
        "NameError: name 'issue_cuont' is not defined. Did you mean: 'issue_count'?",
        "[ipybox] Found before the code ran: nothing was executed, and no tool was called",
      ].join("\n"),
    );
    assertEquals([error?.ename, error?.text], ["NameError", null]);
  });

  await step("an undefined name that is like no other, before anything could set it", async () => {
    await wrong(executor, "x = [1, nowhere]\nprint(x)", "NameError: name 'nowhere' is not defined");
    await wrong(executor, "print(1, nowhere)", "NameError: name 'nowhere' is not defined");
    await wrong(
      executor,
      "for one in nowhere:\n    pass",
      "NameError: name 'nowhere' is not defined",
    );
    await wrong(
      executor,
      "if issue_count > 5:\n    nowhere\nissue_count and 3, nowhere",
      "NameError: name 'nowhere' is not defined",
    );
  });

  await step("a misspelt name in a branch is a note", async () => {
    const report = await executor.check("if issue_count > 5:\n    print(issue_cuont)");
    assertEquals([report.problems, report.notes.map(({ evalue }) => evalue)], [[], [
      "name 'issue_cuont' is not defined. Did you mean: 'issue_count'?",
    ]]);
  });

  await step("code that is not Python", async () => {
    await wrong(executor, "def f(:\n    pass", "SyntaxError: invalid syntax");
    await wrong(executor, "x = 1\n  y = 2", "IndentationError: unexpected indent");
  });

  await step("a name that a function of an earlier cell sets", async () => {
    await executor.execute("def set_it():\n    global later\n    later = 1");
    assertEquals((await passes(executor, "set_it()\nprint(later)")).text, "1");
  });

  await step("a name that a failed cell has set before it failed", async () => {
    assertEquals(
      (await run(executor, "early = 5\nraise ValueError('no')")).error?.ename,
      "ValueError",
    );
    assertEquals((await passes(executor, "print(early)")).text, "5");
  });

  await Deno.writeTextFile(`${workspace}/helper.py`, "shared = 7\n");
  await Deno.writeTextFile(`${workspace}/script.py`, "from_script = 8\n");
  const right = {
    "exec('by_exec = 1')\nprint(by_exec)": "1",
    "globals()['by_globals'] = 2\nprint(by_globals)": "2",
    "from helper import *\nprint(shared)": "7",
    "%run script.py\nprint(from_script)": "8",
    "%time timed = 3\nprint(timed)": null,
    "lines = !echo one\nprint(lines[0])": "one",
    "try:\n    nothing\nexcept NameError:\n    print('caught')": "caught",
    "from contextlib import suppress\nwith suppress(NameError):\n    nothing\nprint('on')": "on",
    "if 'nothing' in dir():\n    print(nothing)\nprint('none')": "none",
    "print([y for y in range(2)], (lambda z: z)(1), (n := 2), n)": "[0, 1] 1 2 2",
    "def f(a, *b, c=1, **d):\n    return unknown_inside\nprint(f.__name__)": "f",
    "class A:\n    k = 1\n    m = k + 1\nprint(A.m, __name__)": "2 __main__",
    "match [1, 2]:\n    case [a, *rest]:\n        print(a, rest)": "1 [2]",
    "import os.path as p, sys\nprint(p.sep, sys is sys)": "/ True",
    "import asyncio\nprint(await asyncio.sleep(0, 'slept'))": "slept",
    "get_ipython() is not None and display is not None and exit is not None": "True",
    "%%capture captured\nprint('x')": null,
    "print(captured.stdout.strip())": "x",
    "# nowhere  # type: ignore\nprint('comment')": "comment",
    "import sys\nif sys.platform == 'win32':\n    print(nowhere)\nprint('on')": "on",
    "text = raw_input() if issue_count < 3 else 'py3'\nprint(text)": "py3",
    "issue_count > 5 and nowhere()\nassert issue_count, nowhere\nprint(1 > 2 > nowhere)": "False",
    "for one in []:\n    nowhere\nwhile False:\n    nowhere\nprint([nowhere for a in []])": "[]",
    "match 1:\n    case 2:\n        nowhere\nprint('on')": "on",
    "try:\n    import json\nexcept ImportError:\n    nowhere\nelse:\n    print('else')": "else",
    "import builtins; builtins.answer = 42\nprint(answer)": "42",
    "setattr(__builtins__, 'bb', 1); print(bb)": "1",
    "import __main__\nsetattr(__main__, 'issue_coun', 3)\nprint(issue_coun)": "3",
    "import sys\nsys.modules[__name__].issue_cont = 4; print(issue_cont)": "4",
    "get_ipython().user_ns['df2'] = 5\nprint(df2)": "5",
    "for i in range(2):\n    if i: print(previous)\n    get_ipython().user_ns.update(previous=i)":
      "0",
    "names = get_ipython().user_ns": null,
    "for name in ['host']: names[name] = 6\nprint(host)": "6",
    "import sys\ndef load():\n    sys._getframe(1).f_globals['cfg'] = 7\nload()\nprint(cfg)": "7",
    "def var(names):\n    sys._getframe(1).f_globals.update(dict.fromkeys(names.split(), 8))": null,
    "var('issue_count_ alpha_1')\nprint(issue_count_, alpha_1)": "8 8",
    "var(f'alpha_{1 + 1}')\nprint(alpha_2)": "8",
  };
  for (const [code, text] of Object.entries(right)) {
    await step(`right: ${JSON.stringify(code.slice(0, 40))}`, async () => {
      const ran = await passes(executor, code);
      assertEquals(ran.error, undefined);
      if (text !== null) assertEquals(ran.text, text);
    });
  }

  await step("reset() forgets names", async () => {
    await executor.reset();
    await wrong(executor, "issue_count", "NameError: name 'issue_count' is not defined");
  });

  await step("cells that are too large or too many are run, checked or not", async () => {
    const wide = Object.fromEntries(
      Array.from({ length: 1000 }, (_, n) => [`p${n}`, n === 3 ? { type: "string" } : {}]),
    );
    const tool = { name: "wide", inputSchema: { type: "object", properties: wide } };
    await executor.registerServer("wide", tracker(tool));

    const large = `x = 1\n${"y = [1, 2, 3]  # and so on\n".repeat(2000)}print("end")`;
    assertEquals((await run(executor, large)).text, "end");
    await run(executor, "from mcptools.wide import wide");
    for (let n = 0; n < 110; n++) await run(executor, `v${n} = ${n}\nw = v${n}`);
    assertEquals((await passes(executor, "print(v0, v109)")).text, "0 109");
    await passes(executor, "wide(p3='a')");
  });
});

Deno.test("calls and results of generated functions stop a cell where they do not fit", async (t) => {
  await using test = await TestExecutor.start({ sandbox: false });
  const { executor, workspace } = test;
  const step = stepsOf(t);
  await executor.registerServer("tracker", tracker(CREATE, LIST));
  await passes(executor, "from mcptools import tracker\nfrom mcptools.tracker import create_issue");

  const misfits: Readonly<Record<string, readonly string[]>> = {
    "import mcptools.trakcer": [
      "ModuleNotFoundError: No module named 'mcptools.trakcer'. Did you mean: 'mcptools.tracker'? " +
      "Registered servers: tracker",
    ],
    "from mcptools import github": [
      "ImportError: cannot import name 'github' from 'mcptools'. Registered servers: tracker",
    ],
    "from mcptools.tracker import create_isue": [
      "ImportError: cannot import name 'create_isue' from 'mcptools.tracker'. " +
      "Did you mean: 'create_issue'?",
    ],
    "tracker.list_isues(owner='a')": [
      "AttributeError: module 'mcptools.tracker' has no attribute 'list_isues'. " +
      "Did you mean: 'list_issues'?",
    ],
    "tracker.create_issue(titel='a')": [
      "TypeError: tracker.create_issue.run() is missing a required argument: 'title'",
      "TypeError: tracker.create_issue.run() got an unexpected argument 'titel'. " +
      "Did you mean: 'title'?",
    ],
    "await create_issue.run_async(title='a', lables=[])": [
      "TypeError: tracker.create_issue.run_async() got an unexpected argument 'lables'. " +
      "Did you mean: 'labels'?",
    ],
    "create_issue.run()": [
      "TypeError: tracker.create_issue.run() is missing a required argument: 'title'",
    ],
    "create_issue(title=3)": [
      "TypeError: tracker.create_issue.run(): argument 'title' takes str, not 3",
    ],
    "create_issue(title='a', state='opne')": [
      'TypeError: tracker.create_issue.run(): argument \'state\' takes "open" | "closed", not "opne"',
    ],
    "create_issue(title='a', count='many', labels='bug')": [
      "TypeError: tracker.create_issue.run(): argument 'count' takes int, not \"many\"",
      "TypeError: tracker.create_issue.run(): argument 'labels' takes list[str], not \"bug\"",
    ],
    "create_issue(title='a', author='me')": [
      "TypeError: tracker.create_issue.run(): argument 'author' takes Author | dict[str, Any], " +
      'not "me"',
    ],
    "create_issue.run(title='a')  # type: ignore\ncreate_issue.run(name=1)  # ty: ignore": [
      "TypeError: tracker.create_issue.run() is missing a required argument: 'title'",
      "TypeError: tracker.create_issue.run() got an unexpected argument 'name'. " +
      "Its arguments: title, labels, state, count, author, edits",
    ],
    "create_issue.run('a')": [
      "TypeError: tracker.create_issue.run() takes its arguments (title, labels, state, count, " +
      'author, edits) as keywords, or all of them as Params, not "a"',
    ],
    "create_issue(create_issue.Params(title='a'), 'a')": [
      "TypeError: tracker.create_issue.run() takes its arguments (title, labels, state, count, " +
      "author, edits) as keywords, or all of them as Params",
    ],
    "create_issue.run({'titel': 'a'})": [
      "TypeError: tracker.create_issue.Params is missing a required field: 'title'",
      "TypeError: tracker.create_issue.Params has no field 'titel'. Did you mean: 'title'?",
    ],
    "create_issue(title='a', edits=[{'newText': 'b', 'old': 'a'}])": [
      "TypeError: tracker.create_issue.Edit is missing a required field: 'oldText'",
      "TypeError: tracker.create_issue.Edit has no field 'old'. Did you mean: 'oldText'?",
    ],
    "create_issue(title='a', edits=[{'oldText': 'a', 'newTxt': one} for one in 'ab'])": [
      "TypeError: tracker.create_issue.Edit has no field 'newTxt'. Did you mean: 'newText'?",
    ],
    "create_issue(title='a', edits=[{'oldText': 'a', 'meta': {'size': 1}}])": [
      "TypeError: tracker.create_issue.Meta has no field 'size'. Did you mean: 'page-size'?",
    ],
    "create_issue(title='a', author={'nmae': 'me'})": [
      "TypeError: tracker.create_issue.Author has no field 'nmae'. Did you mean: 'name'?",
    ],
    "for found in tracker.list_issues(owner='a'):\n    print(found)": [
      "TypeError: 'Result' object is not iterable. Its fields: issues",
    ],
    "for found in tracker.list_issues(owner='a').issues:\n    print(found.nubmer)": [
      "AttributeError: 'Issue' object has no attribute 'nubmer'. Did you mean: 'number'?",
    ],
    "tracker.create_issue(title='a').number": [
      "AttributeError: 'ToolText' object has no attribute 'number': it is the text that the tool " +
      "sent. Parse it first, for example with json.loads()",
    ],
  };
  for (const [code, messages] of Object.entries(misfits)) {
    await step(`wrong: ${code.split("\n").at(-1)}`, () => wrong(executor, code, ...messages));
  }

  await step("such a cell does not begin, and calls nothing", async () => {
    const code = "print('ran')\ncreate_issue(title='a')\ncreate_issue(titel='b')";
    // On a busy machine the check may take longer than a cell waits for it.
    for (;;) {
      let isComplete = false;
      const events: string[] = [];
      const error = await rejection((async () => {
        for await (const event of executor.stream(code)) {
          events.push(event.type);
          if (event.type === "check") ({ isComplete } = event.report);
          if (event.type === "approval") await event.request.reject("no");
        }
      })());
      if (!isComplete) continue;
      assert(error instanceof CodeExecutionError);
      assertEquals([events, error.text, error.ename], [["check"], null, "TypeError"]);
      return;
    }
  });

  const right = [
    "r = tracker.create_issue(title='a', labels=['b'], state='open', count=5.0)",
    "create_issue.run({'title': 'a'})",
    "create_issue.run(create_issue.Params(title='a'))",
    "create_issue(**{'title': 'a', 'count': 3})",
    "create_issue.run(title=str(3), author={'name': 'me'}, labels=None)",
    "print(r.strip()[:1], r.content, create_issue.__doc__ is None, tracker.CLIENT is None)",
    "from mcptools.tracker.create_issue import run, run_async, Params\nrun(title='a')",
    "def g(x: str | None):\n    return create_issue(title=x)\ng('a')",
    "try:\n    create_issue(title=3)\nexcept Exception as error:\n    print(type(error).__name__)",
    "getattr(tracker, 'create_issue').run(title='a')",
    "create_issue(title='a', author={'name': 'me', 'team': 'us'})",
    "edits = [{'oldText': 'a', 'meta': {'page-size': 1}}, {'oldText': 'b', 'meta': {'page_size': 2}}]",
    "create_issue(title='a', edits=edits)",
    "create_issue(title='a', edits=[*edits, {**edits[0]}, {'old' + 'Text': 'c'}, dict(edits[0])])",
    "create_issue(title='a', edits=[create_issue.Edit(oldText='a', meta={'page_size': 3})])",
    "import json\ncreate_issue({'title': 'a', 'edits': json.loads('[]'), **{'count': 3}})",
    "given = create_issue.Params(title='a')\nprint([name for name, _ in given])",
    "hasattr(tracker, 'nothing') and tracker.nothing.run()",
  ];
  for (const code of right) {
    await step(`right: ${code.split("\n").at(-1)}`, async () => {
      assertEquals((await passes(executor, code)).error, undefined);
    });
  }

  await step("what may be wrong is a note, and the code runs", async () => {
    const { report, calls } = await passes(
      executor,
      "import random\nx = 'a' if random.random() < 2 else None\ncreate_issue(title=x)",
    );
    assertEquals(calls.length, 1);
    assertEquals(report.notes.map(({ evalue }) => evalue), [
      "tracker.create_issue.run(): argument 'title' takes str, not \"a\" | None",
    ]);
  });

  await step("an approver sees the tools that the whole code names", async () => {
    let names: readonly string[] | undefined;
    const code = "create_issue(title='a')\nif False:\n    tracker.list_issues(owner='a')";
    // On a busy machine the check may take longer than a cell waits for it.
    await until("the cell is checked in time", async () => {
      for await (const event of executor.stream(code)) {
        if (event.type !== "approval") continue;
        names = event.request.source?.names;
        await event.request.accept();
      }
      return names !== undefined;
    });
    assertEquals(names, ["tracker.create_issue", "tracker.list_issues"]);
  });

  await step("a tool's module by its own name", async () => {
    await passes(executor, "import mcptools.tracker.create_issue as module\nmodule.run(title='a')");
    await wrong(
      executor,
      "module.run(title=3)",
      "TypeError: tracker.create_issue.run(): argument 'title' takes str, not 3",
    );
  });

  await step("a server that is registered anew is known as it is now", async () => {
    await executor.registerServer("tracker", tracker(LIST));
    await executor.registerServer("other", tracker(CREATE));
    await passes(executor, "from mcptools.other import create_issue\ncreate_issue(title='a')");
    await wrong(
      executor,
      "from mcptools.tracker import create_issue",
      "ImportError: cannot import name 'create_issue' from 'mcptools.tracker'. " +
        "Did you mean: 'list_issues'?",
    );
  });

  await step("functions that the person added to a module", async () => {
    const file = `${workspace}/mcptools/other/create_issue.py`;
    await Deno.writeTextFile(file, "\n\ndef run_parsed(x):\n    return x\n", { append: true });
    await executor.reset();
    const { text } = await passes(
      executor,
      "from mcptools.other import create_issue as c\nc.run_parsed(1)",
    );
    assertEquals(text, "1");
  });
});

Deno.test("check() tells what is wrong and runs nothing; warn and off let code run", async () => {
  await using test = await TestExecutor.start({ check: "warn", sandbox: false });
  const { executor } = test;

  const report = await executor.check("x = 1\nprint(nmae)");
  assertEquals(report.problems.map(({ line, column, ename }) => [line, column, ename]), [
    [1, 6, "NameError"],
  ]);
  assert(report.isComplete);
  assertEquals((await executor.check("x")).problems.map(({ evalue }) => evalue), [
    "name 'x' is not defined",
  ]);
  const { error, notes } = await run(executor, "x = 1\nprint(nmae)");
  assertEquals([error?.ename, notes.length], ["NameError", 1]);
  assertMatch(
    notes[0] ?? "",
    /The code check found:[^]*line 2[^]*name 'nmae' is not defined/,
  );

  await using off = await TestExecutor.start({ check: "off", sandbox: false });
  assertEquals((await run(off.executor, "print('ran')\nnmae")).text, "ran");
  await assertRejects(() => off.executor.check("1"), EnvironmentNotReadyError);
});

Deno.test("a model hears what is wrong, and mends its code without a call in between", async () => {
  await using workspace = await TempFolder.create();
  await using host = await McpHost.start({
    args: ["--workspace", workspace.path, "--approve", "allow", "--no-sandbox"],
  });
  const cell = (code: string) => host.call("execute_ipython_cell", { code });
  const server_params = tracker(CREATE);
  await host.call("register_mcp_server", { server_name: "tracker", server_params });
  await cell("from mcptools.tracker import create_issue\nmade = []");

  const code = "made.append(create_issue(title='a'))\nmade.append(create_issue(titel='b'))";
  // On a busy machine the check may take longer than a cell waits for it.
  let { text, isError } = await cell(code);
  while (!text.includes("[ipybox] Found before")) {
    ({ text, isError } = await cell(`made = []\n${code}`));
  }
  assertMatch(
    text,
    /line \d[^]*\^{5}\nTypeError: .*\nTypeError: .*'titel'. Did you mean: 'title'\?\n/,
  );
  assertEquals(isError ?? false, false);

  const mended = await cell("made = []\n" + code.replace("titel", "title") + "\nprint(len(made))");
  assertEquals(mended.text, "2");
});
