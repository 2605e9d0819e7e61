"""Judges the modules of real tools by labelled examples, and the labels by an independent validator.

    judge_examples.py ROOT EXAMPLES CORPUS

EXAMPLES and CORPUS are folders with a file for each server. A tool's arguments that its schema allows
must be accepted and come back unchanged; others must be refused, or what is sent must be allowed, as
where a null for an optional property is left out; results must be taken and come back. Prints one JSON
line with counts and `found`, the problems.
"""

from __future__ import annotations

import collections
import importlib
import json
import os
import re
import sys
from typing import Any

from jsonschema import Draft202012Validator, validators
from judge_suite import same
from pydantic import ValidationError


def load(path: str) -> Any:
    """A JSON file."""
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def dump(model: Any) -> Any:
    """A model as it is sent."""
    return model.model_dump(mode="json", by_alias=True, exclude_unset=True)


class Judge:
    """Counts, and keeps what is wrong."""

    def __init__(self) -> None:
        """Starts at nothing."""
        self.counts: collections.Counter[str] = collections.Counter()
        self.found: list[list[Any]] = []

    def arguments(self, tool: str, params: Any, validator: Any, example: Any, kind: str) -> None:
        """Judges one object of arguments."""
        self.counts[kind] += 1
        allowed = validator.is_valid(example)
        if allowed != (kind == "valid"):
            self.found.append([tool, "the label is wrong", example])
        try:
            sent = dump(params.model_validate(example))
        except ValidationError:
            self.counts["refused"] += 1
            if allowed:
                self.found.append([tool, "refused", example])
            return
        except Exception as error:  # noqa: BLE001 -- whatever it is, it is what we look for
            self.found.append([tool, f"crash: {error}", example])
            return
        if allowed and not same(sent, example):
            self.found.append([tool, "changed", example, sent])
        if not allowed:
            self.counts["made valid by leaving out null"] += 1
            if not validator.is_valid(sent):
                self.found.append([tool, "accepted", example])

    def result(self, tool: str, model: Any, example: Any) -> None:
        """Judges one structured result."""
        self.counts["results"] += 1
        try:
            back = dump(model.model_validate(example, by_alias=True, by_name=False))
        except Exception as error:  # noqa: BLE001 -- as above
            self.found.append([tool, f"result: {error}"[:300], example])
            return
        if not same(back, example):
            self.found.append([tool, "result changed", example, back])


def main() -> None:
    """Reads the arguments, judges, prints."""
    root, examples, corpus = sys.argv[1:]
    sys.path.insert(0, root)
    judge = Judge()
    for file in sorted(os.listdir(examples)):
        server = load(os.path.join(examples, file))
        package = re.sub(r"\W", "_", server["server"]).lower()
        tools = {tool["name"]: tool for tool in load(os.path.join(corpus, file))["tools"]}
        modules = {tool: module for module, tool in named(root, package)}
        for entry in server["examples"]:
            tool = entry["tool"]
            judge.counts["tools"] += 1
            module = importlib.import_module(f"{package}.{modules[tool]}")
            schema = tools[tool]["inputSchema"]
            validator = validators.validator_for(schema, default=Draft202012Validator)(schema)
            for kind in ("valid", "invalid"):
                for example in entry.get(kind, ()):
                    judge.arguments(tool, module.Params, validator, example, kind)
            for example in entry.get("nulls", ()):
                judge.arguments(tool, module.Params, validator, example["args"], "nulls")
            for example in entry.get("results", ()):
                judge.result(tool, module.Result, example)
    print(json.dumps({**judge.counts, "found": judge.found}))


def named(root: str, package: str) -> list[tuple[str, str]]:
    """The modules of a package, each with the tool that it calls."""
    found: list[tuple[str, str]] = []
    for file in sorted(os.listdir(os.path.join(root, package))):
        if file.endswith(".py") and file != "__init__.py":
            with open(os.path.join(root, package, file), encoding="utf-8") as source:
                called = re.search(r'invoke\(\s*CLIENT,\s*("(?:[^"\\]|\\.)*")', source.read())
            if called is not None:
                found.append((file[:-3], json.loads(called[1])))
    return found


if __name__ == "__main__":
    main()
