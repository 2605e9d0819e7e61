"""Sets up libraries for a reader that is a model, as soon as code imports them."""

import functools
import importlib
import importlib.util
import os
from typing import TYPE_CHECKING, Any, Optional

from . import when_imported

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_WIDTH = 160
_COLUMNS = 50
_POLARS = {"POLARS_TABLE_WIDTH": "320", "POLARS_FMT_MAX_COLS": "20"}  # it breaks cells, not rows


#: Backends that can draw figures; the others of matplotlib open windows or need a page.
_FIGURES = ("agg", "cairo", "inline", "pdf", "ps", "svg")


def install(shell: "InteractiveShell") -> None:
    """Widen tables, unless the environment sets their width, and show figures and bars without
    widgets."""
    when_imported.call("pandas", _widen_pandas)
    when_imported.call("numpy", _widen_numpy)
    when_imported.call("nltk", _make_nltk_folder)
    when_imported.call("tqdm.notebook", _show_bars_as_text)
    when_imported.call("rich.console", _make_rich_plain)
    when_imported.call("plotly.io._renderers", _show_plotly_as_page)
    when_imported.call("bokeh.io", _show_bokeh_as_page)
    when_imported.call("altair", _draw_altair)
    _keep_figures_inline(shell)
    for name, value in _POLARS.items():
        os.environ.setdefault(name, value)


def _widen_pandas(pandas: Any) -> None:
    pandas.set_option("display.width", _WIDTH, "display.max_columns", _COLUMNS)


def _widen_numpy(numpy: Any) -> None:
    numpy.set_printoptions(linewidth=_WIDTH)


def _make_nltk_folder(_nltk: Any) -> None:
    """NLTK downloads to this folder only if it exists."""
    folder = os.environ.get("NLTK_DATA")
    if folder:
        os.makedirs(folder, exist_ok=True)


def _show_bars_as_text(notebook: Any) -> None:
    """Have ``tqdm.auto`` and ``tqdm.notebook`` show text: a model does not see how widgets change."""
    bars: Any = importlib.import_module("tqdm.std")
    notebook.IProgress = notebook.IProgress or object  # or it warns that there are no widgets
    notebook.tqdm = notebook.tqdm_notebook = bars.tqdm
    notebook.trange = notebook.tnrange = bars.trange


def _make_rich_plain(console: Any) -> None:
    """Have Rich print text, and live displays once in the end, instead of updating widgets."""
    console._is_jupyter = lambda: False
    initialize = console.Console.__init__

    @functools.wraps(initialize)
    def with_width(self: Any, *args: Any, **options: Any) -> None:
        if "COLUMNS" not in os.environ:
            options.setdefault("width", _WIDTH)
        initialize(self, *args, **options)

    console.Console.__init__ = with_width


def _show_plotly_as_page(module: Any) -> None:
    """Have figures display a page besides their JSON, which loads Plotly itself."""
    if "PLOTLY_RENDERER" not in os.environ:
        module.renderers.default = "plotly_mimetype+colab"


def _show_bokeh_as_page(io: Any) -> None:
    """Have ``show()`` display a page, instead of opening a browser or filling a notebook."""

    def load(*_arguments: Any) -> None:
        pass

    def show_doc(shown: Any, *_arguments: Any) -> None:
        embed: Any = importlib.import_module("bokeh.embed")
        ipython: Any = importlib.import_module("IPython.display")
        page = embed.file_html(shown, "cdn", "Bokeh")
        ipython.display({"text/html": page, "text/plain": object.__repr__(shown)}, raw=True)

    io.install_notebook_hook("jupyter", load, show_doc, io.notebook.show_app, overwrite=True)
    io.state.curstate().output_notebook()


def _draw_altair(altair: Any) -> None:
    """Have charts display a picture beside their page, if a library can draw it without a browser."""
    renderers = altair.renderers
    if importlib.util.find_spec("vl_convert") is None or renderers.active != "default":
        return
    page = renderers.get()

    def render(spec: Any, **options: Any) -> Any:
        ipython: Any = importlib.import_module("IPython.display")
        try:
            vl_convert: Any = importlib.import_module("vl_convert")
            # Without its data, which may be on the network, a chart would look empty.
            picture = vl_convert.vegalite_to_png(spec, allowed_base_urls=[])
            ipython.display({"image/png": picture}, raw=True)
        except (ImportError, TypeError, ValueError):
            pass  # also for a version without this parameter
        return page(spec, **options)

    renderers.register("ipybox", render)
    renderers.enable("ipybox")


def _keep_figures_inline(shell: Any) -> None:
    enable = shell.enable_matplotlib

    def enable_matplotlib(gui: Optional[str] = None) -> Any:
        return enable(gui if gui in _FIGURES else "inline")

    shell.enable_matplotlib = enable_matplotlib
