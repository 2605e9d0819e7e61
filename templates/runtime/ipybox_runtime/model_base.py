"""The base of all generated classes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field

from .signatures import ToolSignature

__all__ = ["Model"]

if TYPE_CHECKING:
    _Base = BaseModel
else:

    class _ModelType(type(BaseModel)):
        """Keeps what Pydantic's models have in common out of `help()` and completion."""

        def __dir__(cls) -> Iterable[str]:
            return _names(cls)

        @property
        def __signature__(cls) -> ToolSignature:
            return ToolSignature(cls, "None")

        @__signature__.setter
        def __signature__(cls, value: object) -> None:
            """Ignores the signature that Pydantic makes once a class is complete."""

    class _Base(BaseModel, metaclass=_ModelType):
        pass


class Model(_Base):
    """A class for a JSON object. It keeps what it does not declare, and changes nothing."""

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

    def __dir__(self) -> Iterable[str]:
        """What is worth completing: fields, also undeclared ones, and few methods."""
        return [*_names(type(self)), "model_dump", *(self.__pydantic_extra__ or ())]


def _names(model: type[BaseModel]) -> list[str]:
    own = [
        name
        for base in model.__mro__
        if base is not BaseModel and issubclass(base, BaseModel)
        for name in vars(base)
        if not name.startswith(("_", "model_"))
    ]
    return [*model.__pydantic_fields__, *own]
