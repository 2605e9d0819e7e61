"""Calls an action with a module as soon as code has imported it, without importing it now."""

import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Optional

_Action = Callable[[ModuleType], None]

_actions: dict[str, _Action] = {}
_sought: set[str] = set()


def call(name: str, action: _Action) -> None:
    """Call `action` with the module `name` once it is imported, or now if it already is."""
    module = sys.modules.get(name)
    if module is not None:
        action(module)
        return
    if not _actions:
        sys.meta_path.insert(0, _Finder())
    _actions[name] = action


class _Finder:
    """Finds what the other finders find, and adds the action to it."""

    def find_spec(
        self, name: str, _path: Optional[Sequence[str]] = None, _target: object = None
    ) -> Optional[ModuleSpec]:
        if name not in _actions or name in _sought:
            return None
        _sought.add(name)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            _sought.discard(name)
        if spec is not None and spec.loader is not None:
            _add(name, spec.loader)
        return spec


def _add(name: str, loader: Any) -> None:
    execute = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        execute(module)
        action = _actions.pop(name, None)  # not again when it is reloaded
        if action is not None:
            action(module)

    loader.exec_module = exec_module
