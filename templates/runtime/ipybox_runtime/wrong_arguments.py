"""Says what is wrong with the arguments of a tool, in as few words as its caller needs."""

from __future__ import annotations

import os
import traceback
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from .checks import is_object

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

_MAX_PROBLEMS = 4
_MAX_PROBLEM = 120
_MAX_LINE = 120
_MAX_TYPE = 40
_MAX_SIGNATURE = 240
_RUNTIME = os.path.dirname(os.path.abspath(__file__)) + os.sep


def explain(error: ValidationError, model: type[BaseModel], given: Any, call: str) -> list[str]:
    """The traceback of an error as IPython shows it: the line, what is wrong, how to call it."""
    where = _line_of(error)
    head = "ValidationError" if where is None else f"ValidationError in {where}"
    names = list(given) if is_object(given) else []
    return ["\n".join([head, *_problems(error, model, names), _signature(model, call)])]


def _line_of(error: ValidationError) -> str | None:
    """The caller's line: the last one that is neither ours nor a library's."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        name = frame.filename
        if name.startswith(_RUNTIME) or f"{os.sep}site-packages{os.sep}" in name:
            continue
        return f"line {frame.lineno}: {_cut((frame.line or '').strip(), _MAX_LINE)}"
    return None


def _problems(error: ValidationError, model: type[BaseModel], given: list[Any]) -> list[str]:
    fields = model.model_fields
    declared = {*fields, *(field.alias for field in fields.values() if field.alias)}
    unknown = [str(name) for name in given if name not in declared]
    lines: list[str] = []
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    missing = [str(problem["loc"][0]) for problem in problems if problem["type"] == "missing"]
    for problem in problems:
        where = ".".join(map(str, problem["loc"])) or "arguments"
        if problem["type"] == "missing":
            lines.append(f"{where} is missing")
        elif problem["type"] == "extra_forbidden" and where in unknown:
            continue
        else:
            lines.append(f"{where}: {problem['msg']}")
    for name in unknown:
        near = missing if len(missing) == len(unknown) == 1 else []
        near = near or get_close_matches(name, missing, n=1, cutoff=0.3)
        near = near or get_close_matches(name, declared - set(given), n=1, cutoff=0.5)
        hint = f": did you mean {near[0]}?" if near else ""
        lines.append(f"there is no argument {name}{hint}")
    shown = [_cut(line, _MAX_PROBLEM) for line in lines[:_MAX_PROBLEMS]]
    rest = len(lines) - len(shown)
    return shown if rest == 0 else [*shown, f"and {rest} more"]


def _signature(model: type[BaseModel], call: str) -> str:
    fields = sorted(model.model_fields.items(), key=lambda field: not field[1].is_required())
    arguments = [
        f"{name}: {_type_of(field.annotation)}{'' if field.is_required() else ' = …'}"
        for name, field in fields
    ]
    text = ""
    for argument in arguments:
        if len(text) + len(argument) > _MAX_SIGNATURE:
            return f"{call}({text}, …)"
        text = f"{text}, {argument}" if text else argument
    return f"{call}({text})"


def _type_of(annotation: Any) -> str:
    name = annotation.__name__ if isinstance(annotation, type) else str(annotation)
    return _cut(name.replace("typing.", ""), _MAX_TYPE)


def _cut(text: str, limit: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= limit else f"{text[:limit]}…"
