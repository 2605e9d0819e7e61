"""What `ipybox actions` runs in the kernel to check saved code actions and to run one."""

import importlib
import inspect
import json
import sys
import typing

import pydantic
from IPython.display import display

MIME_TYPE = "application/vnd.ipybox.actions+json"


def check(names: list[str]) -> None:
    """Tells what is wrong with each of the actions."""
    _tell({name: list(_problems(name)) for name in names})


def run(name: str, arguments: dict[str, object]) -> None:
    """Runs an action with arguments from JSON and tells its result as JSON."""
    function = importlib.import_module(f"gentools.{name}").run
    result = pydantic.validate_call(function)(**arguments)
    if result is None:
        _tell({})
        return
    hints = typing.get_type_hints(function, include_extras=True)
    adapter = pydantic.TypeAdapter[object](hints.get("return", object))
    _tell({"result": json.loads(adapter.dump_json(result))})


def _problems(name: str) -> typing.Iterator[str]:
    package = f"gentools.{name}"
    try:
        exported = importlib.import_module(package)
        api = importlib.import_module(f"{package}.api")
    except BaseException as error:  # the action's own code runs here
        yield f"cannot be imported: {_shown(error)}"
        return
    if f"{package}.impl" in sys.modules:
        yield "api.py imports impl.py: import it inside run()"
    if not (api.__doc__ or "").strip():
        yield "api.py has no documentation: its first line is what lists show"
    function = getattr(api, "run", None)
    if not inspect.isfunction(function):
        yield "api.py has no function run()"
        return
    if getattr(exported, "run", None) is not function:
        yield "__init__.py does not export run(): from .api import run"
    yield from _untyped(function)
    yield from _unlike(function, f"{package}.impl")


def _untyped(function: typing.Any) -> typing.Iterator[str]:
    """What of run() has no type, or one that cannot come from JSON or go there."""
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except Exception as error:
        yield f"a type of run() is unknown: {_shown(error)}"
        return
    for name in [*inspect.signature(function).parameters, "return"]:
        what = "the result of run()" if name == "return" else f"parameter {name!r} of run()"
        if name not in hints:
            yield f"{what} has no type"
            continue
        try:
            pydantic.TypeAdapter(hints[name]).json_schema()
        except Exception as error:
            yield f"{what} has a type that JSON cannot express: {_shown(error)}"


def _unlike(function: typing.Any, implementation: str) -> typing.Iterator[str]:
    """How impl.py differs from the interface."""
    try:
        run = importlib.import_module(implementation).run
        there = list(inspect.signature(run).parameters)
    except BaseException as error:  # the action's own code runs here
        yield f"impl.py has no usable run(): {_shown(error)}"
        return
    here = list(inspect.signature(function).parameters)
    if here != there:
        yield f"run() has the parameters {here} in api.py and {there} in impl.py"


def _shown(error: BaseException) -> str:
    text = str(error).strip().split("\n")[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _tell(value: object) -> None:
    """Hands a value to whoever runs this, apart from all that is printed."""
    display({MIME_TYPE: value}, raw=True)
