"""The base of all generated classes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field

from .signatures import ToolSignature

if TYPE_CHECKING:
    _Base = BaseModel
else:

    class _ModelType(type(BaseModel)):
        """Hides the attributes of Pydantic's models from `help()` and completion."""

        def __dir__(cls) -> Iterable[str]:
            return _names(cls)

        @property
        def __signature__(cls) -> ToolSignature:
            return ToolSignature(cls, "None")

        @__signature__.setter
        def __signature__(cls, value: object) -> None:
            """Ignores the signature that Pydantic sets once a class is complete."""

    class _Base(BaseModel, metaclass=_ModelType):
        pass


class Model(_Base):
    """A class for a JSON object. It keeps undeclared fields and changes no values."""

    # Validators are built on first use: a session imports more tools than it calls.
    model_config = ConfigDict(
        extra="allow",
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        protected_namespaces=(),
        defer_build=True,
    )

    if TYPE_CHECKING:
        # Generated classes declare its type, which a narrower type here would forbid.
        __pydantic_extra__: Any = Field(init=False)

    def __dir__(self) -> Iterable[str]:
        """The names for completion: fields, including undeclared ones, and few methods."""
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
