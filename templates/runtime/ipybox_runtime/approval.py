"""Approval of shell commands."""

from __future__ import annotations

from typing import Any, Mapping

from .arguments import encode
from .errors import error_from_wire
from .session import default_session


def request_approval(kind: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Ask for approval of a ``"shell"`` or ``"shell_magic"`` command and wait for the decision.

    Returns the arguments to use, which the approver may have edited. Raises a ``ToolCallError`` if
    the command must not run.
    """
    body = encode({"kind": kind, "arguments": dict(arguments)})
    answer = default_session().call("approve", body)
    if answer.get("approved") is True:
        approved: Mapping[str, Any] = answer["arguments"]
        return approved
    error = error_from_wire(answer.get("error") or {})
    error.server = "ipybox"
    error.tool = kind
    raise error
