"""As much of HTTP as the tool server speaks, without the time that ``http.client`` takes to import."""

from __future__ import annotations

from typing import Optional

_MAX_HEAD = 65536


class Answer:
    """The answer to one request, fed with what comes in."""

    def __init__(self) -> None:
        #: The HTTP status, once the head has come.
        self.status = 0
        #: The body, once all of it has come.
        self.body = b""
        #: Whether the connection can be used again.
        self.keep = False
        self._pending = bytearray()
        self._chunks = bytearray()
        self._length: Optional[int] = None
        self._chunked = False

    def feed(self, data: bytes) -> bool:
        """Take what came in and tell whether the answer is complete."""
        if not data:
            raise ConnectionError("The connection was closed before the answer was complete")
        self._pending += data
        if self.status == 0 and not self._take_head():
            return False
        if self._chunked:
            return self._take_chunks()
        assert self._length is not None
        if len(self._pending) < self._length:
            return False
        self._complete(bytes(self._pending[: self._length]), len(self._pending) - self._length)
        return True

    def _take_head(self) -> bool:
        end = self._pending.find(b"\r\n\r\n")
        if end == -1:
            if len(self._pending) > _MAX_HEAD:
                raise ConnectionError("The head of the answer is too long")
            return False
        status_line, *lines = self._pending[:end].decode("latin-1").split("\r\n")
        del self._pending[: end + 4]
        headers = {}
        for line in lines:
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip().lower()
        try:
            self.status = int(status_line.split(" ")[1])
            self._chunked = headers.get("transfer-encoding") == "chunked"
            self._length = None if self._chunked else int(headers["content-length"])
        except (IndexError, KeyError, ValueError) as error:
            raise ConnectionError("The answer is not one of a tool server") from error
        self.keep = headers.get("connection") != "close"
        return True

    def _take_chunks(self) -> bool:
        while True:
            if self._length is None:
                end = self._pending.find(b"\r\n")
                if end == -1:
                    return False
                self._length = int(self._pending[:end], 16)
                del self._pending[: end + 2]
            if len(self._pending) < self._length + 2:
                return False
            length, self._length = self._length, None
            self._chunks += self._pending[:length]
            del self._pending[: length + 2]
            if length == 0:
                self._complete(bytes(self._chunks), len(self._pending))
                return True

    def _complete(self, body: bytes, rest: int) -> None:
        self.body = body
        self.keep = self.keep and rest == 0  # what nobody asked for is not read as the next answer
