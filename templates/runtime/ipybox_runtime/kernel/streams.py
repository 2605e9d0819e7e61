"""Sends large output in pieces.

The kernel puts all that was written within a moment into one message, and a WebSocket message has
a largest size (64 MiB at the receiving end). A larger one would cost the connection.
"""

import sys
from collections.abc import Iterator
from typing import Any

# Characters; one takes at most six bytes in JSON.
_LARGEST_MESSAGE = 1 << 20


def install() -> None:
    """Limit the size of the messages of stdout and stderr."""
    streams: list[Any] = [sys.stdout, sys.stderr]
    for stream in streams:
        flush_buffers = getattr(stream, "_flush_buffers", None)
        if flush_buffers is not None:  # ipykernel's own name, which it may change
            stream._flush_buffers = lambda inner=flush_buffers: _in_pieces(inner())


def _in_pieces(buffers: Iterator[tuple[Any, str]]) -> Iterator[tuple[Any, str]]:
    for parent, text in buffers:
        for start in range(0, len(text), _LARGEST_MESSAGE):
            yield parent, text[start : start + _LARGEST_MESSAGE]
