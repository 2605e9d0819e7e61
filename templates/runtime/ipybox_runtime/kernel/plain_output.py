"""Turns colours off, as output is read by models and programs and not shown on a terminal."""

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_COLOR_SWITCHES = ("CLICOLOR", "CLICOLOR_FORCE", "FORCE_COLOR", "PY_COLORS")


def install(shell: "InteractiveShell") -> None:
    """Make IPython's own output and that of child processes plain text."""
    for name in _COLOR_SWITCHES:
        os.environ.pop(name, None)
    os.environ["TERM"] = "dumb"
    os.environ["NO_COLOR"] = "1"
    shell.run_line_magic("colors", "nocolor")
