"""Approval of shell commands."""

from __future__ import annotations

from typing import Any, Mapping

from .arguments import encode
from .errors import checked, located
from .session import default_session


def request_approval(kind: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Ask for approval of a ``"shell"`` or ``"shell_magic"`` command and wait for the decision.

    Returns the arguments to use, which the approver may have edited. Raises a ``ToolCallError`` if
    the command must not run.
    """
    with located("ipybox", kind):
        body = encode({"kind": kind, "arguments": dict(arguments)})
        approved: Mapping[str, Any] = checked(default_session().call("approve", body))["arguments"]
        return approved
