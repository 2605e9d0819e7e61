"""Sends large output in pieces, and slows down code that writes faster than they are sent.

The kernel joins everything that is written within a short time into one message. A message above
the WebSocket limit of the receiver (64 MiB) would break the connection, and unsent output would
fill the memory.
"""

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

# In characters. One takes at most six bytes in JSON.
_LARGEST_MESSAGE = 1 << 20
# In characters. A stream with more unsent output blocks until that is sent.
_MOST_WAITING = 16 << 20
# In seconds. Code may write while it holds a lock of the stream, so it must not wait forever.
_PATIENCE = 10


def install() -> None:
    """Limit the message size and the unsent output of stdout and stderr."""
    streams: list[Any] = [sys.stdout, sys.stderr]
    for stream in streams:
        flush_buffers = getattr(stream, "_flush_buffers", None)
        if flush_buffers is not None:  # private to ipykernel, so it may change
            stream._flush_buffers = lambda inner=flush_buffers: _in_pieces(inner())
            stream._schedule_flush = _held_back(stream)


def _in_pieces(buffers: Iterator[tuple[Any, str]]) -> Iterator[tuple[Any, str]]:
    for parent, text in buffers:
        for start in range(0, len(text), _LARGEST_MESSAGE):
            yield parent, text[start : start + _LARGEST_MESSAGE]


def _held_back(stream: Any) -> Callable[[], None]:
    schedule_flush, sender = stream._schedule_flush, stream.pub_thread

    def held_back() -> None:  # called by each write(), which IPython may replace
        schedule_flush()
        with stream._buffer_lock:
            waiting = sum(buffer.tell() for buffer in stream._buffers.values())
        if waiting > _MOST_WAITING and sender.thread is not threading.current_thread():
            sent = threading.Event()
            sender.schedule(stream._flush)  # sends the older output first
            sender.schedule(sent.set)
            sent.wait(_PATIENCE)

    return held_back
