import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { commandsIn, inThisProcess } from "../support/command_io.ts";
import { runPython } from "../support/run_python.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { ipyboxAtTerminal } from "../support/terminal.ts";

/** A notebook with these cells; text that begins with `#` is Markdown. */
function notebook(...sources: readonly string[]): string {
  const cells = sources.map((source) => ({
    cell_type: source.startsWith("#") ? "markdown" : "code",
    metadata: {},
    source: source.split(/(?<=\n)/),
    ...(source.startsWith("#") ? {} : { outputs: [], execution_count: null }),
  }));
  return JSON.stringify({ cells, metadata: {}, nbformat: 4, nbformat_minor: 4 });
}

Deno.test("ipybox run runs a notebook's cells in one session until one fails", async () => {
  await using workspace = await TempFolder.create();
  const file = `${workspace.path}/report.ipynb`;
  const run = async (text: string, ...more: string[]) => {
    await Deno.writeTextFile(file, text);
    return await inThisProcess(["run", file, ...more], { workspace: workspace.path });
  };
  const code = [
    "# About 1 / 0",
    "import sys\nx = 6",
    "%%capture said\nprint('quiet')",
    "print(sys.argv[1])\nx * 7",
    "_ + 1",
  ];
  const good = await run(notebook(...code), "--", "a");
  assertEquals(good, { code: 0, stdout: "a\n42\n43\n", stderr: "" });

  const failing = notebook("print(1)", "2", "x = 0\n1 / x", "3");
  const json = await run(failing, "--json", "--no-sandbox");
  const { status, text, error } = JSON.parse(json.stdout);
  assertEquals([json.code, status, text, error.ename], [1, "error", "1\n2", "ZeroDivisionError"]);
  assertMatch(error.traceback, /Cell In\[3\], line 2\n[^]*\nZeroDivisionError: division by zero$/);

  const left = await run(
    notebook("print(1)", "import sys; sys.exit(4)", "print(3)"),
    "--no-sandbox",
  );
  assertEquals([left.code, left.stdout], [4, "1\n"]);
});

Deno.test("ipybox run says what is wrong with a notebook", async () => {
  await using workspace = await TempFolder.create();
  const file = `${workspace.path}/x.ipynb`;
  const command = commandsIn(workspace.path);
  const kernelspec = { language: "julia", name: "julia-1.9" };
  const cases: readonly (readonly [text: string, says: string])[] = [
    ["print(1)", `"${file}" is not a notebook: Unexpected token`],
    ["[]", `"${file}" is not a notebook that can run:\n`],
    ['{"nbformat": 3}', `"${file}" is not a notebook that can run:\n✖ it needs nbformat 4, which`],
    ['{"nbformat": 4, "cells": 1}', `"${file}" is not a notebook that can run:\n`],
    ['{"nbformat": 4, "cells": [{"cell_type": "code"}]}', `→ at cells[0]\n`],
    [
      JSON.stringify({ nbformat: 4, cells: [], metadata: { kernelspec } }),
      `"${file}" is a notebook in julia: only Python can run`,
    ],
  ];
  for (const [text, says] of cases) {
    await Deno.writeTextFile(file, text);
    const { code, stderr } = await command(["run", file]);
    assertEquals(code, 2, stderr);
    assertStringIncludes(stderr, says);
  }
  await Deno.writeTextFile(file, notebook("1"));
  const { code, stderr } = await command(["run", file, "--detach"]);
  assertEquals(code, 2);
  assertStringIncludes(stderr, "Option --detach takes no notebook");
});

Deno.test("ipybox repl --save writes a valid notebook, which ipybox runs", async () => {
  await using workspace = await TempFolder.create();
  const at = ["--workspace", workspace.path];
  const file = `${workspace.path}/saved.ipynb`;
  const picture = "from IPython.display import Image; Image(data=b'\\x89PNG', format='png')\r";
  const { code, output } = await ipyboxAtTerminal(["repl", "--no-sandbox", ...at, "--save", file], [
    ["In [1]: ", "print('said'); 6 * 7\r"],
    ["In [2]: ", picture],
    ["In [3]: ", "1 / 0\r"],
    ["In [4]: ", ":tools\r"],
    ["In [4]: ", "x = 1\r"],
    ["In [5]: ", "\x04"],
  ], { cwd: workspace.path, columns: 200 });
  assertEquals(code, 0, output);
  assertStringIncludes(output, `Saved as ${file}\n`);

  const saved = JSON.parse(await Deno.readTextFile(file));
  const shown = saved.cells.map((
    { source, execution_count, outputs }: {
      source: string;
      execution_count: number;
      outputs: { output_type: string; data?: object }[];
    },
  ) => [
    source.slice(0, 9),
    execution_count,
    outputs.map(({ output_type, data }) => [output_type, ...Object.keys(data ?? {})]),
  ]);
  assertEquals(shown, [
    ["print('sa", 1, [["stream"], ["execute_result", "text/plain"]]],
    ["from IPyt", 2, [["execute_result", "image/png", "text/plain"]]],
    ["1 / 0", 3, [["error"]]],
    ["x = 1", 4, []],
  ]);
  const validate = `import nbformat; nbformat.validate(nbformat.read(${JSON.stringify(file)}, 4))`;
  const checked = await runPython(["-c", validate]);
  assertEquals([checked.success, checked.stderr], [true, ""]);
  const again = await inThisProcess(["run", file, "--no-sandbox", ...at]);
  assertEquals(again.code, 1);
  assert(again.stdout.startsWith("said\n42\n"), again.stdout);

  const save = (name: string) => inThisProcess(["repl", ...at, "--save", name], { answers: [] });
  const refused = await save(file);
  assertEquals(refused.code, 2);
  assertStringIncludes(refused.stderr, "exists: save to another file");
  assertStringIncludes((await save("notes.txt")).stderr, "takes the name of a new FILE.ipynb");
});
