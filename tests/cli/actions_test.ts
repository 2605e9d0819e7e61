import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { resultIn, runCode } from "../../src/commands/actions/actions.ts";
import { runAction } from "../../src/commands/actions/code_action.ts";
import { printableTraceback } from "../../src/commands/terminal/columns.ts";
import { askAtTerminal } from "../../src/commands/terminal/answerer.ts";
import { ipybox } from "../support/cli.ts";
import { capturedIo, commandsIn } from "../support/command_io.ts";
import { TestExecutor } from "../support/executor.ts";
import { codeBlocks, writePythonBlocks } from "../support/markdown.ts";
import { npmServer } from "../support/mcp.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { makeWheels } from "../support/wheels.ts";

const skill = new URL("../../plugin/skills/codeact/", import.meta.url);
const everything = npmServer("server-everything", "stdio");

async function skillText(path: string): Promise<string> {
  return await Deno.readTextFile(new URL(path, skill));
}

/** A workspace with server-everything and what the skill's documents say. */
async function workspaceOfTheSkill(): Promise<TempFolder> {
  const workspace = await TempFolder.create();
  const env = Object.entries(everything.env ?? {}).flatMap(([name, value]) => [
    "--env",
    `${name}=${value}`,
  ]);
  const server = [everything.command, ...everything.args ?? []];
  const register = ["register", "everything", ...env, "--", ...server];
  const { code, stderr } = await commandsIn(workspace.path)(register);
  assertEquals(code, 0, stderr);
  return workspace;
}

Deno.test("the codeact skill's examples are checked, run and give what they say", async () => {
  await using workspace = await workspaceOfTheSkill();
  const cwd = workspace.path;
  const command = commandsIn(cwd);
  const saved = await writePythonBlocks(cwd, await skillText("references/saving-code-actions.md"));
  const parsers = await writePythonBlocks(cwd, await skillText("references/output-parsers.md"));
  assertEquals([saved.length, parsers.length], [3, 1]);

  const listed = await command(["actions"]);
  assertEquals(
    listed.stdout,
    "weather.warmest_city  The warmest of some cities, by the weather of today.\n",
  );
  const checked = await command(["actions", "check"]);
  assertEquals(checked.stdout, "ok      weather.warmest_city\n", checked.stderr);

  const help = await command(["actions", "run", "weather.warmest_city", "--help"]);
  assertMatch(
    help.stdout,
    /The interface of weather\.warmest_city:[^]*\n {2}def run\([^)]*cities: /,
  );
  const unknown = await command(["actions", "run", "weather.nothing", "--help"]);
  assertEquals([unknown.code, unknown.stdout], [2, ""], unknown.stderr);

  const options = ["--approve", "allow", "--no-sandbox"];
  const cities = 'cities=["Chicago", "Los Angeles"]';
  const ran = await command(
    ["actions", "run", "weather.warmest_city", "--arg", cities, ...options],
  );
  assertEquals(ran.code, 0, ran.stderr);
  assertEquals(JSON.parse(ran.stdout).name, "Los Angeles");

  const parse =
    "from mcpparse.everything.get_sum import run_parsed; print(run_parsed(1, 2.5).total)";
  const [cell = ""] = codeBlocks(await skillText("SKILL.md"), "python");
  const { stdout } = await command(["run", "-c", `${parse}\n${cell}`, ...options]);
  assertMatch(stdout, /^3\.5\n[^]*Los Angeles/);
});

Deno.test("ipybox actions check finds what is wrong with an interface, and where types do not fit, also those of the workspace's packages", async () => {
  await using outside = await TempFolder.create();
  await using workspace = await TempFolder.create();
  const cwd = workspace.path;
  const command = commandsIn(cwd);
  await writePythonBlocks(cwd, BROKEN);
  // Settings that would hide all problems, if the checker saw them.
  await Deno.writeTextFile(`${cwd}/ty.toml`, '[src]\nexclude = ["**"]\n');
  const files = { "regions.py": "def load(path: str) -> dict[str, int]:\n    return {path: 1}\n" };
  await makeWheels(outside.path, [{ name: "regions", files }]);
  const env = { PIP_NO_INDEX: "1", PIP_FIND_LINKS: outside.path };
  const installed = await ipybox(["install", "regions"], { cwd, env });
  assertEquals(installed.code, 0, installed.stderr);
  for (const name of ["fits", "fresh", "misfit"]) {
    await command(["actions", "new", `sales.${name}`]);
  }
  for (const [name, value] of [["fits", "str(load(name))"], ["misfit", "load(name)"]]) {
    await Deno.writeTextFile(
      `${cwd}/gentools/sales/${name}/impl.py`,
      `from regions import load\n\n\ndef run(name: str) -> str:\n    return ${value}\n`,
    );
  }

  const { code, stdout, stderr } = await command(["actions", "check"]);

  assertEquals(code, 1, stderr);
  assertEquals(stdout, REPORT);
  const json = await command(["actions", "check", "sales.misfit", "--json", "--no-types"]);
  assertEquals(json.code, 0, json.stderr);
  assertEquals(JSON.parse(json.stdout), { "sales.misfit": [] });
});

const BROKEN = `
\`\`\`python
# gentools/bad/one/api.py
from .impl import run as implementation


def run(a, b: int) -> str:
    return implementation(a)
\`\`\`
\`\`\`python
# gentools/bad/one/impl.py
def run(a: int) -> int:
    return "x"
\`\`\`
\`\`\`python
# gentools/bad/two/api.py
raise OSError("no such luck")
\`\`\`
\`\`\`python
# gentools/bad/two/__init__.py
from .api import run
\`\`\`
\`\`\`python
# gentools/good/one/api.py
"""Doubles a number."""


def run(number: int) -> int:
    from .impl import run as implementation

    return implementation(number)
\`\`\`
\`\`\`python
# gentools/good/one/impl.py
def run(number: int) -> int:
    return 2 * number
\`\`\`
\`\`\`python
# gentools/good/one/__init__.py
from .api import run
\`\`\`
`;

const REPORT = `
failed  bad.one
          api.py imports impl.py: import it inside run()
          api.py has no docstring: lists show its first line
          __init__.py does not export run(): from .api import run
          parameter 'a' of run() has no type
          run() has the parameters ['a', 'b'] in api.py and ['a'] in impl.py
          gentools/bad/one/api.py:6: Return type does not match returned value: expected \`str\`, found \`int\`
          gentools/bad/one/impl.py:3: Return type does not match returned value: expected \`int\`, found \`Literal["x"]\`
failed  bad.two
          cannot be imported: OSError: no such luck
          gentools/bad/two/__init__.py:2: Module \`gentools.bad.two.api\` has no member \`run\`
ok      good.one
ok      sales.fits
ok      sales.fresh
failed  sales.misfit
          gentools/sales/misfit/impl.py:5: Return type does not match returned value: expected \`str\`, found \`dict[str, int]\`
`.trimStart();

Deno.test("ipybox actions new makes one that runs, and replaces nothing", async () => {
  await using workspace = await TempFolder.create();
  const cwd = workspace.path;
  const command = commandsIn(cwd);
  const made = await command(["actions", "new", "texts.greet"]);
  const files = ["api.py", "impl.py", "__init__.py"];
  assertEquals(made.stdout, files.map((file) => `gentools/texts/greet/${file}\n`).join(""));
  for (const folder of ["gentools", "gentools/texts"]) {
    assertEquals(await Deno.readTextFile(`${cwd}/${folder}/__init__.py`), "");
  }
  const ran = await command(["actions", "run", "texts.greet", "--no-sandbox", "--arg", "name=Ann"]);
  assertEquals([ran.code, ran.stdout], [0, "Hello, Ann!\n"], ran.stderr);

  const impl = `${cwd}/gentools/texts/greet/impl.py`;
  await Deno.writeTextFile(impl, "# mine\n");
  const again = await command(["actions", "new", "texts.greet"]);
  assertEquals(again.code, 2);
  assertStringIncludes(again.stderr, "gentools/texts/greet exists already");
  assertEquals(await Deno.readTextFile(impl), "# mine\n");
  for (const name of ["texts", "texts.class", "../texts.x", "texts.a.b"]) {
    const { code, stderr } = await command(["actions", "new", name]);
    assertEquals(code, 2, stderr);
    assertStringIncludes(stderr, `"${name}" cannot be the name of a saved action`);
  }
});

Deno.test("ipybox actions shows one, and says what it cannot find or use", async () => {
  await using workspace = await TempFolder.create();
  const cwd = workspace.path;
  const command = commandsIn(cwd);
  await writePythonBlocks(cwd, BROKEN);

  const api = await command(["actions", "show", "good.one"]);
  assertStringIncludes(api.stdout, '"""Doubles a number."""');
  const impl = await command(["actions", "show", "good.one", "--impl"]);
  assertStringIncludes(impl.stdout, "2 * number");
  const found = await command(["tools", "double", "numbers"]);
  assertEquals([found.code, found.stdout], [0, "  gentools.good.one  Doubles a number.\n"]);
  assertStringIncludes((await command(["tools"])).stdout, "  gentools.good.one ");
  assertEquals(JSON.parse((await command(["tools", "--json"])).stdout), []);

  for (
    const [args, message] of [
      [["run", "good.two"], 'No saved action "good.two": see `ipybox actions list`'],
      [["show", "../etc.x"], 'No saved action "../etc.x"'],
      [["run", "good.one", "--arg", "number"], 'Option --arg takes NAME=VALUE: received "number"'],
      [["run"], "Specify a saved action as CATEGORY.NAME"],
      [["save"], 'Unknown action "save": use list, new, show, check or run'],
    ] as const
  ) {
    const { code, stderr } = await command(["actions", ...args]);
    assertEquals(code, 2, stderr);
    assertStringIncludes(stderr, message);
  }
});

Deno.test("ipybox actions follows no link that executed code may have left", async () => {
  await using outside = await TempFolder.create();
  await writePythonBlocks(outside.path, BROKEN);
  await using workspace = await TempFolder.create();
  const cwd = workspace.path;
  const command = commandsIn(cwd);
  await Deno.mkdir(`${cwd}/gentools/good`, { recursive: true });
  await Deno.symlink(`${outside.path}/gentools/good/one`, `${cwd}/gentools/good/one`);

  assertEquals((await command(["actions"])).stdout, "");
  const { code, stderr } = await command(["actions", "show", "good.one"]);
  assert(code !== 0);
  assertStringIncludes(stderr, 'No saved action "good.one"');

  await Deno.symlink(outside.path, `${cwd}/gentools/linked`);
  const made = await command(["actions", "new", "linked.one"]);
  assertEquals(made.code, 2);
  assertStringIncludes(made.stderr, "gentools/linked: it is not a plain folder");
  const there = await Array.fromAsync(Deno.readDir(outside.path));
  assertEquals(there.map(({ name }) => name), ["gentools"]);
});

Deno.test("ipybox actions run reads arguments by their types, and shows errors from the action on", async () => {
  await using test = await TestExecutor.start({ sandbox: false });
  await writePythonBlocks(test.workspace, BROKEN + LINES);
  /** Runs an action as the command does, without a kernel of its own. */
  const run = async (name: string, args: Record<string, string>, { json = false } = {}) => {
    const { io, end } = capturedIo();
    const options = { io, json, exits: true, ...askAtTerminal(io), resultIn };
    const ran = runAction(test.executor, runCode(name, args), options);
    return end(
      await ran.catch((error) => {
        io.err(printableTraceback(error, io.color));
        return 1;
      }),
    );
  };

  const given = { path: "5", limit: "6", marks: '["1"]' };
  const typed = await run("texts.lines", given, { json: true });
  assertEquals(JSON.parse(typed.stdout).result, ["5", 6, ["1"]], typed.stderr);
  const word = await run("texts.lines", { path: "[x]", limit: "null" });
  assertEquals(JSON.parse(word.stdout), ["[x]", null, []], word.stderr);

  const takes = "It takes: number: int\n";
  assertEquals(await run("good.one", { number: "x" }), {
    code: 1,
    stdout: "",
    stderr:
      `good.one: argument "number": Input should be a valid integer, unable to parse string as an integer. ${takes}`,
  });
  assertEquals(await run("good.one", { nmber: "21" }), {
    code: 1,
    stdout: "",
    stderr:
      `good.one: unknown argument "nmber" (did you mean "number"?); argument "number" is missing. ${takes}`,
  });

  const raised = await run("texts.lines", { path: "missing.txt" });
  assertEquals([raised.code, raised.stdout], [1, ""]);
  const [first = ""] = raised.stderr.split("\n").filter((line) => /^(File|Cell) /.test(line));
  assertMatch(first, /^File .*gentools\/texts\/lines\/api\.py:7, in run\(/);
  assertMatch(raised.stderr, /impl\.py:4, in run\(/);
  assertMatch(raised.stderr, /FileNotFoundError: .*missing\.txt'\n$/);
  assertEquals(raised.stderr.includes("ipybox_runtime"), false, raised.stderr);
});

const LINES = `
\`\`\`python
# gentools/texts/lines/api.py
"""Repeats its arguments, or reads a file."""


def run(path: str, limit: int | None = 3, marks: list[str] = []) -> list:
    from .impl import run as implementation
    return implementation(path, limit, marks)
\`\`\`
\`\`\`python
# gentools/texts/lines/impl.py
def run(path: str, limit: int | None = 3, marks: list[str] = []) -> list:
    if path.endswith(".txt"):
        return open(path).readlines()
    return [path, limit, marks]
\`\`\`
\`\`\`python
# gentools/texts/lines/__init__.py
from .api import run
\`\`\`
`;
