"""Answers code that asks for input: nobody sits here to give it."""

from typing import Any, NoReturn


def install(kernel: Any) -> None:
    """Make ``input()`` and ``getpass.getpass()`` say what to do instead."""
    kernel.raw_input = _refusal("input()")
    kernel.getpass = _refusal("getpass()")


def _refusal(function: str) -> Any:
    def refuse(*_args: Any, **_options: Any) -> NoReturn:
        from IPython.core.error import StdinNotImplementedError

        raise StdinNotImplementedError(
            f"{function} is not supported here: assign the value to a variable, or read it from a "
            "file of the workspace or an environment variable"
        )

    return refuse
