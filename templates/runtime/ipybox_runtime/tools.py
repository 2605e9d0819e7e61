"""The functions of generated modules, which accept ``Params`` or keywords."""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, overload

from pydantic import BaseModel

from .signatures import ToolSignature

if TYPE_CHECKING:
    from .content import ToolResult, ToolText
    from .models import InputModel
    from .tool_runner import ToolRunner

_P = ParamSpec("_P")
_M = TypeVar("_M", bound="InputModel")
_R = TypeVar("_R")
_T = TypeVar("_T", bound=BaseModel)
_M_contra = TypeVar("_M_contra", contravariant=True)
_R_co = TypeVar("_R_co", covariant=True)


class Flexible(Protocol[_P, _M_contra, _R_co]):  # pyright: ignore[reportInvalidTypeVarUse]
    """A function that takes a tool's `Params`, or their fields as keywords."""

    @overload
    def __call__(self, params: _M_contra) -> _R_co: ...
    @overload
    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R_co: ...


class ToolFunction(Flexible[_P, _M_contra, _R_co], Protocol[_P, _M_contra, _R_co]):  # pyright: ignore[reportInvalidTypeVarUse]
    """A tool's `run`, from which its `run_async` is made."""

    @property
    def awaited(self) -> Flexible[_P, _M_contra, Coroutine[Any, Any, _R_co]]:
        """The coroutine function for the same call."""
        ...


class _Call:
    """A call that the body of `run` describes; the caller decides whether to block or to await."""

    def __init__(
        self,
        runner: ToolRunner,
        tool: str,
        arguments: dict[str, Any],
        finish: Callable[[ToolResult], Any],
    ) -> None:
        self.runner = runner
        self.tool = tool
        self.arguments = arguments
        self.finish = finish

    def now(self) -> Any:
        return self.finish(self.runner.run_sync(self.tool, self.arguments))

    async def later(self) -> Any:
        return self.finish(await self.runner.run(self.tool, self.arguments))


@overload
def invoke(
    runner: ToolRunner, tool: str, params: InputModel, *, text: type[BaseModel] | None = None
) -> ToolText: ...
@overload
def invoke(runner: ToolRunner, tool: str, params: InputModel, result: type[_T]) -> _T: ...
def invoke(
    runner: ToolRunner,
    tool: str,
    params: InputModel,
    result: type[BaseModel] | None = None,
    *,
    text: type[BaseModel] | None = None,
) -> Any:
    """Calls a tool, in the body of a function that `tool` decorates.

    `result` is the class of a structured result, `text` the class of an envelope around text.
    """
    from .results import parse_result, parse_text

    def finish(answer: ToolResult) -> Any:
        if result is not None:
            return parse_result(result, answer)
        return answer.text if text is None else parse_text(text, answer)

    return _Call(runner, tool, params.to_arguments(), finish)


def invoke_json(runner: ToolRunner, tool: str, params: InputModel) -> Any:
    """Like `invoke`, for a tool that declares no result but sends JSON, which is returned."""
    from .results import parse_json

    return _Call(runner, tool, params.to_arguments(), parse_json)


def tool(
    model: Callable[_P, _M],
) -> Callable[[Callable[[_M], _R]], ToolFunction[_P, _M, _R]]:
    """Makes a function of `Params` also accept the fields of `Params` as keywords.

    The module that defines it becomes callable too: with `from mcptools import github`,
    `github.search_repositories(query="x")` is `github.search_repositories.run(query="x")`.
    """

    def decorate(function: Callable[[_M], _R]) -> ToolFunction[_P, _M, _R]:
        module = sys.modules[function.__module__]
        if function.__name__ == "run" and type(module) is types.ModuleType:
            module.__class__ = _ToolModule
        call: ToolFunction[_P, _M, _R] = _flexible(model, function)
        return call

    return decorate


def _flexible(model: Any, function: Callable[[Any], Any]) -> Any:
    def read(params: Any, arguments: dict[str, Any]) -> Any:
        if params is None:
            given = arguments.get("params")
            if len(arguments) == 1 and isinstance(given, model):
                return given
            return model.from_arguments(arguments)
        if arguments:
            raise TypeError("Pass either Params or keyword arguments, not both")
        return params if isinstance(params, model) else model.from_arguments(params)

    # Both call `function` directly, so that `stacklevel` of warnings is the same.
    def run(params: Any = None, /, **arguments: Any) -> Any:
        outcome = function(read(params, arguments))
        return outcome.now() if isinstance(outcome, _Call) else outcome

    async def run_async(params: Any = None, /, **arguments: Any) -> Any:
        outcome = function(read(params, arguments))
        return await outcome.later() if isinstance(outcome, _Call) else outcome

    signature = ToolSignature(model, str(function.__annotations__.get("return", "Any")))
    for wrapper, name in ((run, function.__name__), (run_async, f"{function.__name__}_async")):
        functools.update_wrapper(wrapper, function)
        wrapper.__name__ = wrapper.__qualname__ = name
        vars(wrapper)["__signature__"] = signature
    vars(run)["awaited"] = run_async
    return run


class _ToolModule(types.ModuleType):
    """A callable module, whose `dir()` lists only what it defines."""

    def __call__(self, *args: Any, **arguments: Any) -> Any:
        return self.run(*args, **arguments)

    def __dir__(self) -> Iterable[str]:
        return [
            "__doc__",
            *(
                name
                for name, value in vars(self).items()
                if not name.startswith("_") and getattr(value, "__module__", None) == self.__name__
            ),
        ]
