"""Shows each exception of a group, as from an ``asyncio.TaskGroup``, as if it were alone.

IPython leaves groups to Python, which shows every frame of each exception, including those between
the code and its tasks.
"""

import builtins
import sys
from collections.abc import Iterator
from typing import Any, Optional

from ..call_frames import HEADER, frames_in_cells

_MOST_DIFFERENT = 3


def install(shell: Any) -> None:
    """Shorten the tracebacks of groups, and report them as errors: IPython only prints them."""
    group = getattr(builtins, "BaseExceptionGroup", None)
    if group is None:  # Python 3.10
        return
    show, of_one = shell.showtraceback, shell.InteractiveTB.structured_traceback

    def showtraceback(exc_tuple: Any = None, *args: Any, **options: Any) -> None:
        error = sys.exc_info()[1] if exc_tuple is None else exc_tuple[1]
        if any(isinstance(earlier, group) for earlier in _with_context(error)):
            shell._showtraceback(type(error), error, lines_of(error))
        else:
            show(exc_tuple, *args, **options)

    def group_lines(error: Any) -> list[str]:
        different: dict[str, list[BaseException]] = {}
        for leaf in _leaves(error, group):
            different.setdefault(f"{type(leaf).__name__}: {leaf}", []).append(leaf)
        shown = list(different.values())[:_MOST_DIFFERENT]
        name = type(error).__name__
        lines = [HEADER.format(name)]
        if not all(frames_in_cells(first.__traceback__) for first, *_ in shown):
            lines.extend(
                frames_in_cells(error.__traceback__)[:1]
            )  # otherwise, each shows its place
        lines.append(f"{name}: {error}")
        for first, *others in shown:
            lines.extend(lines_of(first)[1:])  # without the repeated traceback header
            if others:
                lines.append(f"({len(others)} more like it)")
        if len(different) > len(shown):
            lines.append(f"({len(different) - len(shown)} different ones are omitted)")
        return lines

    def lines_of(error: Any) -> list[str]:
        if isinstance(error, group):
            return group_lines(error)
        if hasattr(error, "_render_traceback_"):
            return list(error._render_traceback_())
        return of_one(type(error), error, error.__traceback__)

    vars(shell)["showtraceback"] = showtraceback


def _leaves(error: Any, group: Any) -> Iterator[BaseException]:
    for part in error.exceptions:
        if isinstance(part, group):
            yield from _leaves(part, group)
        else:
            yield part


def _with_context(error: Optional[BaseException]) -> Iterator[BaseException]:
    """An exception and its chain of contexts."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        yield error
        seen.add(id(error))
        error = error.__context__
