"""Prints the tokens of standard library modules, as Python itself reads them.

The arguments are modules. Prints JSON: for each the path, and [KIND, START, END] of its comments,
numbers, keywords and strings, and as "f-string" of strings with fields. Positions count UTF-16 units.
"""

from __future__ import annotations

import importlib.util
import json
import keyword
import sys
import token
import tokenize
from pathlib import Path

KINDS = {token.COMMENT: "comment", token.NUMBER: "number", token.STRING: "string"}
FSTRING_START = getattr(token, "FSTRING_START", -1)  # since Python 3.12
FSTRING_END = getattr(token, "FSTRING_END", -1)


def tokens(path: Path) -> list[tuple[str, int, int]]:
    lines = path.read_text("utf-8").splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + units(line))

    def position(place: tuple[int, int]) -> int:
        row, column = place
        return starts[row - 1] + units(lines[row - 1][:column])

    found: list[tuple[str, int, int]] = []
    opened: list[int] = []
    with path.open("rb") as file:
        for each in tokenize.tokenize(file.readline):
            if each.type == FSTRING_START:
                opened.append(position(each.start))
            elif each.type == FSTRING_END:
                start = opened.pop()
                if not opened:
                    found.append(("f-string", start, position(each.end)))
            elif not opened and (kind := kind_of(each)) is not None:
                found.append((kind, position(each.start), position(each.end)))
    return found


def kind_of(each: tokenize.TokenInfo) -> str | None:
    if each.type == token.NAME:
        return "keyword" if keyword.iskeyword(each.string) else None
    if each.type == token.STRING and "f" in each.string[: each.string.index(each.string[-1])].lower():
        return "f-string"
    return KINDS.get(each.type)


def units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def path_of(module: str) -> Path:
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(module)
    return Path(spec.origin)


print(json.dumps([{"path": str(path := path_of(name)), "tokens": tokens(path)} for name in sys.argv[1:]]))
