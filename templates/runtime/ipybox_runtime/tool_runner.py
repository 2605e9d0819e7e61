"""Calls of MCP tools."""

from __future__ import annotations

from typing import Any, Mapping, Optional

from .arguments import encode
from .content import ToolResult
from .errors import ToolCallError, ToolError, error_from_wire
from .session import default_session


class ToolRunner:
    """Calls the tools of one registered MCP server."""

    def __init__(self, server: str) -> None:
        #: The server's registered name.
        self.server = server

    def run_sync(self, tool: str, arguments: Optional[Mapping[str, Any]] = None) -> ToolResult:
        """Call a tool and wait for its result."""
        try:
            body = self._request(tool, arguments)
            return _result(default_session().post("/run", body))
        except ToolCallError as error:
            self._locate(error, tool)
            raise

    async def run(self, tool: str, arguments: Optional[Mapping[str, Any]] = None) -> ToolResult:
        """Call a tool. Calls that are awaited together run together."""
        try:
            body = self._request(tool, arguments)
            return _result(await default_session().post_async("/run", body))
        except ToolCallError as error:
            self._locate(error, tool)
            raise

    def __repr__(self) -> str:
        return f"ToolRunner({self.server!r})"

    def _request(self, tool: str, arguments: Optional[Mapping[str, Any]]) -> bytes:
        arguments = {} if arguments is None else dict(arguments)
        return encode({"server": self.server, "tool": tool, "arguments": arguments})

    def _locate(self, error: ToolCallError, tool: str) -> None:
        error.server = self.server
        error.tool = tool


def _result(answer: Mapping[str, Any]) -> ToolResult:
    error = answer.get("error")
    if error is not None:
        raise error_from_wire(error)
    result = ToolResult(answer["result"])
    if not result.is_error:
        return result
    failure = ToolError(str(result.text) or "The tool failed without saying why")
    failure.result = result
    raise failure
