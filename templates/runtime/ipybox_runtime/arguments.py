"""Arguments of a tool as JSON."""

from __future__ import annotations

import json
from typing import Any, Callable, Mapping

from .errors import InvalidArgumentsError


def encode(message: Mapping[str, Any]) -> bytes:
    """Write a message as JSON. What JSON does not have is refused before anything is sent."""
    try:
        text = _ENCODER.encode(message)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgumentsError(
            f"The arguments cannot be represented as JSON: {error}"
        ) from error
    # ASCII throughout, so that even a lone surrogate arrives as it is.
    return text.encode("ascii")


def _jsonable(value: Any) -> Any:
    """Give what stands for a value in JSON."""
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json", by_alias=True)
    isoformat = getattr(value, "isoformat", None)
    if callable(isoformat):
        return isoformat()
    for module, name, convert in _BY_NAME:
        if any(cls.__module__ == module and cls.__name__ == name for cls in type(value).__mro__):
            return convert(value)
    fields = getattr(value, "__dataclass_fields__", None)
    if fields is not None and not isinstance(value, type):
        return {field: getattr(value, field) for field in fields}
    raise TypeError(f"{type(value).__name__} is not JSON")


#: How values of these classes and their subclasses are written, without importing their modules.
_BY_NAME: tuple[tuple[str, str, Callable[[Any], Any]], ...] = (
    ("builtins", "set", list),
    ("builtins", "frozenset", list),
    ("enum", "Enum", lambda value: value.value),
    ("uuid", "UUID", str),
    ("decimal", "Decimal", str),
    ("pathlib", "PurePath", str),
    ("pathlib._local", "PurePath", str),
)

#: Made once: ``json.dumps`` makes one for each call.
_ENCODER = json.JSONEncoder(default=_jsonable, allow_nan=False, separators=(",", ":"))
