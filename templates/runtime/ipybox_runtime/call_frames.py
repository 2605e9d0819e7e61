"""The few lines of a traceback that show where a call was made."""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from traceback import walk_tb
from types import TracebackType
from typing import Optional

from .source import is_running

#: The first lines of IPython's tracebacks, with a placeholder for the exception's name.
HEADER = f"{'-' * 75}\n{{:<42}}Traceback (most recent call last)"

_LONGEST_LINE = 100
_RUNTIME = str(Path(__file__).parent)


def call_frames(traceback: Optional[TracebackType]) -> list[str]:
    """The calling line, and the line of the cell if that is a different one."""
    frames = list(_frames(traceback))
    called = [text for _, text in frames[-1:]]
    in_cell = [text for is_cell, text in frames if is_cell][-1:]
    return called if in_cell == called else [*in_cell, *called]


def frames_in_cells(traceback: Optional[TracebackType]) -> list[str]:
    """The lines of cells, innermost first."""
    return [text for is_cell, text in _frames(traceback) if is_cell][::-1]


def _frames(traceback: Optional[TracebackType]) -> Iterator[tuple[bool, str]]:
    code_name = import_module("IPython").get_ipython().compile.format_code_name
    for frame, line in walk_tb(traceback):
        file = frame.f_code.co_filename
        if file.startswith(_RUNTIME):
            continue
        cell = code_name(file)
        where = f"{' '.join(cell)}, line {line}" if cell else f"File {file}:{line}"
        name = frame.f_code.co_name
        if name != "<module>":
            where += f", in {name}"
        text = linecache.getline(file, line, frame.f_globals).strip()
        shown = text if len(text) <= _LONGEST_LINE else text[:_LONGEST_LINE] + "…"
        yield cell is not None or is_running(file), f"{where}\n----> {line} {shown}\n"
