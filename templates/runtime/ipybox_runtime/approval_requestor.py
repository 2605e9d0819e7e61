"""Approval of shell commands."""

from __future__ import annotations

from typing import Any, Mapping

from .arguments import encode
from .errors import ToolCallError, error_from_wire
from .session import default_session


class ApprovalRequestor:
    """Asks whether a shell command may run. Tool calls are asked about by the tool server itself."""

    def request_sync(self, kind: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Ask about a ``"shell"`` or ``"shell_magic"`` command and wait for the decision.

        Returns the arguments to use, which the approver may have edited, and raises an exception of
        the ``ToolCallError`` family where the command must not run.
        """
        body = encode({"kind": kind, "arguments": dict(arguments)})
        return self._approved(default_session().call("approve", body), kind)

    async def request(self, kind: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Ask like ``request_sync``, without blocking the event loop."""
        body = encode({"kind": kind, "arguments": dict(arguments)})
        return self._approved(await default_session().call_async("approve", body), kind)

    def _approved(self, answer: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
        if answer.get("approved") is True:
            arguments: Mapping[str, Any] = answer["arguments"]
            return arguments
        error: ToolCallError = error_from_wire(answer.get("error") or {})
        error.server = "ipybox"
        error.tool = kind
        raise error
