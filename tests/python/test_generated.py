"""What generated modules do when they are used. The packages are made by `apigen_python_test.ts`.

    test_generated.py ROOT
"""

from __future__ import annotations

import asyncio
import importlib
import sys
import time
import unittest
import warnings
from typing import Any
from unittest import mock

from pydantic import ValidationError

ROOT = sys.argv.pop(1)
sys.path.insert(0, ROOT)

import demo  # noqa: E402 -- it is in the folder that was just added
from ipybox_runtime import ToolOutputError, ToolResult, ToolRunner, ToolText  # noqa: E402
from ipybox_runtime.checks import SchemaCheck, compile_pattern, json_equal, json_key  # noqa: E402
from ipybox_runtime.models import MismatchedResultError, UndeclaredArgumentWarning  # noqa: E402


def answer(text: str = "", **result: Any) -> ToolResult:
    """What a server answers."""
    return ToolResult({"content": [{"type": "text", "text": text}] if text else [], **result})


class Calls(unittest.TestCase):
    """Calls go out through one method, which is replaced here."""

    def setUp(self) -> None:
        """Keeps the calls."""
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.answer = answer("done", structuredContent={"hits": []})

        def run_sync(runner: ToolRunner, tool: str, arguments: dict[str, Any]) -> ToolResult:
            self.calls.append((tool, arguments))
            return self.answer

        async def run(runner: ToolRunner, tool: str, arguments: dict[str, Any]) -> ToolResult:
            return run_sync(runner, tool, arguments)

        for name, method in (("run_sync", run_sync), ("run", run)):
            patch = mock.patch.object(ToolRunner, name, method)
            patch.start()
            self.addCleanup(patch.stop)

    def sent(self) -> dict[str, Any]:
        """The arguments of the last call."""
        return self.calls[-1][1]


class Ways(Calls):
    """The ways to call a tool."""

    def test_all_of_them_send_the_same(self) -> None:
        """Models, keywords, dictionaries; the function, the module, the package."""
        from demo import search_items as m
        from demo.search_items import Params, run

        expected = ("Search-Items", {"query": "x"})
        m.run(m.Params(query="x"))
        m.run(params=m.Params(query="x"))
        m.run({"query": "x"})
        m.run(query="x")
        m(query="x")
        run(Params(query="x"))
        demo.search_items(query="x")
        demo.search_items.run(query="x")
        asyncio.run(m.run_async(m.Params(query="x")))
        asyncio.run(m.run_async(query="x"))
        self.assertEqual(self.calls, [expected] * 10)

    def test_arguments_are_given_in_one_way_only(self) -> None:
        """Both would leave open which counts."""
        with self.assertRaises(TypeError):
            demo.search_items.run(demo.search_items.Params(query="x"), query="y")

    def test_nothing_is_needed_where_nothing_is_required(self) -> None:
        """`arguments` is an empty object then."""
        demo.nothing.run()
        demo.nothing()
        self.assertEqual(self.calls, [("nothing", {})] * 2)

    def test_a_tool_may_have_a_parameter_called_params_or_self(self) -> None:
        """They are keywords like any other."""
        demo.awkward.run(**{"params": 1, "self": 2, "from": 3, "class": 4})
        self.assertEqual(self.sent(), {"params": 1, "self": 2, "from": 3, "class": 4})

    def test_the_package_names_its_tools_and_no_others(self) -> None:
        """Completion lists them; a wrong name is an AttributeError."""
        self.assertIn("search_items", dir(demo))
        with self.assertRaises(AttributeError):
            _ = demo.nowhere
        with self.assertRaises(ImportError):
            from demo import nowhere  # noqa: F401

    def test_modules_can_be_reloaded(self) -> None:
        """As after a new generation in a running kernel."""
        module = importlib.reload(importlib.import_module("demo.search_items"))
        module.run(query="again")
        module(query="again")
        self.assertEqual(self.sent(), {"query": "again"})

    def test_help_shows_the_tool(self) -> None:
        """The docstring is the tool's description."""
        self.assertEqual(demo.search_items.run.__doc__, "Searches.")
        self.assertEqual(demo.search_items.run.__name__, "run")


class Wire(Calls):
    """What is sent is what was given, under the names of the schema."""

    def test_only_what_was_set_is_sent(self) -> None:
        """No defaults, and None only where null is a value."""
        demo.search_items.run(query="x", limit=None, cursor=None)
        self.assertEqual(self.sent(), {"query": "x", "cursor": None})
        params = demo.search_items.Params(query="x", limit=3)
        self.assertEqual(params.sort, "new")
        params.limit = None
        self.assertEqual(params.to_arguments(), {"query": "x"})

    def test_both_names_are_taken_and_given(self) -> None:
        """The Python name and the one on the wire."""
        for given in ({"from": "a"}, {"from_": "a"}):
            params = demo.search_items.Params(query="x", **given)
            self.assertEqual(params.from_, "a")
            self.assertEqual(params.model_dump(exclude_unset=True), {"query": "x", "from": "a"})
            self.assertEqual(
                params.model_dump(exclude_unset=True, by_alias=False), {"query": "x", "from_": "a"}
            )

    def test_numbers_stay_what_they_are(self) -> None:
        """1 is not 1.0, and no digit is lost."""
        big = 2**70 + 1
        demo.numbers.run(number=1, integer=big)
        self.assertEqual(repr(self.sent()), repr({"number": 1, "integer": big}))
        demo.numbers.run(number=1.0, integer=5.0)
        self.assertEqual(repr(self.sent()), repr({"number": 1.0, "integer": 5}))
        for wrong in ("1", True, float("nan"), float("inf")):
            with self.assertRaises(ValidationError):
                demo.numbers.run(number=wrong)

    def test_multiples_are_computed_with_decimals(self) -> None:
        """4.35 is a multiple of 0.01, though not in binary."""
        demo.numbers.run(step=4.35)
        with self.assertRaises(ValidationError):
            demo.numbers.run(step=4.355)

    def test_enum_classes_are_accepted(self) -> None:
        """As the reference documents calls."""
        m = demo.search_items
        m.run(query="x", sort=m.Sort.old)
        self.assertEqual(self.sent(), {"query": "x", "sort": "old"})
        self.assertIs(type(self.sent()["sort"]), str)

    def test_objects_are_models_or_dictionaries(self) -> None:
        """At every depth, with undeclared keys kept."""
        m = demo.search_items
        m.run(query="x", where=m.Where(field="a", and_=[m.Where(field="b", limit=None)]))
        expected = {"query": "x", "where": {"field": "a", "and": [{"field": "b"}]}}
        self.assertEqual(self.sent(), expected)
        m.run(query="x", where={"field": "a", "more": [1, None]}, extra={"y": None})
        self.assertEqual(self.sent()["where"], {"field": "a", "more": [1, None]})
        self.assertEqual(self.sent()["extra"], {"y": None})

    def test_a_misspelt_name_is_sent_with_a_warning(self) -> None:
        """The schema allows it, but it looks wrong."""
        with self.assertWarnsRegex(UndeclaredArgumentWarning, "'lmit'.*'limit'"):
            demo.search_items.run(query="x", lmit=3)
        self.assertEqual(self.sent(), {"query": "x", "lmit": 3})
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            demo.search_items.run(query="x", quite_different=3)

    def test_equal_items_are_told_by_json(self) -> None:
        """1 equals 1.0 and true equals neither."""
        demo.numbers.run(distinct=[1, True, "1", None, [1], {"a": 1}])
        for items in ([1, 1.0], [{"a": 1, "b": 2}, {"b": 2, "a": 1.0}], ["a", "a"]):
            with self.assertRaises(ValidationError):
                demo.numbers.run(distinct=items)


class Results(Calls):
    """Results are generous, and never lost."""

    def test_text_is_what_it_is_without_a_schema(self) -> None:
        """A string that carries the content."""
        text = demo.nothing.run()
        self.assertIsInstance(text, ToolText)
        self.assertEqual(text, "done")

    def test_structured_results_become_models(self) -> None:
        """Unknown fields and both names are kept."""
        self.answer = answer(structuredContent={"hits": ["a"], "from": "b", "from_": 1, "new": 2})
        result = demo.search_items.run(query="x")
        self.assertEqual((result.hits, result.from_, result.new), (["a"], "b", 2))
        self.assertEqual(result.model_dump()["from"], "b")

    def test_empty_results_are_results(self) -> None:
        """Presence counts, not truth."""
        for value in ({}, [], 0, False, "", None):
            self.answer = answer("text", structuredContent=value)
            self.assertEqual(demo.anything.run().root, value)

    def test_text_stands_in_where_it_fits(self) -> None:
        """Servers of older protocols send nothing else."""
        self.answer = answer('{"hits": ["a"]}')
        self.assertEqual(demo.search_items.run(query="x").hits, ["a"])
        self.answer = answer("plain words")
        self.assertEqual(demo.wrapped.run().result, "plain words")

    def test_what_does_not_fit_is_in_the_error(self) -> None:
        """The tool has run already."""
        self.answer = answer("said", structuredContent={"hits": 5})
        with self.assertRaises(ToolOutputError) as caught:
            demo.search_items.run(query="x")
        error = caught.exception
        self.assertIsInstance(error, MismatchedResultError)
        self.assertEqual((error.raw, error.text, error.result), ({"hits": 5}, "said", self.answer))
        self.answer = answer("said")
        with self.assertRaises(MismatchedResultError) as caught:
            demo.search_items.run(query="x")
        self.assertEqual((caught.exception.raw, caught.exception.text), (None, "said"))


class Checks(unittest.TestCase):
    """The parts that generated modules rely on."""

    def test_a_failed_check_says_where(self) -> None:
        """So that the caller can put it right."""
        with self.assertRaisesRegex(ValidationError, "'b' is missing for the arguments as a whole"):
            demo.checked.run(a=1)
        demo.checked.Params(a=1, b=2)

    def test_hostile_patterns_do_not_hang(self) -> None:
        """Neither in the linear engine nor in the other one."""
        start = time.monotonic()
        for pattern, longest in (("(a+)+$", None), ("(a|a)*$", None), ("(?=a)a*b", 100)):
            compile_pattern(pattern, longest)("a" * 50_000 + "!")
        self.assertLess(time.monotonic() - start, 5)

    def test_what_does_not_compile_allows_everything(self) -> None:
        """A pattern must not cost the tool."""
        self.assertTrue(compile_pattern("(", None)("x"))
        self.assertTrue(compile_pattern("(", 10)("x"))

    def test_a_check_ends(self) -> None:
        """However often references meet, and however deep a value is."""
        doubled = {f"d{i}": {"anyOf": [{"$ref": f"#/$defs/d{i - 1}"}] * 2} for i in range(1, 60)}
        import json

        text = json.dumps({"$ref": "#/$defs/d59", "$defs": {"d0": {"type": "string"}, **doubled}})
        start = time.monotonic()
        self.assertIsNotNone(SchemaCheck.of(text).problem(5))
        deep: Any = 5
        for _ in range(100_000):
            deep = [deep]
        self.assertIsNone(SchemaCheck.of('{"items": {"$ref": "#"}}').problem(deep))
        self.assertLess(time.monotonic() - start, 5)

    def test_json_equality(self) -> None:
        """The same by comparison and by key."""
        values = [None, True, False, 0, 1, 1.0, "1", "", [], [1], [1.0], {}, {"a": 1}, {"a": True}]
        for left in values:
            for right in values:
                self.assertEqual(json_equal(left, right), json_key(left) == json_key(right))
        self.assertFalse(json_equal(1, True))
        self.assertTrue(json_equal([1, {"a": 2}], [1.0, {"a": 2.0}]))

    def test_no_field_hides_what_models_have(self) -> None:
        """The reserved names are those of the Pydantic that runs here."""
        from pydantic import BaseModel

        fields = demo.attributes.Params.model_fields
        names = {name for name in dir(BaseModel) if not name.startswith("_")}
        self.assertEqual({field.alias for field in fields.values()} & names, names)
        self.assertEqual(fields.keys() & names, set())


if __name__ == "__main__":
    unittest.main()
