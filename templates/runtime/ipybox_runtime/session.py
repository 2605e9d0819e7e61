"""Requests to the tool server, on connections that are kept."""

from __future__ import annotations

import json
import os
import socket
import threading
from typing import TYPE_CHECKING, Any, Awaitable, Callable, NoReturn, Optional
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from .errors import ToolServerError
from .http import Answer
from .source import calling_line

if TYPE_CHECKING:
    import asyncio

#: How many connections are kept while they are not used.
_MAX_IDLE = 32
#: How many requests are made at once, by threads and in each event loop; the others wait. The tool
#: server answers more than these two together, but not any number.
_MAX_REQUESTS = 64
_READ_SIZE = 1 << 16


class Session:
    """Requests to the tool server, each on a connection of its own, from any thread or event loop.

    A request that is given up, as by Ctrl-C or by cancelling its task, closes its connection. By that
    the tool server knows that it must cancel the call.
    """

    def __init__(self, url: str, token: str) -> None:
        parts = urlsplit(url)
        if parts.scheme != "http" or parts.hostname is None or parts.port is None:
            raise ToolServerError(f"Not the address of a tool server: {url!r}")
        self._address = (parts.hostname, parts.port)
        self._head = (
            f"Host: {parts.netloc}\r\nAuthorization: Bearer {token}\r\n"
            "Content-Type: application/json\r\nContent-Length: "
        )
        self._idle: list[_Connection] = []
        self._turns = threading.BoundedSemaphore(_MAX_REQUESTS)
        self._loop_turns: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()

    def post(
        self, path: str, body: bytes, on_line: Optional[Callable[[bytes], Any]] = None
    ) -> dict[str, Any]:
        """Send a request and wait for the answer, of which all lines but the last are passed on."""
        with self._turns:
            return self._post(path, body, on_line)

    def _post(
        self, path: str, body: bytes, on_line: Optional[Callable[[bytes], Any]]
    ) -> dict[str, Any]:
        request = self._request(path, body)
        connection: Optional[_Connection] = None
        try:
            connection = self._reuse()
            if connection is None or not connection.try_send(request):
                connection = _Connection.open(self._address)
                connection.send(request)
            answer = connection.receive(on_line)
        except OSError as error:
            _give_up(connection)
            _unreachable(error)
        except BaseException:
            _give_up(connection)
            raise
        self._keep(connection, answer)
        return _decode(answer)

    async def post_async(
        self,
        path: str,
        body: bytes,
        on_line: Optional[Callable[[bytes], Awaitable[Any]]] = None,
    ) -> dict[str, Any]:
        """Send a request and wait for the answer without blocking the event loop."""
        import asyncio

        loop = asyncio.get_running_loop()
        turns = self._loop_turns.get(loop)
        if turns is None:
            turns = self._loop_turns[loop] = asyncio.Semaphore(_MAX_REQUESTS)
        async with turns:
            return await self._post_async(loop, path, body, on_line)

    async def _post_async(
        self,
        loop: asyncio.AbstractEventLoop,
        path: str,
        body: bytes,
        on_line: Optional[Callable[[bytes], Awaitable[Any]]],
    ) -> dict[str, Any]:
        request = self._request(path, body)
        connection: Optional[_Connection] = None
        try:
            connection = self._reuse()
            if connection is None or not await connection.try_send_async(loop, request):
                connection = await _Connection.open_async(loop, self._address)
                await connection.send_async(loop, request)
            answer = await connection.receive_async(loop, on_line)
        except OSError as error:
            _give_up(connection)
            _unreachable(error)
        except BaseException:
            _give_up(connection)
            raise
        self._keep(connection, answer)
        return _decode(answer)

    def _request(self, path: str, body: bytes) -> bytes:
        line = calling_line()
        source = "" if line is None else f"\r\nX-Ipybox-Line: {line}"
        head = f"POST {path} HTTP/1.1\r\n{self._head}{len(body)}{source}\r\n\r\n"
        # One write: with two, the other side's delayed acknowledgement can cost 40 ms.
        return head.encode("ascii") + body

    def _reuse(self) -> Optional[_Connection]:
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return None
            if connection.usable():
                return connection
            connection.close()

    def _keep(self, connection: _Connection, answer: Answer) -> None:
        if answer.keep and len(self._idle) < _MAX_IDLE:
            self._idle.append(connection)
        else:
            connection.close()


class _Connection:
    """A connection, used by one request at a time."""

    def __init__(self, sock: socket.socket) -> None:
        self._process = os.getpid()
        self._socket = sock
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    @classmethod
    def open(cls, address: tuple[str, int]) -> _Connection:
        return cls(socket.create_connection(address))

    @classmethod
    async def open_async(
        cls, loop: asyncio.AbstractEventLoop, address: tuple[str, int]
    ) -> _Connection:
        connection = cls(socket.socket(socket.AF_INET))
        connection._socket.setblocking(False)
        try:
            await loop.sock_connect(connection._socket, address)
        except BaseException:
            connection.close()
            raise
        return connection

    def usable(self) -> bool:
        """Tell whether the server has left it open, and no fork has made it another process's."""
        if self._process != os.getpid():
            return False
        try:
            self._socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except (BlockingIOError, InterruptedError):
            return True
        except OSError:
            return False
        return False  # closed, or something came that nobody asked for

    def send(self, request: bytes) -> None:
        if self._socket.gettimeout() is not None:
            self._socket.setblocking(True)
        self._socket.sendall(request)

    async def send_async(self, loop: asyncio.AbstractEventLoop, request: bytes) -> None:
        self._socket.setblocking(False)
        await loop.sock_sendall(self._socket, request)

    def try_send(self, request: bytes) -> bool:
        """Send a request. Where that fails, not all of it was sent, so nothing was processed."""
        try:
            self.send(request)
        except OSError:
            self.close()
            return False
        return True

    async def try_send_async(self, loop: asyncio.AbstractEventLoop, request: bytes) -> bool:
        """Send a request like ``try_send``."""
        try:
            await self.send_async(loop, request)
        except OSError:
            self.close()
            return False
        return True

    def receive(self, on_line: Optional[Callable[[bytes], Any]]) -> Answer:
        answer = Answer()
        complete = False
        while not complete:
            complete = answer.feed(self._socket.recv(_READ_SIZE))
            if on_line is not None:
                for line in answer.take_lines():
                    on_line(line)
        return answer

    async def receive_async(
        self,
        loop: asyncio.AbstractEventLoop,
        on_line: Optional[Callable[[bytes], Awaitable[Any]]],
    ) -> Answer:
        answer = Answer()
        complete = False
        while not complete:
            complete = answer.feed(await loop.sock_recv(self._socket, _READ_SIZE))
            if on_line is not None:
                for line in answer.take_lines():
                    await on_line(line)
        return answer

    def close(self) -> None:
        self._socket.close()

    def __del__(self) -> None:
        self.close()


def _give_up(connection: Optional[_Connection]) -> None:
    if connection is not None:
        connection.close()


def _decode(answer: Answer) -> dict[str, Any]:
    try:
        decoded: dict[str, Any] = json.loads(str(answer.body, "utf-8"))
    except ValueError as error:
        raise ToolServerError(f"The tool server answered with HTTP {answer.status}") from error
    if answer.status != 200:
        message = decoded.get("error", {}).get("message", "no reason given")
        raise ToolServerError(f"The tool server refused the request: {message}")
    return decoded


def _unreachable(error: OSError) -> NoReturn:
    raise ToolServerError(f"Cannot reach the tool server: {error}") from error


_session: Optional[Session] = None


def default_session() -> Session:
    """Give the session with the tool server that the environment names."""
    global _session
    if _session is None:
        url = os.environ.get("IPYBOX_TOOL_URL")
        token = os.environ.get("IPYBOX_TOOL_TOKEN")
        if not url or not token:
            raise ToolServerError(
                "Cannot call tools here: IPYBOX_TOOL_URL and IPYBOX_TOOL_TOKEN are not set, "
                "as they are in kernels of ipybox"
            )
        _session = Session(url, token)
    return _session


def _forget_session() -> None:
    global _session
    _session = None


if hasattr(os, "register_at_fork"):
    # The parent's connections are not the child's, and its turns are never given back there.
    os.register_at_fork(after_in_child=_forget_session)
