"""The building blocks of generated tool modules.

A generated class never refuses or changes a value that the schema allows, and never sends one that
it forbids. The server checks its input itself.
"""

from __future__ import annotations

import copy
import functools
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import (
    BaseModel,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    ValidationError,
    ValidationInfo,
    model_serializer,
    model_validator,
)
from pydantic_core import PydanticCustomError

from .checks import SchemaCheck, is_array, is_object
from .content import ToolText
from .model_base import Model
from .results import (
    MismatchedResultError,
    OutputModel,
    ResultMapping,
    ResultModel,
    ResultRoot,
    ResultValue,
)
from .tools import invoke, invoke_json, tool
from .values import (
    Bool,
    Int,
    Never,
    Null,
    Num,
    is_nullable,
    multiple_of,
    one_of,
    pattern,
    preset_of,
    sent,
    unique,
)

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [
    "Bool",
    "CheckedModel",
    "InputModel",
    "Int",
    "MismatchedResultError",
    "Never",
    "Null",
    "Num",
    "OutputModel",
    "ResultMapping",
    "ResultModel",
    "ResultRoot",
    "ResultValue",
    "ToolText",
    "UndeclaredArgumentWarning",
    "invoke",
    "invoke_json",
    "multiple_of",
    "one_of",
    "pattern",
    "sent",
    "tool",
    "unique",
]


class UndeclaredArgumentWarning(UserWarning):
    """An undeclared argument looks like a misspelt declared one."""


#: The validation context of values from Python code, for which defaults are filled in.
_IN_PYTHON = object()
_NOT_SENT = object()

if TYPE_CHECKING:
    _Input = Model
else:

    class _InputType(type(Model)):
        def __call__(cls, /, **data: Any) -> Any:
            return cls.from_arguments(data)

    class _Input(Model, metaclass=_InputType):
        pass


class InputModel(_Input):
    """Base of a tool's parameters and of the objects in them."""

    @classmethod
    def from_arguments(cls, data: Any) -> Self:
        """Create an instance from Python values, with short and helpful errors."""
        try:
            return cls.model_validate(data, context=_IN_PYTHON)
        except ValidationError as error:
            from .arguments_error import arguments_error

            raise arguments_error(cls, error, data) from None

    @model_validator(mode="before")
    @classmethod
    def _as_given(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, Model) and not isinstance(value, cls):
            # A tool distinguishes the objects in its own parameters by their classes.
            is_own = isinstance(value, InputModel) and value.__module__ == cls.__module__
            if not is_own:
                value = value.model_dump(by_alias=True, exclude_unset=True)
        if info.context is _IN_PYTHON and is_object(value):
            for name, wire, preset in _presets(cls):
                if name not in value and wire not in value:
                    value = {**value, wire: copy.deepcopy(preset)}
        return value

    @model_serializer(mode="wrap")
    def _without_omitted(
        self, handler: SerializerFunctionWrapHandler, info: SerializationInfo
    ) -> dict[str, Any]:
        values: dict[str, Any] = handler(self)
        for name in _not_null(type(self)):
            if name in values and values[name] is None:
                del values[name]
        return values

    def to_arguments(self) -> dict[str, Any]:
        """The arguments to send: the fields that were set, by their names in the schema."""
        for misspelt, declared in _misspellings(self):
            warnings.warn(
                f"{type(self).__name__} has no field {misspelt!r}; did you mean {declared!r}?"
                " It is sent unchanged because the schema allows undeclared ones",
                UndeclaredArgumentWarning,
                stacklevel=5,
            )
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)


@functools.cache
def _presets(model: type[BaseModel]) -> list[tuple[str, str, Any]]:
    """The defaults that are sent, with their names in Python and in JSON."""
    return [
        (name, field.alias or name, preset)
        for name, field in model.model_fields.items()
        if (preset := preset_of(field, _NOT_SENT)) is not _NOT_SENT
    ]


@functools.cache
def _not_null(model: type[BaseModel]) -> list[str]:
    """The names, in Python and in JSON, of fields for which None means "not given"."""
    return [
        key
        for name, field in model.model_fields.items()
        if not field.is_required() and not is_nullable(field)
        for key in {name, field.alias or name}
    ]


class CheckedModel(InputModel):
    """Parameters whose schema says more than types can: they are also checked against it."""

    _schema: ClassVar[str] = "true"

    @model_validator(mode="after")
    def _fits_schema(self) -> Self:
        arguments = self.model_dump(mode="json", by_alias=True, exclude_unset=True)
        problem = SchemaCheck.of(type(self)._schema).problem(arguments)
        if problem is not None:
            raise PydanticCustomError("schema", "{problem}", {"problem": problem})
        return self


def _misspellings(value: Any) -> Iterator[tuple[str, str]]:
    """Undeclared names in a value that resemble a declared one, with that one."""
    if isinstance(value, InputModel):
        extra: dict[str, Any] | None = value.__pydantic_extra__
        if extra:
            from difflib import get_close_matches

            from .arguments_error import names_of

            declared = names_of(type(value))
            for name in extra:
                close: list[str] = get_close_matches(name, declared, n=1, cutoff=0.8)
                yield from ((name, match) for match in close)
        for item in value.__dict__.values():
            yield from _misspellings(item)
    elif is_array(value):
        for item in value:
            yield from _misspellings(item)
