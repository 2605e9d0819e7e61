"""Lets cells run their own event loops, so that ``asyncio.run()`` works as in a script.

The kernel runs a cell within its own event loop, and asyncio refuses a second one in the same thread.
While a cell runs one, the kernel's is set aside: it would wait for the cell in any case.
"""

import asyncio
import contextlib
import functools
import signal
from asyncio import events
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from . import when_imported

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_LOOP = asyncio.BaseEventLoop


def install(shell: "InteractiveShell") -> None:
    """Make everything that runs a loop in a cell set the kernel's loop aside."""
    kernel = asyncio.get_running_loop()
    set_aside = _SetAside(kernel)
    _wrap(asyncio, ["run"], set_aside)
    if hasattr(asyncio, "Runner"):  # since Python 3.11
        _wrap(asyncio.Runner, ["run", "close"], set_aside)
    _wrap(_LOOP, ["run_forever", "run_until_complete"], set_aside)
    when_imported.call("anyio", lambda anyio: _wrap(anyio, ["run"], set_aside))
    _replace_kernels(kernel)
    # An interrupt may have come while it was brought back.
    shell.events.register("post_run_cell", set_aside.bring_back)


class _SetAside:
    """A context in which the thread of the kernel's loop runs no loop."""

    def __init__(self, kernel: asyncio.AbstractEventLoop) -> None:
        self._kernel = kernel
        self._task: Any = None
        self._handler: Any = None
        self._is_aside = False

    @contextlib.contextmanager
    def __call__(self) -> Generator[None, None, None]:
        if events._get_running_loop() is not self._kernel:
            yield
            return
        self._task = asyncio.current_task()
        self._handler = signal.getsignal(signal.SIGINT)
        self._is_aside = True
        try:
            # In a cell that awaits, it would cancel the cell's task, which cannot run now.
            signal.signal(signal.SIGINT, signal.default_int_handler)
            if self._task is not None:
                asyncio.tasks._leave_task(self._kernel, self._task)
            events._set_running_loop(None)
            yield
        finally:
            self.bring_back()

    def bring_back(self, _result: object = None) -> None:
        if not self._is_aside:
            return
        events._set_running_loop(self._kernel)
        if self._task is not None and asyncio.current_task() is not self._task:
            asyncio.tasks._enter_task(self._kernel, self._task)
        asyncio.set_event_loop(self._kernel)  # which asyncio.run() sets to None
        signal.signal(signal.SIGINT, self._handler)
        self._task = self._handler = None
        self._is_aside = False


def _wrap(owner: Any, names: list[str], set_aside: Callable[[], Any]) -> None:
    for name in names:
        run = getattr(owner, name)

        # `wraps` binds the function of this round.
        @functools.wraps(run)
        def wrapped(*args: Any, __run: Any = run, **options: Any) -> Any:
            with set_aside():
                return __run(*args, **options)

        setattr(owner, name, wrapped)


def _replace_kernels(kernel: Any) -> None:
    """Run coroutines that are given to the kernel's loop in another one, kept between the calls."""
    run = _LOOP.run_until_complete
    own: list[asyncio.AbstractEventLoop] = []

    @functools.wraps(run)
    def run_until_complete(loop: Any, future: Any) -> Any:
        if loop is kernel and kernel.is_running() and asyncio.iscoroutine(future):
            if not own:
                own.append(asyncio.new_event_loop())
            loop = own[0]
        return run(loop, future)

    vars(kernel)["run_until_complete"] = functools.partial(run_until_complete, kernel)
