"""The line of the executed code that makes a call, shown to the approver."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Optional

_running: Optional[str] = None


def set_running(file_name: Optional[str]) -> None:
    """Set the file name of the code that is running now."""
    global _running
    _running = file_name


def is_running(file_name: str) -> bool:
    """Whether a file name is that of the code that is running now."""
    return file_name == _running


def calling_line() -> Optional[int]:
    """Return the line of the executed code in the current call stack, if there is one."""
    if _running is None:
        return None
    frame: Optional[FrameType] = sys._getframe(1)
    while frame is not None:
        if is_running(frame.f_code.co_filename):
            return frame.f_lineno
        frame = frame.f_back
    return None
