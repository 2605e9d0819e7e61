"""Options of calls: their timeout, and a callback for their progress."""

from __future__ import annotations

from contextvars import ContextVar, Token
from typing import Any, Callable, Mapping, Optional


class ToolProgress:
    """The progress of a call, as reported by its server."""

    __slots__ = ("message", "progress", "total")

    def __init__(self, report: Mapping[str, Any]) -> None:
        #: How much is done. It never decreases.
        self.progress: float = report["progress"]
        #: The total, if the server knows it.
        self.total: Optional[float] = report.get("total")
        #: The current work.
        self.message: Optional[str] = report.get("message")

    def __repr__(self) -> str:
        total = "" if self.total is None else f"/{self.total:g}"
        message = "" if self.message is None else f", {self.message!r}"
        return f"ToolProgress({self.progress:g}{total}{message})"


OnProgress = Callable[[ToolProgress], Any]


class CallOptions:
    """Options of calls. As a context manager, they apply to all calls in the block."""

    __slots__ = ("_tokens", "on_progress", "timeout")

    def __init__(self, timeout: Optional[float], on_progress: Optional[OnProgress]) -> None:
        if timeout is not None and not timeout > 0:
            raise ValueError(f"Cannot use a timeout of {timeout} s: it must be above 0")
        self.timeout = timeout
        self.on_progress = on_progress
        self._tokens: list[Token[CallOptions]] = []

    def over(self, other: CallOptions) -> CallOptions:
        """Return these options, completed from others."""
        return CallOptions(
            other.timeout if self.timeout is None else self.timeout,
            other.on_progress if self.on_progress is None else self.on_progress,
        )

    def request(self) -> dict[str, Any]:
        """Return the options in the form of a request to the tool server."""
        request: dict[str, Any] = {}
        if self.timeout is not None and self.timeout < _LONGEST:
            request["timeout_ms"] = max(1, round(self.timeout * 1000))
        if self.on_progress is not None:
            request["progress"] = True
        return request

    def __enter__(self) -> CallOptions:
        self._tokens.append(_current.set(self.over(current_options())))
        return self

    def __exit__(self, *_: object) -> None:
        _current.reset(self._tokens.pop())


#: Longer timeouts, in seconds, do not count: the tool server's timers cannot represent them.
_LONGEST = 2_000_000

_current: ContextVar[CallOptions] = ContextVar("ipybox_call_options")
_NONE = CallOptions(None, None)


def call_options(
    *, timeout: Optional[float] = None, on_progress: Optional[OnProgress] = None
) -> CallOptions:
    """Set how tools are called in a ``with`` block::

        with call_options(timeout=30, on_progress=print):
            everything.trigger_long_running_operation.run(duration=5, steps=5)

    ``timeout`` is in seconds, counted from the approval of the call; a call that takes longer
    raises ``ToolTimeoutError``. ``on_progress`` is called with a ``ToolProgress`` whenever the
    server reports progress; it may be a coroutine function if the tools are awaited. Blocks can be
    nested. Tasks and ``asyncio.to_thread`` inherit the options; plain threads do not.
    """
    return CallOptions(timeout, on_progress)


def current_options() -> CallOptions:
    """Return the options of the innermost block."""
    return _current.get(_NONE)
