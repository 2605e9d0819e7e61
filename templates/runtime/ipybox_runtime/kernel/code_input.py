"""Lets code ask the user, and says what to do instead if nobody can answer."""

import threading
from typing import Any


def install(kernel: Any) -> None:
    """Guard ``input()`` and ``getpass.getpass()``."""
    kernel.raw_input = _guarded(kernel, kernel.raw_input, "input()")
    kernel.getpass = _guarded(kernel, kernel.getpass, "getpass()")


def _guarded(kernel: Any, ask: Any, function: str) -> Any:
    def guarded(*args: Any, **options: Any) -> Any:
        from IPython.core.error import StdinNotImplementedError

        if not kernel._allow_stdin:
            raise StdinNotImplementedError(
                f"{function} is not supported here: assign the value to a variable, or read it "
                "from a file of the workspace or an environment variable"
            )
        # Threads would read each other's answers from the one socket.
        if threading.current_thread() is not threading.main_thread():
            raise StdinNotImplementedError(
                f"{function} is not supported in a thread: call it in the cell, and pass the value on"
            )
        try:
            return ask(*args, **options)
        except (EOFError, KeyboardInterrupt) as error:
            raise error.with_traceback(None) from None  # where the kernel waited is irrelevant

    return guarded
