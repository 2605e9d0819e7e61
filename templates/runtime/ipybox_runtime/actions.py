"""Checks and runs saved code actions, for `ipybox actions`."""

import difflib
import importlib
import inspect
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import typing

import pydantic
from IPython.core.getipython import get_ipython

MIME_TYPE = "application/vnd.ipybox.actions+json"


class ArgumentError(Exception):
    """The arguments of an action are invalid. Shown as a single line."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


def check(names: list[str], with_types: bool) -> None:
    """Reports the problems of each action; null if the type checker is wanted and not installed."""
    types = _type_problems(names) if with_types else {}
    if types is None:
        _publish({"problems": None})
        return
    _publish({"problems": {name: [*_problems(name), *types.get(name, [])] for name in names}})


def _type_problems(names: list[str]) -> dict[str, list[str]] | None:
    """The type checker's findings in each action, whose code does not run."""
    checker = pathlib.Path(sys.executable).with_name("ty")
    if not checker.is_file():
        return None
    workspace = pathlib.Path.cwd()
    # Generated APIs are checked when they are generated; here they are only imported, like packages.
    checked = [name for name in ("gentools", "mcpparse") if (workspace / name).is_dir()]
    roots = [str(workspace), str(workspace / "mcptools"), *os.environ["PYTHONPATH"].split(":")]
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as settings:
        settings.write(
            f"[environment]\nroot = {json.dumps(roots)}\n[src]\nrespect-ignore-files = false\n"
        )
        settings.flush()
        options = ["--output-format", "gitlab", "--no-progress"]
        places = ["--config-file", settings.name, "--python", sys.executable]
        command = [checker, "check", *options, *places, *checked]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode > 1:  # 1 means problems
        raise RuntimeError(f"ty failed with exit code {done.returncode}: {done.stderr[-2000:]}")
    problems: dict[str, list[str]] = {name: [] for name in names}
    for found in json.loads(done.stdout):  # a GitLab Code Quality report
        if found["severity"] != "major":
            continue
        path, line = found["location"]["path"], found["location"]["positions"]["begin"]["line"]
        message = re.sub(r"^[\w-]+: ", "", found["description"].split("\n")[0])  # the rule's name
        top, *action, _file = path.split("/")
        # Parsers are shared, so their problems count for every action.
        owners = [".".join(action[:2])] if top == "gentools" and len(action) > 1 else names
        for name in owners:
            problems.get(name, []).append(f"{path}:{line}: {message}")
    return problems


def run(name: str, texts: dict[str, str]) -> None:
    """Runs an action with arguments from texts, and reports its result as JSON."""
    try:
        function = importlib.import_module(f"gentools.{name}").run
        hints = typing.get_type_hints(function, include_extras=True)
        result = function(**_arguments(name, function, hints, texts))
    except ArgumentError:
        raise
    except BaseException as error:
        _show_from_action(error)
        raise
    if result is None:
        _publish({})
        return
    adapter = pydantic.TypeAdapter[object](hints.get("return", object))
    _publish({"result": json.loads(adapter.dump_json(result))})


def _arguments(
    action: str, function: typing.Any, hints: dict[str, typing.Any], texts: dict[str, str]
) -> dict[str, object]:
    """Converts texts to the types of a function's parameters."""
    parameters = inspect.signature(function).parameters.values()
    others = next((p.name for p in parameters if p.kind is p.VAR_KEYWORD), None)
    named = {p.name: p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    problems = [] if others is not None else list(_unknown(texts, named))
    for name, parameter in named.items():
        if parameter.default is parameter.empty and name not in texts:
            problems.append(f'argument "{name}" is missing')
    read: dict[str, object] = {}
    for name, text in texts.items() if not problems else ():
        hint = hints.get(name if name in named else others or "", object)
        try:
            read[name] = _typed(pydantic.TypeAdapter[object](hint), text)
        except pydantic.ValidationError as error:
            problems.extend(f'argument "{name}"{_reason(each)}' for each in error.errors())
    if problems:
        shown = ", ".join(map(str, parameters)) or "no arguments"
        raise ArgumentError(f"{action}: {'; '.join(problems)}. It takes: {shown}")
    return read


def _unknown(given: typing.Iterable[str], named: typing.Collection[str]) -> typing.Iterator[str]:
    for name in given:
        if name not in named:
            near = difflib.get_close_matches(name, named, 1)
            yield f'unknown argument "{name}"' + (f' (did you mean "{near[0]}"?)' if near else "")


def _typed(adapter: pydantic.TypeAdapter[object], text: str) -> object:
    """Reads a text as JSON, or as it is if the type requires a string or the JSON does not fit."""
    if _wants_text(adapter):
        return adapter.validate_python(text)
    try:
        json.loads(text)
    except ValueError:
        return adapter.validate_python(text)
    try:
        return adapter.validate_json(text)
    except pydantic.ValidationError as error:
        try:
            return adapter.validate_python(text)
        except pydantic.ValidationError:
            raise error from None


def _wants_text(adapter: pydantic.TypeAdapter[object]) -> bool:
    try:
        return adapter.json_schema().get("type") == "string"
    except pydantic.errors.PydanticUserError:  # a type without a JSON schema
        return False


def _reason(error: typing.Any) -> str:
    place = "".join(f"[{part!r}]" for part in error["loc"])
    return f"{place}: {error['msg']}"


def _show_from_action(error: BaseException) -> None:
    """Makes the traceback start at the action's code, without the frames above it."""
    frames = error.__traceback__
    while frames is not None and "/gentools/" not in frames.tb_frame.f_code.co_filename:
        frames = frames.tb_next

    def render() -> list[str]:
        return _shell().InteractiveTB.structured_traceback(type(error), error, frames, tb_offset=0)

    error._render_traceback_ = render  # type: ignore[attr-defined]  # IPython's own protocol


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
        yield "api.py has no docstring: lists show its first line"
    function = getattr(api, "run", None)
    if not inspect.isfunction(function):
        yield "api.py has no function run()"
        return
    if getattr(exported, "run", None) is not function:
        yield "__init__.py does not export run(): from .api import run"
    yield from _untyped(function)
    yield from _differences(function, f"{package}.impl")


def _untyped(function: typing.Any) -> typing.Iterator[str]:
    """Parameters and results of run() without a type, or with one that JSON cannot express."""
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except Exception as error:
        yield f"a type of run() is unknown: {_shown(error)}"
        return
    for name in [*inspect.signature(function).parameters, "return"]:
        subject = "the result of run()" if name == "return" else f"parameter {name!r} of run()"
        if name not in hints:
            yield f"{subject} has no type"
            continue
        try:
            pydantic.TypeAdapter(hints[name]).json_schema()
        except Exception as error:
            yield f"{subject} has a type that JSON cannot express: {_shown(error)}"


def _differences(function: typing.Any, implementation: str) -> typing.Iterator[str]:
    """How impl.py differs from api.py."""
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


def _publish(value: object) -> None:
    """Publishes a value to the host, separate from printed output."""
    _shell().display_pub.publish({MIME_TYPE: value})


def _shell() -> typing.Any:
    return get_ipython()
