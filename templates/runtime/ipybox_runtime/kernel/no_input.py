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
            f"{function} cannot be answered: nobody types into this kernel. Put the value into a "
            "variable, a file of the workspace or an environment variable of the kernel"
        )

    return refuse
