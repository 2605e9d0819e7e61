"""Which line of the code that is executed calls, for whoever has to approve the call."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Optional

_running: Optional[str] = None
_skipped = 0


def set_running(file_name: Optional[str], skipped: int = 0) -> None:
    """Tell under which file name the code that is executed now was compiled.

    ``skipped`` is how many of its first lines were left out.
    """
    global _running, _skipped
    _running = file_name
    _skipped = skipped


def calling_line() -> Optional[int]:
    """Give the line of the executed code that leads to this call, if it is in this call's stack."""
    if _running is None:
        return None
    frame: Optional[FrameType] = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename == _running:
            return frame.f_lineno + _skipped
        frame = frame.f_back
    return None
