"""Which line of the code that is executed calls, for whoever has to approve the call."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Optional

_running: Optional[str] = None


def set_running(file_name: Optional[str]) -> None:
    """Tell under which file name the code that is executed now was compiled."""
    global _running
    _running = file_name


def is_running(file_name: str) -> bool:
    """Tell whether code of that file name is what is executed now."""
    return file_name == _running


def calling_line() -> Optional[int]:
    """Give the line of the executed code that leads to this call, if it is in this call's stack."""
    if _running is None:
        return None
    frame: Optional[FrameType] = sys._getframe(1)
    while frame is not None:
        if is_running(frame.f_code.co_filename):
            return frame.f_lineno
        frame = frame.f_back
    return None
