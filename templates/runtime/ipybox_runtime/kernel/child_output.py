"""Adds what child processes and C code write to stdout and stderr to the output of their cell.

ipykernel's own threads read it later, when the cell may have ended: the output would appear in the
next cell or not at all. They also split characters.
"""

from __future__ import annotations

import codecs
import contextvars
import os
import select
import sys
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

# In bytes. A pipe seldom holds more.
_LARGEST_READ = 1 << 16


def install(shell: InteractiveShell) -> None:
    """Read pending output at the end of each cell, and continuously like ipykernel."""
    readers: list[_Reader] = []
    for stream in (sys.stdout, sys.stderr):
        if getattr(stream, "_fid", None) is not None:  # private to ipykernel, so it may change
            _stop_own_thread(stream)
            readers.append(_Reader(stream))
    # In a new context: otherwise all output would belong to the cell that starts the thread.
    for reader in readers:
        contextvars.Context().run(reader.start)

    def take_all(_result: object = None) -> None:
        for reader in readers:
            reader.take()

    shell.events.register("post_run_cell", take_all)


def _stop_own_thread(stream: Any) -> None:
    stream._should_watch = False
    os.write(stream._original_stdstream_fd, b"\0")  # wakes the thread, which does not forward it
    stream.watch_fd_thread.join()
    stream._should_watch = True


class _Reader(threading.Thread):
    """Reads the pipe behind stdout or stderr."""

    def __init__(self, stream: Any) -> None:
        super().__init__(daemon=True)
        self._stream = stream
        self._fd: int = stream._fid
        self._process = os.getpid()
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._turn = threading.Lock()
        os.set_blocking(self._fd, False)
        stream.watch_fd_thread = self  # the stream joins it on close

    def run(self) -> None:
        """Read until the stream is closed."""
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        poll.poll()
        while self._stream._should_watch and self.take():
            poll.poll()

    def take(self) -> bool:
        """Forward what was written so far. Returns whether more can follow."""
        if os.getpid() != self._process:
            return False  # in a fork, the parent reads it
        with self._turn:
            try:
                data = os.read(self._fd, _LARGEST_READ)
            except BlockingIOError:
                return True
            if data:  # first where it is not lost with the kernel
                os.write(self._stream._original_stdstream_copy, data)
            self._stream.write(self._decoder.decode(data))
        return data != b""
