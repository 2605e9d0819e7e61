"""Tells the runtime which code is executed, so that calls can say from which line they come."""

from typing import TYPE_CHECKING, Any

from ..source import set_running

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def install(shell: "InteractiveShell") -> None:
    """Note the file name of each cell while it runs, and not that of cells that it runs itself."""
    depth = 0

    def enter(info: Any) -> None:
        nonlocal depth
        depth += 1
        if depth == 1:
            raw = info.raw_cell
            name = shell.compile.get_code_name(raw, raw, shell.execution_count)
            set_running(name, _leading_empty_lines(raw))

    def leave(_result: object = None) -> None:
        nonlocal depth
        depth = max(depth - 1, 0)
        if depth == 0:
            set_running(None)

    shell.events.register("pre_run_cell", enter)
    shell.events.register("post_run_cell", leave)


def _leading_empty_lines(code: str) -> int:
    """Count the lines that IPython leaves out at the start."""
    return code[: len(code) - len(code.lstrip())].count("\n")
