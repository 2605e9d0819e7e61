"""Suggests a server when code imports one that is not registered."""

import re
import sys
from pathlib import Path

_NO_MODULE = re.compile(r"No module named 'mcptools\.([^.']+)'")
_NO_NAME = re.compile(r"(cannot import name '([^']+)' from 'mcptools') \(unknown location\)")
#: Nobody reads more names in an error.
_MAX_LISTED = 20


def name_nearest(error: object) -> None:
    """Add the likely server, and the registered ones, to the message of an exception."""
    # The code's own classes may have any message.
    if not isinstance(error, ImportError) or type(error) not in (ImportError, ModuleNotFoundError):
        return
    text = str(error)
    module, member = _NO_MODULE.fullmatch(text), _NO_NAME.fullmatch(text)
    servers = _servers() if module or member else []
    if not servers:
        return
    if module is not None:
        error.msg = text + _hint(module[1], servers, "mcptools.")
    elif member is not None:
        error.msg = member[1] + _hint(member[2], servers, "")


def _hint(name: str, servers: list[str], prefix: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, servers, 1)
    meant = f" Did you mean: '{prefix}{near[0]}'?" if near else ""
    more = ", …" if len(servers) > _MAX_LISTED else ""
    return f".{meant} Registered servers: {', '.join(servers[:_MAX_LISTED])}{more}"


def _servers() -> list[str]:
    folders = getattr(sys.modules.get("mcptools"), "__path__", [])
    return sorted(
        {file.parent.name for folder in folders for file in Path(folder).glob("*/__init__.py")}
    )
