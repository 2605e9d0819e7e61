"""The attributes of a server's package: the modules of its tools, imported on first use."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Callable, Iterable

from .tool_runner import ToolRunner


def attributes(
    package: str, path: Iterable[str], client: ToolRunner
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return a package's ``__getattr__`` and ``__dir__``."""

    def get(name: str) -> Any:
        full = f"{package}.{name}"
        if not name.startswith("_"):
            try:
                return import_module(full)
            except ModuleNotFoundError as error:
                if error.name != full:
                    raise
        if name in ("resources", "prompts"):
            return getattr(client, name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def names() -> list[str]:
        modules = (module.name for module in iter_modules(path))
        return sorted({"CLIENT", "prompts", "resources", *modules})

    return get, names
