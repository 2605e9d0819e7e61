"""Restores code that was copied together with its surroundings.

Models write Markdown, Windows ends lines in its own way, and web pages indent with no-break spaces.
"""

import ast
import re
from typing import Any

_FENCE = re.compile(r"\s*(`{3,}|~{3,})[ \t]*(py|python3?|ipython3?)?\s*", re.IGNORECASE)
_INVISIBLE = "\ufeff\u200b\u200c\u200d\u2060"
_BLANKS = re.compile(rf"^[ \t\u00a0{_INVISIBLE}]+|[\u00a0{_INVISIBLE}]+$", re.MULTILINE)


def install(shell: Any) -> None:
    """Change cells before IPython does."""
    shell.input_transformer_manager.cleanup_transforms.insert(0, _meant)


def _meant(lines: list[str]) -> list[str]:
    text = "".join(lines).replace("\r\n", "\n")
    return _without_fence(_with_plain_blanks(text)).splitlines(keepends=True)


def _with_plain_blanks(text: str) -> str:
    """Turn no-break spaces around lines into spaces, and drop invisible characters there."""
    if text.isascii():
        return text
    plain = _BLANKS.sub(_plain, text)
    return text if plain == text or _is_python(text) else plain


def _plain(blanks: re.Match[str]) -> str:
    return re.sub(f"[{_INVISIBLE}]", "", blanks[0].replace("\u00a0", " "))


def _is_python(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError):
        return False
    return True


def _without_fence(text: str) -> str:
    """Remove the fences around a block of code, or the remaining one."""
    if "```" not in text and "~~~" not in text:
        return text
    lines = text.strip("\n").split("\n")
    first, last = _FENCE.fullmatch(lines[0]), _FENCE.fullmatch(lines[-1])
    fences = sum(_FENCE.match(line) is not None for line in lines)
    if first is not None and last is not None and len(lines) > 1 and last[2] is None:
        return "\n".join(["", *lines[1:-1], ""])
    if fences == 1 and first is not None:
        return "\n".join(["", *lines[1:], ""])
    if fences == 1 and last is not None and not text.lstrip().startswith("%%"):
        return "\n".join([*lines[:-1], ""])
    return text
