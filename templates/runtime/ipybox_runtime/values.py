"""Types of JSON values, and constraints on them."""

from __future__ import annotations

import copy
import math
from fractions import Fraction
from typing import Annotated, Any, TypeVar, cast, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, StrictBool
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from .checks import compile_pattern, is_array, is_multiple, is_object, json_equal, json_key

_T = TypeVar("_T")
_SENT = "sent"
_NULL = "null"


def _integer(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and value.is_integer():  # JSON Schema: 5.0 is an integer
        return int(value)
    raise PydanticCustomError("int_type", "Input should be a valid integer")


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise PydanticCustomError("number_type", "Input should be a valid number")
    if isinstance(value, float) and not math.isfinite(value):
        raise PydanticCustomError("finite_number", "Input should be a finite number")
    return value


def _never(value: Any) -> Any:
    raise PydanticCustomError("never", "The schema allows no value here")


Int = Annotated[int, BeforeValidator(_integer)]
"""An integer: 5 and 5.0, but neither "5" nor True."""

Num = Annotated[int | float, BeforeValidator(_number)]
"""A finite number of unchanged type: 1 does not become 1.0."""

Bool = StrictBool
"""True or False, and no values that Pydantic would convert."""

Null = Annotated[None, _NULL]
"""A null that is sent. The default `None` of such a field only means "not given"."""

Never = Annotated[Any, BeforeValidator(_never)]
"""Refuses every value."""


def one_of(*allowed: Any) -> BeforeValidator:
    """Allows these JSON values: 1 equals 1.0, but True does not equal 1."""

    def check(value: Any) -> Any:
        for candidate in allowed:
            if json_equal(value, candidate):
                # A copy, so that callers cannot modify the allowed values.
                return copy.deepcopy(candidate)
        raise PydanticCustomError("one_of", "Input should be one of the values in the schema")

    return BeforeValidator(check)


def pattern(source: str) -> AfterValidator:
    """Requires a match anywhere in a string. A pattern that does not compile allows everything."""

    def check(value: str) -> str:
        if not compile_pattern(source)(value):
            raise PydanticCustomError(
                "string_pattern_mismatch",
                "String should match pattern '{pattern}'",
                {"pattern": source},
            )
        return value

    return AfterValidator(check)


def multiple_of(step: float) -> AfterValidator:
    """Requires a multiple, computed exactly: 4.35 is a multiple of 0.01."""

    exact = Fraction(str(step))

    def check(value: float) -> float:
        if not is_multiple(value, exact):
            raise PydanticCustomError(
                "multiple_of", "Input should be a multiple of {step}", {"step": step}
            )
        return value

    return AfterValidator(check)


def _unique(values: list[Any]) -> list[Any]:
    seen = {json_key(_plain(value)) for value in values}
    if len(seen) != len(values):
        raise PydanticCustomError("unique", "Items should be unique")
    return values


def _plain(value: Any) -> Any:
    """A value as JSON, with models turned into dictionaries."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True, exclude_unset=True)
    if is_array(value):
        return [_plain(item) for item in value]
    if is_object(value):
        return {key: _plain(item) for key, item in value.items()}
    return value


unique = AfterValidator(_unique)
"""Requires that no two items are equal as JSON values."""


def is_nullable(field: FieldInfo) -> bool:
    """Whether a null can be sent for a field."""
    annotation = field.annotation
    return annotation is Any or _NULL in field.metadata or Null in get_args(annotation)


def sent(value: _T) -> _T:
    """The default of a field that the schema requires. It is sent if no value is given."""
    return cast("_T", Field(json_schema_extra={_SENT: cast("Any", value)}))


def preset_of(field: FieldInfo, otherwise: Any) -> Any:
    """The default that is sent for a field, or `otherwise`."""
    extra = field.json_schema_extra
    known = cast("dict[str, Any]", extra) if isinstance(extra, dict) else {}
    return known.get(_SENT, otherwise)
