"""Refuses to start processes, except for approved shell commands.

It stops code that takes a shortcut by habit or by mistake. It is not a security boundary: code in
the same interpreter can undo it deliberately. The boundary is the sandbox.
"""

from __future__ import annotations

import _posixsubprocess
import contextlib
import errno
import os
import subprocess
import sys
from collections.abc import Callable, Generator, Sequence
from contextvars import ContextVar
from typing import Any, NoReturn, Optional

from .shell_approval import Permit

_SPAWNS = ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe")
_REFUSED = ("os.system", "os.spawn", "os.startfile", "os.startfile/2", "pty.spawn")
_C_FUNCTIONS = frozenset(
    ["system", "popen", "fork", "vfork", "clone", "syscall", "posix_spawn", "posix_spawnp"]
    + ["execl", "execle", "execlp", "execv", "execve", "execvp", "execvpe", "execveat", "fexecve"]
)


class ProcessRefusedError(RuntimeError, PermissionError):
    """Code tried to start a process directly.

    It is also an ``OSError``, so that libraries fall back if the program is optional.
    """

    def __init__(self, caller: str) -> None:
        super().__init__(
            f"{caller} is not allowed to start processes here: use !command or %%bash, which can be "
            "approved"
        )
        self.errno = errno.EPERM


#: Recognises the command line that was approved.
_Recognises = Callable[[Sequence[str]], bool]
_Current = ContextVar[Optional[_Recognises]]


def install() -> Permit:
    """Refuse processes from now on, irrevocably. Returns the function that grants exceptions."""
    current: _Current = ContextVar("grant", default=None)

    @contextlib.contextmanager
    def permit(recognises: _Recognises) -> Generator[None, None, None]:
        # The event loop that runs scripts in another thread inherits the context.
        token = current.set(recognises)
        try:
            yield
        finally:
            current.reset(token)

    _replace_unaudited(current)
    sys.addaudithook(_hook(current))
    return permit


def _allow(current: _Current, caller: str, executable: Any, command_line: Sequence[Any]) -> None:
    recognises = current.get()
    words = [os.fsdecode(word) for word in command_line]
    if recognises is None or words[:1] != [os.fsdecode(executable)] or not recognises(words):
        raise ProcessRefusedError(caller)


def _hook(current: _Current) -> Callable[[str, tuple[Any, ...]], None]:
    def start(caller: str) -> Callable[..., None]:
        def started(executable: Any, args: Any, *_rest: Any) -> None:
            _allow(current, caller, executable, args)

        return started

    def c_function(_library: Any, name: Any) -> None:
        if name in _C_FUNCTIONS:
            raise ProcessRefusedError(f"ctypes ({name})")

    handlers: dict[str, Callable[..., None]] = {
        **{event: start(event) for event in ("subprocess.Popen", "os.posix_spawn", "os.exec")},
        "ctypes.dlsym": c_function,
        "ctypes.dlsym/handle": c_function,
        **{event: _refuse(event) for event in _REFUSED},
    }

    def hook(event: str, args: tuple[Any, ...]) -> None:
        handler = handlers.get(event)
        if handler is not None:
            handler(*args)

    return hook


def _replace_unaudited(current: _Current) -> None:
    """Replace functions without audit events, or with events only in the child process."""
    fork_exec = _posixsubprocess.fork_exec

    def guarded(args: Any, executables: Any, *rest: Any) -> int:
        # `executables` are the paths where the program is searched.
        _allow(current, "_posixsubprocess.fork_exec", args[0], args)
        return fork_exec(args, executables, *rest)

    _posixsubprocess.fork_exec = guarded
    if hasattr(subprocess, "_fork_exec"):  # its own alias since Python 3.11
        setattr(subprocess, "_fork_exec", guarded)  # noqa: B010, as its types do not declare it
    for name in (f"spawn{suffix}" for suffix in _SPAWNS):
        if hasattr(os, name):
            setattr(os, name, _refuse(f"os.{name}"))


def _refuse(caller: str) -> Callable[..., NoReturn]:
    def refuse(*_args: Any, **_options: Any) -> NoReturn:
        raise ProcessRefusedError(caller)

    return refuse
