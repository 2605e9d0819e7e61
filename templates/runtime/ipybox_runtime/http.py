"""As much of HTTP as the tool server speaks, without the time that ``http.client`` takes to import."""

from __future__ import annotations

from typing import Optional

_MAX_HEAD = 65536


class Answer:
    """The answer to one request, fed with what comes in."""

    def __init__(self) -> None:
        #: The HTTP status, once the head has come.
        self.status = 0
        #: Whether the connection can be used again.
        self.keep = False
        self._pending = bytearray()
        self._chunks = bytearray()
        self._searched = 0
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
        # What nobody asked for is not read as the next answer.
        self.keep = self.keep and len(self._pending) == self._length
        self._chunks = self._pending[: self._length]
        return True

    @property
    def body(self) -> bytes:
        """The body, once all of it has come, without the lines that were taken."""
        return bytes(self._chunks)

    def take_lines(self) -> list[bytes]:
        """Give the lines that are complete so far. The last one, without an end, is the body."""
        end = self._chunks.rfind(b"\n", self._searched)
        lines: list[bytes] = []
        if end != -1:
            lines = bytes(self._chunks[:end]).split(b"\n")
            del self._chunks[: end + 1]
        self._searched = len(self._chunks)  # a long last line is not searched again and again
        return lines

    def _take_head(self) -> bool:
        end = self._pending.find(b"\r\n\r\n")
        if end == -1:
            if len(self._pending) > _MAX_HEAD:
                raise ConnectionError("The head of the answer is too long")
            return False
        # All of its values that are looked at are words in any case.
        status_line, *lines = str(self._pending[:end], "latin-1").lower().split("\r\n")
        del self._pending[: end + 4]
        headers: dict[str, str] = {}
        for line in lines:
            name, _, value = line.partition(":")
            headers[name] = value.strip()
        try:
            self.status = int(status_line.split(" ", 2)[1])
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
                self.keep = self.keep and not self._pending
                return True
