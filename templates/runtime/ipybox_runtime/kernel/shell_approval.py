"""Asks the host to approve shell commands, and runs what was approved.

A command is expanded once, like in IPython. The expanded text is shown, and exactly that text runs:
IPython does not expand it again.
"""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from ..approval import request_approval
from ..errors import ApprovalRejectedError

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

#: Permits processes whose command line the given function recognises, for the time of a context.
Permit = Callable[[Callable[[Sequence[str]], bool]], contextlib.AbstractContextManager[None]]

_Function = TypeVar("_Function", bound=Callable[..., Any])

_MAGICS_WITH_A_SHELL = (["bash"], ["sh"])


def install(shell: InteractiveShell, permit: Permit) -> None:
    """Ask for approval in everything in IPython that starts processes."""
    _ask_before_commands(shell, permit)
    _ask_before_scripts(shell, permit)
    # It would open a window that nobody sees, without a shell.
    manager: Any = shell.magics_manager
    manager.magics["line"].pop("qtconsole", None)


def unguarded(
    _recognises: Callable[[Sequence[str]], bool],
) -> contextlib.AbstractContextManager[None]:
    """The ``Permit`` for kernels in which any process may start."""
    return contextlib.nullcontext()


def _approve(kind: str, arguments: dict[str, Any]) -> str:
    approved = request_approval(kind, arguments)
    command = approved.get("cmd")
    # An approver can edit the command, and nothing else.
    if not isinstance(command, str) or approved != {**arguments, "cmd": command}:
        raise ApprovalRejectedError(
            "Approved with unusable arguments: only `cmd`, a string, can be edited"
        )
    return command


class _WithoutExpansion:
    """The shell, except that it does not expand commands."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell

    def __getattr__(self, name: str) -> Any:
        return getattr(self._shell, name)

    def var_expand(self, cmd: str, *_args: Any, **_options: Any) -> str:
        return cmd


def _ask_before_commands(shell: InteractiveShell, permit: Permit) -> None:
    """Replace ``!cmd``, ``x = !cmd`` and what is based on them: ``%sx``, ``%pip``, aliases."""
    as_it_is = _WithoutExpansion(shell)
    kind: Any = type(shell)
    instance: Any = shell
    interpreter = os.environ.get("SHELL")

    def approved(cmd: str) -> str:
        if os.environ.get("SHELL") != interpreter:
            raise ApprovalRejectedError(
                "SHELL was changed: only commands for the shell that the kernel started with can be approved"
            )
        return _approve("shell", {"cmd": cmd})

    def system_by(run: Callable[[Any, str], None]) -> Callable[[str], None]:
        def system(cmd: str) -> None:
            # A depth of 1 is the caller's frame, with its local variables.
            text = approved(instance.var_expand(_plain(cmd), depth=1))
            with permit(_shell_command(text)):
                run(as_it_is, text)

        return _like(run, system)

    get = kind.getoutput

    def getoutput(cmd: str, split: bool = True, depth: int = 0) -> Any:
        text = approved(instance.var_expand(_plain(cmd), depth=depth + 1))
        with permit(_shell_command(text)):
            return get(as_it_is, text, split=split)

    instance.system_piped = system_by(kind.system_piped)
    instance.system_raw = system_by(kind.system_raw)
    instance.system = instance.system_piped
    instance.getoutput = _like(get, getoutput)


def _ask_before_scripts(shell: InteractiveShell, permit: Permit) -> None:
    """Replace ``%%script``, which ``%%bash``, ``%%perl`` and the like use."""
    from IPython.core.magics import script
    from IPython.utils import process

    magics: Any = script.ScriptMagics
    arg_split: Any = vars(process)["arg_split"]  # imported there from a platform-specific module
    run = magics.shebang

    def shebang(self: Any, line: str, cell: str) -> Any:
        line, cell = _plain(line), _plain(cell)
        _, program = run.parser.parse_known_args(arg_split(line, posix=True))
        arguments = {"cmd": cell}
        if program not in _MAGICS_WITH_A_SHELL:
            arguments["program"] = shlex.join(program)
        text = _approve("shell_magic", arguments)
        with permit(lambda command_line: list(command_line) == program):
            return run(self, line, text)

    magics.shebang = _like(run, shebang)
    manager: Any = shell.magics_manager
    cell_magics = manager.magics["cell"]
    # Before IPython 9, magics are created in advance, not on first use.
    instance = getattr(cell_magics.get("script"), "__self__", None)
    if instance is not None and isinstance(instance, magics):
        cell_magics["script"] = instance.shebang


def _plain(text: str) -> str:
    """Return a plain ``str``: a subclass could change its value after the approval."""
    return str.__str__(text)


def _shell_command(text: str) -> Callable[[Sequence[str]], bool]:
    """Recognise the command line with which a shell runs `text`."""
    return lambda command_line: len(command_line) == 3 and list(command_line[1:]) == ["-c", text]


def _like(original: Any, replacement: _Function) -> _Function:
    """Copy name, help and options of the original, but no reference to it."""
    for name in ("__doc__", "__name__", "__qualname__", "__module__"):
        setattr(replacement, name, getattr(original, name))
    vars(replacement).update(original.__dict__)
    return replacement
