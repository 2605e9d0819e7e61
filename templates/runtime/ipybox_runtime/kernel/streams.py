"""Sends large output in pieces, and has code wait that writes faster than they are sent.

The kernel puts all that was written within a moment into one message, and a WebSocket message has
a largest size (64 MiB at the receiving end). A larger one would cost the connection. What is written
meanwhile would fill the memory.
"""

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

# Characters; one takes at most six bytes in JSON.
_LARGEST_MESSAGE = 1 << 20
# Characters that a stream takes before what it had is on its way.
_MOST_WAITING = 16 << 20
# Seconds. Code that writes while it holds a lock of the stream must not wait for ever.
_PATIENCE = 10


def install() -> None:
    """Limit the size of the messages of stdout and stderr, and what waits to be sent."""
    streams: list[Any] = [sys.stdout, sys.stderr]
    for stream in streams:
        flush_buffers = getattr(stream, "_flush_buffers", None)
        if flush_buffers is not None:  # ipykernel's own name, which it may change
            stream._flush_buffers = lambda inner=flush_buffers: _in_pieces(inner())
            stream._schedule_flush = _held_back(stream)


def _in_pieces(buffers: Iterator[tuple[Any, str]]) -> Iterator[tuple[Any, str]]:
    for parent, text in buffers:
        for start in range(0, len(text), _LARGEST_MESSAGE):
            yield parent, text[start : start + _LARGEST_MESSAGE]


def _held_back(stream: Any) -> Callable[[], None]:
    schedule_flush, sender = stream._schedule_flush, stream.pub_thread

    def held_back() -> None:  # called by each write; IPython replaces that itself
        schedule_flush()
        with stream._buffer_lock:
            waiting = sum(buffer.tell() for buffer in stream._buffers.values())
        if waiting > _MOST_WAITING and sender.thread is not threading.current_thread():
            sent = threading.Event()
            sender.schedule(stream._flush)  # sends first what the time before has left
            sender.schedule(sent.set)
            sent.wait(_PATIENCE)

    return held_back
