"""Judges generated modules by the groups of JSON-Schema-Test-Suite.

    judge_suite.py ROOT MANIFEST

MANIFEST is JSON: a list of `{"package", "module", "id", "tests": [{"args", "valid"}]}`. A group passes
when `Params` takes each valid instance and gives it back unchanged, and refuses each invalid one. It
is unsafe when a valid one is refused or changed, or when something crashes. Prints one JSON line:
`{"results": {id: null | [[kind, instance], ...]}}`.
"""

from __future__ import annotations

import importlib
import json
import math
import sys
from typing import Any

from pydantic import ValidationError


def same(left: Any, right: Any) -> bool:
    """JSON equality."""
    return json.dumps(plain(left), sort_keys=True) == json.dumps(plain(right), sort_keys=True)


def plain(value: Any) -> Any:
    """A value with whole floats as integers."""
    if isinstance(value, float) and math.isfinite(value) and value == int(value):
        return int(value)
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value


def failures(params: Any, tests: list[dict[str, Any]]) -> list[tuple[str, Any]]:
    """What went wrong, by kind."""
    found: list[tuple[str, Any]] = []
    for test in tests:
        instance = test["args"]
        try:
            given = params.model_validate(instance).model_dump(
                mode="json", by_alias=True, exclude_unset=True
            )
        except ValidationError:
            if test["valid"]:
                found.append(("refused", instance))
        except Exception as error:  # noqa: BLE001 -- whatever it is, it is what we look for
            found.append((f"crash {type(error).__name__}", instance))
        else:
            if not test["valid"]:
                found.append(("accepted", instance))
            elif not same(given, instance):
                found.append(("changed", instance))
    return found


def main() -> None:
    """Reads the arguments, judges, prints."""
    root, manifest = sys.argv[1:]
    sys.path.insert(0, root)
    results: dict[str, list[tuple[str, Any]]] = {}
    with open(manifest, encoding="utf-8") as file:
        groups = json.load(file)
    for group in groups:
        try:
            module = importlib.import_module(f"{group['package']}.{group['module']}")
        except Exception as error:  # noqa: BLE001 -- as above
            results[group["id"]] = [("crash import", f"{type(error).__name__}: {error}"[:300])]
            continue
        found = failures(module.Params, group["tests"])
        if found:
            results[group["id"]] = found
    print(json.dumps({"results": results}))


if __name__ == "__main__":
    main()
