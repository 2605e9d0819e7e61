"""Turns off terminal features: models and programs read the output."""

import os
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_COLOR_SWITCHES = ("CLICOLOR", "CLICOLOR_FORCE", "FORCE_COLOR", "PY_COLORS")


def install(shell: "InteractiveShell") -> None:
    """Make the output of IPython and child processes plain text, without hints about keys."""
    warnings.filterwarnings("ignore", "To exit: use", module=r"IPython\.")
    for name in _COLOR_SWITCHES:
        os.environ.pop(name, None)
    os.environ["TERM"] = "dumb"
    os.environ["NO_COLOR"] = "1"
    shell.run_line_magic("colors", "nocolor")
