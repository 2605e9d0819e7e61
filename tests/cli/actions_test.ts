import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { ipybox } from "../support/cli.ts";
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
  const command = [everything.command, ...everything.args ?? []];
  const { code, stderr } = await ipybox(["register", "everything", ...env, "--", ...command], {
    cwd: workspace.path,
  });
  assertEquals(code, 0, stderr);
  return workspace;
}

Deno.test("the codeact skill's examples are checked, run and give what they say", async () => {
  await using workspace = await workspaceOfTheSkill();
  const cwd = workspace.path;
  const saved = await writePythonBlocks(cwd, await skillText("references/saving-code-actions.md"));
  const parsers = await writePythonBlocks(cwd, await skillText("references/output-parsers.md"));
  assertEquals([saved.length, parsers.length], [3, 1]);

  const listed = await ipybox(["actions"], { cwd });
  assertEquals(
    listed.stdout,
    "weather.warmest_city  The warmest of some cities, by the weather of today.\n",
  );
  const checked = await ipybox(["actions", "check"], { cwd });
  assertEquals(checked.stdout, "ok      weather.warmest_city\n", checked.stderr);

  const help = await ipybox(["actions", "run", "weather.warmest_city", "--help"], { cwd });
  assertMatch(
    help.stdout,
    /The interface of weather\.warmest_city:[^]*\n {2}def run\([^)]*cities: /,
  );
  const unknown = await ipybox(["actions", "run", "weather.nothing", "--help"], { cwd });
  assertEquals([unknown.code, unknown.stdout], [2, ""], unknown.stderr);

  const options = ["--approve", "allow"];
  const cities = 'cities=["Chicago", "Los Angeles"]';
  const ran = await ipybox(
    ["actions", "run", "weather.warmest_city", "--arg", cities, ...options],
    { cwd },
  );
  assertEquals(ran.code, 0, ran.stderr);
  assertEquals(JSON.parse(ran.stdout).name, "Los Angeles");

  const parse =
    "from mcpparse.everything.get_sum import run_parsed; print(run_parsed(1, 2.5).total)";
  assertEquals((await ipybox(["run", "-c", parse, ...options], { cwd })).stdout, "3.5\n");
  const [cell = ""] = codeBlocks(await skillText("SKILL.md"), "python");
  const { stdout } = await ipybox(["run", "-c", cell, ...options], { cwd });
  assertStringIncludes(stdout, "Los Angeles");
});

Deno.test("ipybox actions check finds what is wrong with an interface, and where types do not fit", async () => {
  await using workspace = await TempFolder.create();
  const cwd = workspace.path;
  await writePythonBlocks(cwd, BROKEN);
  // Settings that would hide all problems, if the checker saw them.
  await Deno.writeTextFile(`${cwd}/ty.toml`, '[src]\nexclude = ["**"]\n');

  const { code, stdout } = await ipybox(["actions", "check"], { cwd });

  assertEquals(code, 1);
  assertEquals(stdout, BROKEN_REPORT);
  const json = await ipybox(["actions", "check", "good.one", "--json", "--no-types"], { cwd });
  assertEquals(json.code, 0, json.stderr);
  assertEquals(JSON.parse(json.stdout), { "good.one": [] });
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

const BROKEN_REPORT = `
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
`.trimStart();

Deno.test("ipybox actions new makes one that passes the check and runs, and replaces nothing", async () => {
  await using workspace = await TempFolder.create();
  const cwd = workspace.path;
  const made = await ipybox(["actions", "new", "texts.greet"], { cwd });
  const files = ["api.py", "impl.py", "__init__.py"];
  assertEquals(made.stdout, files.map((file) => `gentools/texts/greet/${file}\n`).join(""));
  for (const folder of ["gentools", "gentools/texts"]) {
    assertEquals(await Deno.readTextFile(`${cwd}/${folder}/__init__.py`), "");
  }
  const checked = await ipybox(["actions", "check"], { cwd });
  assertEquals([checked.code, checked.stdout], [0, "ok      texts.greet\n"], checked.stderr);
  const ran = await ipybox(["actions", "run", "texts.greet", "--arg", "name=Ann"], { cwd });
  assertEquals([ran.code, ran.stdout], [0, "Hello, Ann!\n"], ran.stderr);

  const impl = `${cwd}/gentools/texts/greet/impl.py`;
  await Deno.writeTextFile(impl, "# mine\n");
  const again = await ipybox(["actions", "new", "texts.greet"], { cwd });
  assertEquals(again.code, 2);
  assertStringIncludes(again.stderr, "gentools/texts/greet exists already");
  assertEquals(await Deno.readTextFile(impl), "# mine\n");
  for (const name of ["texts", "texts.class", "../texts.x", "texts.a.b"]) {
    const { code, stderr } = await ipybox(["actions", "new", name], { cwd });
    assertEquals(code, 2, stderr);
    assertStringIncludes(stderr, `"${name}" cannot be the name of a saved action`);
  }
});

Deno.test("ipybox actions check knows the workspace's packages, and their types", async () => {
  await using outside = await TempFolder.create();
  await using workspace = await TempFolder.create();
  const cwd = workspace.path;
  const files = { "regions.py": "def load(path: str) -> dict[str, int]:\n    return {path: 1}\n" };
  await makeWheels(outside.path, [{ name: "regions", files }]);
  const env = { PIP_NO_INDEX: "1", PIP_FIND_LINKS: outside.path };
  const installed = await ipybox(["install", "regions"], { cwd, env });
  assertEquals(installed.code, 0, installed.stderr);
  await ipybox(["actions", "new", "sales.of"], { cwd });
  const impl = (value: string) =>
    Deno.writeTextFile(
      `${cwd}/gentools/sales/of/impl.py`,
      `from regions import load\n\n\ndef run(name: str) -> str:\n    return ${value}\n`,
    );

  await impl("str(load(name))");
  const checked = await ipybox(["actions", "check"], { cwd });
  assertEquals([checked.code, checked.stdout], [0, "ok      sales.of\n"], checked.stderr);
  await impl("load(name)");
  const { code, stdout } = await ipybox(["actions", "check"], { cwd });
  assertEquals(code, 1);
  assertStringIncludes(stdout, "expected `str`, found `dict[str, int]`");
});

Deno.test("ipybox actions shows and runs one, and says what it cannot find or use", async () => {
  await using workspace = await TempFolder.create();
  const cwd = workspace.path;
  await writePythonBlocks(cwd, BROKEN);

  const api = await ipybox(["actions", "show", "good.one"], { cwd });
  assertStringIncludes(api.stdout, '"""Doubles a number."""');
  const impl = await ipybox(["actions", "show", "good.one", "--impl"], { cwd });
  assertStringIncludes(impl.stdout, "2 * number");
  const ran = await ipybox(["actions", "run", "good.one", "--arg", "number=21"], { cwd });
  assertEquals([ran.code, ran.stdout], [0, "42\n"], ran.stderr);
  const misfit = await ipybox(["actions", "run", "good.one", "--arg", "number=x"], { cwd });
  assertEquals([misfit.code, misfit.stdout], [1, ""]);
  const takes = "It takes: number: int";
  assertEquals(
    misfit.stderr,
    `good.one: argument "number": Input should be a valid integer, unable to parse string as an integer. ${takes}\n`,
  );
  const misspelt = await ipybox(["actions", "run", "good.one", "--arg", "nmber=21"], { cwd });
  assertEquals(
    [misspelt.code, misspelt.stderr],
    [
      1,
      `good.one: unknown argument "nmber" (did you mean "number"?); argument "number" is missing. ${takes}\n`,
    ],
  );

  const found = await ipybox(["tools", "double", "numbers"], { cwd });
  assertEquals([found.code, found.stdout], [0, "  gentools.good.one  Doubles a number.\n"]);
  assertStringIncludes((await ipybox(["tools"], { cwd })).stdout, "  gentools.good.one ");
  assertEquals(JSON.parse((await ipybox(["tools", "--json"], { cwd })).stdout), []);

  for (
    const [args, message] of [
      [["run", "good.two"], 'No saved action "good.two": see `ipybox actions list`'],
      [["show", "../etc.x"], 'No saved action "../etc.x"'],
      [["run", "good.one", "--arg", "number"], 'Option --arg takes NAME=VALUE: received "number"'],
      [["run"], "Specify a saved action as CATEGORY.NAME"],
      [["save"], 'Unknown action "save": use list, new, show, check or run'],
    ] as const
  ) {
    const { code, stderr } = await ipybox(["actions", ...args], { cwd });
    assertEquals(code, 2, stderr);
    assertStringIncludes(stderr, message);
  }
});

Deno.test("ipybox actions follows no link that executed code may have left", async () => {
  await using outside = await TempFolder.create();
  await writePythonBlocks(outside.path, BROKEN);
  await using workspace = await TempFolder.create();
  const cwd = workspace.path;
  await Deno.mkdir(`${cwd}/gentools/good`, { recursive: true });
  await Deno.symlink(`${outside.path}/gentools/good/one`, `${cwd}/gentools/good/one`);

  assertEquals((await ipybox(["actions"], { cwd })).stdout, "");
  const { code, stderr } = await ipybox(["actions", "show", "good.one"], { cwd });
  assert(code !== 0);
  assertStringIncludes(stderr, 'No saved action "good.one"');

  await Deno.symlink(outside.path, `${cwd}/gentools/linked`);
  const made = await ipybox(["actions", "new", "linked.one"], { cwd });
  assertEquals(made.code, 2);
  assertStringIncludes(made.stderr, "gentools/linked: it is not a plain folder");
  const there = await Array.fromAsync(Deno.readDir(outside.path));
  assertEquals(there.map(({ name }) => name), ["gentools"]);
});

Deno.test("ipybox actions run reads arguments by their types, and shows errors from the action on", async () => {
  await using workspace = await TempFolder.create();
  const cwd = workspace.path;
  await writePythonBlocks(cwd, LINES);
  const run = (...args: string[]) => ipybox(["actions", "run", "texts.lines", ...args], { cwd });

  const typed = await run("--arg", "path=5", "--arg", "limit=6", "--arg", 'marks=["1"]', "--json");
  assertEquals(JSON.parse(typed.stdout).result, ["5", 6, ["1"]], typed.stderr);
  const word = await run("--arg", "path=[x]", "--arg", "limit=null");
  assertEquals(JSON.parse(word.stdout), ["[x]", null, []], word.stderr);

  const raised = await run("--arg", "path=missing.txt");
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
