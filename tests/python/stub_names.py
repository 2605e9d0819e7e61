"""Finds the public names of the runtime's classes that their stub lacks.

    stub_names.py STUB RUNTIME

STUB is a file of stubs of `ipybox_runtime.models`, and RUNTIME the folder of the package. Prints an object
of lists in one line of JSON.
"""

from __future__ import annotations

import ast
import importlib
import json
import sys


def main() -> None:
    """Compares the classes of both."""
    with open(sys.argv[1], encoding="utf-8") as file:
        stub = ast.parse(file.read())
    sys.path.insert(0, sys.argv[2])
    models = importlib.import_module("ipybox_runtime.models")
    listed = {node.name: node for node in stub.body if isinstance(node, ast.ClassDef)}
    missing: dict[str, list[str]] = {}
    for name, node in listed.items():
        # A stand-in has the names of what it stands for.
        own = getattr(models, {"KnownValue": "ResultModel"}.get(name, name), None)
        if own is None:
            continue
        # What `dir()` says of a class may leave out what it has.
        real = {key for base in own.__mro__ for key in vars(base) if not key.startswith("_")}
        names = real - names_of(node, listed) - set(dir(object))
        if names and not has_any(node, listed):
            missing[name] = sorted(names)
    print(json.dumps(missing))


def names_of(node: ast.ClassDef, listed: dict[str, ast.ClassDef]) -> set[str]:
    """The names in a class and in its bases."""
    names: set[str] = set()
    for part in node.body:
        if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
            names.add(part.target.id)
        elif isinstance(part, ast.FunctionDef):
            names.add(part.name)
    for base in node.bases:
        name = base.id if isinstance(base, ast.Name) else ""
        if name in listed:
            names |= names_of(listed[name], listed)
        elif name == "str":
            names |= set(dir(str))
    return names


def has_any(node: ast.ClassDef, listed: dict[str, ast.ClassDef]) -> bool:
    """Whether a class has whatever is asked for."""
    return "__getattr__" in names_of(node, listed)


if __name__ == "__main__":
    main()
