"""The part of `schema_check.ts` in Python.

schema_check.py FOLDER          measures and prints
schema_check.py FOLDER CHECK N  checks the Nth hostile schema with one of the checks
"""

from __future__ import annotations

import collections
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "templates/runtime"))

_TIMEOUT = 20  # seconds

_Check = Callable[[Any], "str | None"]


def ours(group: dict[str, Any]) -> _Check:
    """The runtime's check, of the schema as it is in a generated module."""
    from ipybox_runtime.checks import SchemaCheck

    return SchemaCheck(group["written"]).problem


def other(group: dict[str, Any]) -> _Check:
    """`jsonschema-rs` with the schema that the server sent: linear patterns, and nothing is fetched."""
    import jsonschema_rs as rs

    def refuse(uri: str) -> Any:
        raise ValueError(f"{uri} is not fetched")

    validator = rs.validator_for(
        group["schema"],
        pattern_options=rs.RegexOptions(),
        validate_formats=False,
        retriever=refuse,
    )

    def problem(value: Any) -> str | None:
        error = next(validator.iter_errors(value), None)
        return None if error is None else f"{error.message} at {error.instance_path}"

    return problem


CHECKS: dict[str, Callable[[dict[str, Any]], _Check]] = {"checks.py": ours, "jsonschema-rs": other}


def judge(groups: list[dict[str, Any]], make: Callable[[dict[str, Any]], _Check]) -> None:
    """Compares a check with the labels."""
    found: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for group in groups:
        counts = found[group["from"]]
        try:
            check = make(group)
        except Exception:  # noqa: BLE001 -- whatever it is, this schema cannot be checked
            counts["schemas refused"] += 1
            counts["unchecked"] += len(group["tests"])
            continue
        for test in group["tests"]:
            allowed = check(test["args"]) is None
            right = allowed == test["valid"]
            counts["right" if right else "accepted" if allowed else "refused"] += 1
    for name, counts in found.items():
        print(f"  {name}: {dict(counts)}")


def main() -> None:
    """Measures, or checks one hostile schema."""
    folder, *rest = sys.argv[1:]
    hostile = json.loads(Path(folder, "hostile.json").read_text())
    if rest:
        case = hostile[int(rest[1])]
        start = time.perf_counter()
        try:
            said = CHECKS[rest[0]](case)(case["value"])
        except Exception as error:  # noqa: BLE001 -- as above
            said = f"cannot be checked: {str(error).splitlines()[0]}"
        print(f"{(time.perf_counter() - start) * 1000:.0f} ms: {said}")
        return
    groups = json.loads(Path(folder, "groups.json").read_text())
    for name, make in CHECKS.items():
        print(f"{name}, labelled arguments:")
        judge(groups, make)
        print(f"{name}, hostile schemas:")
        for index, case in enumerate(hostile):
            command = [sys.executable, __file__, folder, name, str(index)]
            try:
                end = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT)
                said = end.stdout.strip() or f"ended with {end.returncode}"
            except subprocess.TimeoutExpired:
                said = f"more than {_TIMEOUT} s"
            print(f"  {case['name']}: {said}")
        module = "ipybox_runtime.checks" if name == "checks.py" else "jsonschema_rs"
        print(f"{name}, importing it: {', '.join(cost_of(module) for _ in range(5))}")


def cost_of(module: str) -> str:
    """The time and memory (PSS) of an import beside what the kernel has loaded."""
    code = f"""
import importlib, sys, time
sys.path.insert(0, {sys.path[0]!r})
import ipybox_runtime, dataclasses, fractions
from pydantic import BaseModel
def memory():
    lines = open("/proc/self/smaps_rollup").read().split("\\n")
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
before, start = memory(), time.perf_counter()
importlib.import_module({module!r})
ms = (time.perf_counter() - start) * 1000
print(f"{{ms:.1f}} ms and {{(memory() - before) / 1024:.1f}} MiB")
"""
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    main()
