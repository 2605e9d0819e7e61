"""Calls to the tool server, over pooled connections."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from contextlib import suppress
from typing import Any, Callable, Iterator, Optional
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from .errors import ToolServerError
from .source import calling_line

#: How many idle streams are kept.
_MAX_IDLE = 32
#: How many calls run concurrently, in threads and in each event loop; others wait. The tool
#: server's own limit is above these two together.
_MAX_CALLS = 64
_READ_SIZE = 1 << 16
#: The shortest and the longest pause before a call is repeated, in seconds. It doubles each time.
_PAUSES = (0.05, 1.0)


class Session:
    """Calls to the tool server from any thread or event loop, each on its own stream.

    A request is a JSON line and a body. The response is lines: reports of progress, then the
    answer, after which the stream is reused. Cancelling a call, for example with Ctrl-C or by
    cancelling its task, closes its stream, and the tool server cancels the call.

    A durable session outlives its host. There, each call has an id. If the connection breaks, the
    call is repeated with the same id until there is an answer: the tool server knows its outcome.
    Cancelling such a call sends one more byte.
    """

    def __init__(self, url: str, token: str, durable: bool = False) -> None:
        parts = urlsplit(url)
        if parts.scheme != "tcp" or parts.hostname is None or parts.port is None:
            raise ToolServerError(f"Not a tool server's address: {url!r}")
        self._address = (parts.hostname, parts.port)
        self._token = json.dumps(token)
        self._durable = durable
        self._idle: list[_Stream] = []
        self._turns = threading.BoundedSemaphore(_MAX_CALLS)
        self._loop_turns: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()

    def call(
        self, name: str, body: bytes, on_progress: Optional[Callable[[Any], Any]] = None
    ) -> dict[str, Any]:
        """Make a call and wait for the answer."""
        request, pauses = self._request(name, body), self._pauses()
        with self._turns:
            while True:
                try:
                    return self._attempt(request, on_progress)
                except ToolServerError as error:
                    if not (self._durable and _is_lost(error)):
                        raise
                time.sleep(next(pauses))

    async def call_async(
        self,
        name: str,
        body: bytes,
        on_progress: Optional[Callable[[Any], Any]] = None,
    ) -> dict[str, Any]:
        """Make a call and await the answer."""
        import asyncio

        request, pauses = self._request(name, body), self._pauses()
        loop = asyncio.get_running_loop()
        turns = self._loop_turns.get(loop)
        if turns is None:
            turns = self._loop_turns[loop] = asyncio.Semaphore(_MAX_CALLS)
        async with turns:
            while True:
                try:
                    return await self._attempt_async(loop, request, on_progress)
                except ToolServerError as error:
                    if not (self._durable and _is_lost(error)):
                        raise
                await asyncio.sleep(next(pauses))

    def _attempt(
        self, request: bytes, on_progress: Optional[Callable[[Any], Any]]
    ) -> dict[str, Any]:
        stream, is_new = self._stream()
        try:
            stream.socket.setblocking(True)
            with _reaching:
                if is_new:
                    stream.socket.connect(self._address)
                stream.socket.sendall(request)
            lines = _Lines()
            while True:
                with _reaching:
                    lines.add(stream.socket.recv(_READ_SIZE))
                for message in lines.take():
                    if "progress" not in message:
                        return self._answer(message, stream)
                    if on_progress is not None:
                        on_progress(message["progress"])
        except BaseException as error:
            self._drop(stream, error)
            raise

    async def _attempt_async(
        self, loop: Any, request: bytes, on_progress: Optional[Callable[[Any], Any]]
    ) -> dict[str, Any]:
        stream, is_new = self._stream()
        try:
            stream.socket.setblocking(False)
            with _reaching:
                if is_new:
                    await loop.sock_connect(stream.socket, self._address)
                await loop.sock_sendall(stream.socket, request)
            lines = _Lines()
            while True:
                with _reaching:
                    lines.add(await loop.sock_recv(stream.socket, _READ_SIZE))
                for message in lines.take():
                    if "progress" not in message:
                        return self._answer(message, stream)
                    if on_progress is not None:
                        outcome = on_progress(message["progress"])
                        if hasattr(outcome, "__await__"):
                            await outcome
        except BaseException as error:
            self._drop(stream, error)
            raise

    def _drop(self, stream: _Stream, error: BaseException) -> None:
        if self._durable and not _is_lost(error):
            stream.give_up()
        stream.close()

    def _pauses(self) -> Iterator[float]:
        pause, longest = _PAUSES
        while True:
            yield pause
            pause = min(2 * pause, longest)

    def _stream(self) -> tuple[_Stream, bool]:
        while True:
            try:
                stream = self._idle.pop()
            except IndexError:
                return _Stream(), True
            if stream.is_open():
                return stream, False
            stream.close()

    def _request(self, name: str, body: bytes) -> bytes:
        line = calling_line()
        source = "" if line is None else f',"line":{line}'
        call_id = f',"id":"{os.urandom(16).hex()}"' if self._durable else ""
        head = f'{{"token":{self._token},"call":"{name}","size":{len(body)}{source}{call_id}}}\n'
        # In one write: with two, delayed acknowledgements can cost 40 ms.
        return head.encode("ascii") + body

    def _answer(self, message: dict[str, Any], stream: _Stream) -> dict[str, Any]:
        refused = message.get("refused")
        if refused is not None:
            raise ToolServerError(f"The tool server refused the request: {refused}")
        if len(self._idle) < _MAX_IDLE:
            self._idle.append(stream)
        else:
            stream.close()
        return message


class _Stream:
    """A connection, used by one call at a time."""

    def __init__(self) -> None:
        self.socket = socket.socket(socket.AF_INET)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def is_open(self) -> bool:
        """Whether the server has kept it open."""
        try:
            self.socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except (BlockingIOError, InterruptedError):
            return True
        except OSError:
            return False
        return False  # closed, or unexpected data arrived

    def give_up(self) -> None:
        """Notify the server that the call is cancelled, if this is possible without blocking."""
        with suppress(OSError):
            self.socket.send(b"\n", socket.MSG_DONTWAIT)

    def close(self) -> None:
        self.socket.close()

    def __del__(self) -> None:
        self.close()


class _Lines:
    """Splits incoming data into lines, each a JSON message."""

    def __init__(self) -> None:
        self._lines: list[bytes] = []
        self._begun = bytearray()

    def add(self, data: bytes) -> None:
        """Add incoming data."""
        if not data:
            raise ConnectionError("The connection was closed before the response was complete")
        first, *others = data.split(b"\n")
        self._begun += first
        if others:
            self._lines += [bytes(self._begun), *others[:-1]]
            self._begun = bytearray(others[-1])

    def take(self) -> list[dict[str, Any]]:
        """Return the complete messages."""
        lines, self._lines = self._lines, []
        try:
            return [json.loads(str(line, "utf-8")) for line in lines]
        except ValueError as error:
            raise ToolServerError("The response did not come from a tool server") from error


class _Reaching:
    """Converts connection errors into ``ToolServerError``."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: Any, error: Optional[BaseException], _trace: Any) -> None:
        if isinstance(error, OSError):
            raise ToolServerError(f"Cannot reach the tool server: {error}") from error


_reaching = _Reaching()


def _is_lost(error: BaseException) -> bool:
    """Whether an error means that the connection broke before the answer."""
    return isinstance(error, ToolServerError) and isinstance(error.__cause__, OSError)


_session: Optional[Session] = None


def default_session() -> Session:
    """Return the session with the tool server that the environment names."""
    global _session
    if _session is None:
        url = os.environ.get("IPYBOX_TOOL_URL")
        token = os.environ.get("IPYBOX_TOOL_TOKEN")
        if not url or not token:
            raise ToolServerError(
                "Cannot call tools here: IPYBOX_TOOL_URL and IPYBOX_TOOL_TOKEN are not set, "
                "as they are in ipybox kernels"
            )
        _session = Session(url, token, os.environ.get("IPYBOX_TOOL_DURABLE") == "1")
    return _session


def _forget_session() -> None:
    global _session
    _session = None


if hasattr(os, "register_at_fork"):
    # A child must not use the parent's streams, and nobody releases the parent's semaphores there.
    os.register_at_fork(after_in_child=_forget_session)
