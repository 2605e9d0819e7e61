"""Arguments of a tool as JSON."""

from __future__ import annotations

import json
from typing import Any, Callable, Mapping

from .errors import InvalidArgumentsError


def encode(message: Mapping[str, Any]) -> bytes:
    """Encode a message as JSON. Values that JSON cannot represent raise an error."""
    try:
        text = _ENCODER.encode(message)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgumentsError(
            f"The arguments cannot be represented as JSON: {error}"
        ) from error
    # Pure ASCII, so that even lone surrogates arrive unchanged.
    return text.encode("ascii")


def _jsonable(value: Any) -> Any:
    """Return a JSON value in place of an object."""
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


#: Conversions by class name, also for subclasses, so that nothing has to be imported.
_BY_NAME: tuple[tuple[str, str, Callable[[Any], Any]], ...] = (
    ("builtins", "set", list),
    ("builtins", "frozenset", list),
    ("enum", "Enum", lambda value: value.value),
    ("uuid", "UUID", str),
    ("decimal", "Decimal", str),
    ("pathlib", "PurePath", str),
    ("pathlib._local", "PurePath", str),
)

#: Created once: ``json.dumps`` would create one for each call.
_ENCODER = json.JSONEncoder(default=_jsonable, allow_nan=False, separators=(",", ":"))
