"""Short and helpful errors for invalid tool arguments."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from functools import partial
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from .call_frames import HEADER, call_frames
from .checks import is_array, is_mapping
from .signatures import signature_text

_MAX_PROBLEMS = 3
_MAX_PROBLEM_LENGTH = 120


def arguments_error(model: type[BaseModel], error: ValidationError, given: Any) -> ValidationError:
    """Condense an error for the caller: the first problems, with the signature."""
    problems: dict[str, tuple[tuple[int | str, ...], str]] = {}
    for problem in error.errors(include_url=False, include_context=False):
        path = _path_in(given, problem["loc"])
        key = "/".join(map(str, path))
        text = _describe(model, dict(problem), path, given)
        # Each member of a union reports its own problem.
        before = problems.get(key)
        if before is None:
            problems[key] = (path, text)
        elif text not in before[1] and " or " not in before[1]:
            problems[key] = (path, f"{before[1]} or {text[:1].lower()}{text[1:]}")
    details = [
        InitErrorDetails(
            type=PydanticCustomError("arguments", "{text}", {"text": text[:_MAX_PROBLEM_LENGTH]}),
            loc=path,
            input=None,
        )
        for path, text in list(problems.values())[:_MAX_PROBLEMS]
    ]
    involved = {str(path[0]) for path, _ in problems.values() if path}
    short = ValidationError.from_exception_data(
        signature_text(model, involved), details, hide_input=True
    )
    # IPython shows the result of this method instead of all frames with their context.
    vars(short)["_render_traceback_"] = partial(_traceback, short)
    return short


def _traceback(error: ValidationError) -> list[str]:
    """The calling line, and the line of the cell if that is a different one."""
    name = type(error).__name__
    return [HEADER.format(name), *call_frames(error.__traceback__), f"{name}: {error}"]


def _path_in(given: Any, loc: Iterable[int | str]) -> tuple[int | str, ...]:
    """The place of a problem in the arguments, without the names of union members."""
    path: list[int | str] = []
    value = given
    parts = list(loc)
    for at, part in enumerate(parts):
        if is_mapping(value) and (part in value or at == len(parts) - 1):
            path.append(part)
            value = value.get(str(part))
        elif isinstance(part, int) and is_array(value) and part < len(value):
            path.append(part)
            value = value[part]
    return tuple(path)


def _describe(
    model: type[BaseModel], problem: dict[str, Any], path: tuple[int | str, ...], given: Any
) -> str:
    kind = problem["type"]
    if kind in ("missing", "extra_forbidden") and path:
        around: Any = given
        for part in path[:-1]:
            around = around[part]
        names = [name for name in around if isinstance(name, str)]
        if kind == "missing":
            return "Required" + _hint(str(path[-1]), names, "; is {} meant for it?")
        known = names_of(model) if len(path) == 1 else []
        return "Not an argument" + _hint(str(path[-1]), known, "; did you mean {}?")
    if kind in ("model_type", "dict_type") and not path:
        return "Pass the arguments as keywords, or all of them as Params"
    message = str(problem["msg"]).replace(" or instance of ", " or ")
    value = problem["input"]
    if isinstance(value, (str, int, float, bool, type(None))):
        shown = repr(value)
        message += f", not {shown if len(shown) <= 40 else shown[:39] + '…'}"
    return message


def names_of(model: type[BaseModel]) -> list[str]:
    """The names that a model accepts for its fields."""
    fields = model.model_fields
    return [*fields, *(field.alias for field in fields.values() if field.alias)]


def _hint(name: str, candidates: list[str], text: str) -> str:
    close = get_close_matches(name, candidates, n=1, cutoff=0.6)
    return text.format(repr(close[0])) if close else ""
