"""Lets an interrupt end executed code, and nothing else of the kernel.

ipykernel raises ``KeyboardInterrupt`` wherever the kernel is while it handles a request. Outside of the
code, that loses replies or ends the kernel. Here, one handler stays installed and looks at the stack
that it interrupts. Unlike a flag, which is set and cleared a moment before or after the code runs, the
stack is always right.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any, Optional

from IPython.core.events import EventManager

_Judge = Callable[[FrameType], bool]

#: The packages whose tasks and callbacks the kernel's loop runs for itself.
_OF_KERNEL = {
    *("IPython", "asyncio", "ipybox_runtime", "ipykernel"),
    *("jupyter_client", "tornado", "zmq"),
}


def _is_task_of_code(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).partition(".")[0] not in _OF_KERNEL


#: The function that calls the tasks and callbacks of a loop.
_LOOP: dict[CodeType, _Judge] = {asyncio.Handle._run.__code__: _is_task_of_code}


def install(shell: Any) -> None:
    """Replace the kernel's handling of interrupts."""
    kernel = shell.kernel
    interrupts = _Interrupts(_callers_of_code(shell))
    kernel.pre_handler_hook = interrupts.begin
    kernel.post_handler_hook = interrupts.end
    kernel._cancel_on_sigint = interrupts.cancels


def describe(error: object) -> None:
    """Call an exception's own methods where an interrupt can end them, in case they never
    return."""
    try:
        str(error)
        getattr(error, "__notes__", None)
    except KeyboardInterrupt as interrupt:
        interrupt.__context__ = None  # or showing this would call the exception again
        raise
    except Exception:
        pass  # IPython also shows an exception without a message


def hide_handler(error: Optional[BaseException]) -> None:
    """End an interrupt's traceback where its code was: IPython reads the files of all frames."""
    frames = error.__traceback__ if isinstance(error, KeyboardInterrupt) else None
    while frames is not None:
        if frames.tb_next is not None and frames.tb_next.tb_frame.f_code in _HANDLERS:
            frames.tb_next = None
        frames = frames.tb_next


def _callers_of_code(shell: Any) -> dict[CodeType, _Judge]:
    """Return the callers of executed code that handle its ``KeyboardInterrupt``, and tests for it."""
    kind, kernel = shell.__class__, shell.kernel.__class__
    format_traceback = shell.InteractiveTB.__class__.structured_traceback.__code__

    def is_cell(frame: FrameType) -> bool:
        return frame.f_globals is shell.user_global_ns

    def is_callback(frame: FrameType) -> bool:
        package = str(frame.f_globals.get("__name__")).partition(".")[0]
        return package not in ("IPython", "ipybox_runtime")

    def is_answer(frame: FrameType) -> bool:
        return frame.f_code.co_name.startswith("do_")

    return {
        kind.run_code.__code__: is_cell,
        EventManager.trigger.__code__: is_callback,
        kind.showtraceback.__code__: lambda frame: frame.f_code is format_traceback,
        describe.__code__: lambda _: True,
        kernel.complete_request.__code__: is_answer,
        kernel.inspect_request.__code__: is_answer,
        kernel.is_complete_request.__code__: is_answer,
    }


class _Interrupts:
    """The handler of interrupts, which arrive in the main thread only."""

    def __init__(self, callers: dict[CodeType, _Judge]) -> None:
        self._callers = callers
        self._main = threading.main_thread()
        self._bottom = _bottom(sys._getframe())
        self._is_handling = False
        self._task: Optional[asyncio.Future[Any]] = None
        self._is_waiting = False
        self._traced_before: Any = None

    def begin(self) -> None:
        """Begin a request."""
        if threading.current_thread() is self._main:
            self._is_handling = True

    def end(self) -> None:
        """End it. An interrupt that has not reached its code is forgotten."""
        if threading.current_thread() is self._main:
            self._is_handling = False
            if self._is_waiting:
                sys.settrace(self._traced_before)
                self._is_waiting, self._traced_before = False, None
            signal.signal(signal.SIGINT, self._interrupt)  # the code may have set its own

    @contextmanager
    def cancels(self, task: asyncio.Future[Any]) -> Generator[None]:
        """Let interrupts cancel the task of a cell with ``await`` while none of its code runs."""
        self._task = task
        try:
            yield
        finally:
            self._task = None

    def _interrupt(self, _number: int, frame: Optional[FrameType]) -> None:
        if self._is_code(frame):
            raise KeyboardInterrupt
        if not self._is_handling:
            return
        if self._task is not None and not self._task.done():
            self._task.get_loop().call_soon_threadsafe(self._task.cancel)
            if _is_called(frame, _LOOP):
                raise asyncio.CancelledError  # a KeyboardInterrupt would end the loop
        elif _bottom(frame) is not self._bottom:
            raise KeyboardInterrupt  # only code makes further stacks, as gevent does
        else:
            self._wait()

    def _wait(self) -> None:
        traced = sys.gettrace()  # read first: another interrupt may come in between
        if not self._is_waiting:
            self._traced_before = traced
            self._is_waiting = True
        sys.settrace(self._call)

    def _call(self, frame: FrameType, _event: str, _argument: object) -> None:
        """Interrupt code as soon as it is called; with the exception, Python ends the tracing."""
        if self._is_code(frame):
            raise KeyboardInterrupt

    def _is_code(self, frame: Optional[FrameType]) -> bool:
        """Whether executed code, or a function that it called, is on top of the stack."""
        return _is_called(frame, self._callers)


_HANDLERS = {_Interrupts._interrupt.__code__, _Interrupts._call.__code__}


def _is_called(frame: Optional[FrameType], callers: dict[CodeType, _Judge]) -> bool:
    """Whether the innermost of these callers called the top of the stack, according to its
    judge."""
    while frame is not None and frame.f_back is not None:
        judge = callers.get(frame.f_back.f_code)
        if judge is not None:
            return judge(frame)
        frame = frame.f_back
    return False


def _bottom(frame: Optional[FrameType]) -> Optional[CodeType]:
    while frame is not None and frame.f_back is not None:
        frame = frame.f_back
    return None if frame is None else frame.f_code
