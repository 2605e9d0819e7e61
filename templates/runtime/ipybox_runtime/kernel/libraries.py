"""Sets up libraries for a reader that is a model, as soon as code imports them."""

import os
from typing import Any

from . import when_imported

_WIDTH = 160
_COLUMNS = 50
_POLARS = {"POLARS_TABLE_WIDTH": "320", "POLARS_FMT_MAX_COLS": "20"}  # it breaks cells, not rows


def install() -> None:
    """Widen the tables of pandas, NumPy and Polars, unless the environment says how they are."""
    when_imported.call("pandas", _widen_pandas)
    when_imported.call("numpy", _widen_numpy)
    when_imported.call("nltk", _make_nltk_folder)
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
