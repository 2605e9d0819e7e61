"""Analyzes code before it runs: collects facts that only the kernel can know, for the check on the host."""

from __future__ import annotations

import ast
import builtins
import difflib
import io
import json
import keyword
import re
import tokenize
import types
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Optional, Union

from IPython import get_ipython

Range = tuple[int, int, int, int]
_Function = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)

#: Functions and magics that may set names which static analysis cannot find.
_DYNAMIC = {"dir", "eval", "exec", "globals", "locals", "vars"}
_MAGICS = {"run_line_magic", "run_cell_magic", "run_cell", "magic", "ex", "push", "user_ns"}
#: Context managers whose names suggest that their bodies are expected to fail.
_EXPECTING = {"suppress", "raises", "assertRaises"}
_PACKAGE = "mcptools"
_LIST_LIMIT = 100
_NAMES_LIMIT = 2000

#: Names that functions of earlier cells may set.
_declared: set[str] = set()
#: Names of attributes that cells so far may have set, on any object.
_written: set[str] = set()
#: Names in strings and keywords of cells so far: running code may set them as global names.
_mentioned: set[str] = set()


class Answer:
    """An answer whose representation is JSON."""

    def __init__(self, answer: object) -> None:
        self._text = json.dumps(answer)

    def __repr__(self) -> str:
        return self._text


def look(code: str) -> Answer:
    """Analyze a cell without running it."""
    shell: Any = get_ipython()
    file = _file_of(shell, code)
    try:
        text = shell.transform_cell(code)
        tree = ast.parse(text)
        compile(tree, "<cell>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except SyntaxError as error:
        syntax = {
            "name": type(error).__name__,
            "message": str(error.msg),
            "line": error.lineno or 1,
            "column": error.offset or 1,
            "source": (error.text or "").rstrip("\n"),
        }
        return Answer({"syntax": syntax, "file": file})
    except (ValueError, RecursionError, MemoryError, OverflowError):
        return Answer({})  # running it will show why
    return Answer({**_Look(text, tree, shell.user_ns).report(), "file": file})


def _file_of(shell: Any, code: str) -> Optional[str]:
    """Return the file that the code was read from, as tracebacks would name it."""
    compiler: Any = shell.compile
    name: str = compiler.get_code_name(code, code, 0)
    name_of_cell: str = compiler.__class__.get_code_name(compiler, code, code, 0)
    return None if name == name_of_cell else name


class _Look:
    """The analysis of one cell, as IPython is about to run it."""

    def __init__(self, text: str, tree: ast.Module, namespace: dict[Any, Any]) -> None:
        self._lines = text.split("\n")  # as Python counts them
        self._text = text
        self._tree = tree
        self._namespace = namespace
        self._nodes = list(ast.walk(tree))
        self._immediate = list(_immediate_nodes(tree))
        self._bound = Counter(name for node in self._nodes for name in _names_set_by(node))

    def report(self) -> dict[str, Any]:
        dynamic = any(map(_is_dynamic, self._nodes))
        words = {word for node in self._nodes for word in _words_in(node)}
        _mentioned.update(words)
        _written.update(self._written_attributes(), words if dynamic else ())
        undefined = [] if dynamic else list(self._undefined({*self._bound, *_declared}))
        tools = self._tools()
        _declared.update(name for node in self._nodes for name in _declared_in(node))
        return {
            "text": _without_comments(self._text),
            "dynamic": dynamic,
            "imports": sorted(self._imports()),
            "bound": sorted(_top_level(self._tree))[:_NAMES_LIMIT],
            "written": sorted(_written)[:_NAMES_LIMIT],
            "undefined": undefined[:_LIST_LIMIT],
            "tools": sorted(tools)[:_LIST_LIMIT],
            "guarded": list(self._guarded()),
            "loose": list(self._loose()),
            "calls": self._first_call(),
            "keywords": list(self._keywords())[:_NAMES_LIMIT],
        }

    def _imports(self) -> set[str]:
        """The imports whose names the rest of the cell does not set."""
        imports = [
            node for node in self._tree.body if isinstance(node, (ast.Import, ast.ImportFrom))
        ]
        return {
            ast.unparse(node)
            for node in imports
            if all(self._bound[name] == 1 for name in _names_set_by(node))
        }

    def _undefined(self, bound: set[str]) -> Iterator[dict[str, Any]]:
        """Names that nothing has set. Code that runs before a name, and mentions it, may set it."""
        known = (self._namespace, vars(builtins), bound)
        branches = self._branches()
        first = self._first(_may_set_names)
        seen: dict[str, ast.Name] = {}
        for node in self._immediate:
            if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load):
                continue
            if any(node.id in names for names in known):
                continue
            if node.id.startswith("__"):  # dunder names of classes and modules
                continue
            before = seen.get(node.id)
            if before is None or (id(before) in branches and id(node) not in branches):
                seen[node.id] = node
        for name, node in seen.items():
            late = first is not None and first <= (node.lineno, node.col_offset)
            if not (late and name in _mentioned | _written):
                yield {
                    "name": name,
                    "range": self._range(node),
                    "near": self._near(name, bound),
                    "runs": id(node) not in branches,
                    "late": late,
                }

    def _branches(self) -> set[int]:
        """The ids of the nodes that may not run."""
        found: set[int] = set()
        for node in self._immediate:
            for part in _branches_of(node):
                if id(part) not in found:
                    found.update(map(id, ast.walk(part)))
        return found

    def _first(self, wanted: Callable[[ast.AST], bool]) -> Optional[tuple[int, int]]:
        """The end of the first such node: an operation runs after its operands."""
        nodes: Iterator[Any] = filter(wanted, self._immediate)
        return min(((node.end_lineno, node.end_col_offset) for node in nodes), default=None)

    def _near(self, name: str, bound: set[str]) -> Optional[str]:
        names = [one for one in self._namespace if isinstance(one, str) and one[:1] != "_"]
        if len(names) > _NAMES_LIMIT or len(name) > 100:
            return None
        every = {*names, *bound, *vars(builtins), *keyword.kwlist} - {name}
        return next(iter(difflib.get_close_matches(name, every, 1, 0.7)), None)

    def _tools(self) -> set[tuple[str, str]]:
        imported = dict(pair for node in self._nodes for pair in _imports(node))
        tools: set[tuple[str, str]] = set()
        for path in imported.values():
            _add_tool(tools, path)
        for node in self._nodes:
            path = self._path(node, imported)
            if path is not None:
                _add_tool(tools, path)
        servers = {server for server, module in tools if module}
        return {tool for tool in tools if tool[1] or tool[0] not in servers}

    def _path(self, node: ast.AST, imported: dict[str, str]) -> Optional[str]:
        """The path in `mcptools` that an expression refers to, if it is a dotted name."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return None
        root = imported.get(node.id) or _module_of(self._namespace.get(node.id))
        return None if root is None else ".".join([root, *reversed(parts)])

    def _written_attributes(self) -> set[str]:
        stored = {
            node.attr
            for node in self._nodes
            if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load)
        }
        calls = [node for node in self._nodes if isinstance(node, ast.Call)]
        given = [call.args for call in calls if getattr(call.func, "id", "") == "setattr"]
        return {*stored, *(word for args in given for arg in args[1:2] for word in _words_in(arg))}

    def _guarded(self) -> Iterator[Range]:
        """The ranges in which exceptions are handled."""
        for node in self._nodes:
            if isinstance(node, _TRY):
                may_fail = bool(node.handlers)
            elif isinstance(node, (ast.With, ast.AsyncWith)):
                may_fail = any(map(_expects, node.items))
            else:
                continue
            if may_fail:
                yield from self._body(node.body)

    def _body(self, body: list[ast.stmt]) -> Iterator[Range]:
        first, last = self._range(body[0]), self._range(body[-1])
        yield (*first[:2], *last[2:])

    def _loose(self) -> Iterator[Range]:
        """Calls with positional or unpacked arguments, and the unpacked arguments.

        Likewise dictionaries with keys that are not written out, and those keys.
        """
        for node in self._nodes:
            if isinstance(node, ast.Dict):
                others = [key for key in node.keys if not isinstance(key, ast.Constant)]
                yield from map(self._range, [node, *filter(None, others)] if others else [])
            if not isinstance(node, ast.Call):
                continue
            unpacked = [word.value for word in node.keywords if word.arg is None]
            starred = [value for value in node.args if isinstance(value, ast.Starred)]
            if node.args or unpacked:
                yield self._range(node)
            for value in [*unpacked, *starred]:
                yield self._range(value)

    def _first_call(self) -> Optional[tuple[int, int]]:
        """The position of the first call outside of function bodies."""
        calls = (node for node in self._immediate if isinstance(node, ast.Call))
        return min((self._range(node)[:2] for node in calls), default=None)

    def _keywords(self) -> Iterator[dict[str, Any]]:
        """Calls with keyword arguments, and the types of literals in list displays there."""
        for node in self._nodes:
            if isinstance(node, ast.Call):
                words = [(word.arg, _item_types(word.value)) for word in node.keywords if word.arg]
                if words:
                    yield {"range": self._range(node), "given": words}

    def _range(self, node: Union[ast.expr, ast.stmt]) -> Range:
        end_line, end = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
        return (
            node.lineno - 1,
            self._column(node.lineno, node.col_offset),
            end_line - 1,
            self._column(end_line, end),
        )

    def _column(self, line: int, offset: int) -> int:
        """Convert a column to UTF-16, as in the language server protocol."""
        text = self._lines[line - 1] if line <= len(self._lines) else ""
        if text.isascii():
            return offset
        return len(text.encode()[:offset].decode(errors="ignore").encode("utf-16-le")) // 2


_TRY = (ast.Try, ast.TryStar) if hasattr(ast, "TryStar") else (ast.Try,)


def _expects(item: ast.withitem) -> bool:
    call = item.context_expr
    function = call.func if isinstance(call, ast.Call) else None
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name in _EXPECTING


def _item_types(node: ast.expr) -> list[str]:
    """The types of the literals in a list display."""
    items = node.elts if isinstance(node, ast.List) else []
    return sorted({name for item in items if (name := _type_of(item))})


def _type_of(node: ast.expr) -> Optional[str]:
    if isinstance(node, ast.Constant):
        return "None" if node.value is None else type(node.value).__name__
    return _DISPLAYS.get(type(node))


_DISPLAYS: dict[type[ast.expr], str] = {
    ast.Dict: "dict",
    ast.DictComp: "dict",
    ast.JoinedStr: "str",
    ast.List: "list",
    ast.ListComp: "list",
}


def _is_dynamic(node: ast.AST) -> bool:
    if isinstance(node, ast.Name):
        return node.id in _DYNAMIC
    if isinstance(node, ast.Attribute):
        return node.attr in _MAGICS
    return isinstance(node, ast.ImportFrom) and any(one.name == "*" for one in node.names)


def _may_set_names(node: ast.AST) -> bool:
    """Whether running a node may set global names, or end the cell."""
    if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Delete)):
        parts = (
            part for part in ast.walk(node) if isinstance(part, (ast.Attribute, ast.Subscript))
        )
        return any(not isinstance(part.ctx, ast.Load) for part in parts)
    return isinstance(node, _OPAQUE) or bool(getattr(node, "decorator_list", ()))


_OPAQUE = (ast.Call, ast.Await, ast.Import, ast.ImportFrom, ast.Raise)


def _branches_of(node: ast.AST) -> list[ast.AST]:
    """The parts of a node that may not run even if the node does."""
    if isinstance(node, ast.BoolOp):
        return [*node.values[1:]]
    if isinstance(node, ast.Compare):
        return [*node.comparators[1:]]
    if isinstance(node, ast.Assert):
        return [node.msg] if node.msg else []
    if isinstance(node, _COMPREHENSIONS):
        first = node.generators[0]
        return [*(part for part in ast.iter_child_nodes(node) if part is not first), *first.ifs]
    if type(node).__name__ not in _BRANCHING:
        return []
    parts: list[ast.AST] = []
    for name in ("body", "orelse", "handlers", "cases"):
        field: Any = getattr(node, name, [])
        parts += [field] if isinstance(field, ast.AST) else field
    return parts


_BRANCHING = {"AsyncFor", "For", "If", "IfExp", "Match", "Try", "TryStar", "While"}


def _words_in(node: ast.AST) -> list[str]:
    """The possible names in a string or a keyword."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return re.findall(r"[^\W\d]\w*", node.value)
    return [node.arg] if isinstance(node, ast.keyword) and node.arg else []


def _names_set_by(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        yield node.id
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        for one in node.names:
            yield one.asname or one.name.split(".")[0]
    elif isinstance(node, ast.ExceptHandler) and node.name:
        yield node.name
    elif type(node).__name__ in ("MatchAs", "MatchMapping", "MatchStar"):
        name = getattr(node, "name", None) or getattr(node, "rest", None)
        if name:
            yield name
    else:
        yield from _declared_in(node)
        for parameter in getattr(node, "type_params", ()):
            yield parameter.name


def _declared_in(node: ast.AST) -> list[str]:
    return node.names if isinstance(node, ast.Global) else []


def _top_level(tree: ast.Module) -> set[str]:
    """The global names that a cell sets, including `global` declarations in functions."""
    names = {name for node in _immediate_nodes(tree, inside=False) for name in _names_set_by(node)}
    return names | {name for node in ast.walk(tree) for name in _declared_in(node)}


def _immediate_nodes(tree: ast.AST, inside: bool = True) -> Iterator[ast.AST]:
    """The nodes that run with the cell itself: no function bodies, no annotations."""
    for child in ast.iter_child_nodes(tree):
        yield child
        if isinstance(child, _Function):
            yield from _evaluated(child)
        elif isinstance(child, ast.ClassDef) and not inside:
            continue
        elif isinstance(child, ast.AnnAssign):
            yield from _walked([child.target, child.value])
        elif isinstance(child, _COMPREHENSIONS) and not inside:
            yield from (node for node in ast.walk(child) if isinstance(node, ast.NamedExpr))
        elif child.__class__.__name__ != "TypeAlias":
            yield from _immediate_nodes(child, inside)


_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def _evaluated(function: Any) -> Iterator[ast.AST]:
    """The parts of a function definition that run when it is defined."""
    defaults = [*function.args.defaults, *function.args.kw_defaults]
    yield from _walked([*getattr(function, "decorator_list", ()), *defaults])


def _walked(nodes: list[Any]) -> Iterator[ast.AST]:
    for node in nodes:
        if node is not None:
            yield node
            yield from _immediate_nodes(node)


def _imports(node: ast.AST) -> Iterator[tuple[str, str]]:
    """The imports of a statement from `mcptools`, with the names that it binds."""
    if isinstance(node, ast.Import):
        for one in node.names:
            if one.name.split(".")[0] == _PACKAGE:
                yield (one.asname, one.name) if one.asname else (_PACKAGE, _PACKAGE)
    elif isinstance(node, ast.ImportFrom) and _is_own(node):
        for one in node.names:
            yield one.asname or one.name, f"{node.module}.{one.name}"


def _is_own(node: ast.ImportFrom) -> bool:
    return not node.level and (node.module or "").split(".")[0] == _PACKAGE


def _module_of(value: Any) -> Optional[str]:
    """The module of `mcptools` that a variable refers to."""
    if isinstance(value, types.ModuleType):
        name: Any = value.__name__  # code can set it to anything
    elif isinstance(value, types.FunctionType):
        name = value.__module__
    else:
        return None
    return name if isinstance(name, str) and name.split(".")[0] == _PACKAGE else None


def _add_tool(tools: set[tuple[str, str]], path: str) -> None:
    _, *parts = path.split(".")
    if parts:
        tools.add((parts[0], parts[1] if len(parts) > 1 else ""))


def _without_comments(text: str) -> str:
    """Remove comments: the type checker would obey some of them."""
    if "#" not in text:
        return text
    lines = list(io.StringIO(text))
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError):
        return text
    for token in tokens:
        if token.type == tokenize.COMMENT:
            (line, start), (_, end) = token.start, token.end
            lines[line - 1] = lines[line - 1][:start] + lines[line - 1][end:]
    return "".join(lines)
