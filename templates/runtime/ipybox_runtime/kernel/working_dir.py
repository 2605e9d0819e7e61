"""Restores the working directory after each cell."""

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def install(shell: "InteractiveShell", directory: str) -> None:
    """Return to `directory` after each cell that left it, and print a note."""

    def restore(_result: object = None) -> None:
        try:
            current = os.getcwd()
        except FileNotFoundError:  # the cell deleted its working directory
            current = None
        if current == directory:
            return
        try:
            os.chdir(directory)
        except OSError as error:
            print(f"[ipybox] cannot reset cwd to {directory}: {error.strerror}")
        else:
            print(f"[ipybox] cwd reset to {directory}")

    shell.events.register("post_run_cell", restore)
