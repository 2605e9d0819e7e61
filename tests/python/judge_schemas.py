"""Judges generated modules by instances that Hypothesis makes for their schemas.

    judge_schemas.py ROOT MANIFEST [EXAMPLES]

MANIFEST is JSON: a list of `{"package", "module", "schema"}`. What `jsonschema` allows must be accepted
and come back unchanged; what it forbids must be refused, or what would be sent must be allowed. Prints
one JSON line: `{"checked": N, "valid": N, "found": [[module, kind, instance, detail], ...]}`.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any

import jsonschema
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from judge_suite import same
from pydantic import ValidationError

LEAVES = [None, True, False, 0, 1, 1.0, 1.5, -1, 2, "", "a", "b", "aa", "ab", "1"]


def names_and_values(schema: Any) -> tuple[set[str], list[Any]]:
    """What a schema speaks of: names of properties, and listed values."""
    names: set[str] = set()
    values: list[Any] = []
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            names.update(node.get("required", ()))
            for keyword in ("properties", "dependentSchemas", "dependentRequired"):
                names.update(node.get(keyword, ()))
            values.extend(node.get("enum", ()))
            values.extend([node["const"]] if "const" in node else ())
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)
    return names, values


def instances(schema: Any) -> st.SearchStrategy[dict[str, Any]]:
    """Objects that are likely to touch what the schema says."""
    names, values = names_and_values(schema)
    keys = st.sampled_from(sorted({*names, "a", "other"}))
    leaf = st.sampled_from([*LEAVES, *values])
    value = st.recursive(
        leaf,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
        max_leaves=6,
    )
    return st.dictionaries(keys, value, max_size=4)


def judge(params: Any, validator: Any, instance: Any) -> tuple[bool, str | None]:
    """Whether the schema allows an instance, and what is wrong with the class's opinion."""
    try:
        valid = validator.is_valid(instance)
    except RecursionError:
        return False, None
    try:
        sent = params.model_validate(instance).model_dump(
            mode="json", by_alias=True, exclude_unset=True
        )
    except ValidationError as error:
        return valid, f"refused: {error.errors()[0]['msg']}"[:200] if valid else None
    except Exception as error:  # noqa: BLE001 -- whatever it is, it is what we look for
        return valid, f"crash: {type(error).__name__}: {error}"[:300]
    if valid:
        return valid, None if same(sent, instance) else f"changed to {json.dumps(sent)}"
    return valid, None if validator.is_valid(sent) else "accepted"


def main() -> None:
    """Reads the arguments, judges, prints."""
    root, manifest = sys.argv[1:3]
    examples = int(sys.argv[3]) if len(sys.argv) > 3 else 50
    sys.path.insert(0, root)
    with open(manifest, encoding="utf-8") as file:
        entries = json.load(file)
    checked = valid = 0
    found: list[tuple[str, str, Any]] = []
    for entry in entries:
        try:
            module = importlib.import_module(f"{entry['package']}.{entry['module']}")
        except Exception as error:  # noqa: BLE001 -- as above
            found.append((entry["module"], f"import: {type(error).__name__}: {error}"[:300], None))
            continue
        verdicts = judge_all(module.Params, entry["schema"], examples)
        checked += len(verdicts)
        valid += sum(verdict for verdict, _, _ in verdicts)
        found += [(entry["module"], *problem) for problem in smallest(verdicts)]
    print(json.dumps({"checked": checked, "valid": valid, "found": found}))


Verdict = tuple[bool, str | None, Any]


def judge_all(params: Any, schema: Any, examples: int) -> list[Verdict]:
    """Judges instances for one schema."""
    validator = jsonschema.Draft202012Validator(schema)
    verdicts: list[Verdict] = []

    @settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(instance=instances(schema))
    def check(instance: Any) -> None:
        verdicts.append((*judge(params, validator, instance), instance))

    check()
    return verdicts


def smallest(verdicts: list[Verdict]) -> list[tuple[str, Any]]:
    """For each kind of problem, the one with the shortest instance."""
    problems: dict[str, tuple[str, Any]] = {}
    for _, problem, instance in sorted(verdicts, key=lambda verdict: len(str(verdict[2]))):
        if problem is not None:
            problems.setdefault(problem.split(":")[0].split(" to ")[0], (problem, instance))
    return list(problems.values())


if __name__ == "__main__":
    main()
