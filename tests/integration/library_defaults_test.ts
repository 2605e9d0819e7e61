/** How libraries show values to a model. */
import { assertEquals, assertMatch } from "@std/assert";
import { dirname } from "node:path";
import { TestKernel } from "../support/kernel.ts";
import { stepsOf } from "../support/steps.ts";

/** Writes a library into a workspace, as no test environment has it. */
async function writeLibrary(kernel: TestKernel, files: Record<string, string>): Promise<void> {
  for (const [name, text] of Object.entries(files)) {
    const path = `${kernel.workspace}/${name}`;
    await Deno.mkdir(dirname(path), { recursive: true });
    await Deno.writeTextFile(path, text);
  }
}

const PLOTLY = {
  "plotly/__init__.py": "",
  "plotly/io/__init__.py": "from ._renderers import renderers",
  "plotly/io/_renderers.py":
    "class Renderers: default = 'plotly_mimetype'\nrenderers = Renderers()",
};
const RENDERER = "import plotly.io as pio; print(pio.renderers.default)";

Deno.test("Libraries are as code and the environment say", async (t) => {
  await using kernel = await TestKernel.start({ kernelEnv: { PLOTLY_RENDERER: "svg" } });
  const step = stepsOf(t);

  await step(
    "NumPy fills wide lines once code imports it, unless code says otherwise",
    async () => {
      assertEquals(await kernel.text("import sys; 'numpy' in sys.modules"), "False");
      const look = "import importlib.util; importlib.util.find_spec('numpy') is not None";
      assertEquals(await kernel.text(look), "True");
      assertEquals((await kernel.text("import numpy; numpy.arange(50)"))?.split("\n").length, 2);
      await kernel.client.execute("numpy.set_printoptions(linewidth=40)").result;
      assertEquals((await kernel.text("import numpy; numpy.arange(50)"))?.split("\n").length, 7);
    },
  );

  await step("Plotly's figures are as the environment says", async () => {
    await writeLibrary(kernel, PLOTLY);
    assertEquals(await kernel.text(RENDERER), "plotly_mimetype");
  });
});

Deno.test("Libraries show themselves to a model", async (t) => {
  await using kernel = await TestKernel.start();
  const step = stepsOf(t);

  await step("Figures are shown, whatever backend is asked for", async () => {
    for (const backend of ["notebook", "widget", "qt", ""]) {
      const code =
        `%matplotlib ${backend}\nimport matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()`;
      assertEquals((await kernel.client.execute(code).result).images.length, 1, backend);
    }
  });

  await step("Plotly's figures are pages besides their JSON", async () => {
    await writeLibrary(kernel, PLOTLY);
    assertEquals(await kernel.text(RENDERER), "plotly_mimetype+colab");
  });

  await step("pandas shows up to fifty columns of a table", async () => {
    await Deno.writeTextFile(
      `${kernel.workspace}/pandas.py`, // as no test environment has it
      "options = {}\ndef set_option(*pairs): options.update(zip(pairs[::2], pairs[1::2]))\n",
    );
    assertEquals(
      await kernel.text("import pandas; pandas.options"),
      "{'display.width': 160, 'display.max_columns': 50}",
    );
  });

  await step("Bokeh shows pages that load it themselves", async () => {
    await writeLibrary(kernel, {
      "bokeh/__init__.py": "",
      "bokeh/embed.py": "def file_html(*arguments): return f'<html>{arguments[1:]}'",
      "bokeh/plotting.py": "class figure: pass",
      "bokeh/io/__init__.py": `from .notebook import install_notebook_hook
from .state import curstate as _curstate

install_notebook_hook("jupyter", None, None, None)

def output_notebook():
    _curstate().output_notebook()
    notebook.HOOKS["jupyter"][0](None, False, False, 5000)

def show(shown):
    notebook.HOOKS[_curstate().type][1](shown, _curstate(), False)
`,
      "bokeh/io/notebook.py": `HOOKS = {}

def show_app(): pass

def install_notebook_hook(name, load, doc, app, overwrite=False):
    assert overwrite or name not in HOOKS
    HOOKS[name] = load, doc, app
`,
      "bokeh/io/state.py": `class State:
    def output_notebook(self): self.type = "jupyter"

_state = State()

def curstate(): return _state
`,
    });
    const shown = async (code: string): Promise<string> => {
      const [, path = ""] = /^\[bokeh figure: (.*\.html)\]$/.exec(await kernel.text(code) ?? "") ??
        [];
      return await Deno.readTextFile(path);
    };
    const code = "from bokeh.io import output_notebook, show\nfrom bokeh.plotting import figure\n";
    assertMatch(await shown(`${code}show(figure())`), /^<html>\('cdn'/);
    assertMatch(await shown("output_notebook(); show(figure())"), /^<html>\('cdn'/);
  });

  await step(
    "Altair shows pictures, where it needs no browser for that, beside its pages",
    async () => {
      await writeLibrary(kernel, {
        "vl_convert.py": `def vegalite_to_png(spec, *, allowed_base_urls):
    assert allowed_base_urls == []
    if "url" in spec["data"]: raise ValueError("External data url not allowed")
    return b"\\x89PNG"
`,
        "altair/__init__.py": `class Renderers:
    active = "default"
    functions = {"default": lambda spec, **options: {"text/html": "<p>chart</p>"}}
    def get(self): return self.functions[self.active]
    def enable(self, name): self.active = name
    def register(self, name, function): self.functions[name] = function

renderers = Renderers()

class Chart:
    def __init__(self, data): self.data = data
    def __repr__(self): return "alt.Chart(...)"
    def _repr_mimebundle_(self, **_): return renderers.get()({"data": self.data})
`,
      });
      const shown = async (code: string) => {
        const { text, images } = await kernel.client.execute(code).result;
        assertMatch(text ?? "", /^\[alt Chart: .*\.html\]$/);
        return images.map(({ path }) => Deno.readTextFileSync(path));
      };
      assertEquals(await shown("import altair as alt\nalt.Chart({'values': []})"), ["\ufffdPNG"]);
      assertEquals(await shown("alt.Chart({'url': 'https://example.com/x.json'})"), []);
    },
  );

  await step("Progress bars for notebooks are text", async () => {
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
});
