"""Checks JSON values against schemas, for constraints that types cannot express."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypeGuard

from pydantic_core import SchemaError, SchemaValidator, core_schema

Schema = bool | dict[str, Any]


def is_array(value: object) -> TypeGuard[list[Any]]:
    """Whether a value is a JSON array."""
    return isinstance(value, (list, tuple))


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Whether a value is a JSON object."""
    return isinstance(value, dict)


def is_mapping(value: object) -> TypeGuard[Mapping[str, Any]]:
    """Whether a value can stand for a JSON object."""
    return isinstance(value, Mapping)


def json_equal(left: Any, right: Any) -> bool:
    """JSON equality: 1 equals 1.0, but True does not equal 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, (int, float)) and isinstance(right, (int, float)):
        return left == right
    if is_array(left) and is_array(right):
        return len(left) == len(right) and all(map(json_equal, left, right))
    if is_object(left) and is_object(right):
        return left.keys() == right.keys() and all(json_equal(v, right[k]) for k, v in left.items())
    if isinstance(left, str) and isinstance(right, str):
        return str.__eq__(left, right)  # as text, even if a subclass overrides it
    return left is None and right is None


def json_key(value: Any) -> Any:
    """A hashable key that is equal for equal JSON values."""
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, (int, float)):
        return ("number", value)
    if is_array(value):
        return ("array", tuple(map(json_key, value)))
    if is_object(value):
        return ("object", frozenset((key, json_key(item)) for key, item in value.items()))
    return (type(value).__name__, value) if not isinstance(value, str) else ("string", str(value))


def is_multiple(value: float, step: Fraction) -> bool:
    """Whether a number is a multiple, computed from the decimal digits of both."""
    try:
        return Fraction(str(value)) % step == 0
    except (ValueError, ZeroDivisionError):
        return False


@functools.cache
def compile_pattern(source: str) -> Callable[[str], bool]:
    """Returns a function that tests whether a string contains a match.

    It takes linear time for any pattern. A pattern that does not compile matches everything.
    """
    try:
        return SchemaValidator(core_schema.str_schema(pattern=source)).isinstance_python
    except SchemaError:
        return lambda value: True


class _Unfinished(Exception):
    """The check is undecidable, or takes too many steps."""


@dataclass(slots=True)
class _Verdict:
    """The result of a check: the first problem, or the properties and items that were evaluated."""

    problem: str | None = None
    properties: set[str] = field(default_factory=set[str])
    items: set[int] = field(default_factory=set[int])

    def take(self, other: _Verdict) -> None:
        self.properties |= other.properties
        self.items |= other.items


class SchemaCheck:
    """A validator for the whole input schema of a tool.

    The generator writes schemas of all dialects in one form: references are `#` or `#/$defs/NAME`,
    patterns are translated, and `patternProperties` is a list of pairs.
    """

    def __init__(self, text: str) -> None:
        """Reads a schema from JSON."""
        self._root: Schema = json.loads(text)
        # If evaluated properties or items matter, unknown parts make the check undecidable.
        self._is_strict = '"unevaluated' in text

    @staticmethod
    @functools.lru_cache(maxsize=256)
    def of(text: str) -> SchemaCheck:
        """The check for a schema, cached."""
        return SchemaCheck(text)

    def problem(self, value: Any) -> str | None:
        """The first problem of a value, or None. An undecidable check finds none."""
        try:
            return _Run(self._root, self._is_strict).check(value, self._root, "").problem
        except (RecursionError, _Unfinished):
            return None


class _Run:
    """One run of a check. It caches verdicts, so that shared references are checked once."""

    _MAX_STEPS = 50_000

    def __init__(self, root: Schema, is_strict: bool) -> None:
        self._root = root
        self._definitions: dict[str, Schema] = (
            {} if isinstance(root, bool) else root.get("$defs", {})
        )
        self._steps = 0
        self._inverted = int(is_strict)
        self._known: dict[tuple[int, int], _Verdict] = {}

    def check(self, value: Any, schema: Schema, path: str) -> _Verdict:
        if schema is True:
            return _Verdict()
        if schema is False:
            return _Verdict(f"no value is allowed {_at(path)}")
        self._steps += 1
        if self._steps > self._MAX_STEPS:
            raise _Unfinished
        key = (id(value), id(schema))
        known = self._known.get(key)
        if known is None:
            self._known[key] = _Verdict()  # a cyclic reference adds nothing
            known = self._known[key] = self._evaluate(value, schema, path)
        return known

    def _evaluate(self, value: Any, schema: dict[str, Any], path: str) -> _Verdict:
        verdict = _Verdict()
        verdict.problem = _scalar_problem(value, schema, path)
        if (
            verdict.problem is None
            and isinstance(value, str)
            and "pattern" in schema
            and not self._matches(schema["pattern"], value)
        ):
            verdict.problem = f"the string does not match the pattern {_at(path)}"
        if verdict.problem is None and is_array(value):
            self._array(value, schema, path, verdict)
        if verdict.problem is None and is_object(value):
            self._object(value, schema, path, verdict)
        if verdict.problem is None:
            self._combined(value, schema, path, verdict)
        if verdict.problem is None:
            self._unevaluated(value, schema, path, verdict)
        return verdict

    def _resolve(self, reference: str) -> Schema:
        if reference == "#":
            return self._root
        if reference == "?":  # the target is unknown
            self._unknown()
            return True
        return self._definitions[reference[len("#/$defs/") :]]

    def _unknown(self) -> None:
        """Treats unknown parts as matching, unless a match can forbid something: then gives up."""
        if self._inverted > 0:
            raise _Unfinished

    def _check_inverted(self, value: Any, schema: Schema, path: str) -> _Verdict:
        """Checks in a context where a match can cause a problem, as in `not`."""
        self._inverted += 1
        try:
            return self.check(value, schema, path)
        finally:
            self._inverted -= 1

    def _matches(self, pattern: str | None, value: str) -> bool:
        if pattern is None:  # the pattern has no translation
            self._unknown()
            return True
        return compile_pattern(pattern)(value)

    def _array(self, value: list[Any], schema: dict[str, Any], path: str, out: _Verdict) -> None:
        prefix: list[Schema] = schema.get("prefixItems", [])
        rest: Schema | None = schema.get("items")
        for index, item in enumerate(value):
            part = prefix[index] if index < len(prefix) else rest
            if part is None:
                break
            out.problem = self.check(item, part, f"{path}/{index}").problem
            if out.problem is not None:
                return
            out.items.add(index)
        if "contains" in schema:
            part = schema["contains"]
            hits = [
                i
                for i, item in enumerate(value)
                if not self._check_inverted(item, part, path).problem
            ]
            out.items.update(hits)
            least, most = schema.get("minContains", 1), schema.get("maxContains", len(value))
            if not least <= len(hits) <= most:
                out.problem = f"{len(hits)} items match 'contains' {_at(path)}"

    def _object(
        self, value: dict[str, Any], schema: dict[str, Any], path: str, out: _Verdict
    ) -> None:
        for name, part in self._applicable(value, schema):
            out.problem = self.check(value[name], part, f"{path}/{name}").problem
            if out.problem is not None:
                return
            out.properties.add(name)
        if "propertyNames" in schema:
            for name in value:
                out.problem = self.check(name, schema["propertyNames"], f"{path}/{name}").problem
                if out.problem is not None:
                    return
        for name, part in schema.get("dependentSchemas", {}).items():
            if name in value and not self._merge(value, part, path, out):
                return

    def _applicable(
        self, value: dict[str, Any], schema: dict[str, Any]
    ) -> Iterable[tuple[str, Schema]]:
        """The names in an object, each with the schemas that apply to it."""
        properties: dict[str, Schema] = schema.get("properties", {})
        patterns: list[tuple[str | None, Schema]] = schema.get("patternProperties", [])
        additional: Schema | None = schema.get("additionalProperties")
        for name in value:
            declared = name in properties
            if declared:
                yield name, properties[name]
            for pattern, part in patterns:
                if self._matches(pattern, name):
                    declared = True
                    yield name, part
            if not declared and additional is not None:
                yield name, additional

    def _combined(self, value: Any, schema: dict[str, Any], path: str, out: _Verdict) -> None:
        if "$ref" in schema and not self._merge(value, self._resolve(schema["$ref"]), path, out):
            return
        for part in schema.get("allOf", ()):
            if not self._merge(value, part, path, out):
                return
        if "anyOf" in schema:
            fitting = self._fitting(self.check, value, schema["anyOf"], path, out)
            if not fitting:
                out.problem = f"no alternative of 'anyOf' matches {_at(path)}"
                return
        if "oneOf" in schema:
            fitting = self._fitting(self._check_inverted, value, schema["oneOf"], path, out)
            if fitting != 1:
                out.problem = f"{fitting} alternatives of 'oneOf' match instead of one {_at(path)}"
                return
        if "not" in schema and not self._check_inverted(value, schema["not"], path).problem:
            out.problem = f"'not' forbids the value {_at(path)}"
            return
        if "if" in schema:
            condition = self._check_inverted(value, schema["if"], path)
            if not condition.problem:
                out.take(condition)
            branch = schema.get("else" if condition.problem else "then")
            if branch is not None:
                self._merge(value, branch, path, out)

    def _merge(self, value: Any, part: Schema, path: str, out: _Verdict) -> bool:
        """Checks a schema that applies in the same place; False if there is a problem."""
        verdict = self.check(value, part, path)
        out.problem = verdict.problem
        out.take(verdict)
        return verdict.problem is None

    def _fitting(
        self,
        check: Callable[[Any, Schema, str], _Verdict],
        value: Any,
        parts: list[Schema],
        path: str,
        out: _Verdict,
    ) -> int:
        """How many alternatives match. The properties and items that those evaluated are recorded."""
        count = 0
        for part in parts:
            verdict = check(value, part, path)
            if verdict.problem is None:
                count += 1
                out.take(verdict)
        return count

    def _unevaluated(self, value: Any, schema: dict[str, Any], path: str, out: _Verdict) -> None:
        if is_object(value) and "unevaluatedProperties" in schema:
            part = schema["unevaluatedProperties"]
            for name in value.keys() - out.properties:
                out.problem = self.check(value[name], part, f"{path}/{name}").problem
                if out.problem is not None:
                    return
                out.properties.add(name)
        if is_array(value) and "unevaluatedItems" in schema:
            part = schema["unevaluatedItems"]
            for index in set(range(len(value))) - out.items:
                out.problem = self.check(value[index], part, f"{path}/{index}").problem
                if out.problem is not None:
                    return
                out.items.add(index)


def _at(path: str) -> str:
    return f"at {path[:200]}" if path else "for the arguments as a whole"


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


_TYPES: dict[str, Callable[[Any], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "string": lambda value: isinstance(value, str),
    "array": is_array,
    "object": is_object,
    "number": _is_number,
    "integer": lambda value: _is_number(value) and value % 1 == 0,
}


def _scalar_problem(value: Any, schema: dict[str, Any], path: str) -> str | None:
    """The problem of a value with the keywords that contain no subschemas."""
    if "type" in schema:
        names = schema["type"]
        names = [names] if isinstance(names, str) else names
        if not any(_TYPES[name](value) for name in names):
            return f"the value should be of type {' or '.join(names)} {_at(path)}"
    if "enum" in schema and not any(json_equal(value, allowed) for allowed in schema["enum"]):
        return f"the value is not one of those allowed {_at(path)}"
    if _is_number(value):
        return _number_problem(value, schema, path)
    if isinstance(value, str) and not _fits(len(value), schema, "minLength", "maxLength"):
        return f"the string's length is out of range {_at(path)}"
    if is_array(value):
        if not _fits(len(value), schema, "minItems", "maxItems"):
            return f"the number of items is out of range {_at(path)}"
        if "uniqueItems" in schema and len(set(map(json_key, value))) != len(value):
            return f"the items should be unique {_at(path)}"
    if is_object(value):
        return _object_problem(value, schema, path)
    return None


def _number_problem(value: float, schema: dict[str, Any], path: str) -> str | None:
    too_small = value < schema.get("minimum", value) or (
        "exclusiveMinimum" in schema and value <= schema["exclusiveMinimum"]
    )
    too_large = value > schema.get("maximum", value) or (
        "exclusiveMaximum" in schema and value >= schema["exclusiveMaximum"]
    )
    if too_small or too_large:
        return f"the number is too {'small' if too_small else 'large'} {_at(path)}"
    step = schema.get("multipleOf")
    if step is not None and not is_multiple(value, Fraction(str(step))):
        return f"the number is not a multiple of {step} {_at(path)}"
    return None


def _object_problem(value: dict[str, Any], schema: dict[str, Any], path: str) -> str | None:
    if not _fits(len(value), schema, "minProperties", "maxProperties"):
        return f"the number of properties is out of range {_at(path)}"
    missing = [name for name in schema.get("required", ()) if name not in value]
    for name, needed in schema.get("dependentRequired", {}).items():
        if name in value:
            missing += [other for other in needed if other not in value]
    if missing:
        return f"{missing[0]!r} is missing {_at(path)}"
    return None


def _fits(size: int, schema: dict[str, Any], least: str, most: str) -> bool:
    return bool(schema.get(least, 0) <= size <= schema.get(most, size))
