__DOCSTRING__

from importlib import import_module as _import_module
from typing import Any as _Any

from ipybox_runtime import ToolRunner as _ToolRunner

CLIENT = _ToolRunner(__SERVER_NAME__)

_MODULES = frozenset(__MODULES__)


def __getattr__(name: str) -> _Any:
    if name in _MODULES:
        return _import_module(f".{name}", __name__)
    if name == "resources":
        return CLIENT.resources
    if name == "prompts":
        return CLIENT.prompts
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({"CLIENT", "prompts", "resources", *_MODULES})
