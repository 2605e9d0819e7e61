/** How libraries show values to a model. */
import { assertEquals } from "@std/assert";
import { TestKernel } from "../support/kernel.ts";

Deno.test("NumPy fills wide lines, unless code says otherwise, and is imported only by code", async () => {
  await using kernel = await TestKernel.start();
  assertEquals(await kernel.text("import sys; 'numpy' in sys.modules"), "False");
  assertEquals((await kernel.text("import numpy; numpy.arange(50)"))?.split("\n").length, 2);
  await kernel.client.execute("numpy.set_printoptions(linewidth=40)").result;
  assertEquals((await kernel.text("import numpy; numpy.arange(50)"))?.split("\n").length, 7);
});

Deno.test("A library that is only looked for is set up when it is imported", async () => {
  await using kernel = await TestKernel.start();
  const code = "import importlib.util; importlib.util.find_spec('numpy') is not None";
  assertEquals(await kernel.text(code), "True");
  assertEquals(await kernel.text("import numpy; numpy.get_printoptions()['linewidth']"), "160");
});

Deno.test("pandas shows up to fifty columns of a table", async () => {
  await using kernel = await TestKernel.start();
  await Deno.writeTextFile(
    `${kernel.workspace}/pandas.py`, // as no test environment has it
    "options = {}\ndef set_option(*pairs): options.update(zip(pairs[::2], pairs[1::2]))\n",
  );
  assertEquals(
    await kernel.text("import pandas; pandas.options"),
    "{'display.width': 160, 'display.max_columns': 50}",
  );
});

Deno.test("Progress bars for notebooks are text", async () => {
  await using kernel = await TestKernel.start();
  await Deno.mkdir(`${kernel.workspace}/tqdm`);
  for (
    const [name, text] of [
      ["__init__", ""],
      ["std", "tqdm = trange = 'text'"],
      ["notebook", "IProgress = None; tqdm = tqdm_notebook = trange = tnrange = 'widget'"],
    ] as const
  ) await Deno.writeTextFile(`${kernel.workspace}/tqdm/${name}.py`, text);
  assertEquals(
    await kernel.text("from tqdm.notebook import tqdm, trange; tqdm, trange"),
    "('text', 'text')",
  );
});

Deno.test("Figures are shown, whatever backend is asked for", async () => {
  await using kernel = await TestKernel.start();
  for (const backend of ["notebook", "widget", "qt", ""]) {
    const code =
      `%matplotlib ${backend}\nimport matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()`;
    assertEquals((await kernel.client.execute(code).result).images.length, 1, backend);
  }
});
