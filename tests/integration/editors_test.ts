/** What editors and type checkers make of code in a workspace, without any settings. */
import { assertEquals, assertMatch } from "@std/assert";
import { generatePackage } from "../../src/apigen/generate.ts";
import { runPyright, runPython } from "../support/run_python.ts";
import { TempFolder } from "../support/temp_folder.ts";

const TOOLS = [
  {
    name: "get-sum",
    inputSchema: {
      type: "object",
      properties: { a: { type: "number" }, b: { type: "number" } },
      required: ["a", "b"],
    },
  },
  {
    name: "read",
    inputSchema: { type: "object" },
    outputSchema: {
      type: "object",
      properties: { lines: { type: "array", items: { type: "string" } } },
      required: ["lines"],
    },
  },
];

const GOOD = `
from ipybox_runtime import ToolError, ToolText, call_options
from mcptools import demo
from mcptools.demo.read import Result


def total() -> ToolText:
    with call_options(timeout=3):
        return demo.get_sum.run(a=1, b=2)


async def lines() -> list[str]:
    result: Result = await demo.read.run_async()
    return [*result.lines, *(resource.uri for resource in demo.resources.list())]


def reason(error: ToolError) -> str | None:
    return error.server
`;

const WRONG = `
from ipybox_runtime import Nothing
from mcptools import demo

demo.get_sum.run(a="one", b=2)
demo.get_summ.run(a=1, b=2)
demo.read.run().lines.nothing
`;

Deno.test("ipybox_runtime and mcptools have types in a workspace, without settings", async () => {
  await using workspace = await TempFolder.create();
  const { path } = workspace;
  await generatePackage("demo", { tools: TOOLS }, { rootDir: `${path}/mcptools` });
  await Deno.writeTextFile(`${path}/good.py`, GOOD);
  await Deno.writeTextFile(`${path}/wrong.py`, WRONG);
  const files = ["good.py", "wrong.py"];
  const mypy = await runPython(["-m", "mypy", "--strict", "--cache-dir=/dev/null", ...files], {
    cwd: path,
  });
  const pyright = await runPyright(path, files);

  assertMatch(mypy.stdout, /^Found \d+ errors in 1 file /m); // and so none in what it imports
  assertEquals(linesWithErrors(mypy.stdout, "wrong.py"), [2, 5, 6, 7]);
  assertEquals(linesWithErrors(pyright.stdout, "good.py"), [], pyright.stdout);
  assertEquals(linesWithErrors(pyright.stdout, "wrong.py"), [2, 5, 6, 7], pyright.stdout);
  assertEquals(await workspace.list("ipybox_runtime"), ["__init__.pyi", "models.pyi"]);
});

Deno.test("what editors read is no module of its own in Python", async () => {
  await using workspace = await TempFolder.create();
  const { path } = workspace;
  await generatePackage("demo", { tools: TOOLS }, { rootDir: `${path}/mcptools` });
  const code = `import sys; sys.path.append("mcptools")
import ipybox_runtime
from mcptools import demo
print(ipybox_runtime.__file__.endswith("mcptools/ipybox_runtime/__init__.py"), dir(demo))
try:
    demo.nothing
except AttributeError as error:
    print(error)`;

  const { stdout, stderr } = await runPython(["-c", code], { cwd: path });

  const said = "True ['CLIENT', 'get_sum', 'prompts', 'read', 'resources']\n" +
    "module 'mcptools.demo' has no attribute 'nothing'\n";
  assertEquals(stdout, said, stderr);
});

Deno.test("what is in the place of the stubs is left alone, and nothing is written through it", async () => {
  await using workspace = await TempFolder.create();
  await using elsewhere = await TempFolder.create();
  const { path } = workspace;
  const generate = () => generatePackage("demo", { tools: TOOLS }, { rootDir: `${path}/mcptools` });
  await Deno.symlink(elsewhere.path, `${path}/ipybox_runtime`);
  await generate();
  assertEquals(await elsewhere.list(), []);
  await Deno.remove(`${path}/ipybox_runtime`);
  await Deno.mkdir(`${path}/ipybox_runtime`);
  await Deno.writeTextFile(`${path}/ipybox_runtime/mine.py`, "");
  await generate();
  const stub = `${path}/ipybox_runtime/models.pyi`;
  const { ino } = await Deno.stat(stub);
  await generate();
  assertEquals((await Deno.stat(stub)).ino, ino);
  assertEquals(await workspace.list("ipybox_runtime"), ["__init__.pyi", "mine.py", "models.pyi"]);
});

/** The numbers of the lines of a file that a type checker complains of. */
function linesWithErrors(output: string, file: string): number[] {
  const lines = [...output.matchAll(new RegExp(`${file}:(\\d+)(?::\\d+)?(?: -|:) error`, "g"))];
  return [...new Set(lines.map(([, line]) => Number(line)))].sort((a, b) => a - b);
}
