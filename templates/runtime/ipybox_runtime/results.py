"""Structured results, with everything else that the tool sent."""

from __future__ import annotations

import json
from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from typing import TYPE_CHECKING, Any, TypeVar, cast

from pydantic import BaseModel, PrivateAttr, RootModel, ValidationError

from .checks import is_mapping
from .content import ToolText
from .errors import ToolOutputError
from .model_base import Model

if TYPE_CHECKING:
    from abc import ABCMeta

    from .content import ToolResult

_T = TypeVar("_T")
_M = TypeVar("_M", bound=BaseModel)

_MAX_EXCERPT = 1000

_RAN = "The tool ran: do not call it again; its answer is in `error.{}`. "


class OutputModel(Model):
    """Base of the objects in a structured result. Unknown fields are kept."""

    def __getitem__(self, name: str) -> Any:
        """A field that was sent, by its name in the schema."""
        return self._sent_fields()[name]

    def __contains__(self, name: object) -> bool:
        """Whether a field was sent."""
        return name in self._sent_fields()

    def __iter__(self) -> Any:
        """Refuses: a loop is meant for a field, not for the pairs of Pydantic's models."""
        raise TypeError(
            f"{type(self).__name__!r} object is not iterable. "
            f"Its fields: {', '.join(type(self).model_fields)}"
        )

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """The `keys` that `dict()` looks for: without it, `dict()` loops; a field `keys` goes
            first."""
            try:
                return super().__getattr__(name)
            except AttributeError:
                if name != "keys":
                    raise
            return self._sent_fields().keys

    def _sent_fields(self) -> dict[str, Any]:
        named = {
            field.alias or name: self.__dict__[name]
            for name, field in type(self).model_fields.items()
            if name in self.model_fields_set
        }
        return {**named, **(self.__pydantic_extra__ or {})}


class _Beside:
    """The content beside a structured result. It is ignored when results are compared."""

    def __init__(self, result: ToolResult | None = None) -> None:
        self.result = result

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Beside)


class _WithToolResult:
    if TYPE_CHECKING:
        _beside: _Beside

    @property
    def tool_result(self) -> ToolResult:
        """Everything that the tool sent: content blocks, images, the unparsed structured result."""
        if self._beside.result is None:
            raise AttributeError("This result was not returned by a tool")
        return self._beside.result

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        result = self._beside.result
        bundle = {} if result is None else result.text._repr_mimebundle_()
        return {**bundle, "text/plain": repr(self)} if bundle else {}


class ResultModel(OutputModel, _WithToolResult):
    """Base of a tool's structured result."""

    _beside: _Beside = PrivateAttr(default_factory=_Beside)


class ResultMapping(ResultModel):
    """A result whose schema declares no fields: a mapping of the fields that the tool sent."""

    def __iter__(self) -> Any:
        """The names."""
        return iter(self._sent_fields())

    def __len__(self) -> int:
        """The number of fields."""
        return len(self._sent_fields())

    def __eq__(self, other: object) -> bool:
        """Whether it holds the same as another mapping."""
        return is_mapping(other) and self._sent_fields() == dict(other)

    def keys(self) -> KeysView[str]:
        """The names."""
        return self._sent_fields().keys()

    def values(self) -> ValuesView[Any]:
        """The values."""
        return self._sent_fields().values()

    def items(self) -> ItemsView[str, Any]:
        """The names with their values."""
        return self._sent_fields().items()

    def get(self, name: str, default: Any = None) -> Any:
        """The value of a name, or a default."""
        return self._sent_fields().get(name, default)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


cast("ABCMeta", Mapping).register(ResultMapping)


class ResultValue(ResultModel):
    """An envelope around one value, `result`, which can also be used like the value."""

    def __str__(self) -> str:
        return str(self._value())

    def __iter__(self) -> Any:
        return iter(self._value())

    def __len__(self) -> int:
        return len(self._value())

    def __bool__(self) -> bool:
        return bool(self._value())

    def __getitem__(self, key: Any) -> Any:
        """An item of the value."""
        return self._value()[key]

    def __contains__(self, item: object) -> bool:
        """Whether the value holds an item."""
        return item in self._value()

    def __eq__(self, other: object) -> bool:
        """Whether the values are equal."""
        value = self._value()
        return bool(value == (other._value() if isinstance(other, ResultValue) else other))

    def __float__(self) -> float:
        return float(self._value())

    def __int__(self) -> int:
        return int(self._value())

    def _value(self) -> Any:
        return self.__dict__["result"]

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    else:

        def __getattr__(self, name: str) -> Any:
            """An attribute of the value, if the envelope does not have it."""
            try:
                return super(OutputModel, self).__getattr__(name)
            except AttributeError:
                if name.startswith("_"):
                    raise
            return getattr(self._value(), name)


class ResultRoot(RootModel[_T], _WithToolResult):
    """Base of a structured result that is not an object: `root` is its value."""

    _beside: _Beside = PrivateAttr(default_factory=_Beside)


def parse_result(model: type[_M], answer: ToolResult) -> _M:
    """Parses a tool's answer as its `Result`.

    Raises `MismatchedResultError` with the answer if it does not match: the tool has already run, so
    its answer must not be lost.
    """
    parsed = _parsed(model, answer)
    if isinstance(parsed, _WithToolResult):
        parsed.__pydantic_private__ = {"_beside": _Beside(answer)}
    return parsed


def parse_text(model: type[BaseModel], answer: ToolResult) -> ToolText:
    """Parses a tool's answer as the text in its envelope."""
    text: str = _parsed(model, answer).__dict__["result"]
    return ToolText(text, answer.content, answer.structured)


def parse_json(answer: ToolResult) -> Any:
    """A tool's answer, as JSON."""
    if answer.has_structured:
        return answer.structured
    try:
        return json.loads(answer.text)
    except (ValueError, RecursionError):
        message = f"The result is not JSON; run() gives its text. The tool sent: {_excerpt(answer)}"
        raise MismatchedResultError(message, answer) from None


def _parsed(model: type[_M], answer: ToolResult) -> _M:
    if answer.has_structured:
        try:
            return model.model_validate(answer.structured, by_alias=True, by_name=False)
        except ValidationError as error:
            message = (
                f"The structured result does not match the tool's own schema ({_reason(error)}). "
                f"{_RAN.format('raw')}The tool sent: {_excerpt(answer)}"
            )
            raise MismatchedResultError(message, answer) from None
    # Older servers declare a schema but send only text.
    for candidate in _from_text(answer.text):
        try:
            return model.model_validate(candidate, by_alias=True, by_name=False)
        except ValidationError:
            continue
    message = (
        f"The tool declares a structured result, but sent only text. {_RAN.format('text')}"
        f"The tool sent: {_excerpt(answer)}"
    )
    raise MismatchedResultError(message, answer)


def _reason(error: ValidationError) -> str:
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    text = "; ".join(
        ": ".join(filter(None, ("/".join(map(str, problem["loc"])), problem["msg"])))
        for problem in problems[:3]
    )
    return text if len(problems) <= 3 else f"{text}; …"


def _excerpt(answer: ToolResult) -> str:
    words = str(answer.text)
    if not words.strip() and answer.has_structured:
        words = json.dumps(answer.structured, ensure_ascii=False)
    return words if len(words) <= _MAX_EXCERPT else f"{words[:_MAX_EXCERPT]}…"


def _from_text(text: str) -> Iterator[Any]:
    """The possible meanings of text: JSON, or the string in an envelope."""
    try:
        yield json.loads(text)
    except (ValueError, RecursionError):
        pass  # most text is not JSON
    yield {"result": str(text)}


class MismatchedResultError(ToolOutputError):
    """A tool ran, but its result does not match its schema, or is not the expected JSON.

    The answer is kept: `raw` is the structured result, if there was one, `text` is the text, and
    `result` is everything.
    """

    def __init__(self, message: str, result: ToolResult) -> None:
        """Keeps the tool's answer."""
        super().__init__(message)
        self.result = result
        self.raw: Any = result.structured
        self.text: str = result.text
