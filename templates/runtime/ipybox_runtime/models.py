"""What the generated tool modules are made of: model bases, types, constraints.

The generated classes stand between a caller and a server that checks its input itself. So a value
that the schema allows is never refused and never changed, and one that it forbids is not sent.
"""

from __future__ import annotations

import copy
import functools
import inspect
import json
import math
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    ParamSpec,
    Protocol,
    TypeVar,
    overload,
)

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    StrictBool,
    ValidationError,
    model_serializer,
    model_validator,
)
from pydantic_core import PydanticCustomError

from .checks import (
    SchemaCheck,
    compile_pattern,
    is_array,
    is_multiple,
    is_object,
    json_equal,
    json_key,
)
from .errors import ToolOutputError
from .wrong_arguments import explain

if sys.version_info >= (3, 11):
    from enum import StrEnum
else:
    from enum import Enum

    class StrEnum(str, Enum):
        """What `enum` has from Python 3.11 on."""

        __str__ = str.__str__


if TYPE_CHECKING:
    from typing_extensions import Self

    from . import ToolResult

__all__ = [
    "Bool",
    "CheckedModel",
    "InputModel",
    "Int",
    "MismatchedResultError",
    "Never",
    "Num",
    "OutputModel",
    "StrEnum",
    "UndeclaredArgumentWarning",
    "multiple_of",
    "one_of",
    "parse_result",
    "pattern",
    "tool",
    "unique",
]


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
"""A finite number that stays what it is: 1 is not turned into 1.0."""

Bool = StrictBool
"""True or False, and nothing that only looks like it."""

Never = Annotated[Any, BeforeValidator(_never)]
"""Refuses every value."""


def one_of(*allowed: Any) -> BeforeValidator:
    """Allows these JSON values: 1 equals 1.0, but True does not equal 1."""

    def check(value: Any) -> Any:
        for candidate in allowed:
            if json_equal(value, candidate):
                # A copy, so that no caller can change what is allowed.
                return copy.deepcopy(candidate)
        raise PydanticCustomError("one_of", "Input should be one of the values in the schema")

    return BeforeValidator(check)


def pattern(source: str, longest: int | None = None) -> AfterValidator:
    """Demands that a string matches somewhere.

    The engine that takes linear time is used where it can; a pattern that it does not know goes to
    `re`, and then only strings of up to `longest` characters are checked. A pattern that neither
    understands allows everything.
    """
    matches = compile_pattern(source, longest)

    def check(value: str) -> str:
        if not matches(value):
            raise PydanticCustomError(
                "string_pattern_mismatch",
                "String should match pattern '{pattern}'",
                {"pattern": source},
            )
        return value

    return AfterValidator(check)


def multiple_of(step: float) -> AfterValidator:
    """Demands a multiple, computed exactly: 4.35 is a multiple of 0.01."""

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
"""Demands that no two items are equal as JSON values."""


class UndeclaredArgumentWarning(UserWarning):
    """An argument that the schema does not declare looks like a misspelt one that it does."""


class _Model(BaseModel):
    # Building a validator is put off to its first use: a session imports more than it calls.
    model_config = ConfigDict(
        extra="allow",
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        protected_namespaces=(),
        defer_build=True,
    )

    if TYPE_CHECKING:
        # Generated classes give the undeclared fields a type; the base's own would not allow that.
        __pydantic_extra__: Any = Field(init=False)


class InputModel(_Model):
    """Base of a tool's parameters and of the objects in them."""

    # Names, in Python and on the wire, of the optional fields that may not be null: None means
    # "not given" there.
    _omit: ClassVar[frozenset[str]] = frozenset()

    @model_serializer(mode="wrap")
    def _without_omitted(
        self, handler: SerializerFunctionWrapHandler, info: SerializationInfo
    ) -> dict[str, Any]:
        values: dict[str, Any] = handler(self)
        for name in self._omit:
            if name in values and values[name] is None:
                del values[name]
        return values

    def to_arguments(self) -> dict[str, Any]:
        """The arguments as they are sent: what was set, under the names of the schema."""
        for misspelt, declared in _misspellings(self):
            warnings.warn(
                f"{type(self).__name__} has no field {misspelt!r}; did you mean {declared!r}?"
                " It is sent as it is, since the schema allows undeclared ones",
                UndeclaredArgumentWarning,
                stacklevel=3,
            )
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)


class CheckedModel(InputModel):
    """Parameters whose schema says more than types can: a check of the whole schema runs last."""

    _schema: ClassVar[str] = "true"

    @model_validator(mode="after")
    def _fits_schema(self) -> Self:
        arguments = self.model_dump(mode="json", by_alias=True, exclude_unset=True)
        problem = SchemaCheck.of(type(self)._schema).problem(arguments)
        if problem is not None:
            raise PydanticCustomError("schema", "{problem}", {"problem": problem})
        return self


class OutputModel(_Model):
    """Base of a tool's structured result and of the objects in it. Unknown fields are kept."""


def _misspellings(value: Any) -> Iterator[tuple[str, str]]:
    """Undeclared names in a value that are close to a declared one, with that one."""
    if isinstance(value, InputModel):
        extra: dict[str, Any] | None = value.__pydantic_extra__
        if extra:
            from difflib import get_close_matches

            fields = type(value).model_fields
            declared = [*fields, *(field.alias for field in fields.values() if field.alias)]
            for name in extra:
                close: list[str] = get_close_matches(name, declared, n=1, cutoff=0.8)
                yield from ((name, match) for match in close)
        for item in value.__dict__.values():
            yield from _misspellings(item)
    elif is_array(value):
        for item in value:
            yield from _misspellings(item)


_P = ParamSpec("_P")
_M = TypeVar("_M", bound=InputModel)
_T = TypeVar("_T", bound=BaseModel)
_R = TypeVar("_R")
_M_contra = TypeVar("_M_contra", contravariant=True)
_R_co = TypeVar("_R_co", covariant=True)


class ToolFunction(Protocol[_P, _M_contra, _R_co]):  # pyright: ignore[reportInvalidTypeVarUse]
    """A function that takes a tool's `Params`, or their fields as keywords."""

    @overload
    def __call__(self, params: _M_contra) -> _R_co: ...
    @overload
    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R_co: ...


def tool(
    model: Callable[_P, _M],
) -> Callable[[Callable[[_M], _R]], ToolFunction[_P, _M, _R]]:
    """Lets a function of `Params` also be called with the fields of `Params` as keywords.

    The module that defines it becomes callable too: with `from mcptools import github`,
    `github.search_repositories(query="x")` is `github.search_repositories.run(query="x")`.
    """

    def decorate(function: Callable[[_M], _R]) -> ToolFunction[_P, _M, _R]:
        module = sys.modules[function.__module__]
        if function.__name__ == "run" and type(module) is types.ModuleType:
            module.__class__ = _CallableModule
        call: ToolFunction[_P, _M, _R] = _flexible(model, function)
        functools.update_wrapper(call, function)
        return call

    return decorate


def _flexible(model: Any, function: Callable[[Any], Any]) -> Any:
    def read(params: Any, arguments: dict[str, Any]) -> Any:
        if params is None:
            given = arguments.get("params")
            if len(arguments) == 1 and isinstance(given, model):
                return given
            return validated(lambda: model(**arguments), arguments)
        if arguments:
            raise TypeError("Give either Params or keyword arguments, not both")
        if isinstance(params, model):
            return params
        return validated(lambda: model.model_validate(params), params)

    def validated(make: Callable[[], Any], given: Any) -> Any:
        try:
            return make()
        except ValidationError as error:
            call = f"{function.__module__.rpartition('.')[2]}.{function.__name__}"
            explanation = functools.partial(explain, error, model, given, call)
            error._render_traceback_ = explanation  # type: ignore[attr-defined]  # for IPython
            raise

    if inspect.iscoroutinefunction(function):

        async def call_async(params: Any = None, /, **arguments: Any) -> Any:
            return await function(read(params, arguments))

        return call_async

    def call(params: Any = None, /, **arguments: Any) -> Any:
        return function(read(params, arguments))

    return call


class _CallableModule(types.ModuleType):
    def __call__(self, *args: Any, **arguments: Any) -> Any:
        return self.run(*args, **arguments)


def parse_result(model: type[_T], result: ToolResult) -> _T:
    """A tool's answer as its `Result`.

    Raises `MismatchedResultError`, which carries what the tool said, if that does not fit: the tool has
    already run, so its answer must not be lost.
    """
    if result.has_structured:
        try:
            return model.model_validate(result.structured, by_alias=True, by_name=False)
        except ValidationError as error:
            message = f"The structured result does not fit the tool's own schema: {error}"
            raise MismatchedResultError(message, result) from error
    # Older servers declare a schema and yet send text only.
    for candidate in _from_text(result.text):
        try:
            return model.model_validate(candidate, by_alias=True, by_name=False)
        except ValidationError:
            continue
    message = f"The tool declares a structured result, but sent only text: {result.text[:1000]}"
    raise MismatchedResultError(message, result)


def _from_text(text: str) -> Iterator[Any]:
    """What a text may stand for: the JSON in it, or the one string of an envelope."""
    try:
        yield json.loads(text)
    except (ValueError, RecursionError):
        pass  # most texts are no JSON
    yield {"result": str(text)}


class MismatchedResultError(ToolOutputError):
    """A tool ran, but its result is not what its schema says.

    Nothing of it is lost: `raw` is the structured result as it came, if there was one, `text` is
    the text, and `result` is all of it.
    """

    def __init__(self, message: str, result: ToolResult) -> None:
        """Takes what the tool said."""
        super().__init__(message)
        self.result = result
        self.raw: Any = result.structured
        self.text: str = result.text
