"""Inspects generated packages without trusting them.

    inspect_package.py ROOT PACKAGE...

Parses every file, checks that its syntax tree holds nothing but what generated code may hold, then
imports every module and touches its models. Prints one JSON line:
`{"modules": N, "problems": [[file, problem], ...], "canary": bool, "slowest_import_ms": N}`.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import json
import os
import sys
import time
import unicodedata

IMPORTS = {
    "__future__": {"annotations"},
    "typing": {"TYPE_CHECKING", "Annotated", "Any", "ClassVar", "Literal"},
    "pydantic": {"Field"},
    "typing_extensions": {"NotRequired", "TypeAliasType", "TypedDict"},
    "ipybox_runtime": {"ToolRunner"},
    "ipybox_runtime.models": None,  # all of ours
    "ipybox_runtime.packages": {"attributes"},
    ".": {"CLIENT"},
}
BASES = {
    "InputModel",
    "CheckedModel",
    "OutputModel",
    "ResultModel",
    "ResultMapping",
    "ResultRoot",
    "ResultValue",
}
CALLS = {
    "Field",
    "sent",
    "one_of",
    "pattern",
    "multiple_of",
    "TypeAliasType",
    "TypedDict",
    "invoke",
    "invoke_json",
    "tool",
    "ToolRunner",
    "_attributes",
    "model_rebuild",
}
TOP = (ast.ImportFrom, ast.ClassDef, ast.FunctionDef, ast.Assign, ast.Expr)
FUNCTIONS = {"run", "run_json"}


def is_for_type_checkers(node: ast.stmt) -> bool:
    """Whether a statement is the one condition that packages have."""
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def problems_of(tree: ast.Module) -> list[str]:
    """What a generated module must not hold."""
    found: list[str] = []
    for node in tree.body:
        if is_for_type_checkers(node):
            continue
        if not isinstance(node, TOP):
            found.append(f"{type(node).__name__} at the top")
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name not in FUNCTIONS:
            found.append(f"function {node.name}")
        if isinstance(node, ast.Expr) and not isinstance(node.value, (ast.Constant, ast.Call)):
            found.append("an expression at the top")
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.append("import")
        if isinstance(node, ast.ImportFrom):
            source = "." * node.level + (node.module or "")
            allowed = IMPORTS.get(source, set())
            if source == "." and all(name.asname == name.name for name in node.names):
                continue  # the modules of a package
            if allowed is not None and not {name.name for name in node.names} <= allowed:
                found.append(f"from {source} import …")
        if isinstance(node, ast.ClassDef):
            bases = {getattr(getattr(base, "value", base), "id", getattr(base, "id", None)) for base in node.bases}
            if not bases <= BASES:
                found.append(f"base {bases}")
        if isinstance(node, ast.Call):
            called = getattr(node.func, "id", getattr(node.func, "attr", None))
            if called not in CALLS:
                found.append(f"call of {called}")
        if isinstance(node, (ast.Lambda, ast.ListComp, ast.DictComp, ast.GeneratorExp, ast.Global)):
            found.append(type(node).__name__)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            name = node.target.id
            if unicodedata.normalize("NFKC", name) != name:
                found.append(f"name {name!r} is not normalised")
    return found


def main() -> None:
    """Reads the arguments, inspects, prints."""
    root, *packages = sys.argv[1:]
    sys.path.insert(0, root)
    import ipybox_runtime.models  # noqa: F401, PLC0415 -- so that it does not count as an import

    problems: list[tuple[str, str]] = []
    modules = 0
    slowest = 0.0
    for package in packages:
        folder = os.path.join(root, package)
        for file in sorted(os.listdir(folder)):
            if not file.endswith(".py"):
                continue
            modules += 1
            with open(os.path.join(folder, file), encoding="utf-8") as source:
                text = source.read()
            try:
                problems += [(f"{package}/{file}", problem) for problem in problems_of(ast.parse(text))]
                name = package if file == "__init__.py" else f"{package}.{file[:-3]}"
                start = time.perf_counter()
                module = importlib.import_module(name)
                slowest = max(slowest, (time.perf_counter() - start) * 1000)
                touch(module)
            except Exception as error:  # noqa: BLE001 -- whatever it is, it is what we look for
                problems.append((f"{package}/{file}", f"{type(error).__name__}: {error}"[:300]))
    canary = hasattr(builtins, "CANARY")
    print(
        json.dumps(
            {
                "modules": modules,
                "problems": problems,
                "canary": canary,
                "slowest_import_ms": round(slowest, 1),
            }
        )
    )


def touch(module: object) -> None:
    """Builds the validators and tries them with values that take every way through."""
    for name in ("Params", "Result"):
        model = getattr(module, name, None)
        if model is None:
            continue
        for value in ({}, {"x": "a" * 40 + "!"}, {"x": "a" * 5000 + "!"}, {"v": [[{}]]}, {"x": {"x": {}}}):
            try:
                model.model_validate(value).model_dump(mode="json", by_alias=True, exclude_unset=True)
            except ValueError:
                pass  # refusing is fine; hanging and crashing are not


if __name__ == "__main__":
    main()
