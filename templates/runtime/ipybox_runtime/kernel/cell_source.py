"""Records which code is running, so that calls can report the line that makes them."""

import os
import tempfile
from typing import TYPE_CHECKING, Any, Optional

from ..source import set_running

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def install(shell: "InteractiveShell") -> None:
    """Record the file name of each cell while it runs, but not of cells that it runs itself."""
    depth = 0

    def enter(info: Any) -> None:
        nonlocal depth
        depth += 1
        if depth == 1:
            raw = info.raw_cell
            set_running(shell.compile.get_code_name(raw, raw, shell.execution_count))

    def leave(_result: object = None) -> None:
        nonlocal depth
        depth = max(depth - 1, 0)
        if depth == 0:
            set_running(None)

    shell.events.register("pre_run_cell", enter)
    shell.events.register("post_run_cell", leave)
    _keep_line_numbers(shell)


def name_next(shell: Any, path: str) -> None:
    """Give the next cell the name of the file that its code was read from."""
    compiler = shell.compile
    name_of_cell, label = compiler.get_code_name, compiler.format_code_name
    script: Optional[str] = None

    def get_code_name(raw: str, code: str, number: int) -> str:
        nonlocal script
        if script is None:
            script = raw
            _make_readable(shell, path, raw)
        return path if raw == script else name_of_cell(raw, code, number)

    def format_code_name(name: str) -> Any:
        return None if name == path else label(name)  # without a label, it is shown as a file

    vars(compiler)["get_code_name"] = get_code_name
    vars(compiler)["format_code_name"] = format_code_name


def _make_readable(shell: Any, path: str, text: str) -> None:
    """Give processes that `multiprocessing` spawns a copy of a script that they cannot see."""
    if os.path.exists(path):
        return
    copy = os.path.join(tempfile.mkdtemp(), os.path.basename(path))
    with open(copy, "w", encoding="utf-8") as file:
        file.write(text)
    shell.user_ns["__file__"] = copy


def _keep_line_numbers(shell: Any) -> None:
    """Restore the empty lines that IPython strips from the start of a cell."""
    transform = shell.transform_cell

    def transform_cell(raw: str) -> str:
        start = raw[: len(raw) - len(raw.lstrip())]
        return "\n" * start.count("\n") + transform(raw)

    vars(shell)["transform_cell"] = transform_cell
