"""Signatures of tools, as `help()`, `run?` and completion show them."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel

from .values import preset_of

_LONGEST = 160


class _Text(str):
    """An annotation that is shown verbatim."""

    __repr__ = str.__str__


class ToolSignature(inspect.Signature):
    """The fields of a model as keywords, computed on demand."""

    __slots__ = ("_model", "_returns")

    def __init__(self, model: type[BaseModel], returns: str) -> None:
        """Keeps the model of the keywords, and the return type."""
        super().__init__()
        self._model = model
        self._returns = returns

    @property
    def parameters(self) -> MappingProxyType[str, inspect.Parameter]:
        """The keywords, required ones first."""
        fields = self._model.model_fields
        parameters = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=preset_of(
                    field, inspect.Parameter.empty if field.is_required() else field.default
                ),
                annotation=_Text(text),
            )
            for name, text in _annotations(self._model).items()
            if (field := fields.get(name)) is not None
        ]
        parameters.sort(key=lambda parameter: parameter.default is not inspect.Parameter.empty)
        return MappingProxyType({parameter.name: parameter for parameter in parameters})

    @property
    def return_annotation(self) -> Any:
        """The return type."""
        return _Text(self._returns)


def signature_text(model: type[BaseModel], involved: Collection[str]) -> str:
    """The call that creates a model, on one line, shortened; `involved` fields come first."""
    name = model.__name__
    module = model.__module__.rpartition(".")[2]
    function = f"{module}.run" if name == "Params" else f"{module}.{name}"
    fields = ToolSignature(model, "").parameters
    shown: list[str] = []
    left = _LONGEST
    aliases = {key for key, field in model.model_fields.items() if field.alias in involved}
    for parameter in sorted(
        fields.values(),
        key=lambda one: (
            one.name not in involved and one.name not in aliases,
            one.default is not inspect.Parameter.empty,
        ),
    ):
        text = str(parameter)
        if len(text) > left:
            shown.append("…")
            break
        left -= len(text) + 2
        shown.append(text)
    return f"{function}({', '.join(shown)})"


def _annotations(model: type[BaseModel]) -> Mapping[str, str]:
    """The types of a model's fields in plain Python."""
    texts = inspect.get_annotations(model)
    return {name: _plain(text) for name, text in texts.items() if isinstance(text, str)}


class _Plain(ast.NodeTransformer):
    _NAMES = MappingProxyType(
        {"Int": "int", "Num": "float", "Bool": "bool", "Null": "None", "Never": "Any"}
    )

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        if isinstance(node.value, ast.Name) and node.value.id == "Annotated":
            inner = node.slice
            return self.visit(inner.elts[0] if isinstance(inner, ast.Tuple) else inner)
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> Any:
        return ast.Name(self._NAMES.get(node.id, node.id))


def _plain(text: str) -> str:
    return ast.unparse(_Plain().visit(ast.parse(text, mode="eval")))
