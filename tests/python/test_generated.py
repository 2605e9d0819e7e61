"""What generated modules do when they are used. The packages are made by `apigen_python_test.ts`.

    test_generated.py ROOT
"""

from __future__ import annotations

import asyncio
import enum
import importlib
import inspect
import json
import pydoc
import sys
import time
import unittest
import warnings
from collections.abc import Mapping
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

        expected = ("Search-Items", {"query": "x", "scale": "css"})
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
        self.assertEqual(self.sent(), {"query": "again", "scale": "css"})

    def test_help_shows_the_tool(self) -> None:
        """The docstring is the tool's description."""
        m = demo.search_items
        self.assertEqual((m.run.__doc__, m.run.__name__), ("Searches.", "run"))
        self.assertEqual((m.run_async.__doc__, m.run_async.__name__), ("Searches.", "run_async"))
        keywords = "query: str, sort: Literal['new', 'old'] | None = 'new', limit: int | None = None"
        self.assertTrue(str(inspect.signature(m.run)).startswith(f"(*, {keywords}, "))
        self.assertIn(", scale: Literal['css', 'device'] = 'css')", str(inspect.signature(m.run)))
        self.assertTrue(str(inspect.signature(m.run_async)).endswith(") -> Result"))
        self.assertEqual(str(inspect.signature(demo.nothing.run)), "() -> ToolText")
        self.assertIn(f"run(*, {keywords}", pydoc.render_doc(m.run, renderer=pydoc.plaintext))

    def test_help_of_a_module_is_about_the_tool(self) -> None:
        """Not about Pydantic, and completion offers what the module defines."""
        m = demo.search_items
        self.assertLess(pydoc.render_doc(m, renderer=pydoc.plaintext).count("\n"), 120)
        names = {name for name in dir(m) if not name.startswith("_")}
        self.assertEqual(names, {"Params", "Result", "ResultWhere", "Where", "run", "run_async"})
        signature = str(inspect.signature(m.Where))
        self.assertTrue(signature.startswith("(*, field: str, limit: int | None = None"), signature)
        fields = {name for name in dir(m.Where(field="a")) if not name.startswith("_")}
        expected = {"field", "limit", "and_", "from_arguments", "to_arguments", "model_dump"}
        self.assertEqual(fields, expected)


class Wire(Calls):
    """What is sent is what was given, under the names of the schema."""

    def test_only_what_was_set_is_sent(self) -> None:
        """No defaults, and None only where null is a value."""
        demo.search_items.run(query="x", limit=None, cursor=None)
        self.assertEqual(self.sent(), {"query": "x", "scale": "css", "cursor": None})
        params = demo.search_items.Params(query="x", limit=3)
        self.assertEqual(params.sort, "new")
        params.limit = None
        self.assertEqual(params.to_arguments(), {"query": "x", "scale": "css"})

    def test_a_default_that_the_schema_requires_is_sent(self) -> None:
        """At every depth; but what comes as JSON has to have it."""
        m = demo.search_items
        m.run(query="x", where={"field": "a", "and": [{"field": "b"}]})
        self.assertEqual(self.sent()["scale"], "css")
        m.run(query="x", scale="device")
        self.assertEqual(self.sent()["scale"], "device")
        demo.nested.run(shot={"list": [{}, {"scale": 2}]})
        self.assertEqual(self.sent(), {"shot": {"list": [{"scale": 1}, {"scale": 2}]}})
        with self.assertRaises(ValidationError):
            m.Params.model_validate({"query": "x"})

    def test_both_names_are_taken_and_given(self) -> None:
        """The Python name and the one on the wire."""
        for given in ({"from": "a"}, {"from_": "a"}):
            params = demo.search_items.Params(query="x", **given)
            self.assertEqual(params.from_, "a")
            sent = {"query": "x", "scale": "css", "from": "a"}
            self.assertEqual(params.model_dump(exclude_unset=True), sent)
            named = params.model_dump(exclude_unset=True, by_alias=False)
            self.assertEqual(named, {"query": "x", "scale": "css", "from_": "a"})

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

    def test_enums_of_the_caller_are_accepted(self) -> None:
        """They are strings."""

        class Sort(str, enum.Enum):
            old = "old"

        demo.search_items.run(query="x", sort=Sort.old)
        self.assertEqual(self.sent()["sort"], "old")
        self.assertIs(type(self.sent()["sort"]), str)

    def test_objects_are_models_or_dictionaries(self) -> None:
        """At every depth, with undeclared keys kept."""
        m = demo.search_items
        m.run(query="x", where=m.Where(field="a", and_=[m.Where(field="b", limit=None)]))
        expected = {"field": "a", "and": [{"field": "b"}]}
        self.assertEqual(self.sent()["where"], expected)
        m.run(query="x", where={"field": "a", "more": [1, None]}, extra={"y": None})
        self.assertEqual(self.sent()["where"], {"field": "a", "more": [1, None]})
        self.assertEqual(self.sent()["extra"], {"y": None})

    def test_objects_of_results_can_be_sent(self) -> None:
        """Also those of another tool."""
        self.answer = answer(structuredContent={"hits": [], "where": {"field": "a", "and": []}})
        result = demo.search_items.run(query="x")
        demo.search_items.run(query="x", where=result.where)
        self.assertEqual(self.sent()["where"], {"field": "a", "and": []})
        other = demo.anything.Params(field="b")
        demo.search_items.run(query="x", where=other)
        self.assertEqual(self.sent()["where"], {"field": "b"})

    def test_a_misspelt_name_is_sent_with_a_warning(self) -> None:
        """The schema allows it, but it looks wrong."""
        with self.assertWarnsRegex(UndeclaredArgumentWarning, "'lmit'.*'limit'") as warned:
            demo.search_items.run(query="x", lmit=3)
        self.assertEqual(warned.filename, __file__)
        self.assertEqual(self.sent(), {"query": "x", "scale": "css", "lmit": 3})
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
        self.assertEqual((result["from"], result["new"], "hits" in result), ("b", 2, True))
        self.assertNotIn("where", result)

    def test_typed_results_keep_what_came_beside_them(self) -> None:
        """Content blocks, and images that are shown."""
        image = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
        self.answer = ToolResult(
            {"content": [{"type": "text", "text": "t"}, image], "structuredContent": {"hits": []}}
        )
        result = demo.search_items.run(query="x")
        self.assertIs(result.tool_result, self.answer)
        self.assertEqual(len(result.tool_result.images), 1)
        shown = result._repr_mimebundle_()
        self.assertEqual(shown["image/png"], image["data"])
        self.assertEqual(shown["text/plain"], "Result(hits=[], from_=None, where=None)")
        self.answer = answer("other", structuredContent={"hits": []})
        self.assertEqual(result, demo.search_items.run(query="x"))
        self.assertEqual(demo.search_items.run(query="x")._repr_mimebundle_(), {})
        root = demo.anything.run()
        self.assertEqual(root.tool_result.text, "other")

    def test_a_loop_over_a_result_is_refused(self) -> None:
        """It is meant for a field; `dict()` and keywords still work, a field "keys" goes first."""
        self.answer = answer(structuredContent={"hits": ["a"], "from": "b", "new": 2})
        result = demo.search_items.run(query="x")
        with self.assertRaisesRegex(TypeError, "not iterable. Its fields: hits, from_, where$"):
            iter(result)
        self.assertEqual(dict(result), {"hits": ["a"], "from": "b", "new": 2})
        self.assertEqual(dict(**result), dict(result))
        with self.assertRaises(AttributeError):
            result.values
        self.answer = answer(structuredContent={"hits": [], "keys": ["k"]})
        self.assertEqual(demo.search_items.run(query="x").keys, ["k"])

    def test_free_form_results_are_mappings(self) -> None:
        """Like the dictionary that they are on the wire."""
        self.answer = answer(structuredContent={"x": 1, "items": [2]})
        result = demo.free.run()
        self.assertEqual((result["x"], result.x, result.get("y", 3)), (1, 1, 3))
        self.assertEqual((list(result), len(result), "x" in result), (["x", "items"], 2, True))
        self.assertEqual(dict(result), {"x": 1, "items": [2]})
        self.assertEqual(dict(**result), dict(result.items()))
        self.assertEqual(result, {"x": 1, "items": [2]})
        self.assertIsInstance(result, Mapping)
        with self.assertRaises(KeyError):
            result["y"]

    def test_envelopes_are_like_what_is_in_them(self) -> None:
        """As FastMCP makes them; `result` stays, as the reference has it."""
        self.answer = answer("plain", structuredContent={"result": '{"a": 1}'})
        text = demo.wrapped.run()
        self.assertEqual(json.loads(text), {"a": 1})
        self.assertEqual((text.result, text.structured), (text, {"result": '{"a": 1}'}))
        self.answer = answer("plain", structuredContent={"result": [1, 2]})
        listed = demo.listed.run()
        self.assertEqual((listed.result, list(listed), len(listed), listed[-1]), ([1, 2],) + ([1, 2], 2, 2))
        self.assertEqual((str(listed), listed == [1, 2], 2 in listed), ("[1, 2]", True, True))
        self.assertEqual((listed.index(2), listed.tool_result), (1, self.answer))
        with self.assertRaises(AttributeError):
            _ = listed.nothing

    def test_text_carries_structured_content(self) -> None:
        """Some servers send it without a schema."""
        self.answer = answer("said", structuredContent={"a": 1})
        self.assertEqual(demo.nothing.run().structured, {"a": 1})
        self.answer = answer("said")
        self.assertIsNone(demo.nothing.run().structured)

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
        self.assertEqual(
            str(error),
            "The structured result does not match the tool's own schema "
            "(hits: Input should be a valid list). The tool ran: do not call it again; "
            "its answer is in `error.raw`. The tool sent: said",
        )
        self.answer = answer(structuredContent={"error": "no such hit"})
        with self.assertRaisesRegex(MismatchedResultError, '{"error": "no such hit"}$'):
            demo.search_items.run(query="x")
        self.answer = answer("said")
        self.answer = answer("said")
        with self.assertRaises(MismatchedResultError) as caught:
            demo.search_items.run(query="x")
        self.assertEqual((caught.exception.raw, caught.exception.text), (None, "said"))


class WrongArguments(Calls):
    """What is said is short, and helps."""

    def said(self, call: Any, **arguments: Any) -> str:
        """What is said of a call."""
        with self.assertRaises(ValidationError) as caught:
            call(**arguments)
        self.assertEqual(self.calls, [])
        self.assertIsNone(caught.exception.__cause__)
        said = str(caught.exception)
        self.assertLess(len(said), 420, said)
        self.assertNotIn("pydantic", said)
        return said

    def test_the_signature_and_the_problem(self) -> None:
        """All that is needed to put it right."""
        said = self.said(demo.numbers.run, number="one")
        self.assertEqual(
            said,
            "1 validation error for numbers.run(number: float | None = None, "
            "integer: int | None = None, step: float | None = None, "
            "distinct: list[Any] | None = None)\n"
            "number\n  Input should be a valid number, not 'one' [type=arguments]",
        )
        self.assertIn("not a valid", self.said(demo.numbers.Params, integer="1").replace("should be a", "not a"))

    def test_the_nearest_right_name(self) -> None:
        """For a name that is missing, and for one that does not exist."""
        said = self.said(demo.search_items.run, querry="x")
        self.assertIn("query\n  Required; is 'querry' meant for it?", said)
        said = self.said(demo.closed.run, colour="x")
        self.assertIn("colour\n  Not an argument; did you mean 'color'?", said)
        self.assertIn("closed.run(color: str | None = None)", said)

    def test_inside_of_objects(self) -> None:
        """The place is that in the arguments."""
        said = self.said(demo.search_items.run, query="x", where={"and": [{"fild": "x"}]})
        self.assertIn("where.field\n  Required", said)
        self.assertIn("where.and.0.field\n  Required; is 'fild' meant for it?", said)
        said = self.said(demo.search_items.Where, fild="x")
        self.assertIn("for search_items.Where(field: str, limit: int | None = None", said)

    def test_much_that_is_wrong_is_cut(self) -> None:
        """A caller who sees three mistakes looks again."""
        wrong = {name: object() for name in ("number", "integer", "step", "distinct")}
        self.assertEqual(self.said(demo.numbers.run, **wrong).count("[type="), 3)
        self.assertIn("as keywords", self.said(lambda: demo.numbers.run("x")))
        self.assertIn("not 'xxx", self.said(demo.numbers.run, number="x" * 10_000))


class Checks(unittest.TestCase):
    """The parts that generated modules rely on."""

    def test_a_failed_check_says_where(self) -> None:
        """So that the caller can put it right."""
        with self.assertRaisesRegex(ValidationError, "'b' is missing for the arguments as a whole"):
            demo.checked.run(a=1)
        demo.checked.Params(a=1, b=2)

    def test_hostile_patterns_do_not_hang(self) -> None:
        """They take linear time."""
        start = time.monotonic()
        for pattern in ("(a+)+$", "(a|a)*$", "(a?){50}a{50}"):
            compile_pattern(pattern)("a" * 50_000 + "!")
        self.assertLess(time.monotonic() - start, 5)

    def test_what_does_not_compile_allows_everything(self) -> None:
        """A pattern must not cost the tool."""
        self.assertTrue(compile_pattern("(")("x"))

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
