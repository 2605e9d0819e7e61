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
from enum import Enum
from typing import Any, NoReturn

from .shell_approval import OneProcess

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

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what} is not allowed to start processes here: use !command or %%bash, which can be "
            "approved"
        )
        self.errno = errno.EPERM


class _Stage(Enum):
    """The progress of the process that a grant is for."""

    OPEN = 1
    SPAWNING = 2
    FORKED = 3
    SPENT = 4


class _Grant:
    """Permission to start one process with an approved command line."""

    def __init__(self, recognises: Callable[[Sequence[str]], bool]) -> None:
        self._recognises = recognises
        self._stage = _Stage.OPEN
        self._process = os.getpid()

    def spawn(self, executable: Any, command_line: Sequence[Any], stage: _Stage) -> bool:
        """Whether the process may start. This is asked at two stages."""
        if self._stage is not stage or not self._is_for(executable, command_line):
            return False
        self._stage = _Stage.SPAWNING if stage is _Stage.OPEN else _Stage.SPENT
        return True

    def fork(self) -> None:
        """Record a child process, in which the program may start."""
        self._stage = _Stage.FORKED if self._stage is _Stage.OPEN else _Stage.SPENT

    def execute(self, executable: Any, command_line: Sequence[Any]) -> bool:
        """Whether this process may become the program: only the child forked for it may."""
        return (
            self._stage is _Stage.FORKED
            and os.getpid() != self._process
            and self._is_for(executable, command_line)
        )

    def _is_for(self, executable: Any, command_line: Sequence[Any]) -> bool:
        words = [os.fsdecode(word) for word in command_line]
        return words[:1] == [os.fsdecode(executable)] and self._recognises(words)


def install() -> OneProcess:
    """Refuse processes from now on, irrevocably. Returns the function that grants exceptions."""
    current: ContextVar[_Grant | None] = ContextVar("grant", default=None)

    @contextlib.contextmanager
    def one_process(recognises: Callable[[Sequence[str]], bool]) -> Generator[None, None, None]:
        # The event loop that runs scripts in another thread inherits the context.
        token = current.set(_Grant(recognises))
        try:
            yield
        finally:
            current.reset(token)

    _replace_unaudited(current)
    sys.addaudithook(_hook(current))
    return one_process


def _hook(current: ContextVar[_Grant | None]) -> Callable[[str, tuple[Any, ...]], None]:
    def popen(executable: Any, args: Any, cwd: Any, env: Any) -> None:
        grant = current.get()
        if (
            grant is None
            or (cwd, env) != (None, None)
            or not grant.spawn(executable, args, _Stage.OPEN)
        ):
            raise ProcessRefusedError("subprocess.Popen")

    def posix_spawn(path: Any, argv: Any, _env: Any) -> None:
        grant = current.get()
        if grant is None or not grant.spawn(path, argv, _Stage.SPAWNING):
            raise ProcessRefusedError("os.posix_spawn")

    def execute(path: Any, args: Any, _env: Any) -> None:
        grant = current.get()
        if grant is None or not grant.execute(path, args):
            raise ProcessRefusedError("os.exec")

    def fork() -> None:
        # A fork alone starts no program; a following exec is checked.
        grant = current.get()
        if grant is not None:
            grant.fork()

    def fresh_import(module: str, *_rest: Any) -> None:
        if module == "_posixsubprocess":  # the replaced module was removed from sys.modules
            raise ProcessRefusedError(module)

    def c_function(_library: Any, name: Any) -> None:
        if name in _C_FUNCTIONS:
            raise ProcessRefusedError(f"ctypes ({name})")

    handlers: dict[str, Callable[..., None]] = {
        "subprocess.Popen": popen,
        "os.posix_spawn": posix_spawn,
        "os.exec": execute,
        "os.fork": fork,
        "os.forkpty": fork,
        "import": fresh_import,
        "ctypes.dlsym": c_function,
        "ctypes.dlsym/handle": c_function,
        **{event: _refuse(event) for event in _REFUSED},
    }

    def hook(event: str, args: tuple[Any, ...]) -> None:
        handler = handlers.get(event)
        if handler is not None:
            handler(*args)

    return hook


def _replace_unaudited(current: ContextVar[_Grant | None]) -> None:
    """Replace functions without audit events, or with events only in the child process."""
    fork_exec = _posixsubprocess.fork_exec

    def guarded(args: Any, executables: Any, *rest: Any) -> int:
        grant = current.get()
        # `executables` are the paths where the program is searched.
        if grant is None or not grant.spawn(args[0], args, _Stage.SPAWNING):
            raise ProcessRefusedError("_posixsubprocess.fork_exec")
        return fork_exec(args, executables, *rest)

    _posixsubprocess.fork_exec = guarded
    if hasattr(subprocess, "_fork_exec"):  # its own alias since Python 3.11
        setattr(subprocess, "_fork_exec", guarded)  # noqa: B010, as its types do not declare it
    for name in (f"spawn{suffix}" for suffix in _SPAWNS):
        if hasattr(os, name):
            setattr(os, name, _refuse(f"os.{name}"))


def _refuse(what: str) -> Callable[..., NoReturn]:
    def refuse(*_args: Any, **_options: Any) -> NoReturn:
        raise ProcessRefusedError(what)

    return refuse
